// The reading half of the store: one function a question, each with its SQL beside it.
//
// Any thread; every call sees the units that were committed before it began.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/sqlite/objects.h"
#include "store/sqlite/read_pool.h"
#include "store/store.h"

namespace noetl::store {

class Reader {
 public:
  Reader(ReadPool* pool, const ObjectFiles* objects) : pool_(pool), objects_(objects) {}

  Result<std::vector<engine::Event>> ReadEvents(std::int64_t execution_id, std::int64_t after_seq,
                                                std::int64_t limit) const;
  Result<std::vector<EventRow>> ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                         std::int64_t limit) const;
  Result<std::optional<engine::Event>> FindEvent(std::int64_t execution_id,
                                                 std::int64_t event_id) const;
  Result<std::optional<engine::Event>> FindEvent(std::int64_t event_id) const;
  Result<std::optional<engine::Event>> FindWorkerEvent(std::int64_t command_id,
                                                       std::string_view type_name) const;
  Result<std::vector<engine::Event>> ReadNewest(std::int64_t execution_id, std::int64_t before_seq,
                                                std::string_view type_name,
                                                std::int64_t limit) const;

  Result<std::optional<ExecutionRow>> Find(std::int64_t execution_id) const;
  Result<std::vector<ExecutionRow>> List(const ExecutionFilter& filter) const;
  Result<std::vector<ExecutionRow>> Open(std::int64_t after_id, std::int64_t limit) const;
  Result<ExecutionCounts> Count(std::int64_t started_after_us) const;

  Result<std::vector<CommandRow>> OpenCommands(std::int64_t after_id, std::int64_t limit) const;
  Result<std::optional<CommandRow>> FindCommand(std::int64_t command_id) const;
  Result<std::vector<CommandRow>> CommandsOf(std::int64_t execution_id, std::int64_t after_id,
                                             std::int64_t limit) const;
  Result<std::vector<TimerRow>> DueTimers(std::int64_t until_us, std::int64_t limit) const;
  Result<std::optional<std::int64_t>> NextDueUs(std::int64_t after_us) const;
  Result<std::vector<MessageRow>> Messages(std::int64_t after_id, std::int64_t limit) const;

  Result<Json> Load(std::string_view ref) const;
  Result<std::vector<LoopRow>> LoopRows(std::int64_t execution_id, std::string_view step,
                                        std::int64_t run, std::int64_t from,
                                        std::int64_t limit) const;
  Result<std::optional<SnapshotRow>> LoadSnapshot(std::int64_t execution_id) const;

  Result<std::vector<LogChunk>> ReadLogs(std::int64_t execution_id, std::int64_t command_id,
                                         std::int64_t after, std::int64_t limit) const;

 private:
  Result<Json> LoadResult(std::string_view ref, std::int64_t execution_id, std::string_view name,
                          std::int64_t id) const;
  Result<Json> LoadLoop(std::string_view ref, std::int64_t execution_id, std::string_view step,
                        std::int64_t run) const;

  ReadPool* pool_;
  const ObjectFiles* objects_;
};

}  // namespace noetl::store
