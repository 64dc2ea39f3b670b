#include "sim/machine_parts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace noetl::sim {

namespace {

constexpr std::uint64_t kCommitUsMax = 4'000;
constexpr std::uint64_t kFullUsMax = 8'000'000;
constexpr std::uint64_t kWordUsMax = 2'000;
constexpr std::uint64_t kLateWordUsMax = 6'000'000;
// A worker asks four times for a stored body before it gives up.
constexpr int kLoadRefusalsMax = 3;
// Tools: most are quick, some take half a second.
constexpr std::uint64_t kCallUsMax = 20'000;
constexpr std::uint64_t kSlowCallUsMax = 500'000;
constexpr std::uint64_t kSlowPercent = 15;
constexpr std::uint64_t kAtOncePercent = 15;
constexpr std::uint64_t kTalksPercent = 10;
constexpr std::uint64_t kDeafPercent = 20;

std::int64_t Below(RandomSource& random, std::uint64_t bound) {
  return static_cast<std::int64_t>(random.Below(bound));
}

std::vector<Status> AllFail(std::size_t count, std::string_view code, std::string_view message) {
  return std::vector<Status>(count, Fail(std::string(code), std::string(message)));
}

}  // namespace

// ---- the disk

std::vector<Status> Disk::Commit(std::span<const store::UnitRows* const> units) {
  const std::int64_t now_us = clock_->MonotonicMicros();
  if (faults_->Happens(Fault::kDiskFull))
    full_until_us_ = now_us + Below(faults_->random(), kFullUsMax);
  if (now_us < full_until_us_ && faults_->on())
    return AllFail(units.size(), "disk_full", "simulated: the disk is full");
  if (faults_->Happens(Fault::kCommitRefused))
    return AllFail(units.size(), "io", "simulated: the disk refuses");
  if (faults_->Happens(Fault::kCrashBefore)) {
    crash_ = true;
    return AllFail(units.size(), "io", "simulated: the process ends");
  }
  std::vector<Status> statuses = Write(units);
  if (faults_->Happens(Fault::kCrashAfter)) crash_ = true;
  if (faults_->Happens(Fault::kCommitUnknown))
    return AllFail(units.size(), "io", "simulated: nobody knows whether it is stored");
  return statuses;
}

std::vector<Status> Disk::Write(std::span<const store::UnitRows* const> units) {
  std::vector<const store::UnitRows*> given(units.begin(), units.end());
  std::vector<std::unique_ptr<store::UnitRows>> damaged;
  for (const store::UnitRows*& unit : given) {
    if (!unit->snapshot || !faults_->Happens(Fault::kSnapshotBad)) continue;
    damaged.push_back(std::make_unique<store::UnitRows>(*unit));
    std::string& text = damaged.back()->snapshot->text;
    text[faults_->random().Below(text.size())] ^= 1;
    unit = damaged.back().get();
  }
  std::vector<Status> statuses = store_->Commit(given);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (statuses[i]) stored_(*units[i]);
  }
  return statuses;
}

Result<std::vector<engine::Event>> Disk::ReadEvents(std::int64_t execution_id,
                                                    std::int64_t after_seq,
                                                    std::int64_t limit) const {
  return store_->ReadEvents(execution_id, after_seq, limit);
}
Result<std::vector<store::EventRow>> Disk::ReadRows(std::int64_t execution_id,
                                                    std::int64_t after_seq,
                                                    std::int64_t limit) const {
  return store_->ReadRows(execution_id, after_seq, limit);
}
Result<std::optional<engine::Event>> Disk::FindEvent(std::int64_t execution_id,
                                                     std::int64_t event_id) const {
  return store_->FindEvent(execution_id, event_id);
}
Result<std::optional<engine::Event>> Disk::FindEvent(std::int64_t event_id) const {
  return store_->FindEvent(event_id);
}
Result<std::vector<engine::Event>> Disk::ReadNewest(std::int64_t execution_id,
                                                    std::int64_t before_seq,
                                                    std::string_view type_name,
                                                    std::int64_t limit) const {
  return store_->ReadNewest(execution_id, before_seq, type_name, limit);
}
Result<std::optional<engine::Event>> Disk::FindWorkerEvent(std::int64_t command_id,
                                                           std::string_view type_name) const {
  return store_->FindWorkerEvent(command_id, type_name);
}

