#include "worker/subscription/spool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/sha256.h"
#include "worker/subscription/durable_file.h"

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSeqDigits = 20;
// With the digits, well below what a name may have.
constexpr std::size_t kIdBytesMax = 128;
constexpr std::string_view kSuffix = ".json";
constexpr double kMillisPerHour = 3'600'000;

std::string Checksum(const SpoolItem& item) { return Sha256Hex(WriteJson(item.message["data"])); }

std::string FileOf(const SpoolItem& item) {
  return SpoolKey(item.recv_seq, item.message_id()) + std::string(kSuffix);
}

// The sequence in the name of an item's file; nullopt: it is no such name.
std::optional<std::uint64_t> SeqOf(std::string_view name) {
  if (!name.ends_with(kSuffix) || name.size() <= kSeqDigits || name[kSeqDigits] != '-')
    return std::nullopt;
  std::uint64_t seq = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + kSeqDigits, seq);
  if (error != std::errc() || end != name.data() + kSeqDigits) return std::nullopt;
  return seq;
}

Result<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error))
    names.push_back(file->path().filename().string());
  if (error) return Fail("io", fmt::format("cannot read {}: {}", directory, error.message()));
  std::ranges::sort(names);
  return names;
}

}  // namespace

// ---- items

Json SpoolItemJson(const SpoolItem& item) {
  JsonObjectBuilder json;
  json.Add("subscription", item.subscription)
      .Add("source", item.source)
      .Add("message_id", item.message_id());
  if (const Json& key = item.plan["idempotency_key"]; !key.AsString().empty())
    json.Add("idempotency_key", key);
  json.Add("dedup_key", item.plan["dedup_key"]).Add("recv_seq", item.recv_seq);
  if (!item.lane.empty()) json.Add("ordering_key", item.lane);
  json.Add("downstream", item.downstream)
      .Add("sha256", Checksum(item))
      .Add("attempts", item.attempts)
      .Add("spooled_at_ms", item.spooled_at_ms)
      .Add("reason", item.reason)
      .Add("message", item.message);
  if (!item.body.empty()) json.Add("body", item.body);
  return json.Add("plan", item.plan).Build();
}

Result<SpoolItem> ReadSpoolItem(std::string_view text) {
  const Result<Json> json = ParseJson(text);
  if (!json || !(*json)["message"].is_object() || !(*json)["plan"].is_object())
    return Fail("invalid", "the file is no item of a spool");
  SpoolItem item{.subscription = (*json)["subscription"].ToString(),
                 .source = (*json)["source"].ToString(),
                 .recv_seq = (*json)["recv_seq"].AsUint(),
                 .lane = (*json)["ordering_key"].ToString(),
                 .downstream = (*json)["downstream"].ToString(),
                 .attempts = (*json)["attempts"].AsInt(),
                 .spooled_at_ms = (*json)["spooled_at_ms"].AsInt(),
                 .reason = (*json)["reason"].ToString(),
                 .message = (*json)["message"],
                 .body = (*json)["body"].ToString(),
                 .plan = (*json)["plan"]};
  if (Checksum(item) != (*json)["sha256"].AsString())
    return Fail("invalid", "the data of the item is not what was written");
  return item;
}

