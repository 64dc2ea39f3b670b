#include "worker/tools/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

// Open connections of a worker, and how many of them may be idle and for how long.
constexpr long kConnectionsMax = 200;
constexpr long kIdleConnectionsMax = 50;
constexpr long kIdleSecondsMax = 30;
constexpr int kRedirectsMax = 10;
constexpr long kStatusOk = 200;
// Nobody sends more; a hostile server could send headers for ever.
constexpr std::size_t kHeaderBytesMax = 256 << 10;
// libcurl takes no longer limit: 24 days.
constexpr std::int64_t kTimeoutMsMax = std::numeric_limits<int>::max();
constexpr std::int64_t kMicrosPerMilli = 1'000;

std::int64_t NowMicros() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeList>;

void Add(List& list, const std::string& text) {
  curl_slist* const head = curl_slist_append(list.release(), text.c_str());
  NOETL_CHECK(head != nullptr, "out of memory");
  list.reset(head);
}

// Once for the process. Its TLS library writes to sockets without a guard against SIGPIPE, so a
// process that left the signal deadly ignores it.
void InitialiseOnce() {
  static const bool kDone = [] {
    NOETL_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl does not start");
    struct sigaction current{};
    sigaction(SIGPIPE, nullptr, &current);
    if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
    return true;
  }();
  static_cast<void>(kDone);
}

struct Cause {
  CURLcode curl;
  std::string_view kind;
  std::string_view code;
  bool retryable;
  std::string_view hint;
};

constexpr std::string_view kHintTls =
    "check the server's certificate and name; verify_ssl: false turns the check off";
constexpr std::string_view kHintAlert =
    "the server refuses the TLS connection: check whether it wants a certificate of this side";
constexpr std::string_view kHintCut = "check whether the server stopped or refuses such requests";
constexpr std::string_view kHintReply = "check that this is an HTTP server and what it sends";

constexpr std::array kCauses = {
    Cause{CURLE_COULDNT_RESOLVE_HOST, "connection", "DNS_ERROR", true,
          "check the host name in url and the name service of the worker"},
    Cause{CURLE_COULDNT_RESOLVE_PROXY, "connection", "DNS_ERROR", true,
          "check the proxy variables of the worker's environment"},
    Cause{CURLE_COULDNT_CONNECT, "connection", "CONN_ERROR", true,
          "check the address and whether the worker can reach it"},
    Cause{CURLE_SSL_CONNECT_ERROR, "connection", "TLS_ERROR", false,
          "check that the port speaks TLS"},
    Cause{CURLE_PEER_FAILED_VERIFICATION, "connection", "TLS_ERROR", false, kHintTls},
    Cause{CURLE_SSL_CERTPROBLEM, "connection", "TLS_ERROR", false, kHintTls},
    Cause{CURLE_SSL_CACERT_BADFILE, "connection", "TLS_ERROR", false,
          "check the certificate authorities installed on the worker"},
    Cause{CURLE_GOT_NOTHING, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_RECV_ERROR, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_SEND_ERROR, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_PARTIAL_FILE, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_HTTP2, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_HTTP2_STREAM, "connection", "CONN_ERROR", true, kHintCut},
    Cause{CURLE_WEIRD_SERVER_REPLY, "parse", "HTTP_BAD_RESPONSE", false, kHintReply},
    Cause{CURLE_UNSUPPORTED_PROTOCOL, "parse", "HTTP_BAD_RESPONSE", false, kHintReply},
    Cause{CURLE_BAD_CONTENT_ENCODING, "parse", "HTTP_BAD_RESPONSE", false, kHintReply},
    Cause{CURLE_READ_ERROR, "config", "CONFIG", false, "check the uploaded files"},
};
constexpr Cause kOtherCause = {CURLE_OK, "connection", "CONN_ERROR", true,
                               "check the address and the server"};

constexpr std::array kCertificateCauses = {CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
                                           CURLE_SSL_CACERT_BADFILE};

