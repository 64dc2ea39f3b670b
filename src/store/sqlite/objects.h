// Large bodies as files beside the database: objects/<execution id>/<sha256>.json for results of
// runs, objects/named/<sha256 of the name>-<sha256> for bytes under a name.
//
// A file appears under its name only when it is whole and durable. Any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace noetl::store {

class ObjectFiles {
 public:
  // `root` is made with the first object.
  explicit ObjectFiles(std::string root) : root_(std::move(root)) {}

  // Stores the text; gives the key to find it by. The same content has the same key.
  Result<std::string> Put(std::int64_t execution_id, std::string_view sha256_hex,
                          std::string_view data) const;
  Result<std::string> PutNamed(std::string_view name, std::string_view sha256_hex,
                               std::string_view data) const;
  Result<std::string> Read(const std::string& key) const;
  // All objects of a run but those with these keys. What cannot be removed stays: nothing refers to
  // it any more.
  void RemoveAll(std::int64_t execution_id, const std::set<std::string>& kept = {}) const;
  void Remove(const std::string& key) const;

  const std::string& root() const { return root_; }

 private:
  Result<std::string> PutFile(const std::string& folder, const std::string& name,
                              std::string_view data) const;

  std::string root_;
};

}  // namespace noetl::store
