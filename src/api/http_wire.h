// What HTTP/1.1 looks like on the wire, apart from parsing: targets, tokens, and the text of answers.
//
// Pure functions (but for the date of an answer); any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/http.h"

namespace noetl::api {

// Smaller answers fit into one packet anyway.
inline constexpr std::size_t kGzipBytesMin = 1u << 10;
// Longer ids of clients are replaced: they go into every log line.
inline constexpr std::size_t kRequestIdMax = 128;

// "Not Found"; "Status" for a number without a name.
std::string_view StatusText(int status);
// 1 to kRequestIdMax characters of [A-Za-z0-9._-].
bool IsRequestId(std::string_view text);
// Sets path and query from the target: origin form, absolute form, or '*' of OPTIONS. False: none of
// them, or with bytes that have no place in a target.
bool SplitTarget(Request* request);
// Whether a comma-separated list has the token, in any case.
bool HasToken(std::string_view list, std::string_view token);
// Accept-Encoding, with its q values.
bool AcceptsGzip(std::string_view accept_encoding);
// Text of any kind; pictures and archives are compressed already.
bool IsText(std::string_view content_type);
// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string HttpDate(std::int64_t unix_seconds);

// What the request and the connection say about the form of the answer.
struct AnswerForm {
  bool http10 = false;
  bool head_only = false;
  bool close = false;
  bool gzip = false;  // the client takes it
  std::string_view request_id;
};

struct WireAnswer {
  std::string head;
  std::string body;
  bool close = false;
};

// An answer in one piece. A `Connection: close` among its headers closes.
WireAnswer MakeAnswer(Response response, const AnswerForm& form);
// The head of a body that goes on: chunked, or for HTTP/1.0 until the connection closes.
WireAnswer MakeStreamHead(const Response& response, const AnswerForm& form);
// Appends one chunk. The text is not empty: that would end the body.
void AppendChunk(std::string_view text, std::string* out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace noetl::api
