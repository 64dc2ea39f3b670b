#include "cli/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::cli {

namespace {

// A larger answer is refused before it fills the memory.
constexpr std::size_t kAnswerBytesMax = 256u << 20;
// The server beats every 15 seconds: a stream that is silent for longer is dead.
constexpr long kSilentSeconds = 60;
// Of an answer that is no JSON, in a message.
constexpr std::size_t kQuotedBytes = 300;

// Once a process; other parts may have done it already.
void StartCurl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  NOETL_CHECK(started == CURLE_OK, "libcurl does not start");
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

constexpr std::string_view kAdviceServer =
    "is it running? `noetl server` starts one; --server-url or `noetl context use` choose another";
constexpr std::string_view kAdviceAuthority =
    "NOETL_TLS_CA names the authority of the server's certificate";
constexpr std::string_view kAdviceCertificate =
    "NOETL_TLS_CLIENT_CERT and NOETL_TLS_CLIENT_KEY name what a server that asks for a certificate "
    "is shown; it must know who signed that";

struct Advice {
  CURLcode code;
  std::string_view text;
};
constexpr std::array kAdvice = {
    Advice{CURLE_PEER_FAILED_VERIFICATION, kAdviceAuthority},
    Advice{CURLE_SSL_CACERT_BADFILE, kAdviceAuthority},
    Advice{CURLE_SSL_ISSUER_ERROR, kAdviceAuthority},
    Advice{CURLE_SSL_CERTPROBLEM, kAdviceCertificate},
    Advice{CURLE_SSL_CLIENTCERT, kAdviceCertificate},
    Advice{CURLE_SSL_CONNECT_ERROR, "does this port speak TLS? http:// goes without"},
};

// Whether the server ended TLS with an alert. libcurl tells only in words, and since the newest TLS
// checks the client's certificate late, as an error of reading.
bool IsTlsAlert(std::string_view text) {
  return text.find("SSL routines") != std::string_view::npos &&
         text.find(" alert ") != std::string_view::npos;
}

std::string_view AdviceOn(CURLcode code, std::string_view problem) {
  if (IsTlsAlert(problem)) return kAdviceCertificate;
  const auto* const found = std::ranges::find(kAdvice, code, &Advice::code);
  return found == kAdvice.end() ? kAdviceServer : found->text;
}

}  // namespace

// ---- server-sent events

bool SseReader::Feed(std::string_view text, const Use& use) {
  for (const char c : text) {
    // "\r\n" ends one line, not two.
    if (c == '\n' && std::exchange(after_cr_, false)) continue;
    after_cr_ = c == '\r';
    if (c != '\n' && c != '\r') {
      line_ += c;
      if (line_.size() + message_.data.size() > kMessageBytesMax) return false;
      continue;
    }
    if (!TakeLine(std::exchange(line_, {}), use)) return false;
  }
  return true;
}

bool SseReader::TakeLine(std::string_view line, const Use& use) {
  if (line.empty()) {
    const SseMessage message = std::exchange(message_, {});
    if (!std::exchange(has_data_, false)) return true;
    if (!message.id.empty()) last_id_ = message.id;
    return use({message.type.empty() ? "message" : message.type, message.id, message.data});
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") message_.type = value;
  if (field == "id") message_.id = value;
  if (field == "data") {
    if (std::exchange(has_data_, true)) message_.data += '\n';
    message_.data += value;
  }
  return true;  // comments and other fields mean nothing
}

// ---- requests

// What the callbacks of one transfer see.
struct HttpClient::Transfer {
  CURL* handle = nullptr;
  HttpAnswer answer;
  const SseReader::Use* use = nullptr;  // of a stream
  SseReader reader;
  std::function<bool()> go_on;  // empty: nobody is asked
  bool stopped = false;         // by us
  bool too_large = false;
  std::unique_ptr<curl_slist, FreeList> headers;
  std::array<char, CURL_ERROR_SIZE> problem{};

  void AddHeader(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    NOETL_CHECK(longer != nullptr, "no memory for a header");
    [[maybe_unused]] curl_slist* const old = headers.release();
    headers.reset(longer);
  }

  bool IsStream() const {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return use && status == 200;
  }

  static std::size_t OnBody(const char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view text(data, size * count);
    if (transfer.IsStream()) {
      transfer.stopped =
          !transfer.reader.Feed(text, *transfer.use) || (transfer.go_on && !transfer.go_on());
      return transfer.stopped ? 0 : text.size();
    }
    transfer.too_large = transfer.answer.text.size() + text.size() > kAnswerBytesMax;
    if (transfer.too_large) return 0;
    transfer.answer.text += text;
    return text.size();
  }

  static std::size_t OnHeader(const char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      static_cast<Transfer*>(self)->answer.headers[ToLower(Trim(line.substr(0, colon)))] =
          std::string(Trim(line.substr(colon + 1)));
    }
    return line.size();
  }

  static int OnTick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (transfer.go_on && !transfer.go_on()) transfer.stopped = true;
    return transfer.stopped ? 1 : 0;
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  StartCurl();
  while (options_.base_url.ends_with('/')) options_.base_url.pop_back();
  handle_ = curl_easy_init();
  NOETL_CHECK(handle_ != nullptr, "no memory for a request");
}

HttpClient::~HttpClient() { curl_easy_cleanup(handle_); }

