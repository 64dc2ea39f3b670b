#include "api/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace noetl::api {
namespace {

// zlib: windows of 32 KiB; 16 asks for gzip's header and trailer instead of zlib's.
constexpr int kGzipWindow = 15 + 16;
// The fastest: an answer is compressed on the way out, and the network gains most from the first
// level.
constexpr int kLevel = 1;
constexpr int kMemoryLevel = 8;
// How far the text grows at a time while it is inflated.
constexpr std::size_t kStepMin = 4u << 10;
constexpr std::size_t kStepMax = 1u << 20;

// zlib counts in 32 bits.
uInt Clamped(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

Bytef* Bytes(const char* text) {
  // zlib does not write to its input; its interface only fails to say so.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text));
}

// A compressor costs 256 KiB to make and is reused.
struct Deflater {
  Deflater() {
    const int made =
        deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY);
    NOETL_CHECK(made == Z_OK, "no memory for a compressor");
  }
  ~Deflater() { deflateEnd(&stream); }

  z_stream stream{};
};

}  // namespace

struct Inflater::State {
  z_stream stream{};
  std::size_t limit = 0;
  bool between_members = false;
};

Inflater::Inflater(std::size_t limit) : state_(std::make_unique<State>()) {
  state_->limit = std::min(limit, std::numeric_limits<std::size_t>::max() - 1);
  NOETL_CHECK(inflateInit2(&state_->stream, kGzipWindow) == Z_OK, "no memory to inflate");
}

Inflater::~Inflater() { inflateEnd(&state_->stream); }

bool Inflater::complete() const { return state_->between_members; }

Inflater::Outcome Inflater::Write(std::string_view compressed, std::string* out) {
  z_stream& stream = state_->stream;
  while (true) {
    if (state_->between_members) {
      if (compressed.empty()) return Outcome::kFine;
      inflateReset(&stream);
      state_->between_members = false;
    }
    // One byte beyond the limit, so that a text of exactly the limit ends and a longer one shows.
    const std::size_t before = out->size();
    const std::size_t room =
        std::min(std::clamp(before, kStepMin, kStepMax), state_->limit + 1 - before);
    const uInt given = Clamped(compressed.size());
    int outcome = Z_OK;
    out->resize_and_overwrite(before + room, [&](char* data, std::size_t) {
      stream.next_in = Bytes(compressed.data());
      stream.avail_in = given;
      stream.next_out = Bytes(data + before);
      stream.avail_out = Clamped(room);
      outcome = inflate(&stream, Z_NO_FLUSH);
      return before + room - stream.avail_out;
    });
    compressed.remove_prefix(given - stream.avail_in);
    if (out->size() > state_->limit) return Outcome::kTooLarge;
    if (outcome == Z_STREAM_END) {
      state_->between_members = true;
      continue;
    }
    if (outcome != Z_OK && outcome != Z_BUF_ERROR) return Outcome::kBroken;
    // Room left over means that zlib has nothing more to say about this input.
    if (compressed.empty() && stream.avail_out > 0) return Outcome::kFine;
  }
}

std::optional<std::string> Gzip(std::string_view text) {
  thread_local Deflater deflater;
  z_stream& stream = deflater.stream;
  if (text.size() > std::numeric_limits<uInt>::max() || deflateReset(&stream) != Z_OK) {
    return std::nullopt;
  }
  bool whole = false;
  std::string compressed;
  compressed.resize_and_overwrite(text.size(), [&](char* data, std::size_t room) {
    stream.next_in = Bytes(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = Bytes(data);
    stream.avail_out = static_cast<uInt>(room);
    whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    return room - stream.avail_out;
  });
  if (!whole) return std::nullopt;
  return compressed;
}

}  // namespace noetl::api
