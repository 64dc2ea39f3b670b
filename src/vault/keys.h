// Master keys: what data keys are wrapped with.
//
// From NOETL_ENCRYPTION_KEYS (JSON {current, keys: {version: base64}}), else NOETL_ENCRYPTION_KEY
// (base64 of 32 bytes, version "v1"), else the file `<data>/key` of an embedded server, which is
// made with mode 0600 at the first start. A new file is never made when records exist that it could
// not open. Immutable, any thread; keys are wiped at the end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/result.h"
#include "base/settings.h"

namespace noetl::vault {

using MasterKey = crypto::Key;

class Keys {
 public:
  // `directory` empty: no key file. `has_records`: whether encrypted records exist already. Errors
  // "key": name the variable or file and say what is wrong with it.
  static Result<std::shared_ptr<const Keys>> Load(const Settings& settings,
                                                  const std::string& directory, bool has_records);
  static Result<std::shared_ptr<const Keys>> FromText(std::string_view base64);
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // The version that new records are wrapped with.
  const std::string& current() const { return current_; }
  // Where the keys come from, as records tell it: "env:NOETL_ENCRYPTION_KEY" or "file:key".
  const std::string& source() const { return source_; }
  // Null: no such version.
  const MasterKey* Find(std::string_view version) const;

 private:
  Keys() = default;
  friend class KeysLoader;
  std::string current_ = "v1";
  std::string source_ = "env:NOETL_ENCRYPTION_KEY";
  std::map<std::string, MasterKey, std::less<>> keys_;
};

// What binds a record of version 2 to its row.
std::string EnvelopeAad(std::string_view table, std::string_view primary_key);

// One value encrypted under a data key of its own, which is wrapped with the current master key;
// and back. {"v":1,"alg":"AES-256-GCM","ct":...,"dek":{"p":"local","kid":...,"kv":...,"ct":...}}.
// With `aad` version 2 is made, which opens in its own row only; records of version 1 open whatever
// the `aad`. Errors "decrypt"; the message never holds a part of the record.
std::string SealEnvelope(const Keys& keys, std::string_view plain, std::string_view aad = "");
Result<std::string> OpenEnvelope(const Keys& keys, std::string_view envelope,
                                 std::string_view aad = "");
// The same record with its data key wrapped by the current master key; the payload stays as it is.
Result<std::string> RewrapEnvelope(const Keys& keys, std::string_view envelope,
                                   std::string_view aad = "");
// The version of the master key that a record was wrapped with.
Result<std::string> EnvelopeKeyVersion(std::string_view envelope);

}  // namespace noetl::vault