// Whether the server ended TLS with an alert. libcurl tells only in words, and since the newest TLS
// checks the client's certificate late, as an error of reading.
bool IsTlsAlert(std::string_view text) {
  return text.find("SSL routines") != std::string_view::npos &&
         text.find(" alert ") != std::string_view::npos;
}

bool IsRedirect(long status) {
  return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

}  // namespace

// The requests in progress and their connections: glue between libcurl and the loop.
class HttpClient::Multi : public std::enable_shared_from_this<Multi> {
 public:
  Multi(EventLoop* loop, std::shared_ptr<const HttpPolicy> policy);
  ~Multi();

  EventLoop* loop() const { return loop_; }
  const HttpPolicy& policy() const { return *policy_; }
  curl_slist* connect_to() const { return connect_to_.get(); }
  CURLSH* share() const { return share_; }
  void Enter(CURL* easy);
  void Leave(CURL* easy) { curl_multi_remove_handle(multi_, easy); }

 private:
  static int OnSocket(CURL* easy, curl_socket_t descriptor, int what, void* self, void* unused);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);
  void Act(curl_socket_t descriptor, int events);

  EventLoop* loop_;
  std::shared_ptr<const HttpPolicy> policy_;
  CURLM* multi_;
  CURLSH* share_;
  List connect_to_;
  EventLoop::TimerId timer_ = 0;
  std::set<int> watched_;
};

class HttpClient::Call final : public HttpCall {
 public:
  Call(std::shared_ptr<Multi> multi, HttpRequest request, Done done);
  ~Call() override;

  // The answer of this hop is complete or has failed. May destroy the call.
  void Finished(CURLcode code);

 private:
  void Begin();
  void SetUp();
  void SetUpTls(const HttpTls& tls);
  void SetUpBody();
  void SetUpHeaders();
  void TearDown();
  void Redirect(const std::string& location, int status);
  void WatchSilence(std::int64_t delay_us);
  void CheckSilence();
  void Answer(HttpResult result);
  void FailSoon(HttpFailure failure);
  HttpFailure Explain(CURLcode code);
  HttpFailure Explain(const Cause& cause, std::string_view what);
  HttpFailure TimedOut();
  const std::string* Header(std::string_view name) const;

  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t OnOpen(void* self, curlsocktype purpose, curl_sockaddr* address);

  std::shared_ptr<Multi> multi_;
  HttpRequest request_;
  Done done_;
  HttpUrl url_;
  HttpReply reply_;
  std::size_t header_bytes_ = 0;
  int redirects_ = 0;
  bool denied_ = false;
  bool too_large_ = false;
  bool silent_ = false;
  std::int64_t started_us_;
  std::int64_t active_us_ = 0;  // when the server was last heard
  curl_off_t uploaded_ = 0;
  EventLoop::TimerId silence_timer_ = 0;
  EventLoop::TimerId failure_timer_ = 0;
  CURL* easy_ = nullptr;
  curl_mime* mime_ = nullptr;
  List headers_;
  std::array<char, CURL_ERROR_SIZE> error_{};
};

HttpClient::Multi::Multi(EventLoop* loop, std::shared_ptr<const HttpPolicy> policy)
    : loop_(loop),
      policy_(std::move(policy)),
      multi_(curl_multi_init()),
      share_(curl_share_init()) {
  NOETL_CHECK(multi_ != nullptr && share_ != nullptr, "out of memory");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, kConnectionsMax);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kIdleConnectionsMax);
  curl_share_setopt(share_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  for (const std::string& mapping : policy_->connect_to()) Add(connect_to_, mapping);
}

HttpClient::Multi::~Multi() {
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, nullptr);
  loop_->CancelTimer(timer_);
  curl_multi_cleanup(multi_);
  curl_share_cleanup(share_);
  for (const int descriptor : watched_) loop_->Unwatch(descriptor);
}

void HttpClient::Multi::Enter(CURL* easy) {
  const CURLMcode code = curl_multi_add_handle(multi_, easy);
  NOETL_CHECK(code == CURLM_OK, curl_multi_strerror(code));
}

