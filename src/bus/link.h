// What a conductor and a worker say to each other, and the two ends of the line.
//
// In one process the ends call each other directly; over a network the same words travel as
// requests. Both ends may be called from any thread; callbacks come on any thread, so each side
// posts them to its own reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/unit.h"

namespace noetl::bus {

// A command that is this worker's now.
struct Grant {
  std::int64_t execution_id = 0;
  std::string command_id;
  std::int64_t event_id = 0;  // of its command.issued
  std::string path;           // of the playbook
  std::string step;
  std::string tool_kind;  // "task_sequence" for a pipeline
  Json context;           // engine/command.h
  Json meta;              // of command.issued
  std::int64_t claim_token = 0;
  bool strict = false;            // the profile of the run
  std::int64_t inline_bytes = 0;  // a larger result is stored and referred to
};

// Text of a tool's process.
struct LogText {
  std::string stream;  // stdout, stderr
  std::int64_t offset = 0;
  std::string text;
};

// What a worker says of a command it holds.
struct Report {
  std::int64_t execution_id = 0;
  std::string command_id;
  std::int64_t event_id = 0;  // of its command.issued
  std::int64_t claim_token = 0;
  std::string worker_id;
  std::string step;
  std::vector<engine::Event> events;  // not numbered yet; ids are the worker's
  std::vector<engine::StoredBody> bodies;
  std::vector<LogText> logs;
  bool ends = false;  // the last report: the worker's slot is free
};

// A sub-playbook that a task of a pipeline runs and waits for.
struct ChildCall {
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;
  std::string parent_step;
  std::string key;  // "<task>:<visit>": the call within its command
  std::string path;
  Json version;  // number, or null for the newest
  Json payload;
  std::string return_step;
  std::int64_t depth = 0;  // of the child, counted from the root
  bool wait = true;        // false: answered as soon as the child has started
  std::string pool;
};

// The conductor's end, called by workers.
class ServerEnd {
 public:
  using Sent = std::move_only_function<void(Status)>;
  using Loaded = std::move_only_function<void(Result<Json>)>;
  using ChildDone = std::move_only_function<void(Result<engine::ChildEnd>)>;

  virtual ~ServerEnd() = default;
  // `sent` is called when the report is durable, or with the reason why it never will be:
  // "superseded", "cancelled", "already_terminal", "stale_claim".
  virtual void Send(Report report, Sent sent) = 0;
  virtual void Load(std::string ref, Loaded loaded) = 0;
  // Starts a child; `done` is called when it has ended (status COMPLETED, FAILED or CANCELLED; with
  // wait false: "STARTED" at once).
  virtual void RunChild(ChildCall call, ChildDone done) = 0;
  // The secret of this name for a command of the run: {name, type, data}. "not_found" when nobody
  // knows it, "unavailable" when it may be found later.
  virtual void FindSecret(std::string alias, std::int64_t execution_id, Loaded found) = 0;
  // A command of the worker begins (+1) or ends (-1) to wait for something that needs no worker: a
  // retry's delay, a child. Meanwhile another command may have its slot.
  virtual void FreeSlots(int change) = 0;
};

// The worker's end, called by a conductor.
class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  virtual void Run(std::vector<Grant> grants) = 0;
  // The command is not wanted any more: its tool is stopped and nothing is reported. Commands that
  // the worker does not hold are ignored.
  virtual void Stop(std::vector<std::string> command_ids) = 0;
};

}  // namespace noetl::bus
