#include "worker/remote/server_client.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/json_io.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kConnectTimeoutMs = 5'000;
// A stored body and the JSON around it.
constexpr std::int64_t kAnswerBytesMax = 80 << 20;
// A stream has no end of its own; the longest time that libcurl takes.
constexpr std::int64_t kStreamMs = std::int64_t{24} * 86'400'000;
constexpr int kConflict = 409;

struct Meaning {
  int status;
  std::string_view code;
};
// Answers that are not listed: 4xx "invalid", the others "unavailable".
constexpr std::array kMeanings = {
    Meaning{401, "unauthorized"}, Meaning{403, "unauthorized"}, Meaning{404, "not_found"},
    Meaning{408, "timeout"},      Meaning{413, "too_large"},    Meaning{425, "unavailable"},
    Meaning{429, "overloaded"},   Meaning{504, "timeout"},
};

std::string_view CodeOf(int status) {
  const auto found = std::ranges::find(kMeanings, status, &Meaning::status);
  if (found != kMeanings.end()) return found->code;
  return status >= 400 && status < 500 ? "invalid" : "unavailable";
}

// The advice of the http tool is not for the operator of a worker.
Error ErrorOf(const HttpFailure& failure) {
  if (failure.certificate) {
    return {"tls", fmt::format("{}; NOETL_TLS_CA names the authority of the server's certificate, "
                               "NOETL_TLS_CLIENT_CERT and NOETL_TLS_CLIENT_KEY what a server that "
                               "asks for a certificate is shown",
                               failure.reason)};
  }
  return {failure.kind == "timeout" ? "timeout" : "unavailable", failure.message};
}

}  // namespace

Error ErrorOfAnswer(int status, std::string_view body) {
  constexpr std::size_t kTextMax = 300;  // of an answer that is not ours
  const Json json = ParseJson(body).value_or(Json());
  std::string code(CodeOf(status));
  if (status == kConflict) {
    code = json["code"].ToString();
    if (code.empty()) code = "conflict";
  }
  std::string text = json["error"].ToString();
  if (text.empty()) text = std::string(body.substr(0, kTextMax));
  return {std::move(code), fmt::format("the server answered {}: {}", status, text)};
}

// The limits that tools obey do not hold for the server's address, which the operator gave.
ServerClient::ServerClient(EventLoop* loop, ServerAddress address)
    : client_(loop, std::make_shared<const HttpPolicy>(nullptr)), address_(std::move(address)) {
  while (address_.url.ends_with('/')) address_.url.pop_back();
}

HttpRequest ServerClient::Request(std::string method, const std::string& path) const {
  HttpRequest request;
  request.method = std::move(method);
  request.url = address_.url + path;
  request.connect_timeout_ms = kConnectTimeoutMs;
  request.response_bytes_max = kAnswerBytesMax;
  request.follow_redirects = false;
  request.tls = address_.tls;
  request.headers.push_back({"User-Agent", "noetl-worker"});
  if (!address_.token.empty())
    request.headers.push_back({"Authorization", "Bearer " + address_.token, true});
  return request;
}

ServerClient::CallId ServerClient::Start(Ask ask, Done done) {
  HttpRequest request = Request(std::move(ask.method), ask.path);
  request.timeout_ms = ask.timeout_ms;
  if (!ask.body.empty()) {
    request.headers.push_back({"Content-Type", "application/json"});
    request.body = std::move(ask.body);
  }
  return Begin(std::move(request), ask.secret, std::move(done));
}

ServerClient::CallId ServerClient::Stream(std::string path, std::int64_t silence_ms,
                                          std::function<void(std::string_view)> piece, Done done) {
  HttpRequest request = Request("GET", path);
  request.timeout_ms = kStreamMs;
  request.read_timeout_ms = silence_ms;
  request.headers.push_back({"Accept", "text/event-stream"});
  request.body_piece = std::move(piece);
  return Begin(std::move(request), false, std::move(done));
}

ServerClient::CallId ServerClient::Begin(HttpRequest request, bool secret, Done done) {
  const CallId id = ++last_;
  const bool streams = request.body_piece != nullptr;
  calls_[id] =
      client_.Start(std::move(request),
                    [this, id, secret, streams, done = std::move(done)](HttpResult result) mutable {
                      // The call is over, whatever `done` does. What it holds stays valid until here.
                      const auto call = calls_.extract(id);
                      if (!result) return done(std::unexpected(ErrorOf(result.error())));
                      if (result->status < 200 || result->status > 299)
                        return done(std::unexpected(ErrorOfAnswer(result->status, result->body)));
                      if (streams) return done(Json());
                      Result<Json> body = ParseJson(result->body);
                      if (secret) crypto::Wipe(result->body);
                      if (!body) body = Fail("bad_answer", "the server's answer is not JSON");
                      done(std::move(body));
                    });
  return id;
}

}  // namespace noetl::worker
