// Connections that read, a few at a time.
//
// A reader takes one, uses it on its own thread and gives it back. Reads never wait for the writer.
// Safe to use from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/sqlite/connection.h"

namespace noetl::store {

class ReadPool {
 public:
  // `mode` is kRead, or kImmutable when the file cannot change.
  ReadPool(std::string path, std::string vfs, Connection::Mode mode)
      : path_(std::move(path)), vfs_(std::move(vfs)), mode_(mode) {}

  // A connection that goes back to the pool when it is let go.
  class Lease {
   public:
    Lease(ReadPool* pool, std::unique_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    ~Lease() {
      if (connection_) pool_->GiveBack(std::move(connection_));
    }
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    Connection* operator->() { return connection_.get(); }
    Connection& operator*() { return *connection_; }

   private:
    ReadPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  Result<Lease> Take();
  struct Load {
    std::int64_t in_use = 0;
    std::int64_t idle = 0;
  };
  Load load() const;

 private:
  void GiveBack(std::unique_ptr<Connection> connection);

  const std::string path_;
  const std::string vfs_;
  const Connection::Mode mode_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Connection>> idle_;
  std::int64_t in_use_ = 0;
};

}  // namespace noetl::store