// The handle keeps its connection from one request to the next.
void HttpClient::Prepare(Transfer& transfer, const std::string& method, const std::string& url) {
  CURL* const handle = handle_;
  transfer.handle = handle;
  curl_easy_reset(handle);
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, method.c_str());
  transfer.AddHeader("Expect:");  // do not wait for a go-ahead before the body
  if (!options_.token.empty()) {
    transfer.AddHeader("Authorization: Bearer " + options_.token);
    transfer.AddHeader("x-session-token: " + options_.token);
  }
  if (!options_.authorities.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, options_.authorities.c_str());
    curl_easy_setopt(handle, CURLOPT_CAPATH, nullptr);
  }
  if (!options_.certificate.empty()) {
    curl_easy_setopt(handle, CURLOPT_SSLCERT, options_.certificate.c_str());
    curl_easy_setopt(handle, CURLOPT_SSLKEY, options_.key.c_str());
  }
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);  // the token goes nowhere else
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_ms));
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer.problem.data());
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Transfer::OnTick);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
}

Error HttpClient::Unreachable(int code, const Transfer& transfer) const {
  const auto cause = static_cast<CURLcode>(code);
  const std::string_view reason =
      transfer.problem[0] != '\0' ? transfer.problem.data() : curl_easy_strerror(cause);
  return {"server_unreachable", fmt::format("the server at {} cannot be reached: {}\n  {}",
                                            options_.base_url, reason, AdviceOn(cause, reason))};
}

Result<HttpAnswer> HttpClient::Perform(const std::string& method, const std::string& url,
                                       const Json& body) {
  Transfer transfer;
  Prepare(transfer, method, url);
  std::string text;
  if (!body.is_null()) {
    text = WriteJson(body);
    transfer.AddHeader("Content-Type: application/json");
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, text.data());
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(text.size()));
  }
  transfer.AddHeader("Accept: application/json");
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, transfer.headers.get());
  curl_easy_setopt(handle_, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.answer_ms));
  if (interrupted_) transfer.go_on = [this] { return !interrupted_(); };
  const CURLcode code = curl_easy_perform(handle_);
  if (transfer.stopped) return Fail("interrupted", "interrupted");
  if (transfer.too_large) return Fail("http", "the answer of the server is too large");
  if (code != CURLE_OK) return std::unexpected(Unreachable(code, transfer));
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  transfer.answer.status = static_cast<int>(status);
  if (auto parsed = ParseJson(transfer.answer.text)) transfer.answer.body = *std::move(parsed);
  return std::move(transfer.answer);
}

Result<HttpAnswer> HttpClient::Call(const std::string& method, const std::string& path,
                                    const Json& body) {
  return Perform(method, options_.base_url + options_.prefix + path, body);
}

Error HttpClient::Refusal(const HttpAnswer& answer) const {
  std::string message = answer.body["error"].ToString();
  if (message.empty()) message = answer.body["detail"].ToString();
  if (message.empty()) message = answer.body["detail"]["error"].ToString();
  if (message.empty()) message = std::string(Trim(answer.text)).substr(0, kQuotedBytes);
  if (message.empty()) message = "no reason was given";
  if (answer.status == 401) {
    return {"session_expired",
            fmt::format("{}\n  `noetl auth login --token TOKEN` logs in at {}; NOETL_SESSION_TOKEN "
                        "and --session-token give a token for one command",
                        message, options_.base_url)};
  }
  return {fmt::format("http_{}", answer.status),
          answer.status < 500 ? message : fmt::format("{} (HTTP {})", message, answer.status)};
}

Result<Json> HttpClient::Body(Result<HttpAnswer> answer) const {
  if (!answer) return std::unexpected(answer.error());
  if (!answer->ok()) return std::unexpected(Refusal(*answer));
  if (answer->body.is_null() && Trim(answer->text) != "null" && !answer->text.empty()) {
    return Fail("http", fmt::format("{} does not answer like a noetl server: {}", options_.base_url,
                                    answer->text.substr(0, kQuotedBytes)));
  }
  return std::move(answer->body);
}

Result<Json> HttpClient::Get(const std::string& path) { return Body(Call("GET", path)); }
Result<Json> HttpClient::Post(const std::string& path, const Json& body) {
  return Body(Call("POST", path, body));
}
Result<Json> HttpClient::Delete(const std::string& path) { return Body(Call("DELETE", path)); }
Result<Json> HttpClient::GetAbsolute(const std::string& path) {
  return Body(Perform("GET", options_.base_url + path, {}));
}

Result<Json> HttpClient::PostAbsolute(const std::string& path, const Json& body) {
  return Body(Perform("POST", options_.base_url + path, body));
}

Status HttpClient::Stream(const std::string& path, const std::string& last_event_id,
                          const SseReader::Use& use, const std::function<bool()>& tick) {
  Transfer transfer;
  Prepare(transfer, "GET", options_.base_url + options_.prefix + path);
  transfer.AddHeader("Accept: text/event-stream");
  if (!last_event_id.empty()) transfer.AddHeader("Last-Event-ID: " + last_event_id);
  transfer.use = &use;
  transfer.go_on = tick;
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, transfer.headers.get());
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  const CURLcode code = curl_easy_perform(handle_);
  if (transfer.stopped) return {};
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  transfer.answer.status = static_cast<int>(status);
  if (status == 200) {
    if (code == CURLE_OK) return {};
    return Fail("stream_broken", curl_easy_strerror(code));
  }
  if (code != CURLE_OK) return std::unexpected(Unreachable(code, transfer));
  if (auto parsed = ParseJson(transfer.answer.text)) transfer.answer.body = *std::move(parsed);
  return std::unexpected(Refusal(transfer.answer));
}

}  // namespace noetl::cli
