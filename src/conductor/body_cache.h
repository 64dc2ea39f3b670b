// Stored bodies that decisions have asked for.
//
// Results never change, so they stay for the next decision while there is room; contexts of commands
// and lists of loops are kept for one decision only. One lane's own, one thread.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "engine/result.h"
#include "store/store.h"

namespace noetl::conductor {

// A collection that a loop reads again and again should fit.
inline constexpr std::size_t kBodyCacheBytesMax = 64u << 20;

class BodyCache final : public engine::Bodies {
 public:
  explicit BodyCache(const store::Results* results) : results_(results) {}

  Result<const Json*> Find(std::string_view ref) const override;

  // Reads the body from the store; a later `Find` gives it, or the reason why there is none.
  void Load(const std::string& ref);
  // A body that came with a report and is not stored yet.
  void Add(const std::string& ref, Json body);
  // The decision is over.
  void Trim();

 private:
  struct Entry {
    Result<Json> body;
    std::size_t bytes = 0;
    bool lasting = false;
  };
  void Put(const std::string& ref, Entry entry);

  const store::Results* results_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::list<std::string> order_;  // lasting ones, oldest first
  std::size_t bytes_ = 0;
};

}  // namespace noetl::conductor
