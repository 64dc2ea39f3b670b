#include "worker/remote/outbox.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "worker/command_run.h"

namespace noetl::worker {
namespace {

// A request takes no more events, and no more bytes of them; the server's own limits are 256 and
// 16 MiB.
constexpr std::size_t kEventsMax = 200;
constexpr std::size_t kEventBytesMax = 8 << 20;
// Requests with events that are under way at once; what comes meanwhile gathers.
constexpr std::size_t kSendingsMax = 4;
// Text of one request for logs, below the server's limit of 2 MiB even when all of it is escaped.
constexpr std::size_t kLogBytesMax = 256 << 10;
constexpr std::size_t kLogChunksMax = 200;  // the server takes 256
constexpr std::int64_t kMicrosPerMilli = 1'000;

// Whether a request may succeed later. An operator can give the right token; a page of a proxy
// instead of an answer goes away.
bool MayPass(const Error& error) {
  return IsTransient(error) || error.code == "unauthorized" || error.code == "bad_answer";
}

bool IsRefusal(const Error& error) { return IsRefused(error) || error.code == "active_claim"; }

}  // namespace

struct Outbox::Entry {
  explicit Entry(Reactor* reactor) : timer(reactor) {}

  bus::Report report;
  bus::ServerEnd::Sent sent;  // may be empty
  bool holds_slot = false;
  bool alone = false;  // goes without others and without asking for work
  std::optional<std::uint64_t> spooled;
  std::int64_t delay_ms = 0;
  std::size_t bytes = 0;  // of its events, when they are ready
  OwnedTimer timer;
};

struct Outbox::Sending {
  explicit Sending(Reactor* reactor) : timer(reactor) {}