int HttpClient::Multi::OnSocket(CURL*, curl_socket_t descriptor, int what, void* self, void*) {
  auto* const multi = static_cast<Multi*>(self);
  if (what == CURL_POLL_REMOVE || what == CURL_POLL_NONE) {
    multi->watched_.erase(descriptor);
    multi->loop_->Unwatch(descriptor);
    return 0;
  }
  const unsigned interest = ((what & CURL_POLL_IN) != 0 ? EventLoop::kReadable : 0U) |
                            ((what & CURL_POLL_OUT) != 0 ? EventLoop::kWritable : 0U);
  multi->watched_.insert(descriptor);
  multi->loop_->Watch(descriptor, interest, [multi, descriptor](unsigned ready) {
    multi->Act(descriptor, ((ready & EventLoop::kReadable) != 0 ? CURL_CSELECT_IN : 0) |
                               ((ready & EventLoop::kWritable) != 0 ? CURL_CSELECT_OUT : 0));
  });
  return 0;
}

int HttpClient::Multi::OnTimer(CURLM*, long timeout_ms, void* self) {
  auto* const multi = static_cast<Multi*>(self);
  multi->loop_->CancelTimer(std::exchange(multi->timer_, 0));
  if (timeout_ms < 0) return 0;
  multi->timer_ = multi->loop_->After(timeout_ms * kMicrosPerMilli, [multi] {
    multi->timer_ = 0;
    multi->Act(CURL_SOCKET_TIMEOUT, 0);
  });
  return 0;
}

void HttpClient::Multi::Act(curl_socket_t descriptor, int events) {
  const std::shared_ptr<Multi> self = shared_from_this();  // an answer may end client and calls
  int running = 0;
  curl_multi_socket_action(multi_, descriptor, events, &running);
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    void* call = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
    static_cast<Call*>(call)->Finished(code);
  }
}

HttpClient::Call::Call(std::shared_ptr<Multi> multi, HttpRequest request, Done done)
    : multi_(std::move(multi)),
      request_(std::move(request)),
      done_(std::move(done)),
      started_us_(NowMicros()) {
  Result<HttpUrl> url = ParseHttpUrl(WithQuery(request_.url, request_.secret_query));
  if (!url) {
    FailSoon({"config", "CONFIG", false, "url: " + url.error().message});
    return;
  }
  url_ = *std::move(url);
  reply_.url = request_.url;
  Begin();
}

HttpClient::Call::~Call() {
  multi_->loop()->CancelTimer(silence_timer_);
  multi_->loop()->CancelTimer(failure_timer_);
  TearDown();
}

void HttpClient::Call::Begin() {
  if (const Status& status = multi_->policy().status(); !status) {
    return FailSoon({"config", "CONFIG", false, status.error().message});
  }
  if (!multi_->policy().AllowsHost(url_.host)) {
    return FailSoon({"config", "HTTP_HOST_DENIED", false,
                     fmt::format("{} {}: the host is not among those this worker may reach; "
                                 "check NOETL_HTTP_ALLOW_HOSTS",
                                 request_.method, url_.origin)});
  }
  if (request_.timeout_ms * kMicrosPerMilli <= NowMicros() - started_us_) {
    return FailSoon(TimedOut());
  }
  SetUp();
  multi_->Enter(easy_);
  if (request_.read_timeout_ms > 0) {
    active_us_ = NowMicros();
    WatchSilence(request_.read_timeout_ms * kMicrosPerMilli);
  }
}

