// Records on disk that must not be lost: what a worker has to say while nobody listens.
//
// An append-only file of framed records with a checksum each. A record is added, later marked as
// done; when all are done the file is emptied. A record that was cut by a crash, and everything
// behind it, is ignored by the next reader. The file belongs to one process at a time. One thread;
// writing blocks it, which is why only what could not be sent comes here.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace noetl::worker {

class Spool {
 public:
  struct Record {
    std::uint64_t id = 0;
    std::string text;
  };

  // Errors: "locked" when another process has the file, "io".
  static Result<std::unique_ptr<Spool>> Open(const std::string& path, std::int64_t bytes_max);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // What an earlier process left, oldest first; once.
  std::vector<Record> TakeFound() { return std::move(found_); }

  // Adds a record and gives its id. It is safe after the next Sync. "full": the file has its size.
  Result<std::uint64_t> Add(std::string_view text);
  Status Sync();
  void Done(std::uint64_t id);

  // Whether the file has reached its size: no more work should be begun.
  bool full() const { return full_; }
  std::size_t open_records() const { return open_.size(); }
  std::int64_t bytes() const { return size_; }

 private:
  Spool(int descriptor, std::string path, std::int64_t bytes_max)
      : descriptor_(descriptor), path_(std::move(path)), bytes_max_(bytes_max) {}
  Status Read();
  Status Write(std::string_view bytes);
  Status Cut(std::int64_t size);
  Error Failure(std::string_view what) const;

  int descriptor_;
  std::string path_;
  std::int64_t bytes_max_;
  std::int64_t size_ = 0;
  std::uint64_t last_id_ = 0;
  bool full_ = false;
  std::set<std::uint64_t> open_;
  std::vector<Record> found_;
};

}  // namespace noetl::worker