  std::vector<Entry*> entries;
  int slots = 0;  // that it asks for; 0: it only brings events
  std::int64_t wait_ms = 0;
  std::string body;
  std::int64_t delay_ms = 0;
  std::int64_t asked_at_us = 0;
  bool fails = false;
  OwnedTimer timer;
};

Outbox::Outbox(Parts parts, Host* host) : parts_(parts), host_(host), empty_timer_(parts.loop) {}

Outbox::~Outbox() = default;

// ---- one report

Outbox::Entry* Outbox::NewEntry(bus::Report report) {
  Entry* entry = entries_.emplace_back(std::make_unique<Entry>(parts_.loop)).get();
  entry->report = std::move(report);
  return entry;
}

void Outbox::Add(bus::Report report, bool holds_slot, bus::ServerEnd::Sent sent) {
  Entry* entry = NewEntry(std::move(report));
  entry->holds_slot = holds_slot;
  entry->sent = std::move(sent);
  Prepare(entry);
}

void Outbox::AddFound() {
  for (Spool::Record& record : parts_.spool->TakeFound()) {
    const Result<Json> json = ParseJson(record.text);
    Result<bus::Report> report =
        json ? ReportFromJson(*json) : Result<bus::Report>(std::unexpected(json.error()));
    if (!report) {
      LogError("a report in the spool cannot be read and is dropped",
               {{"error", report.error().message}});
      parts_.spool->Done(record.id);
      continue;
    }
    Entry* entry = NewEntry(*std::move(report));
    entry->spooled = record.id;
    entry->alone = true;
    Prepare(entry);
  }
}

void Outbox::Prepare(Entry* entry) {
  if (!entry->report.bodies.empty()) return PutBody(entry);
  if (!entry->report.logs.empty()) return PostLogs(entry);
  Deliver(entry);
}

void Outbox::PutBody(Entry* entry) {
  const bus::Report& report = entry->report;
  const Json body = Json::Object({{"name", report.step},
                                  {"data", report.bodies.back().body},
                                  {"scope", "execution"},
                                  {"source_step", report.step}});
  parts_.client->Start({.method = "PUT",
                        .path = fmt::format("/api/result/{}", report.execution_id),
                        .body = WriteJson(body),
                        .timeout_ms = parts_.request_timeout_ms},
                       [this, entry](Result<Json> answer) {
                         if (answer) return BodyStored(entry, *answer);
                         if (MayPass(answer.error())) return PrepareLater(entry, answer.error());
                         Drop(entry, std::move(answer).error());
                       });
}

// From now on the events name what the server named.
void Outbox::BodyStored(Entry* entry, const Json& answer) {
  const std::string_view ref = answer["ref"].AsString();
  if (ref.empty()) return PrepareLater(entry, {"bad_answer", "the server names no reference"});
  bus::Report& report = entry->report;
  for (engine::Event& event : report.events)
    event.result = ReplaceText(event.result, report.bodies.back().ref, ref);
  report.bodies.pop_back();
  entry->delay_ms = 0;
  Prepare(entry);
}

void Outbox::PostLogs(Entry* entry) {
  const bus::Report& report = entry->report;
  std::vector<Json> chunks;
  std::size_t bytes = 0;
  for (const bus::LogText& log : report.logs) {
    const bool fits = bytes + log.text.size() <= kLogBytesMax && chunks.size() < kLogChunksMax;
    if (!chunks.empty() && !fits) break;
    bytes += log.text.size();
    chunks.push_back(
        Json::Object({{"stream", log.stream}, {"offset", log.offset}, {"text", Json(log.text)}}));
  }
  const std::size_t count = chunks.size();
  const Json body = Json::Object({{"command_id", report.command_id},
                                  {"worker_id", report.worker_id},
                                  {"claim_token", report.claim_token},
                                  {"step", report.step},
                                  {"chunks", Json::Array(std::move(chunks))}});
  parts_.client->Start(
      {.method = "POST",
       .path = fmt::format("/api/executions/{}/logs", report.execution_id),
       .body = WriteJson(body),
       .timeout_ms = parts_.request_timeout_ms},
      [this, entry, count](const Result<Json>& answer) { LogsAnswered(entry, count, answer); });
}

// Text that is sent while the tool runs is the command's to send again.
void Outbox::LogsAnswered(Entry* entry, std::size_t count, const Result<Json>& answer) {
  bus::Report& report = entry->report;
  if (!answer && report.events.empty()) return Close(entry, std::unexpected(answer.error()));
  if (!answer && MayPass(answer.error())) return PrepareLater(entry, answer.error());
  if (!answer) {
    LogWarn("the server does not take the output of a command",
            {{"command", report.command_id}, {"error", answer.error().message}});
    report.logs.clear();
  } else {
    report.logs.erase(report.logs.begin(),
                      report.logs.begin() + static_cast<std::ptrdiff_t>(count));
  }
  entry->delay_ms = 0;
  Prepare(entry);
}

void Outbox::PrepareLater(Entry* entry, const Error& error) {
  parts_.metrics->SendingRetried();
  Keep({entry});
  if (entry->delay_ms == 0) {
    LogWarn("a part of a report cannot be stored; trying again",
            {{"command", entry->report.command_id}, {"error", error.message}});
  }
  entry->delay_ms = parts_.pace.After(entry->delay_ms);
  entry->timer.Set(entry->delay_ms * kMicrosPerMilli, [this, entry] { Prepare(entry); });
}

void Outbox::Deliver(Entry* entry) {
  if (entry->report.events.empty()) return Close(entry, {});
  if (failing()) Keep({entry});  // nobody would know of it if the process ended now
  entry->bytes = 0;
  for (const engine::Event& event : entry->report.events)
    entry->bytes += JsonSize(event.result) + JsonSize(event.meta);
  ready_.push_back(entry);
  Pump();
}

void Outbox::Drop(Entry* entry, Error error) {
  // When not even the failure is taken there is nothing left to say: the lease may end.
  const bool said = !entry->report.events.empty() &&
                    entry->report.events.back().type == engine::EventType::kCommandFailed;
  const bool refused = IsRefusal(error) || said;
  const std::string command_id = entry->report.command_id;
  LogWarn("the server does not take a report",
          {{"command", command_id}, {"code", error.code}, {"error", error.message}});
  if (std::exchange(entry->holds_slot, false)) host_->LeaveSlots(1);
  const std::string code = error.code;
  if (error.code == "active_claim") error.code = "superseded";
  Close(entry, std::unexpected(std::move(error)));
  if (refused) host_->Refused(command_id, code);
}

void Outbox::Close(Entry* entry, Status status) {
  if (entry->spooled) parts_.spool->Done(*entry->spooled);
  const auto found = std::ranges::find(entries_, entry, &std::unique_ptr<Entry>::get);
  const std::unique_ptr<Entry> owned = std::move(*found);
  entries_.erase(found);
  if (status && entry->report.ends) host_->Delivered(entry->report.command_id);
  if (entry->sent) entry->sent(std::move(status));
  if (entries_.empty() && !when_empty_.empty()) WhenEmpty(nullptr);
}

void Outbox::Keep(const std::vector<Entry*>& entries) {
  bool added = false;
  Status status;
  for (Entry* entry : entries) {
    if (entry->spooled || entry->report.events.empty()) continue;
    Result<std::uint64_t> id = parts_.spool->Add(WriteJson(ReportToJson(entry->report)));
    if (id) entry->spooled = *id;
    else status = std::unexpected(id.error());
    added = added || id.has_value();
  }
  if (added && status) status = parts_.spool->Sync();
  if (!status) {
    LogError("reports that wait for the server are only in memory",
             {{"error", status.error().message}});
  }
}

void Outbox::SpoolAll() {
  std::vector<Entry*> all;
  for (const auto& entry : entries_) all.push_back(entry.get());
  Keep(all);
}

void Outbox::WhenEmpty(std::move_only_function<void()> then) {
  if (then) when_empty_.push_back(std::move(then));
  if (!entries_.empty()) return;
  empty_timer_.Set(0, [this] {
    if (!entries_.empty()) return;
    for (auto& next : std::exchange(when_empty_, {})) next();
  });
}

// ---- requests with events

void Outbox::Pump() {
  while (!ready_.empty() && !failing() && sendings_.size() < kSendingsMax) Send(Gather());
}

std::vector<Outbox::Entry*> Outbox::Gather() {
  std::vector<Entry*> entries;
  std::size_t events = 0;
  std::size_t bytes = 0;
  while (!ready_.empty()) {
    Entry* next = ready_.front();
    events += next->report.events.size();
    bytes += next->bytes;
    const bool fits = events <= kEventsMax && bytes <= kEventBytesMax && !next->alone;
    if (!entries.empty() && !fits) break;
    ready_.pop_front();
    entries.push_back(next);
    if (next->alone) break;
  }
  return entries;
}

void Outbox::Send(std::vector<Entry*> entries) {
  int ended = 0;
  for (Entry* entry : entries) ended += std::exchange(entry->holds_slot, false) ? 1 : 0;
  host_->LeaveSlots(ended);
  auto sending = std::make_unique<Sending>(parts_.loop);
  sending->slots = entries.front()->alone ? 0 : host_->ReserveSlots(std::max(ended, 1));
  if (sending->slots > 0) sending->wait_ms = host_->LeaseWaitMs();
  sending->entries = std::move(entries);
  sending->body = BodyOf(*sending);
  sendings_.push_back(std::move(sending));
  Try(sendings_.back().get());
}

std::string Outbox::BodyOf(const Sending& sending) {
  std::vector<Json> events;
  for (const Entry* entry : sending.entries) {
    for (const engine::Event& event : entry->report.events)
      events.push_back(EventRequest(event, entry->report));
  }
  const Json request = host_->LeaseRequest(sending.slots, sending.wait_ms);
  return WriteJson(request.With("events", Json::Array(std::move(events))));
}

void Outbox::Try(Sending* sending) {
  sending->asked_at_us = parts_.clock->MonotonicMicros();
  parts_.client->Start({.method = "POST",
                        .path = "/api/commands/lease",
                        .body = sending->body,
                        .timeout_ms = parts_.request_timeout_ms},
                       [this, sending](const Result<Json>& answer) { Answered(sending, answer); });
}

void Outbox::Answered(Sending* sending, const Result<Json>& answer) {
  if (std::exchange(sending->fails, false)) --failing_;
  if (answer) {
    if (!Stored(*sending, *answer))
      return TryLater(sending, {"bad_answer", "the answer does not speak of all events"});
    Remove(sending);
    return Pump();
  }
  const Error& error = answer.error();
  const bool too_much = error.code == "invalid" || error.code == "too_large";
  if (!too_much) return TryLater(sending, error);
  if (sending->entries.size() > 1 || sending->slots > 0) return SendAlone(sending);
  Entry* entry = sending->entries.front();
  Remove(sending);
  Drop(entry, error);
  Pump();
}

// Tells each report what became of it. False: the answer makes no sense.
bool Outbox::Stored(Sending& sending, const Json& body) {
  Result<LeaseAnswer> answer = LeaseAnswerFromJson(body);
  std::size_t sent = 0;
  for (const Entry* entry : sending.entries) sent += entry->report.events.size();
  if (!answer) return false;
  if (answer->events.size() != sent) return false;
  std::size_t first = 0;
  for (Entry* entry : std::exchange(sending.entries, {})) {
    const std::size_t count = entry->report.events.size();
    Settle(entry, answer->events, first);
    first += count;
  }
  if (sending.slots > 0)
    host_->Leased(&*answer, sending.slots, sending.asked_at_us, sending.wait_ms);
  return true;
}

void Outbox::Settle(Entry* entry, const std::vector<EventAnswer>& answers, std::size_t first) {
  for (std::size_t i = first; i < first + entry->report.events.size(); ++i) {
    if (answers[i].code.empty()) continue;
    Error error{answers[i].code, answers[i].message};
    if (MayPass(error)) return PrepareLater(entry, error);
    return Drop(entry, std::move(error));
  }
  parts_.metrics->EventsSent(entry->report.events.size());
  Close(entry, {});
}

void Outbox::TryLater(Sending* sending, const Error& error) {
  parts_.metrics->SendingRetried();
  Keep(sending->entries);
  for (const Entry* entry : ready_) {
    if (!entry->spooled) {
      Keep({ready_.begin(), ready_.end()});
      break;
    }
  }
  if (sending->delay_ms == 0) {
    LogWarn("the server cannot be told of results; trying again",
            {{"reports", sending->entries.size()}, {"error", error.message}});
  }
  sending->fails = true;
  ++failing_;
  sending->delay_ms = parts_.pace.After(sending->delay_ms);
  sending->timer.Set(sending->delay_ms * kMicrosPerMilli, [this, sending] { Try(sending); });
}

// What the server does not take together it is told one by one, without asking for work.
void Outbox::SendAlone(Sending* sending) {
  for (Entry* entry : sending->entries) {
    entry->alone = true;
    ready_.push_back(entry);
  }
  if (sending->slots > 0)
    host_->Leased(nullptr, sending->slots, sending->asked_at_us, sending->wait_ms);
  Remove(sending);
  Pump();
}

void Outbox::StopLeasing() {
  std::vector<Sending*> waiting;
  for (const auto& sending : sendings_) {
    if (sending->timer.set() && sending->slots > 0) waiting.push_back(sending.get());
  }
  for (Sending* sending : waiting) {
    if (std::exchange(sending->fails, false)) --failing_;
    SendAlone(sending);
  }
}

void Outbox::Remove(Sending* sending) {
  std::erase_if(sendings_, [sending](const auto& each) { return each.get() == sending; });
}

}  // namespace noetl::worker
