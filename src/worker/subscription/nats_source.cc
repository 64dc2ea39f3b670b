#include "worker/subscription/nats_source.h"

#include <nats/nats.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kConnectMs = 5'000;
constexpr std::int64_t kReconnectMs = 1'000;
// At the end and after each batch; what does not leave by then comes again.
constexpr std::int64_t kFlushMs = 2'000;
constexpr std::int64_t kNanosPerMilli = 1'000'000;
// Of a consumer that is made here. Messages that take long are prolonged.
constexpr std::int64_t kAckWaitMs = 60'000;
constexpr std::int64_t kAckWaitDefaultMs = 30'000;  // what NATS takes when nothing is said
// A fetch from a consumer that is gone looks like one that found nothing: so often it is looked up.
constexpr std::int64_t kLookUs = 5'000'000;
// A consumer that somebody keeps removing is not made again all the time.
constexpr std::int64_t kRecreateUs = 30'000'000;

template <typename T, void (*kDestroy)(T*)>
struct Destroy {
  void operator()(T* thing) const { kDestroy(thing); }
};
using OptionsPtr = std::unique_ptr<natsOptions, Destroy<natsOptions, natsOptions_Destroy>>;
using ConnectionPtr =
    std::unique_ptr<natsConnection, Destroy<natsConnection, natsConnection_Destroy>>;
using ContextPtr = std::unique_ptr<jsCtx, Destroy<jsCtx, jsCtx_Destroy>>;
using SubscriptionPtr =
    std::unique_ptr<natsSubscription, Destroy<natsSubscription, natsSubscription_Destroy>>;
using ConsumerPtr =
    std::unique_ptr<jsConsumerInfo, Destroy<jsConsumerInfo, jsConsumerInfo_Destroy>>;
using MetaPtr = std::unique_ptr<jsMsgMetaData, Destroy<jsMsgMetaData, jsMsgMetaData_Destroy>>;

std::vector<std::string> Addresses(std::string_view url) {
  std::vector<std::string> addresses;
  while (!url.empty()) {
    const std::size_t comma = std::min(url.find(','), url.size());
    if (const std::string_view one = Trim(url.substr(0, comma)); !one.empty())
      addresses.emplace_back(one);
    url.remove_prefix(std::min(comma + 1, url.size()));
  }
  return addresses;
}

// Errors that come on threads of the library; without this it prints them.
void OnError(natsConnection*, natsSubscription*, natsStatus status, void*) {
  LogDebug("NATS reports an error", {{"error", natsStatus_GetText(status)}});
}

const char* TextOrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

class LibrarySource final : public NatsSource {
 public:
  explicit LibrarySource(NatsSourceOptions options)
      : options_(std::move(options)), address_(NatsAddressForPeople(options_.place.url)) {}

  ~LibrarySource() override {
    if (connection_) natsConnection_FlushTimeout(connection_.get(), kFlushMs);
  }

  Status Connect();
  Status Subscribe();

  Result<std::vector<Message>> Fetch(std::int64_t count, std::int64_t timeout_ms) override;
  Status Ack(const Message& message) override {
    return Answer("acknowledge", natsMsg_Ack(HandleOf(message), nullptr));
  }
  Status Nack(const Message& message, std::int64_t delay_ms) override {
    return Answer("refuse", natsMsg_NakWithDelay(HandleOf(message), delay_ms, nullptr));
  }
  Status Term(const Message& message) override {
    return Answer("give up", natsMsg_Term(HandleOf(message), nullptr));
  }
  Status Extend(const Message& message) override {
    return Answer("prolong", natsMsg_InProgress(HandleOf(message), nullptr));
  }
  Status Flush() override {
    return Answer("send answers to", natsConnection_FlushTimeout(connection_.get(), kFlushMs));
  }

  std::int64_t ack_wait_ms() const override { return ack_wait_ms_; }
  const std::string& notice() const override { return notice_; }

