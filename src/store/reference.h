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
  std::string name;     // of a result, or the step of a loop; may hold '/'. As it stands there
  std::int64_t id = 0;  // of the result, of the command's event, or the run of the loop
};

// nullopt: not a reference of ours.
std::optional<Reference> ParseReference(std::string_view ref);

// The reference of a result that was put: its name percent-encoded but for '/', since anything may
// be in it. References in logs have names as they are, so both forms are read.
std::string ResultReference(std::int64_t execution_id, std::string_view name, std::int64_t id);
// Whether the name in a reference means this name.
bool IsNamed(std::string_view in_reference, std::string_view name);

// "noetl://<tenant>/<project>/results/<run>/<step>/<frame>/<row>/<attempt>": a result that a worker
// stored as an object.
struct ObjectReference {
  std::string tenant;
  std::string project;
  // "execution=<run>/results/<step>/<frame>/<row>/<attempt>.json": how the object's key ends.
  std::string tail;

  // Whether the object may be meant: a key need not name tenant and project.
  bool Fits(std::string_view key) const;
};

// nullopt: not such a reference.
std::optional<ObjectReference> ParseObjectReference(std::string_view ref);

// The part of an object's key from its first "execution=" part on; empty: it belongs to no run.
std::string_view ObjectTail(std::string_view key);

}  // namespace noetl::store
