#include "api/http_wire.h"

#include <array>
#include <charconv>
#include <ctime>

#include "api/gzip.h"
#include "base/text.h"

namespace noetl::api {
namespace {

struct StatusName {
  int status;
  std::string_view text;
};

// In the order of numbers.
constexpr auto kStatusNames = std::to_array<StatusName>({
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
});

// Headers that say how the message is framed or who sent it: the server's alone.
constexpr auto kOwnHeaders = std::to_array<std::string_view>(
    {"connection", "content-length", "transfer-encoding", "date", "x-request-id", "keep-alive"});

bool EqualsLower(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + ('a' - 'A')) : a) == b;
         });
}

bool IsOwnHeader(std::string_view name) {
  return std::any_of(kOwnHeaders.begin(), kOwnHeaders.end(),
                     [&](std::string_view own) { return EqualsLower(name, own); });
}

bool HasNoBody(int status) { return status < 200 || status == 204 || status == 304; }

// Text of handlers may come from users: a line break in it must not become a header.
void AppendClean(std::string_view text, std::string* out) {
  const std::size_t start = out->size();
  out->append(text);
  for (std::size_t i = start; i < out->size(); ++i) {
    const auto byte = static_cast<unsigned char>((*out)[i]);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) (*out)[i] = ' ';
  }
}

void AppendHeader(std::string_view name, std::string_view value, std::string* out) {
  AppendClean(name, out);
  out->append(": ");
  AppendClean(value, out);
  out->append("\r\n");
}

void AppendNumber(std::uint64_t number, int base, std::string* out) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
  out->append(digits.data(), end);
}

// The date of now; made once a second on each thread.
std::string_view DateNow() {
  thread_local std::int64_t made_at = -1;
  thread_local std::string text;
  const std::int64_t now = std::time(nullptr);
  if (now != made_at) {
    text = HttpDate(now);
    made_at = now;
  }
  return text;
}

// All lines that do not depend on the body; the caller adds the framing and the empty line.
std::string BeginHead(const Response& response, const AnswerForm& form, bool close) {
  // Room for the usual headers, so that the head is one allocation.
  constexpr std::size_t kHeadBytes = 384;
  std::string head;
  head.reserve(kHeadBytes);
  head.append("HTTP/1.1 ");
  AppendNumber(static_cast<std::uint64_t>(std::clamp(response.status, 100, 999)), 10, &head);
  head.append(" ").append(StatusText(response.status)).append("\r\n");
  head.append("Date: ").append(DateNow()).append("\r\n");
  if (!response.content_type.empty() && !HasNoBody(response.status)) {
    AppendHeader("Content-Type", response.content_type, &head);
  }
  for (const auto& [name, value] : response.headers.entries()) {
    if (!IsOwnHeader(name)) AppendHeader(name, value, &head);
  }
  AppendHeader("X-Request-Id", form.request_id, &head);
  if (close) {
    head.append("Connection: close\r\n");
  } else if (form.http10) {
    head.append("Connection: keep-alive\r\n");
  }
  return head;
}

bool WantsClose(const Response& response, const AnswerForm& form) {
  return form.close || HasToken(response.headers.Find("Connection"), "close");
}

// Compresses the body when that is allowed and worth it, and adds the headers that say so.
void Compress(Response* response, bool accepted) {
  if (response->body.size() < kGzipBytesMin || !IsText(response->content_type) ||
      response->headers.Has("Content-Encoding") || HasNoBody(response->status)) {
    return;
  }
  response->headers.Add("Vary", "Accept-Encoding");
  if (!accepted) return;
  if (auto compressed = Gzip(response->body)) {
    response->body = std::move(*compressed);
    response->headers.Add("Content-Encoding", "gzip");
  }
}

}  // namespace

std::string_view StatusText(int status) {
  const auto found = std::lower_bound(kStatusNames.begin(), kStatusNames.end(), status,
                                      [](const StatusName& a, int b) { return a.status < b; });
  return found != kStatusNames.end() && found->status == status ? found->text : "Status";
}

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdMax &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' ||
                  letter == '-';
         });
}

bool SplitTarget(Request* request) {
  std::string_view target = request->target;
  const bool clean = std::all_of(target.begin(), target.end(), [](char letter) {
    return letter > 0x20 && letter < 0x7f && letter != '#';
  });
  if (!clean || target.empty()) return false;
  if (target == "*") {
    request->path = "*";
    return request->method == "OPTIONS";
  }
  if (target.front() != '/') {
    const std::size_t scheme = target.find("://");
    if (scheme == std::string_view::npos) return false;
    if (!EqualsLower(target.substr(0, scheme), "http") &&
        !EqualsLower(target.substr(0, scheme), "https")) {
      return false;
    }
    target.remove_prefix(scheme + 3);
    const std::size_t path = std::min(target.find_first_of("/?"), target.size());
    if (path == 0) return false;
    target.remove_prefix(path);
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  request->path = target.substr(0, question);
  if (request->path.empty()) request->path = "/";
  request->query = target.substr(std::min(question + 1, target.size()));
  return true;
}

bool HasToken(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (ToLower(Trim(list.substr(0, comma))) == token) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool AcceptsGzip(std::string_view accept_encoding) {
  bool any = false;  // what '*' says
  while (!accept_encoding.empty()) {
    const std::size_t comma = std::min(accept_encoding.find(','), accept_encoding.size());
    const std::string_view item = accept_encoding.substr(0, comma);
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
    const std::size_t semicolon = std::min(item.find(';'), item.size());
    const std::string coding = ToLower(Trim(item.substr(0, semicolon)));
    // Any weight but zero is a yes.
    std::string_view weight = Trim(item.substr(std::min(semicolon + 1, item.size())));
    bool wanted = true;
    if (weight.starts_with("q=") || weight.starts_with("Q=")) {
      wanted = weight.substr(2).find_first_of("123456789") != std::string_view::npos;
    }
    if (coding == "gzip" || coding == "x-gzip") return wanted;
    if (coding == "*") any = wanted;
  }
  return any;
}

bool IsText(std::string_view content_type) {
  const std::string type = ToLower(Trim(content_type.substr(0, content_type.find(';'))));
  return type.starts_with("text/") || type.ends_with("json") || type.ends_with("xml") ||
         type.ends_with("yaml") || type.ends_with("javascript");
}

std::string HttpDate(std::int64_t unix_seconds) {
  constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

WireAnswer MakeAnswer(Response response, const AnswerForm& form) {
  Compress(&response, form.gzip);
  WireAnswer answer;
  answer.close = WantsClose(response, form);
  answer.head = BeginHead(response, form, answer.close);
  if (!HasNoBody(response.status)) {
    answer.head.append("Content-Length: ");
    AppendNumber(response.body.size(), 10, &answer.head);
    answer.head.append("\r\n");
    if (!form.head_only) answer.body = std::move(response.body);
  }
  answer.head.append("\r\n");
  return answer;
}

WireAnswer MakeStreamHead(const Response& response, const AnswerForm& form) {
  WireAnswer answer;
  // Without chunks only the end of the connection ends the body.
  answer.close = WantsClose(response, form) || (form.http10 && !form.head_only);
  answer.head = BeginHead(response, form, answer.close);
  if (!form.http10) answer.head.append("Transfer-Encoding: chunked\r\n");
  answer.head.append("\r\n");
  return answer;
}

void AppendChunk(std::string_view text, std::string* out) {
  AppendNumber(text.size(), 16, out);
  out->append("\r\n").append(text).append("\r\n");
}

}  // namespace noetl::api
