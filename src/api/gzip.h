// Compressed bodies, both ways.
//
// Pure but for memory: an `Inflater` belongs to one request; `Gzip` may be called from any thread
// (each keeps one compressor).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace noetl::api {

// Inflates a body as it arrives and never makes more than `limit` bytes of it, however small the
// input: a bomb is found after `limit` + 1 bytes.
class Inflater {
 public:
  enum class Outcome { kFine, kBroken, kTooLarge };

  explicit Inflater(std::size_t limit);
  ~Inflater();

  // Appends what `compressed` holds to `out`. After another outcome than kFine: no further calls.
  Outcome Write(std::string_view compressed, std::string* out);
  // Whether all that came is a whole number of gzip members.
  bool complete() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// nullopt: compressing gains nothing.
std::optional<std::string> Gzip(std::string_view text);

}  // namespace noetl::api
