#include "worker/remote/spool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/log.h"

namespace noetl::worker {
namespace {

// A record: length of the text, checksum of all that follows it, kind, id, text. Numbers have their
// lowest byte first.
constexpr std::size_t kLengthAt = 0;
constexpr std::size_t kChecksumAt = 4;
constexpr std::size_t kKindAt = 8;
constexpr std::size_t kIdAt = 9;
constexpr std::size_t kHeadBytes = 17;
constexpr char kAdded = 'A';
constexpr char kDone = 'D';
// Marks of done records may pass the limit by this much, or the last of them could not be written.
constexpr std::int64_t kMarksBytesMax = 1 << 20;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  constexpr std::uint32_t kPolynomial = 0xedb88320;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}();

std::uint32_t Crc32(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

template <typename T>
void Put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

template <typename T>
T Get(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

std::string Frame(char kind, std::uint64_t id, std::string_view text) {
  std::string rest(1, kind);
  Put(rest, id);
  rest += text;
  std::string frame;
  Put(frame, static_cast<std::uint32_t>(text.size()));
  Put(frame, Crc32(rest));
  return frame + rest;
}

}  // namespace

Error Spool::Failure(std::string_view what) const {
  return {"io", fmt::format("{}: {}: {}", path_, what, std::strerror(errno))};
}

Result<std::unique_ptr<Spool>> Spool::Open(const std::string& path, std::int64_t bytes_max) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return Fail("io", fmt::format("{}: {}", path, error.message()));
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Fail("io", fmt::format("{}: {}", path, std::strerror(errno)));
  std::unique_ptr<Spool> spool(new Spool(descriptor, path, bytes_max));
  if (flock(descriptor, LOCK_EX | LOCK_NB) < 0)
    return Fail("locked", fmt::format("{}: another worker uses it", path));
  NOETL_TRY(spool->Read());
  return spool;
}

Spool::~Spool() { close(descriptor_); }

Status Spool::Read() {
  std::string bytes;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = read(descriptor_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(Failure("cannot be read"));
    if (got == 0) break;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::size_t at = 0;
  while (bytes.size() - at >= kHeadBytes) {
    const std::string_view head = std::string_view(bytes).substr(at);
    const auto length = Get<std::uint32_t>(head, kLengthAt);
    if (head.size() - kHeadBytes < length) break;
    const std::string_view rest = head.substr(kKindAt, kHeadBytes - kKindAt + length);
    if (Crc32(rest) != Get<std::uint32_t>(head, kChecksumAt)) break;
    const auto id = Get<std::uint64_t>(head, kIdAt);
    last_id_ = std::max(last_id_, id);
    if (head[kKindAt] == kAdded) {
      open_.insert(id);
      found_.push_back({id, std::string(head.substr(kHeadBytes, length))});
    } else {
      open_.erase(id);
    }
    at += kHeadBytes + length;
  }
  std::erase_if(found_, [&](const Record& record) { return !open_.contains(record.id); });
  if (at < bytes.size()) {
    LogWarn("the end of the spool is damaged and ignored",
            {{"file", path_}, {"bytes", bytes.size() - at}});
  }
  return Cut(open_.empty() ? 0 : static_cast<std::int64_t>(at));
}

Status Spool::Cut(std::int64_t size) {
  if (ftruncate(descriptor_, size) < 0 || lseek(descriptor_, size, SEEK_SET) < 0)
    return std::unexpected(Failure("cannot be cut"));
  size_ = size;
  full_ = size_ >= bytes_max_;
  return {};
}

Status Spool::Write(std::string_view bytes) {
  const std::int64_t before = size_;
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      Error failure = Failure("cannot be written");
      // A record that is cut would hide those behind it.
      const Status cut = Cut(before);
      if (!cut) LogError("the spool is damaged", {{"error", cut.error().message}});
      return std::unexpected(std::move(failure));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    size_ += written;
  }
  return {};
}

Result<std::uint64_t> Spool::Add(std::string_view text) {
  if (size_ + static_cast<std::int64_t>(kHeadBytes + text.size()) > bytes_max_) {
    full_ = true;
    return Fail("full", fmt::format("{}: more than {} bytes wait for the server", path_, size_));
  }
  const std::uint64_t id = ++last_id_;
  NOETL_TRY(Write(Frame(kAdded, id, text)));
  open_.insert(id);
  return id;
}

Status Spool::Sync() {
  if (fdatasync(descriptor_) < 0) return std::unexpected(Failure("cannot be synced"));
  return {};
}

// A mark that is lost costs a second delivery, which the server recognises.
void Spool::Done(std::uint64_t id) {
  if (open_.erase(id) == 0) return;
  Status status;
  if (open_.empty()) status = Cut(0);
  else if (size_ < bytes_max_ + kMarksBytesMax) status = Write(Frame(kDone, id, ""));
  if (!status) LogWarn("the spool keeps what was delivered", {{"error", status.error().message}});
}

}  // namespace noetl::worker