void HttpClient::Call::SetUp() {
  easy_ = curl_easy_init();
  NOETL_CHECK(easy_ != nullptr, "out of memory");
  const std::int64_t spent_ms = (NowMicros() - started_us_) / kMicrosPerMilli;
  const std::int64_t left_ms =
      std::clamp<std::int64_t>(request_.timeout_ms - spent_ms, 1, kTimeoutMsMax);
  const std::int64_t connect_ms =
      request_.connect_timeout_ms > 0 ? std::min(request_.connect_timeout_ms, left_ms) : left_ms;
  const long verify = request_.verify_tls ? 1 : 0;
  curl_easy_setopt(easy_, CURLOPT_URL, url_.text.c_str());
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  // A name that is still being looked up does not hold up the end of a call.
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_.data());
  curl_easy_setopt(easy_, CURLOPT_SHARE, multi_->share());
  curl_easy_setopt(easy_, CURLOPT_MAXAGE_CONN, kIdleSecondsMax);
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, static_cast<long>(left_ms));
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_ms));
  curl_easy_setopt(easy_, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, verify);
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, verify * 2);
  if (request_.tls != nullptr) SetUpTls(*request_.tls);
  curl_easy_setopt(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, multi_->connect_to());
  // An empty proxy turns the variables of the environment off.
  if (!multi_->policy().use_proxy()) curl_easy_setopt(easy_, CURLOPT_PROXY, "");
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &OnOpen);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  SetUpBody();
  SetUpHeaders();
}

void HttpClient::Call::SetUpTls(const HttpTls& tls) {
  const auto set = [this](CURLoption option, const std::string& file) {
    if (!file.empty()) curl_easy_setopt(easy_, option, file.c_str());
  };
  set(CURLOPT_CAINFO, tls.authority_file);
  set(CURLOPT_SSLCERT, tls.certificate_file);
  set(CURLOPT_SSLKEY, tls.key_file);
}

void HttpClient::Call::SetUpBody() {
  const std::string& method = request_.method;
  if (method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
  } else if (!request_.parts.empty()) {
    mime_ = curl_mime_init(easy_);
    for (const HttpPart& part : request_.parts) {
      curl_mimepart* const made = curl_mime_addpart(mime_);
      curl_mime_name(made, part.name.c_str());
      if (part.path.empty()) {
        curl_mime_data(made, part.data.data(), part.data.size());
      } else {
        curl_mime_filedata(made, part.path.c_str());
      }
      if (!part.filename.empty()) curl_mime_filename(made, part.filename.c_str());
      if (!part.content_type.empty()) curl_mime_type(made, part.content_type.c_str());
    }
    curl_easy_setopt(easy_, CURLOPT_MIMEPOST, mime_);
  } else if (request_.body || method == "POST" || method == "PUT" || method == "PATCH") {
    // The text is not copied: it lives in the request. Without one the length 0 is sent.
    const std::string_view body = request_.body ? *request_.body : std::string_view();
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
}

void HttpClient::Call::SetUpHeaders() {
  Add(headers_, "Expect:");  // no pause before a body
  bool typed = !request_.parts.empty();
  bool named = false;
  for (const HttpHeader& header : request_.headers) {
    const std::string name = ToLower(header.name);
    typed = typed || name == "content-type";
    named = named || name == "user-agent";
    Add(headers_, header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  }
  if (!typed) Add(headers_, "Content-Type:");  // or libcurl would invent one
  if (!named) Add(headers_, "User-Agent: noetl");
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_.get());
}

void HttpClient::Call::TearDown() {
  if (easy_ == nullptr) return;
  multi_->Leave(easy_);
  curl_easy_cleanup(std::exchange(easy_, nullptr));
  curl_mime_free(std::exchange(mime_, nullptr));
  headers_.reset();
}

std::size_t HttpClient::Call::OnHeader(char* data, std::size_t size, std::size_t count,
                                       void* self) {
  auto* const call = static_cast<Call*>(self);
  const std::string_view line(data, size * count);
  call->active_us_ = NowMicros();
  call->header_bytes_ += line.size();
  if (call->header_bytes_ > kHeaderBytesMax) {
    call->too_large_ = true;
    return 0;
  }
  const std::size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    call->reply_.headers.clear();  // what came before was only provisional
  } else if (colon != std::string_view::npos) {
    call->reply_.headers.emplace_back(ToLower(Trim(line.substr(0, colon))),
                                      Trim(line.substr(colon + 1)));
  }
  return line.size();
}