 private:
  static natsMsg* HandleOf(const Message& message) {
    return static_cast<natsMsg*>(message.handle.get());
  }
  Status Answer(std::string_view what, natsStatus status) const {
    if (status == NATS_OK) return {};
    return Fail("source", fmt::format("cannot {} messages of NATS at {}: {}", what, address_,
                                      natsStatus_GetText(status)));
  }
  std::unexpected<Error> Unreachable(natsStatus status) const;
  std::unexpected<Error> NoJetStream(natsStatus status, jsErrCode code) const;
  struct Found {
    natsStatus status = NATS_OK;
    jsErrCode code = {};
    ConsumerPtr consumer;
  };
  Found LookUp() const;
  Result<ConsumerPtr> FindConsumer();
  Result<ConsumerPtr> MakeConsumer();
  Status CheckConsumer(const jsConsumerConfig& config);
  Status Bind(const jsConsumerConfig& config);
  // Makes the consumer again when it is gone.
  Status LookAfterConsumer();

  NatsSourceOptions options_;
  std::string address_;
  ConnectionPtr connection_;
  ContextPtr context_;
  SubscriptionPtr subscription_;
  std::int64_t ack_wait_ms_ = kAckWaitMs;
  std::int64_t made_us_ = 0;    // here; 0: it was there
  std::int64_t looked_us_ = 0;  // for the consumer
  std::string notice_;
};

// ---- connecting

std::unexpected<Error> LibrarySource::Unreachable(natsStatus status) const {
  const bool stranger = status == NATS_CONNECTION_AUTH_FAILED;
  return Fail("source_unreachable",
              fmt::format("NATS at {} {}: {}\n  {}", address_,
                          stranger ? "does not let this program in" : "cannot be reached",
                          natsStatus_GetText(status),
                          stranger ? "give spec.user and spec.password or spec.token, a credential "
                                     "in spec.auth, or NATS_USER, NATS_PASSWORD, NATS_TOKEN"
                                   : "is it running? spec.url or NATS_URL say where it is"));
}

Status LibrarySource::Connect() {
  natsOptions* raw = nullptr;
  if (natsOptions_Create(&raw) != NATS_OK) return Fail("source", "no memory for NATS");
  const OptionsPtr options(raw);
  const std::vector<std::string> addresses = Addresses(options_.place.url);
  std::vector<const char*> servers;
  for (const std::string& address : addresses) servers.push_back(address.c_str());
  natsStatus status = natsOptions_SetServers(raw, servers.data(), static_cast<int>(servers.size()));
  const NatsPlace& place = options_.place;
  if (status == NATS_OK && !place.token.empty())
    status = natsOptions_SetToken(raw, place.token.c_str());
  else if (status == NATS_OK && !place.user.empty())
    status = natsOptions_SetUserInfo(raw, place.user.c_str(), place.password.c_str());
  if (status != NATS_OK)
    return Fail("invalid", fmt::format("'{}' is no address of NATS; it looks like "
                                       "nats://10.0.0.5:4222",
                                       address_));
  natsOptions_SetName(raw, "noetl subscribe");
  natsOptions_SetTimeout(raw, kConnectMs);
  natsOptions_SetMaxReconnect(raw, -1);
  natsOptions_SetReconnectWait(raw, kReconnectMs);
  natsOptions_SetErrorHandler(raw, OnError, nullptr);
  const bool tls = std::ranges::any_of(
      addresses, [](const std::string& address) { return address.starts_with("tls://"); });
  if (tls) natsOptions_SetSecure(raw, true);
  natsConnection* connection = nullptr;
  status = natsConnection_Connect(&connection, raw);
  if (status != NATS_OK) return Unreachable(status);
  connection_.reset(connection);
  jsCtx* context = nullptr;
  status = natsConnection_JetStream(&context, connection, nullptr);
  if (status != NATS_OK) return Answer("get", status);
  context_.reset(context);
  return {};
}

// ---- the consumer

