#include "vault/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"

namespace noetl::vault {
namespace {

constexpr std::string_view kOneKey = "NOETL_ENCRYPTION_KEY";
constexpr std::string_view kManyKeys = "NOETL_ENCRYPTION_KEYS";
constexpr std::string_view kInsecure = "NOETL_ALLOW_INSECURE_DEFAULT_KEY";
constexpr std::string_view kFirstVersion = "v1";
// More versions than anybody rotates through; each costs a map entry.
constexpr std::size_t kVersionsMax = 64;
// Versions are words for people: they go into every record and into reports.
constexpr std::size_t kVersionBytesMax = 64;
// A key file is one line of 44 characters; anything much longer is another file.
constexpr std::size_t kFileBytesMax = 256;

std::unexpected<Error> BadKey(std::string_view where, std::string_view what) {
  return Fail("key", fmt::format("{}: {}", where, what));
}

std::unexpected<Error> SystemError(std::string_view where, int code = errno) {
  return BadKey(where, std::strerror(code));
}

Result<MasterKey> ParseKey(std::string_view where, std::string_view text) {
  std::optional<std::string> bytes = crypto::Base64Decode(Trim(text));
  if (!bytes) return BadKey(where, "is not base64 (standard alphabet, with padding)");
  const crypto::WipeAtEnd wipe(*bytes);
  const std::optional<MasterKey> key = crypto::KeyFrom(*bytes);
  if (!key) return BadKey(where, fmt::format("holds {} bytes, not 32", bytes->size()));
  return *key;
}

// nullopt: there is no such file.
Result<std::optional<MasterKey>> ReadKeyFile(const std::string& path) {
  // Not blocking: the name of a pipe must not hold up the start.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    return SystemError(path);
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return SystemError(path);
  if (!S_ISREG(info.st_mode)) return BadKey(path, "is not a file");
  if ((info.st_mode & 0077) != 0) {
    return BadKey(path, fmt::format("may be read by others (mode {:04o}); give it mode 0600, and "
                                    "think about who may have read it",
                                    info.st_mode & 07777));
  }
  std::string text(kFileBytesMax + 1, '\0');
  const crypto::WipeAtEnd wipe(text);
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length > kFileBytesMax) return BadKey(path, "is too long for a key");
  NOETL_ASSIGN(const MasterKey key, ParseKey(path, std::string_view(text).substr(0, length)));
  return key;
}

Status WriteWhole(const Descriptor& file, std::string_view text, const std::string& path) {
  if (const int code = WriteAll(file, text)) return SystemError(path, code);
  if (fsync(file.get()) != 0) return SystemError(path);
  return {};
}

// The key is whole on disk before it gets its name, and the name is never taken from another file:
// a crash leaves a whole key or none, and of two processes both use the key of the first.
Status MakeKeyFile(const std::string& directory, const std::string& path) {
  MasterKey key;
  const crypto::WipeAtEnd wipe_key(key);
  crypto::RandomBytes(key);
  std::string line = crypto::Base64Encode(crypto::AsText(key)) + "\n";
  const crypto::WipeAtEnd wipe_line(line);

  std::array<unsigned char, 8> suffix;
  crypto::RandomBytes(suffix);
  const std::string draft = fmt::format("{}.new-{}", path, HexText(crypto::AsText(suffix)));
  Status status;
  {
    const Descriptor file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.is_open()) return SystemError(draft);
    status = WriteWhole(file, line, draft);
  }
  if (status && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    status = SystemError(path);
  }
  unlink(draft.c_str());
  if (!status) return status;
  if (const int code = SyncDirectory(directory)) return SystemError(directory, code);
  return {};
}

}  // namespace

class KeysLoader {
 public:
  KeysLoader(const Settings& settings, const std::string& directory, bool has_records)
      : settings_(settings), directory_(directory), has_records_(has_records) {}

  Result<std::shared_ptr<const Keys>> Load() {
    if (!settings_.Text(kManyKeys).empty()) return Many(settings_.Text(kManyKeys));
    if (!settings_.Text(kOneKey).empty()) return One(kOneKey, settings_.Text(kOneKey));
    if (!directory_.empty()) return File();
    if (settings_.Bool(kInsecure)) return Random();
    return BadKey(kOneKey,
                  "is not set; give 32 random bytes in base64, for example from 'openssl "
                  "rand -base64 32'");
  }