std::size_t HttpClient::Call::OnBody(char* data, std::size_t size, std::size_t count, void* self) {
  auto* const call = static_cast<Call*>(self);
  const std::size_t length = size * count;
  call->active_us_ = NowMicros();
  if (call->request_.body_piece) {
    long status = 0;
    curl_easy_getinfo(call->easy_, CURLINFO_RESPONSE_CODE, &status);
    if (status == kStatusOk) {
      call->request_.body_piece(std::string_view(data, length));
      return length;
    }
  }
  std::string& body = call->reply_.body;
  if (body.size() + length > static_cast<std::size_t>(call->request_.response_bytes_max)) {
    call->too_large_ = true;
    return 0;
  }
  body.append(data, length);
  return length;
}

curl_socket_t HttpClient::Call::OnOpen(void* self, curlsocktype, curl_sockaddr* address) {
  auto* const call = static_cast<Call*>(self);
  if (call->multi_->policy().Denies(&address->addr)) {
    call->denied_ = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void HttpClient::Call::WatchSilence(std::int64_t delay_us) {
  multi_->loop()->CancelTimer(silence_timer_);
  silence_timer_ = multi_->loop()->After(delay_us, [this] {
    silence_timer_ = 0;
    CheckSilence();
  });
}

// While the connection is made, or the body goes out, the server has no reason to speak.
void HttpClient::Call::CheckSilence() {
  const std::int64_t limit_us = request_.read_timeout_ms * kMicrosPerMilli;
  curl_off_t begun_us = 0;
  curl_off_t uploaded = 0;
  curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &begun_us);
  curl_easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &uploaded);
  if (begun_us == 0 || uploaded > uploaded_) active_us_ = NowMicros();
  uploaded_ = uploaded;
  const std::int64_t silence_us = NowMicros() - active_us_;
  if (silence_us < limit_us) return WatchSilence(limit_us - silence_us);
  silent_ = true;
  Answer(std::unexpected(TimedOut()));
}

const std::string* HttpClient::Call::Header(std::string_view name) const {
  const auto found =
      std::ranges::find(reply_.headers, name, &std::pair<std::string, std::string>::first);
  return found == reply_.headers.end() ? nullptr : &found->second;
}

void HttpClient::Call::Finished(CURLcode code) {
  if (code != CURLE_OK) return Answer(std::unexpected(Explain(code)));
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  const std::string* location = Header("location");
  if (request_.follow_redirects && IsRedirect(status) && location != nullptr) {
    return Redirect(std::string(*location), static_cast<int>(status));
  }
  reply_.status = static_cast<int>(status);
  reply_.elapsed_us = NowMicros() - started_us_;
  Answer(std::move(reply_));
}

void HttpClient::Call::Redirect(const std::string& location, int status) {
  const std::string from = fmt::format("{} {}", request_.method, url_.origin);
  TearDown();
  if (++redirects_ > kRedirectsMax) {
    return Answer(std::unexpected(HttpFailure{
        "config", "HTTP_TOO_MANY_REDIRECTS", false,
        fmt::format("{}: more than {} redirects; check url, or set follow_redirects: false", from,
                    kRedirectsMax)}));
  }
  Result<HttpUrl> next = JoinHttpUrl(url_.text, location);
  if (!next) {
    return Answer(std::unexpected(
        HttpFailure{"parse", "HTTP_BAD_RESPONSE", false,
                    fmt::format("{}: the server redirects to an address that is not valid: {}",
                                from, next.error().message)}));
  }
  if (next->origin != url_.origin) {
    std::erase_if(request_.headers, [](const HttpHeader& header) { return header.secret; });
  }
  // As browsers do: 303 always asks for the new place, the old 301 and 302 turn a POST into a GET.
  const bool asks = status == 303 || (status <= 302 && request_.method == "POST");
  if (asks && request_.method != "HEAD") {
    request_.method = "GET";
    request_.body.reset();
    request_.parts.clear();
    std::erase_if(request_.headers,
                  [](const HttpHeader& header) { return ToLower(header.name) == "content-type"; });
  }
  url_ = *std::move(next);
  reply_ = {};
  reply_.url = url_.text;
  header_bytes_ = 0;
  uploaded_ = 0;
  Begin();
}