std::unexpected<Error> LibrarySource::NoJetStream(natsStatus status, jsErrCode code) const {
  const NatsPlace& place = options_.place;
  if (code == JSStreamNotFoundErr) {
    return Fail("invalid", fmt::format("NATS at {} has no stream '{}', which spec.stream names; "
                                       "make it first",
                                       address_, place.stream));
  }
  if (status == NATS_NO_RESPONDERS || code == JSNotEnabledErr ||
      code == JSNotEnabledForAccountErr) {
    return Fail("invalid", fmt::format("NATS at {} has no JetStream; start it with "
                                       "`nats-server -js`",
                                       address_));
  }
  const char* details = nats_GetLastError(nullptr);
  return Fail("source", fmt::format("NATS at {} does not give the consumer '{}' of the stream "
                                    "'{}': {}",
                                    address_, place.consumer, place.stream,
                                    details && *details ? details : natsStatus_GetText(status)));
}

Result<ConsumerPtr> LibrarySource::MakeConsumer() {
  const NatsPlace& place = options_.place;
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Durable = place.consumer.c_str();
  config.AckPolicy = js_AckExplicit;
  config.AckWait = kAckWaitMs * kNanosPerMilli;
  config.MaxDeliver = -1;  // when to give up is decided here
  config.FilterSubject = TextOrNull(place.subject);
  jsConsumerInfo* info = nullptr;
  jsErrCode code = {};
  const natsStatus status =
      js_AddConsumer(&info, context_.get(), place.stream.c_str(), &config, nullptr, &code);
  if (status != NATS_OK) return NoJetStream(status, code);
  made_us_ = options_.clock->MonotonicMicros();
  return ConsumerPtr(info);
}

LibrarySource::Found LibrarySource::LookUp() const {
  const NatsPlace& place = options_.place;
  jsConsumerInfo* info = nullptr;
  Found found;
  found.status = js_GetConsumerInfo(&info, context_.get(), place.stream.c_str(),
                                    place.consumer.c_str(), nullptr, &found.code);
  found.consumer.reset(info);
  return found;
}

Result<ConsumerPtr> LibrarySource::FindConsumer() {
  Found found = LookUp();
  if (found.status == NATS_OK) return std::move(found.consumer);
  if (found.code == JSConsumerNotFoundErr) return MakeConsumer();
  return NoJetStream(found.status, found.code);
}

Status LibrarySource::CheckConsumer(const jsConsumerConfig& config) {
  const std::string name = fmt::format("the consumer '{}' of the stream '{}'",
                                       options_.place.consumer, options_.place.stream);
  if (config.DeliverSubject && *config.DeliverSubject)
    return Fail("invalid", name + " pushes its messages; a subscription needs one that is pulled");
  if (config.AckPolicy != js_AckExplicit)
    return Fail("invalid", name +
                               " does not wait for an answer to each message; its ack policy "
                               "must be explicit");
  ack_wait_ms_ = config.AckWait > 0 ? config.AckWait / kNanosPerMilli : kAckWaitDefaultMs;
  if (config.MaxDeliver > 0) {
    notice_ = fmt::format(
        "{} delivers a message at most {} times: one that nobody takes for so long "
        "is lost without a dead letter",
        name, config.MaxDeliver);
  }
  return {};
}

Status LibrarySource::Bind(const jsConsumerConfig& config) {
  const NatsPlace& place = options_.place;
  jsSubOptions options;
  jsSubOptions_Init(&options);
  options.Stream = place.stream.c_str();
  options.Consumer = place.consumer.c_str();
  options.ManualAck = true;
  natsSubscription* subscription = nullptr;
  jsErrCode code = {};
  const char* subject = config.FilterSubject && *config.FilterSubject ? config.FilterSubject : "";
  const natsStatus status = js_PullSubscribe(&subscription, context_.get(), subject,
                                             place.consumer.c_str(), nullptr, &options, &code);
  if (status != NATS_OK) return NoJetStream(status, code);
  subscription_.reset(subscription);
  return {};
}

Status LibrarySource::Subscribe() {
  NOETL_ASSIGN(const ConsumerPtr consumer, FindConsumer());
  NOETL_TRY(CheckConsumer(*consumer->Config));
  return Bind(*consumer->Config);
}

// ---- messages

Json Number(std::uint64_t value) { return Json(value); }

