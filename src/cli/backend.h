// The store of a data directory and whoever makes its runs go: this process, or the one that owns it.
//
// Commands that start or stop runs use this and need not know which of the two it is. When the other
// process goes away, `TakeOver` makes this one the owner. Methods are called from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/settings.h"
#include "cli/control.h"
#include "cli/node.h"
#include "conductor/conductor.h"
#include "store/store.h"

namespace noetl::cli {

class Backend {
 public:
  // `settings` and `listener` outlive the backend. Errors: those of Node::Open, and "locked" when
  // the owner does not answer either.
  static Result<std::unique_ptr<Backend>> Open(std::string directory, const Settings* settings,
                                               conductor::Listener* listener);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Whether the runs go in this process; the listener is told of them only then.
  bool owns() const { return node_ != nullptr; }
  const store::Store& store() const { return node_ ? node_->store() : *reader_; }
  std::int64_t NowMicros() { return clock_.NowMicros(); }

  // The id of the catalog entry.
  Result<std::int64_t> Register(const std::string& path, const std::string& content);
  // `known` gets the id of the run before its first event. Starting is repeated under the same id
  // when the owner goes away meanwhile.
  Result<std::int64_t> Start(std::int64_t catalog_id, const Json& payload,
                             const std::function<void(std::int64_t)>& known);
  // Done when the end is stored. A run that has ended already is no error.
  Status Cancel(std::int64_t execution_id, const std::string& reason);
  // Only when this process owns the runs.
  void StopTools(std::move_only_function<void()> stopped) { node_->StopTools(std::move(stopped)); }

  // Takes the directory when its owner has gone; false: it is still there.
  Result<bool> TakeOver();

 private:
  Backend() = default;
  Status OpenReader();
  // One request to the owner. When it went away this process takes over or finds the next owner;
  // null: the node is here now.
  Result<Json> Ask(const Json& request);
  Status FindOwner();
  void Serve();

  std::string directory_;
  const Settings* settings_ = nullptr;
  conductor::Listener* listener_ = nullptr;
  SystemClock clock_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ControlServer> control_;  // before the node goes
  std::unique_ptr<store::Store> reader_;    // while somebody else owns the directory
};

struct OpenRun {
  std::int64_t execution_id = 0;
  std::int64_t parent_execution_id = 0;
  bool begun = true;
};
// Runs that have not ended, also those that another run has asked for and that have not begun. The
// first kOpenRunsMax.
Result<std::vector<OpenRun>> OpenRunsOf(const store::Store& store);
inline constexpr std::int64_t kOpenRunsMax = 1'000;

// A message for people about an error of a store or its owner: what happened and what to do.
std::string Advice(const Error& error);
// Prints that for a command, and gives the exit code back.
int Complain(std::string_view command, const Error& error, Console& console, int code);

}  // namespace noetl::cli