std::string SpoolKey(std::uint64_t recv_seq, std::string_view message_id) {
  std::string id(message_id.substr(0, kIdBytesMax));
  std::ranges::replace_if(
      id, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-'; }, '_');
  return fmt::format("{:020}-{}", recv_seq, id);
}

std::string SpoolRef(const SpoolItem& item) {
  return fmt::format("noetl://spool/{}/{}/{}", item.subscription, item.recv_seq, item.message_id());
}

Result<std::string> DeadLetters::Write(const SpoolItem& item) {
  NOETL_TRY(MakeDirectory(directory_));
  const std::string name = FileOf(item);
  NOETL_TRY(WriteDurably(directory_, name, WriteJson(SpoolItemJson(item)) + "\n"));
  return directory_ + "/" + name;
}

// ---- the directory

MessageSpool::MessageSpool(const SpoolSpec& spec, std::string subscription)
    : spec_(spec),
      subscription_(std::move(subscription)),
      directory_(spec.path),
      dead_letters_(spec.path + "/dlq") {}

MessageSpool::~MessageSpool() {
  if (lock_ >= 0) close(lock_);
}

Result<std::unique_ptr<MessageSpool>> MessageSpool::Open(const SpoolSpec& spec,
                                                         std::string subscription) {
  std::unique_ptr<MessageSpool> spool(new MessageSpool(spec, std::move(subscription)));
  NOETL_TRY(MakeDirectory(spool->directory_));
  NOETL_TRY(MakeDirectory(spool->dead_letters_.directory()));
  NOETL_TRY(spool->Lock());
  NOETL_TRY(spool->Load());
  return spool;
}

Status MessageSpool::Lock() {
  const std::string path = directory_ + "/lock";
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return Fail("io", fmt::format("cannot write {}", path));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  return Fail("locked", fmt::format("another listener uses the spool {}", directory_));
}

Status MessageSpool::Load() {
  NOETL_ASSIGN(const std::vector<std::string> given_up, NamesIn(dead_letters_.directory()));
  for (const std::string& name : given_up)
    next_seq_ = std::max(next_seq_, SeqOf(name).value_or(0) + 1);
  NOETL_ASSIGN(const std::vector<std::string> names, NamesIn(directory_));
  for (const std::string& name : names) {
    if (name.ends_with(".new")) NOETL_TRY(RemoveFile(directory_, name));  // never acknowledged
    const std::optional<std::uint64_t> seq = SeqOf(name);
    if (!seq) continue;
    next_seq_ = std::max(next_seq_, *seq + 1);
    NOETL_ASSIGN(const std::string text, ReadWholeFile(directory_ + "/" + name));
    const Result<SpoolItem> item = ReadSpoolItem(text);
    if (!item || item->recv_seq != *seq || FileOf(*item) != name) {
      NOETL_TRY(MoveDurably(directory_, dead_letters_.directory(), name));
      broken_.push_back(name);
      continue;
    }
    if (item->subscription != subscription_) {
      return Fail("invalid", fmt::format("the spool {} has messages of the subscription {}; give "
                                         "each subscription a spec.spool.path of its own",
                                         directory_, item->subscription));
    }
    Keep(*item, static_cast<std::int64_t>(text.size()));
  }
  return {};
}

void MessageSpool::Keep(const SpoolItem& item, std::int64_t bytes) {
  entries_[item.recv_seq] = {.name = FileOf(item),
                             .message_id = item.message_id(),
                             .lane = item.lane,
                             .downstream = item.downstream,
                             .bytes = bytes,
                             .spooled_at_ms = item.spooled_at_ms};
  bytes_ += bytes;
  if (!item.lane.empty()) ++lanes_[item.lane];
}

void MessageSpool::Forget(Entries::iterator entry) {
  bytes_ -= entry->second.bytes;
  const auto lane = lanes_.find(entry->second.lane);
  if (lane != lanes_.end() && --lane->second == 0) lanes_.erase(lane);
  entries_.erase(entry);
}

// ---- work

Result<MessageSpool::Added> MessageSpool::Add(SpoolItem item) {
  item.recv_seq = next_seq_;
  const std::string text = WriteJson(SpoolItemJson(item)) + "\n";
  const auto size = static_cast<std::int64_t>(text.size());
  Added added{.recv_seq = item.recv_seq, .ref = SpoolRef(item)};
  if (bytes_ + size > spec_.max_bytes) {
    using enum SpoolSpec::OnFull;
    if (spec_.on_full == kStopAcking || (spec_.on_full == kDropToDlq && size > spec_.max_bytes)) {
      return Fail("full", fmt::format("the spool {} holds {} of {} bytes", directory_, bytes_,
                                      spec_.max_bytes));
    }
    added.over = true;
    while (spec_.on_full == kDropToDlq && bytes_ + size > spec_.max_bytes) {
      added.given_up.push_back(entries_.begin()->second);
      NOETL_TRY(GiveUp(entries_.begin()->first));
    }
  }
  NOETL_TRY(WriteDurably(directory_, FileOf(item), text));
  ++next_seq_;
  Keep(item, size);
  return added;
}

Result<SpoolItem> MessageSpool::Read(std::uint64_t recv_seq) const {
  NOETL_ASSIGN(const std::string text,
               ReadWholeFile(directory_ + "/" + entries_.at(recv_seq).name));
  return ReadSpoolItem(text);
}

Status MessageSpool::Update(const SpoolItem& item) {
  Entry& entry = entries_.at(item.recv_seq);
  const std::string text = WriteJson(SpoolItemJson(item)) + "\n";
  NOETL_TRY(WriteDurably(directory_, entry.name, text));
  bytes_ += static_cast<std::int64_t>(text.size()) - entry.bytes;
  entry.bytes = static_cast<std::int64_t>(text.size());
  return {};
}

Status MessageSpool::Remove(std::uint64_t recv_seq) {
  const auto entry = entries_.find(recv_seq);
  NOETL_TRY(RemoveFile(directory_, entry->second.name));
  Forget(entry);
  return {};
}

Status MessageSpool::GiveUp(std::uint64_t recv_seq) {
  const auto entry = entries_.find(recv_seq);
  NOETL_TRY(MoveDurably(directory_, dead_letters_.directory(), entry->second.name));
  Forget(entry);
  return {};
}

Result<std::vector<MessageSpool::Entry>> MessageSpool::Expire(std::int64_t now_ms) {
  std::vector<Entry> expired;
  if (spec_.max_age_hours <= 0) return expired;
  const auto age_ms = static_cast<std::int64_t>(spec_.max_age_hours * kMillisPerHour);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto current = entry++;
    if (now_ms - current->second.spooled_at_ms < age_ms) continue;
    expired.push_back(current->second);
    NOETL_TRY(Remove(current->first));
  }
  return expired;
}

}  // namespace noetl::worker