// ---- the committer

void SlowCommitter::Submit(std::vector<std::unique_ptr<store::UnitRows>> units,
                           conductor::CommitSink* sink) {
  for (auto& unit : units) queue_.push_back({std::move(unit), sink});
  if (!armed_) Arm();
}

void SlowCommitter::Arm() {
  armed_ = true;
  reactor_->After(Below(*random_, kCommitUsMax), [this] { Work(); });
}

void SlowCommitter::Work() {
  armed_ = false;
  std::vector<std::unique_ptr<store::UnitRows>> units;
  std::vector<conductor::CommitSink*> sinks;
  std::vector<Job> rest;
  for (Job& job : std::exchange(queue_, {})) {
    if (units.empty() || random_->Below(4) != 0) {
      units.push_back(std::move(job.unit));
      sinks.push_back(job.sink);
    } else {
      rest.push_back(std::move(job));
    }
  }
  queue_ = std::move(rest);
  conductor::CommitTogether(*log_, std::move(units), sinks);
  if (!queue_.empty() && !armed_) Arm();
}

// ---- the line

std::int64_t Line::Delay() { return Below(faults_->random(), kWordUsMax); }
std::int64_t Line::LongDelay() { return Below(faults_->random(), kLateWordUsMax); }

void Line::Later(std::int64_t delay_us, Reactor::Task task) {
  reactor_->After(delay_us, std::move(task));
}

void Line::Answer(Sent sent, Status status, std::int64_t delay_us) {
  Later(delay_us, [sent = std::move(sent), status = std::move(status)]() mutable {
    sent(std::move(status));
  });
}

void Line::Deliver(bus::Report report, Sent sent) {
  // Whoever answers may do it when the line is gone.
  server_()->Send(std::move(report),
                  [weak = weak_from_this(), sent = std::move(sent)](Status status) mutable {
                    const auto self = weak.lock();
                    if (self && sent)
                      self->Answer(std::move(sent), std::move(status), self->Delay());
                  });
}

void Line::Send(bus::Report report, Sent sent) {
  const Status io = Fail("io", "simulated: the line is broken");
  if (faults_->Happens(Fault::kReportLost)) return Answer(std::move(sent), io, LongDelay());
  if (faults_->Happens(Fault::kReportTwice)) {
    const std::int64_t delay_us = faults_->random().Below(2) == 0 ? Delay() : LongDelay();
    Later(delay_us, [this, report]() mutable { Deliver(std::move(report), nullptr); });
  }
  if (faults_->Happens(Fault::kAnswerWrong)) {
    sent = [sent = std::move(sent), io](Status status) mutable {
      sent(status ? io : std::move(status));
    };
  }
  const std::int64_t delay_us = faults_->Happens(Fault::kReportLate) ? LongDelay() : Delay();
  Later(delay_us, [this, report = std::move(report), sent = std::move(sent)]() mutable {
    Deliver(std::move(report), std::move(sent));
  });
}

void Line::Load(std::string ref, Loaded loaded) {
  const bool refused = faults_->Happens(Fault::kLoadRefused) && ++refused_[ref] <= kLoadRefusalsMax;
  if (!refused) refused_.erase(ref);
  Later(Delay(), [this, refused, ref = std::move(ref), loaded = std::move(loaded)]() mutable {
    if (refused) loaded(Fail("io", "simulated: the line is broken"));
    else server_()->Load(std::move(ref), std::move(loaded));
  });
}

void Line::RunChild(bus::ChildCall call, ChildDone done) {
  Later(Delay(), [this, call = std::move(call), done = std::move(done)]() mutable {
    if (orphan_) done(Fail("unavailable", "simulated: the process is gone"));
    else server_()->RunChild(std::move(call), std::move(done));
  });
}