Message MessageOf(natsMsg* raw) {
  Message message{.data = std::string(natsMsg_GetData(raw),
                                      static_cast<std::size_t>(natsMsg_GetDataLength(raw))),
                  .handle = std::shared_ptr<void>(
                      raw, [](void* handle) { natsMsg_Destroy(static_cast<natsMsg*>(handle)); })};
  const char** keys = nullptr;
  int key_count = 0;
  if (natsMsgHeader_Keys(raw, &keys, &key_count) == NATS_OK) {
    for (int i = 0; i < key_count; ++i) {
      const char** values = nullptr;
      int value_count = 0;
      if (natsMsgHeader_Values(raw, keys[i], &values, &value_count) != NATS_OK) continue;
      for (int j = 0; j < value_count; ++j) message.headers.emplace_back(keys[i], values[j]);
      std::free(static_cast<void*>(values));
    }
    std::free(static_cast<void*>(keys));
  }
  JsonObjectBuilder metadata;
  metadata.Add("subject", natsMsg_GetSubject(raw));
  jsMsgMetaData* meta = nullptr;
  if (natsMsg_GetMetaData(&meta, raw) == NATS_OK) {
    const MetaPtr owner(meta);
    message.id = std::to_string(meta->Sequence.Stream);
    message.delivered = static_cast<std::int64_t>(meta->NumDelivered);
    metadata.Add("stream_seq", Number(meta->Sequence.Stream))
        .Add("consumer_seq", Number(meta->Sequence.Consumer))
        .Add("delivered", Number(meta->NumDelivered))
        .Add("pending", Number(meta->NumPending));
  }
  message.metadata = metadata.Build();
  return message;
}

Status LibrarySource::LookAfterConsumer() {
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  if (now_us - looked_us_ < kLookUs) return {};
  looked_us_ = now_us;
  const Found found = LookUp();
  if (found.status == NATS_OK) return {};
  if (found.code != JSConsumerNotFoundErr) return NoJetStream(found.status, found.code);
  if (made_us_ != 0 && now_us - made_us_ < kRecreateUs) {
    return Fail("source", fmt::format("somebody removes the consumer '{}' of the stream '{}'",
                                      options_.place.consumer, options_.place.stream));
  }
  return Subscribe();
}

Result<std::vector<Message>> LibrarySource::Fetch(std::int64_t count, std::int64_t timeout_ms) {
  natsMsgList list = {};
  const natsStatus status = natsSubscription_Fetch(&list, subscription_.get(),
                                                   static_cast<int>(count), timeout_ms, nullptr);
  std::vector<Message> messages;
  for (int i = 0; i < list.Count; ++i) {
    messages.push_back(MessageOf(list.Msgs[i]));
    list.Msgs[i] = nullptr;
  }
  natsMsgList_Destroy(&list);
  if (!messages.empty()) return messages;
  if (natsConnection_Status(connection_.get()) != NATS_CONN_STATUS_CONNECTED)
    return Unreachable(NATS_CONNECTION_DISCONNECTED);
  NOETL_TRY(LookAfterConsumer());
  if (status != NATS_OK && status != NATS_TIMEOUT)
    return std::unexpected(Answer("fetch", status).error());
  return messages;
}

}  // namespace

Result<std::unique_ptr<NatsSource>> NatsSource::Open(NatsSourceOptions options) {
  auto source = std::make_unique<LibrarySource>(std::move(options));
  NOETL_TRY(source->Connect());
  NOETL_TRY(source->Subscribe());
  return source;
}

std::string NatsAddressForPeople(std::string_view url) {
  std::string text;
  for (const std::string& address : Addresses(url)) {
    const std::size_t scheme = address.find("://");
    const std::size_t from = scheme == std::string::npos ? 0 : scheme + 3;
    const std::size_t at = address.rfind('@');
    const std::size_t host = at == std::string::npos || at < from ? from : at + 1;
    text += (text.empty() ? "" : ",") + address.substr(0, from) + address.substr(host);
  }
  return text;
}

}  // namespace noetl::worker