  static Result<std::shared_ptr<const Keys>> One(std::string_view where, std::string_view text) {
    NOETL_ASSIGN(MasterKey key, ParseKey(where, text));
    const crypto::WipeAtEnd wipe(key);
    return Single(key, "env:NOETL_ENCRYPTION_KEY");
  }

 private:
  static std::shared_ptr<Keys> Empty() { return std::shared_ptr<Keys>(new Keys()); }

  static std::shared_ptr<const Keys> Single(const MasterKey& key, std::string_view source) {
    std::shared_ptr<Keys> keys = Empty();
    keys->source_ = source;
    keys->keys_.emplace(kFirstVersion, key);
    return keys;
  }

  static Result<std::shared_ptr<const Keys>> Many(std::string_view text) {
    constexpr std::string_view kWanted = R"(wanted is {"current":"v2","keys":{"v1":"...",...}})";
    // The message of the parser could quote a key.
    const Result<Json> parsed = ParseJson(text);
    if (!parsed || !parsed->is_object()) {
      return BadKey(kManyKeys, fmt::format("is not a JSON object; {}", kWanted));
    }
    const Json& list = (*parsed)["keys"];
    if (!list.is_object() || list.empty() || !(*parsed)["current"].is_string()) {
      return BadKey(kManyKeys, kWanted);
    }
    if (list.size() > kVersionsMax) {
      return BadKey(kManyKeys, fmt::format("has more than {} keys", kVersionsMax));
    }
    std::shared_ptr<Keys> keys = Empty();
    keys->current_ = (*parsed)["current"].ToString();
    for (const JsonMember& member : list.members()) {
      const std::string_view version = member.key();
      if (version.empty() || version.size() > kVersionBytesMax) {
        return BadKey(kManyKeys,
                      fmt::format("a version must have 1 to {} characters", kVersionBytesMax));
      }
      NOETL_ASSIGN(MasterKey key, ParseKey(fmt::format("{}: key '{}'", kManyKeys, version),
                                           member.value.AsString()));
      const crypto::WipeAtEnd wipe(key);
      keys->keys_.emplace(version, key);
    }
    if (keys->Find(keys->current_) == nullptr) {
      return BadKey(kManyKeys,
                    fmt::format("'current' is '{}', which 'keys' does not have", keys->current_));
    }
    return keys;
  }

  Result<std::shared_ptr<const Keys>> File() {
    const std::string path = directory_ + "/key";
    NOETL_ASSIGN(std::optional<MasterKey> key, ReadKeyFile(path));
    if (!key) {
      if (has_records_) {
        return BadKey(path,
                      "is missing, but there are encrypted records that only it can open; "
                      "bring the file back or set NOETL_ENCRYPTION_KEY");
      }
      NOETL_TRY(MakeKeyFile(directory_, path));
      NOETL_ASSIGN(key, ReadKeyFile(path));
      if (!key) return BadKey(path, "went away while it was made");
    }
    const crypto::WipeAtEnd wipe(*key);
    return Single(*key, "file:key");
  }

  static Result<std::shared_ptr<const Keys>> Random() {
    LogWarn(
        "NOETL_ALLOW_INSECURE_DEFAULT_KEY: the master key is random and lost at the end; "
        "credentials that are stored now cannot be read after a restart");
    MasterKey key;
    const crypto::WipeAtEnd wipe(key);
    crypto::RandomBytes(key);
    return Single(key, "env:NOETL_ENCRYPTION_KEY");
  }

  const Settings& settings_;
  const std::string& directory_;
  const bool has_records_;
};

Result<std::shared_ptr<const Keys>> Keys::Load(const Settings& settings,
                                               const std::string& directory, bool has_records) {
  return KeysLoader(settings, directory, has_records).Load();
}

Result<std::shared_ptr<const Keys>> Keys::FromText(std::string_view base64) {
  return KeysLoader::One("master key", base64);
}

Keys::~Keys() {
  for (auto& [version, key] : keys_) crypto::Wipe(key);
}

const MasterKey* Keys::Find(std::string_view version) const {
  const auto found = keys_.find(version);
  return found == keys_.end() ? nullptr : &found->second;
}

}  // namespace noetl::vault
