// Messages that could not be delivered yet, on the local disk, and those that never could.
//
// An item is a file; it is on the disk when `Add` comes back, so its message may be acknowledged. The
// order is that of arrival, across restarts. One process uses a spool at a time: it holds a lock in
// its directory. Below it, `dlq` has the items that were given up. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

struct SpoolItem {
  std::string subscription;
  std::string source;
  std::uint64_t recv_seq = 0;  // given by the spool
  std::string lane;            // messages of one lane keep their order; empty: of none
  std::string downstream;
  std::int64_t attempts = 0;  // that were answered, and refused
  std::int64_t spooled_at_ms = 0;
  std::string reason;
  Json message;
  std::string body;  // as the message came, when that is what the run gets
  Json plan;

  std::string message_id() const { return message["id"].ToString(); }
};

Json SpoolItemJson(const SpoolItem& item);
// "invalid": it is no item, or its data is not what was written.
Result<SpoolItem> ReadSpoolItem(std::string_view text);
// The name of its file: the sequence, then the id as far as a file can have it.
std::string SpoolKey(std::uint64_t recv_seq, std::string_view message_id);
// "noetl://spool/<subscription>/<seq>/<id>"
std::string SpoolRef(const SpoolItem& item);

// A directory of items that were given up.
class DeadLetters {
 public:
  explicit DeadLetters(std::string directory) : directory_(std::move(directory)) {}
  const std::string& directory() const { return directory_; }
  // Gives the file. On the disk when it comes back.
  Result<std::string> Write(const SpoolItem& item);

 private:
  std::string directory_;
};

class MessageSpool {
 public:
  struct Entry {
    std::string name;  // of its file
    std::string message_id;
    std::string lane;
    std::string downstream;
    std::int64_t bytes = 0;
    std::int64_t spooled_at_ms = 0;
  };
  // By sequence.
  using Entries = std::map<std::uint64_t, Entry>;

  // Reads what an earlier process left. Errors: "io", "locked", "invalid" when it belongs to another
  // subscription.
  static Result<std::unique_ptr<MessageSpool>> Open(const SpoolSpec& spec,
                                                    std::string subscription);
  ~MessageSpool();
  MessageSpool(const MessageSpool&) = delete;
  MessageSpool& operator=(const MessageSpool&) = delete;

  const Entries& entries() const { return entries_; }
  std::int64_t bytes() const { return bytes_; }
  bool HasLane(const std::string& lane) const { return lanes_.contains(lane); }
  const std::string& directory() const { return directory_; }
  DeadLetters& dead_letters() { return dead_letters_; }
  // Files that were no items when it was opened; they were moved to the dead letters.
  const std::vector<std::string>& broken() const { return broken_; }

  struct Added {
    std::uint64_t recv_seq = 0;
    std::string ref;
    bool over = false;            // more than it should hold
    std::vector<Entry> given_up;  // moved to the dead letters to make room
  };
  // A sequence for an item that is given up at once.
  std::uint64_t TakeSeq() { return next_seq_++; }
  // Error "full": there is no room and none is made.
  Result<Added> Add(SpoolItem item);
  // "invalid" when the file is damaged.
  Result<SpoolItem> Read(std::uint64_t recv_seq) const;
  Status Update(const SpoolItem& item);
  Status Remove(std::uint64_t recv_seq);
  Status GiveUp(std::uint64_t recv_seq);
  // Removes what is older; gives what it was.
  Result<std::vector<Entry>> Expire(std::int64_t now_ms);

 private:
  MessageSpool(const SpoolSpec& spec, std::string subscription);
  Status Lock();
  Status Load();
  void Keep(const SpoolItem& item, std::int64_t bytes);
  void Forget(Entries::iterator entry);

  SpoolSpec spec_;
  std::string subscription_;
  std::string directory_;
  DeadLetters dead_letters_;
  int lock_ = -1;
  Entries entries_;
  std::map<std::string, std::int64_t> lanes_;  // items of each
  std::int64_t bytes_ = 0;
  std::uint64_t next_seq_ = 1;
  std::vector<std::string> broken_;
};

}  // namespace noetl::worker
