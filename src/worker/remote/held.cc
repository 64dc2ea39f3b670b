#include "worker/remote/held.h"

#include <algorithm>

namespace noetl::worker {
namespace {

constexpr std::int64_t kMicrosPerMilli = 1'000;

}  // namespace

bool Held::Add(const Granted& granted, std::int64_t since_us, std::int64_t taken_us) {
  const bus::Grant& grant = granted.grant;
  const std::int64_t lease_us = granted.lease_ms * kMicrosPerMilli;
  return commands_
      .try_emplace(grant.command_id, HeldCommand{.execution_id = grant.execution_id,
                                                 .event_id = grant.event_id,
                                                 .claim_token = grant.claim_token,
                                                 .lease_us = lease_us,
                                                 .until_us = since_us + lease_us,
                                                 .tool_kind = grant.tool_kind,
                                                 .taken_us = taken_us})
      .second;
}

const HeldCommand* Held::Find(std::string_view command_id) const {
  const auto found = commands_.find(command_id);
  return found == commands_.end() ? nullptr : &found->second;
}

std::string Held::IdOf(const CommandName& name) const {
  if (commands_.contains(name.command_id)) return name.command_id;
  for (const auto& [id, command] : commands_) {
    if (name.event_id != 0 && command.event_id == name.event_id) return id;
  }
  return "";
}

void Held::Ended(std::string_view command_id) {
  const auto found = commands_.find(command_id);
  if (found != commands_.end()) found->second.runs = false;
}

bool Held::Remove(std::string_view command_id) {
  const auto found = commands_.find(command_id);
  if (found == commands_.end()) return false;
  commands_.erase(found);
  return true;
}

Json Held::Renewal() const {
  std::vector<Json> list;
  list.reserve(commands_.size());
  for (const auto& [id, command] : commands_) {
    list.push_back(
        Json::Object({{"event_id", command.event_id}, {"claim_token", command.claim_token}}));
  }
  return Json::Array(std::move(list));
}

void Held::Renewed(const Json& renewal, std::int64_t since_us) {
  std::map<std::int64_t, std::int64_t> tokens;
  for (const Json& item : renewal.items())
    tokens[item["event_id"].AsInt()] = item["claim_token"].AsInt();
  for (auto& [id, command] : commands_) {
    const auto found = tokens.find(command.event_id);
    if (found == tokens.end() || found->second != command.claim_token) continue;
    command.until_us = std::max(command.until_us, since_us + command.lease_us);
  }
}

bool Held::Expired(std::string_view command_id, std::int64_t now_us) const {
  const HeldCommand* command = Find(command_id);
  return command == nullptr || command->until_us <= now_us;
}

std::vector<std::string> Held::Expired(std::int64_t now_us) const {
  std::vector<std::string> ids;
  for (const auto& [id, command] : commands_) {
    if (command.runs && command.until_us <= now_us) ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> Held::RunningIds() const {
  std::vector<std::string> ids;
  for (const auto& [id, command] : commands_) {
    if (command.runs) ids.push_back(id);
  }
  return ids;
}

std::optional<std::int64_t> Held::NextEndUs() const {
  std::optional<std::int64_t> next;
  for (const auto& [id, command] : commands_) {
    if (command.runs && (!next || command.until_us < *next)) next = command.until_us;
  }
  return next;
}

std::optional<std::int64_t> Held::ShortestLeaseUs() const {
  std::optional<std::int64_t> shortest;
  for (const auto& [id, command] : commands_) {
    if (!shortest || command.lease_us < *shortest) shortest = command.lease_us;
  }
  return shortest;
}

std::size_t Held::running() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(commands_, [](const auto& entry) { return entry.second.runs; }));
}

}  // namespace noetl::worker
