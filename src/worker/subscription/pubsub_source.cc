#include "worker/subscription/pubsub_source.h"

#include <curl/curl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/crypto.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

constexpr long kConnectMs = 5'000;
constexpr long kAnswerMs = 20'000;
// A pull of 1000 messages of 10 MB would be more; Pub/Sub gives about 10 MB at once.
constexpr std::size_t kAnswerBytesMax = 64u << 20;
// What Pub/Sub allows.
constexpr std::int64_t kDeadlineSecondsMax = 600;
// Messages that are not acknowledged; then counting begins anew.
constexpr std::size_t kCountedMax = 100'000;
constexpr std::size_t kQuotedBytes = 300;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::size_t OnBody(const char* data, std::size_t size, std::size_t count, void* text) {
  auto& answer = *static_cast<std::string*>(text);
  if (answer.size() + size * count > kAnswerBytesMax) return 0;
  answer.append(data, size * count);
  return size * count;
}

std::string AckIdOf(const Message& message) { return message.metadata["ackId"].ToString(); }

}  // namespace

Message PubSubMessage(const Json& received, std::int64_t delivered) {
  const Json& inner = received["message"];
  Message message{.id = inner["messageId"].ToString(),
                  .data = crypto::Base64Decode(inner["data"].AsString()).value_or(""),
                  .delivered = received["deliveryAttempt"].AsInt(delivered)};
  for (const JsonMember& attribute : inner["attributes"].members())
    message.headers.emplace_back(attribute.key(), attribute.value.AsString());
  JsonObjectBuilder metadata;
  metadata.Add("messageId", message.id)
      .AddSome("publishTime", inner["publishTime"])
      .AddSome("orderingKey", inner["orderingKey"])
      .Add("deliveryAttempt", message.delivered)
      .Add("ackId", received["ackId"]);
  message.metadata = metadata.Build();
  return message;
}

PubSubSource::PubSubSource(PubSubPlace place, Clock* clock)
    : place_(std::move(place)), clock_(clock), handle_(curl_easy_init()) {
  NOETL_CHECK(handle_ != nullptr, "no memory for a request");
  while (place_.endpoint.ends_with('/')) place_.endpoint.pop_back();
}

PubSubSource::~PubSubSource() { curl_easy_cleanup(handle_); }

Result<std::unique_ptr<PubSubSource>> PubSubSource::Open(PubSubPlace place, Clock* clock) {
  std::unique_ptr<PubSubSource> source(new PubSubSource(std::move(place), clock));
  NOETL_ASSIGN(const Json about, source->Call("", {}));
  const std::int64_t seconds = about["ackDeadlineSeconds"].AsInt();
  if (seconds > 0) source->ack_wait_ms_ = seconds * 1'000;
  return source;
}

std::unexpected<Error> PubSubSource::Refusal(long status, const std::string& text) const {
  const auto body = ParseJson(text);
  std::string reason = body ? (*body)["error"]["message"].ToString() : "";
  if (reason.empty()) reason = std::string(Trim(text)).substr(0, kQuotedBytes);
  if (status == 404) {
    return Fail("invalid", fmt::format("{} has no subscription '{}', which spec.subscription names",
                                       place_.endpoint, place_.subscription));
  }
  if (status == 401 || status == 403) {
    return Fail("source_unreachable",
                fmt::format("{} does not let this program in: {}\n  the credential in spec.auth "
                            "gives the token",
                            place_.endpoint, reason));
  }
  return Fail("source", fmt::format("{} answers {}: {}", place_.endpoint, status, reason));
}

Result<Json> PubSubSource::Call(const std::string& action, const Json& body) {
  curl_easy_reset(handle_);
  const std::string url = fmt::format("{}/v1/{}{}", place_.endpoint, place_.subscription, action);
  std::unique_ptr<curl_slist, FreeList> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"));
  if (!place_.token.empty()) {
    curl_slist* longer =
        curl_slist_append(headers.get(), ("Authorization: Bearer " + place_.token).c_str());
    NOETL_CHECK(longer != nullptr, "no memory for a header");
  }
  std::string answer;
  const std::string text = body.is_null() ? "" : WriteJson(body);
  curl_easy_setopt(handle_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(handle_, CURLOPT_TIMEOUT_MS, kAnswerMs);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &answer);
  if (!body.is_null()) {
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, text.data());
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(text.size()));
  }
  const CURLcode code = curl_easy_perform(handle_);
  if (code != CURLE_OK) {
    return Fail("source_unreachable",
                fmt::format("Pub/Sub at {} cannot be reached: {}\n  spec.endpoint says where it is",
                            place_.endpoint, curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  if (status < 200 || status >= 300) return Refusal(status, answer);
  auto parsed = ParseJson(answer);
  return parsed ? *std::move(parsed) : Json();
}

// A request that waits for messages could not be given up without losing some for a while: it asks
// for what is there, and the wait is here.
Result<std::vector<Message>> PubSubSource::Fetch(std::int64_t count, std::int64_t timeout_ms) {
  NOETL_ASSIGN(const Json answer,
               Call(":pull", Json::Object({{"maxMessages", count}, {"returnImmediately", true}})));
  std::vector<Message> messages;
  if (delivered_.size() > kCountedMax) delivered_.clear();
  for (const Json& received : answer["receivedMessages"].items()) {
    const std::string id = received["message"]["messageId"].ToString();
    messages.push_back(PubSubMessage(received, ++delivered_[id]));
  }
  if (messages.empty()) clock_->SleepMicros(timeout_ms * 1'000);
  return messages;
}

Status PubSubSource::Ack(const Message& message) {
  NOETL_TRY(Call(":acknowledge", Json::Object({{"ackIds", Json::Array({AckIdOf(message)})}})));
  delivered_.erase(message.id);
  return {};
}

Status PubSubSource::SetDeadline(const Message& message, std::int64_t seconds) {
  const Json body = Json::Object(
      {{"ackIds", Json::Array({AckIdOf(message)})},
       {"ackDeadlineSeconds", std::clamp<std::int64_t>(seconds, 0, kDeadlineSecondsMax)}});
  NOETL_TRY(Call(":modifyAckDeadline", body));
  return {};
}

Status PubSubSource::Nack(const Message& message, std::int64_t delay_ms) {
  return SetDeadline(message, (delay_ms + 999) / 1'000);
}

Status PubSubSource::Extend(const Message& message) {
  return SetDeadline(message, ack_wait_ms_ / 1'000);
}

}  // namespace noetl::worker
