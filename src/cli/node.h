// Everything of one machine in one process: store, conductor, worker and their threads.
//
// Opening a node takes the lock of its data directory, opens the store, starts the threads and takes
// up what an earlier process left undone. Closing it lets running units reach the disk; tools that
// still run are killed, and the next process runs their commands again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/settings.h"
#include "cli/console.h"
#include "cli/node_secrets.h"
#include "conductor/conductor.h"
#include "store/directory.h"
#include "store/store.h"
#include "worker/process.h"
#include "worker/worker.h"

namespace noetl::cli {

struct NodeOptions {
  std::string directory;
  const Settings* settings = nullptr;
  conductor::Listener* listener = nullptr;  // may be null; outlives the node
  bool worker = true;                       // false: commands wait for workers elsewhere
  bool refuse_early = false;                // conductor::ConductorOptions
};

class Node {
 public:
  // "locked" when another process has the directory; errors of the store otherwise.
  static Result<std::unique_ptr<Node>> Open(NodeOptions options);
  ~Node();

  store::Store& store() { return *store_; }
  conductor::Conductor& conductor() { return *conductor_; }
  Clock& clock() { return clock_; }
  IdSource& ids() { return *ids_; }
  vault::Vault& vault() { return *vault_; }
  conductor::SecretSource& secrets() { return *secrets_; }

  // No new work is begun and all tools are asked to stop; `stopped` is called (on another thread)
  // when none runs any more. What they did is not recorded.
  void StopTools(std::move_only_function<void()> stopped);

 private:
  Node() = default;
  Status OpenVault();
  void RunLoops();
  void Maintain();

  NodeOptions options_;
  SystemClock clock_;
  std::unique_ptr<store::DirectoryLock> lock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<SnowflakeIds> ids_;
  std::unique_ptr<vault::Vault> vault_;
  std::unique_ptr<NodeSecrets> secrets_;
  std::vector<std::unique_ptr<EventLoop>> lane_loops_;
  std::unique_ptr<EventLoop> worker_loop_;
  std::unique_ptr<conductor::ThreadCommitter> committer_;
  std::unique_ptr<conductor::Conductor> conductor_;
  std::unique_ptr<worker::Supervisor> supervisor_;
  std::unique_ptr<worker::ToolRegistry> tools_;
  std::unique_ptr<worker::Worker> worker_;
  std::vector<std::thread> threads_;
};

// How the worker of this process, or a process of its own, is to run its commands.
worker::WorkerOptions WorkerOptionsOf(const Settings& settings, std::string worker_id);

// The environment of this process.
Settings::Variables ProcessEnvironment();
// The settings of this process: its environment and, over it, what the command line gave. Problems
// go to the error stream and null comes back.
std::unique_ptr<Settings> LoadSettings(const Settings::Variables& overrides, Console& console);

// The data directory: `given` (--data), else NOETL_DATA_DIR, else ./.noetl.
std::string DataDirectory(const Settings& settings, const std::string& given);

}  // namespace noetl::cli