void Line::FindSecret(std::string alias, std::int64_t execution_id, Loaded found) {
  if (!orphan_) server_()->FindSecret(std::move(alias), execution_id, std::move(found));
}

void Line::FreeSlots(int change) {
  if (!orphan_) server_()->FreeSlots(change);
}

// ---- tools

class VirtualTools::Call final : public worker::Running {
 public:
  Call(Reactor* reactor, RandomSource* random, std::int64_t duration_us, worker::ToolAnswer answer,
       Done done)
      : reactor_(reactor), random_(random), answer_(std::move(answer)), done_(std::move(done)) {
    Arm(duration_us);
  }
  ~Call() override {
    if (timer_ != 0) reactor_->CancelTimer(timer_);
  }

  void Stop() override {
    if (stopping_ || !done_) return;
    stopping_ = true;
    if (random_->Below(100) < kDeafPercent) return;  // it ends by itself in time
    reactor_->CancelTimer(timer_);
    answer_ = worker::Failed("virtual", "cancelled", "CANCELLED", false, "cancelled");
    answer_.cancelled = true;
    Arm(Below(*random_, static_cast<std::uint64_t>(worker::kStopGraceMs) * 1'000));
  }

 private:
  void Arm(std::int64_t delay_us) {
    timer_ = reactor_->After(delay_us, [this] {
      timer_ = 0;
      // The worker may let go of us in the middle of it.
      Done done = std::exchange(done_, nullptr);
      done(std::move(answer_));
    });
  }

  Reactor* reactor_;
  RandomSource* random_;
  worker::ToolAnswer answer_;
  Done done_;
  Reactor::TimerId timer_ = 0;
  bool stopping_ = false;
};

worker::Tool* VirtualTools::Find(std::string_view kind) {
  return kind == "playbook" ? nullptr : this;
}

ToolCall VirtualTools::PlaceOf(const worker::ToolCall& call) const {
  const auto found = grants_.find(call.command_id);
  NOETL_CHECK(found != grants_.end(), "only a command that was granted calls tools");
  const Json& meta = found->second.meta;
  const Json& cursor = meta["cursor"];
  ToolCall place{.execution_id = call.execution_id,
                 .path = found->second.path,
                 .step = call.step,
                 .run = meta["run"].AsInt(),
                 .index = meta["iteration_index"].AsInt(-1),
                 .frame = cursor["frame"].AsInt(-1),
                 .label = call.label,
                 .kind = call.kind,
                 .config = call.config,
                 .input = call.input,
                 .attempt = call.attempt,
                 // Attempts that the playbook asked for; those of lost workers do not count.
                 .fence = 1 + meta["reruns"].AsInt()};
  if (cursor["phase"].AsString() == "claim") place.phase = "claim";
  return place;
}

std::int64_t VirtualTools::Duration(const ToolAnswer& answer) {
  if (answer.duration_us > kQuickCallUs) return answer.duration_us;
  if (random_->Below(100) < kAtOncePercent) return 0;
  return 1 + Below(*random_, random_->Below(100) < kSlowPercent ? kSlowCallUsMax : kCallUsMax);
}

std::unique_ptr<worker::Running> VirtualTools::Start(worker::ToolCall call, Done done) {
  const ToolCall place = PlaceOf(call);
  called_(place);
  ToolAnswer drawn = answers_->Call(place);
  worker::ToolAnswer answer;
  answer.outcome = std::move(drawn.outcome);
  answer.hard = drawn.hard;
  if (random_->Below(100) < kTalksPercent)
    call.output(worker::OutputStream::kStdout, "working on " + place.step + "\n");
  const std::int64_t duration_us = Duration(drawn);
  if (duration_us > 0)
    return std::make_unique<Call>(reactor_, random_, duration_us, std::move(answer),
                                  std::move(done));
  done(std::move(answer));
  return nullptr;
}

}  // namespace noetl::sim