void HttpClient::Call::FailSoon(HttpFailure failure) {
  failure_timer_ = multi_->loop()->After(0, [this, failure = std::move(failure)]() mutable {
    failure_timer_ = 0;
    Answer(std::unexpected(std::move(failure)));
  });
}

void HttpClient::Call::Answer(HttpResult result) {
  multi_->loop()->CancelTimer(std::exchange(silence_timer_, 0));
  TearDown();
  Done done = std::move(done_);
  done(std::move(result));  // may destroy this call
}

HttpFailure HttpClient::Call::Explain(const Cause& cause, std::string_view what) {
  std::string reason = fmt::format("{} {}: {}", request_.method, url_.origin, what);
  std::string message = fmt::format("{}; {}", reason, cause.hint);
  const bool certificate =
      std::ranges::find(kCertificateCauses, cause.curl) != kCertificateCauses.end();
  return {cause.kind,         cause.code,  cause.retryable,
          std::move(message), certificate, std::move(reason)};
}

HttpFailure HttpClient::Call::Explain(CURLcode code) {
  if (code == CURLE_OPERATION_TIMEDOUT) return TimedOut();
  if (too_large_) {
    return {"client_error", "HTTP_BODY_TOO_LARGE", false,
            fmt::format("{} {}: the response is larger than {} bytes; raise max_response_bytes, or "
                        "ask for less",
                        request_.method, url_.origin, request_.response_bytes_max)};
  }
  if (denied_ && code == CURLE_COULDNT_CONNECT) {
    return {"config", "HTTP_ADDRESS_DENIED", false,
            fmt::format("{} {}: requests may not reach its address; check url and the worker's "
                        "NOETL_HTTP_DENY_CIDRS",
                        request_.method, url_.origin)};
  }
  const auto found = std::ranges::find(kCauses, code, &Cause::curl);
  Cause cause = found == kCauses.end() ? kOtherCause : *found;
  long system_error = 0;
  curl_easy_getinfo(easy_, CURLINFO_OS_ERRNO, &system_error);
  if (code == CURLE_COULDNT_CONNECT && system_error == ECONNREFUSED) {
    cause.code = "CONN_REFUSED";
    cause.hint = "check the port and whether the server runs";
  }
  if (IsTlsAlert(error_.data())) {
    cause = {CURLE_SSL_CERTPROBLEM, "connection", "TLS_ERROR", false, kHintAlert};
  }
  return Explain(cause, error_[0] != '\0' ? error_.data() : curl_easy_strerror(code));
}

HttpFailure HttpClient::Call::TimedOut() {
  curl_off_t begun_us = 0;
  if (easy_ != nullptr) curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &begun_us);
  const std::int64_t spent_ms = (NowMicros() - started_us_) / kMicrosPerMilli;
  const bool connecting =
      begun_us == 0 && request_.connect_timeout_ms > 0 && spent_ms < request_.timeout_ms;
  const std::int64_t limit_ms = silent_      ? request_.read_timeout_ms
                                : connecting ? request_.connect_timeout_ms
                                             : request_.timeout_ms;
  const std::string_view what = begun_us == 0 ? "no connection"
                                : silent_     ? "the server fell silent"
                                              : "no complete answer";
  return {"timeout", begun_us == 0 ? "CONN_TIMEOUT" : "HTTP_TIMEOUT", true,
          fmt::format("Execution timed out after {:g} seconds: {} {}: {}; check the server, or "
                      "raise timeout",
                      static_cast<double>(limit_ms) / 1'000, request_.method, url_.origin, what)};
}

HttpClient::HttpClient(EventLoop* loop, std::shared_ptr<const HttpPolicy> policy) {
  InitialiseOnce();
  multi_ = std::make_shared<Multi>(loop, std::move(policy));
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpCall> HttpClient::Start(HttpRequest request, Done done) {
  return std::make_unique<Call>(multi_, std::move(request), std::move(done));
}

}  // namespace noetl::worker
