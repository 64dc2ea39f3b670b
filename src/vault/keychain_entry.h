// What one keychain entry says, and its fields with templates rendered.
//
// Pure functions over JSON; any thread. Errors name the entry and the field and hold no rendered
// value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/scope.h"

namespace noetl::vault {

enum class EntryKind : std::uint8_t {
  kCredential,
  kBearer,
  kStatic,
  kEnvironment,
  kFile,
  kVault,
  kKubernetes,
  kHttp,
};

struct Entry {
  std::string name;
  EntryKind kind = EntryKind::kCredential;
  std::string kind_name;  // as written, or what the other fields imply
  std::string scope;      // local, global, shared
  std::int64_t ttl_seconds = 0;
  bool auto_renew = false;
  Json fields;

  // A provider of secrets as opposed to an issuer of tokens.
  bool is_provider() const { return kind == EntryKind::kVault || kind == EntryKind::kKubernetes; }
  // Comes over the network and is therefore kept.
  bool is_remote() const { return is_provider() || kind == EntryKind::kHttp; }
};

// "keychain entry 'x': ..." with this code.
std::unexpected<Error> EntryError(std::string_view code, std::string_view entry,
                                  std::string_view what);

// Errors "invalid", "unsupported".
Result<Entry> ReadEntry(const Json& entry);

// Indices of the entries before `index` that its templates name.
std::vector<std::size_t> EarlierEntries(const Json& entries, std::size_t index,
                                        const Json& workload);

// Renders fields of one entry. A template that gives nothing where a text is needed is an error:
// nobody should be called without a secret by accident. Errors "template", "invalid".
class EntryRenderer {
 public:
  // `earlier`: values of entries by name.
  EntryRenderer(const Entry& entry, const Json& workload, const Json& earlier,
                std::int64_t execution_id, std::int64_t catalog_id);

  bool Has(std::string_view field) const { return !entry_.fields[field].is_null(); }
  Result<Json> Value(std::string_view field) const;
  // A text that is not blank.
  Result<std::string> Text(std::string_view field) const;
  // A map of scalars or more; none of them null.
  Result<Json> Map(std::string_view field) const;
  const Entry& entry() const { return entry_; }

 private:
  Entry entry_;
  engine::Scope scope_;
};

// A value as one text: a string is itself, anything else its JSON.
std::string TextOf(const Json& value);

}  // namespace noetl::vault
