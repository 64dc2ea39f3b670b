// References to what is stored outside the log. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace noetl::store {

struct Reference {
  enum class Kind { kResult, kCommand, kLoop };
  Kind kind = Kind::kResult;
  std::int64_t execution_id = 0;
  std::string name;     // of a result, or the step of a loop; may hold '/'
  std::int64_t id = 0;  // of the result, of the command's event, or the run of the loop
};

// nullopt: not a reference of ours.
std::optional<Reference> ParseReference(std::string_view ref);

}  // namespace noetl::store
