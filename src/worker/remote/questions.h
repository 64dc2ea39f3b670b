// What commands ask the server for while they run: stored bodies, secrets, children.
//
// Secrets are kept for a short time in memory as text that is wiped when it goes; how often the
// others are asked for again is their asker's business. Answers come from the loop. Lives on the
// loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/event_loop.h"
#include "bus/link.h"
#include "worker/remote/sealed.h"
#include "worker/remote/server_client.h"

namespace noetl::worker {

// Texts that are wiped when they expire, are pushed out or are let go. One thread.
class SecretCache {
 public:
  using Key = std::pair<std::string, std::int64_t>;  // name, run

  SecretCache(std::size_t entries_max, std::int64_t keep_us)
      : entries_max_(entries_max), keep_us_(keep_us) {}
  ~SecretCache();
  SecretCache(const SecretCache&) = delete;
  SecretCache& operator=(const SecretCache&) = delete;

  // nullptr: not known, or too old.
  const std::string* Find(const Key& key, std::int64_t now_us);
  void Add(const Key& key, std::string text, std::int64_t now_us);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string text;
    std::int64_t until_us = 0;
  };
  void Remove(std::map<Key, Entry>::iterator entry);

  std::size_t entries_max_;
  std::int64_t keep_us_;
  std::map<Key, Entry> entries_;
};

class Questions {
 public:
  struct Parts {
    EventLoop* loop = nullptr;
    Clock* clock = nullptr;
    ServerClient* client = nullptr;
    // Given: credentials are asked for in sealed form, as this worker, and in no other.
    const SealKey* seal = nullptr;
    std::string worker_id;
    std::int64_t request_timeout_ms = 30'000;
    std::int64_t secret_retry_ms = 250;  // the first of three, each four times longer
    std::int64_t child_wait_ms = 25'000;
    std::int64_t child_retry_ms = 500;
  };

  explicit Questions(Parts parts);
  ~Questions();

  void Load(const std::string& ref, bus::ServerEnd::Loaded loaded);
  void FindSecret(std::string alias, std::int64_t execution_id, bus::ServerEnd::Loaded found);
  void RunChild(bus::ChildCall call, bus::ServerEnd::ChildDone done);
  // The command is not wanted any more: nobody waits for its children.
  void Forget(const std::string& command_id);

 private:
  struct Secret;
  struct Child;

  void AskSecret(Secret* secret);
  void SecretAnswered(Secret* secret, Result<Json> answer);
  void EndSecret(Secret* secret, Result<Json> found);
  void StartChild(Child* child);
  void AwaitChild(Child* child);
  void ChildAnswered(Child* child, Result<Json> answer);
  void AskChildResult(Child* child);
  void ChildResult(Child* child, Result<Json> answer);
  void ChildLater(Child* child, std::int64_t delay_ms, void (Questions::*next)(Child*));
  void EndChild(Child* child, Result<engine::ChildEnd> end);

  Parts parts_;
  SecretCache cache_;
  std::list<std::unique_ptr<Secret>> secrets_;
  std::list<std::unique_ptr<Child>> children_;
};

}  // namespace noetl::worker
