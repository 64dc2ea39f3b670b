#include <curl/curl.h>

#include <charconv>
#include <chrono>
#include <utility>

#include "base/json_io.h"
#include "base/text.h"
#include "worker/bounded_text.h"
#include "worker/tools/http_auth.h"
#include "worker/tools/http_client.h"
#include "worker/tools/http_config.h"
#include "worker/tools/http_url.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kKind = "http";
// A server that says "in a hundred years" means "not soon".
constexpr std::int64_t kRetryAfterMax = 31'536'000;

struct StatusKind {
  int from;
  int to;
  std::string_view kind;
  bool retryable;
};
// The first that fits.
constexpr std::array kStatusKinds = {
    StatusKind{401, 401, "auth", false},        StatusKind{403, 403, "auth", false},
    StatusKind{404, 404, "not_found", false},   StatusKind{429, 429, "rate_limit", true},
    StatusKind{500, 599, "server_error", true}, StatusKind{0, 999, "client_error", false},
};

const StatusKind& KindOf(int status) {
  return *std::ranges::find_if(kStatusKinds, [status](const StatusKind& kind) {
    return kind.from <= status && status <= kind.to;
  });
}

Json HeadersJson(const HttpReply& reply) {
  std::vector<std::pair<std::string, std::vector<std::string>>> merged;
  for (const auto& [name, value] : reply.headers) {
    auto found = std::ranges::find(merged, name, [](const auto& entry) { return entry.first; });
    if (found == merged.end()) found = merged.insert(merged.end(), {name, {}});
    found->second.push_back(CleanText(value));
  }
  JsonObjectBuilder headers;
  for (const auto& [name, values] : merged) {
    // Cookies have commas of their own.
    const bool list = name == "set-cookie";
    headers.Add(CleanText(name), list ? Json::Array(std::vector<Json>(values.begin(), values.end()))
                                      : Json(fmt::format("{}", fmt::join(values, ", "))));
  }
  return headers.Build();
}

Json BodyJson(const std::string& body, HttpResponseType type) {
  if (type == HttpResponseType::kBinary) {
    return Json::Object({{"base64", Base64(body)}, {"size", body.size()}});
  }
  if (type == HttpResponseType::kJson) {
    if (body.empty()) return Json();
    if (Result<Json> parsed = ParseJson(body)) return ReplaceNul(*parsed);
  }
  return CleanText(body);
}

const std::string* FindHeader(const HttpReply& reply, std::string_view name) {
  const auto found =
      std::ranges::find(reply.headers, name, &std::pair<std::string, std::string>::first);
  return found == reply.headers.end() ? nullptr : &found->second;
}

// Seconds to wait, from a number or a date; null when the server says nothing readable.
Json RetryAfter(const HttpReply& reply) {
  const std::string* text = FindHeader(reply, "retry-after");
  if (text == nullptr) return Json();
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size()) {
    const std::time_t then = curl_getdate(text->c_str(), nullptr);
    if (then < 0) return Json();
    // The server's own clock, when it tells it.
    const std::string* date = FindHeader(reply, "date");
    std::time_t now = date == nullptr ? -1 : curl_getdate(date->c_str(), nullptr);
    if (now < 0) now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    seconds = then - now;
  }
  return std::clamp<std::int64_t>(seconds, 0, kRetryAfterMax);
}

ToolAnswer AnswerOf(const HttpReply& reply, HttpResponseType type) {
  const Json headers = HeadersJson(reply);
  const Json data = BodyJson(reply.body, type);
  Json payload = Json::Object({{"status_code", reply.status},
                               {"status", reply.status},
                               {"headers", headers},
                               {"data", data},
                               {"body", data},
                               {"url", CleanText(reply.url)},
                               {"elapsed", static_cast<double>(reply.elapsed_us) / 1e6}});
  ToolAnswer answer;
  if (reply.status >= 200 && reply.status < 300) {
    answer.outcome.payload = std::move(payload);
  } else {
    const StatusKind& kind = KindOf(reply.status);
    answer = Failed(kKind, kind.kind, fmt::format("HTTP_{}", reply.status), kind.retryable,
                    fmt::format("HTTP {} response", reply.status), std::move(payload));
    Json info = answer.outcome.error_info.With("status_code", reply.status)
                    .With("http_status", reply.status);
    if (Json wait = RetryAfter(reply); !wait.is_null()) info = info.With("retry_after", wait);
    answer.outcome.error_info = std::move(info);
  }
  answer.outcome.extra =
      Json::Object({{"http", Json::Object({{"status", reply.status}, {"headers", headers}})}});
  return answer;
}

