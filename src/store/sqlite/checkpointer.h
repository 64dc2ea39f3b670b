// Moves the write-ahead log into the database while commits go on.
//
// A checkpoint of the committing thread would make one commit wait for all that is to be moved. A
// helper thread moves the bulk; only the little that was written meanwhile is left to the committing
// thread, which then starts the log over. The thread sleeps until it is asked.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "store/sqlite/connection.h"

namespace noetl::store {

class Checkpointer {
 public:
  Checkpointer(std::string path, std::string vfs) : path_(std::move(path)), vfs_(std::move(vfs)) {}
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Called by the committing thread after each commit with the size of the log. `connection` is its
  // own.
  void AfterCommit(Connection& connection, std::int64_t log_frames);

 private:
  enum class State { kIdle, kAsked, kMoved };

  void Loop();
  void MoveBulk();

  const std::string path_;
  const std::string vfs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable moved_;
  bool stop_ = false;                       // guarded by mutex_
  State state_ = State::kIdle;              // guarded by mutex_
  std::unique_ptr<Connection> connection_;  // of the thread
  std::thread thread_;
};

}  // namespace noetl::store