ToolAnswer AnswerOf(const HttpFailure& failure) {
  const bool timeout = failure.kind == "timeout";
  return Failed(kKind, failure.kind, failure.code, failure.retryable,
                timeout ? failure.message : "HTTP error: " + failure.message);
}

ToolAnswer AnswerOf(const Error& error) {
  if (error.code == "auth") {
    return Refuse("auth", "AUTH", "Authentication error: " + error.message);
  }
  return Refuse("config", "CONFIG", "Configuration error: " + error.message);
}

// What a test sees instead of a server that does not exist.
HttpReply Mocked(const HttpRequest& request) {
  const Json body =
      Json::Object({{"mocked", true}, {"method", request.method}, {"url", request.url}});
  HttpReply reply;
  reply.status = 200;
  reply.headers = {{"content-type", "application/json"}};
  reply.body = WriteJson(body);
  reply.url = request.url;
  return reply;
}

class HttpRunning final : public Running {
 public:
  HttpRunning(EventLoop* loop, Tool::Done done) : loop_(loop), done_(std::move(done)) {}
  ~HttpRunning() override { loop_->CancelTimer(stopping_); }

  void Begin(HttpClient& client, HttpPlan plan) {
    const HttpResponseType type = plan.response_type;
    call_ = client.Start(std::move(plan.request), [this, type](HttpResult result) {
      Answer(result ? AnswerOf(*result, type) : AnswerOf(result.error()));
    });
  }

  // A request has nobody to be polite to: the connection is closed now, the answer follows.
  void Stop() override {
    if (stopping_ != 0 || !done_) return;
    call_.reset();
    stopping_ = loop_->After(0, [this] {
      ToolAnswer answer = Failed(kKind, "cancelled", "CANCELLED", false, "the request was stopped");
      answer.cancelled = true;
      Answer(std::move(answer));
    });
  }

 private:
  void Answer(ToolAnswer answer) {
    Tool::Done done = std::exchange(done_, nullptr);
    done(std::move(answer));  // may destroy this
  }

  EventLoop* loop_;
  Tool::Done done_;
  std::unique_ptr<HttpCall> call_;
  EventLoop::TimerId stopping_ = 0;
};

class HttpTool final : public Tool {
 public:
  explicit HttpTool(const ToolSetup& setup)
      : loop_(setup.loop),
        policy_(std::make_shared<const HttpPolicy>(setup.settings)),
        client_(setup.loop, policy_) {}

  std::unique_ptr<Running> Start(ToolCall call, Done done) override {
    Result<HttpPlan> plan = PlanHttp(call, *policy_);
    if (!plan) {
      done(AnswerOf(plan.error()));
      return nullptr;
    }
    const Result<HttpUrl> url = ParseHttpUrl(plan->request.url);
    if (url && policy_->Mocks(url->host)) {
      done(AnswerOf(Mocked(plan->request), plan->response_type));
      return nullptr;
    }
    auto running = std::make_unique<HttpRunning>(loop_, std::move(done));
    running->Begin(client_, *std::move(plan));
    return running;
  }

 private:
  EventLoop* loop_;
  std::shared_ptr<const HttpPolicy> policy_;
  HttpClient client_;
};

}  // namespace

std::unique_ptr<Tool> MakeHttp(const ToolSetup& setup) { return std::make_unique<HttpTool>(setup); }

}  // namespace noetl::worker
