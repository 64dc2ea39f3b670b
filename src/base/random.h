// Randomness arrives as an argument: everything that needs it takes a `RandomSource`.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace noetl {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // 64 random bits.
  virtual std::uint64_t Next() = 0;

  // 0 to bound-1, each equally likely. The bound must not be 0.
  std::uint64_t Below(std::uint64_t bound);
  // 0 inclusive to 1 exclusive.
  double Unit();
  void Fill(std::span<std::uint8_t> bytes);
};

// Deterministic: the same seed gives the same numbers for ever, on every machine. Not for secrets.
// Belongs to one thread.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(std::uint64_t seed);
  std::uint64_t Next() override;

 private:
  std::array<std::uint64_t, 4> state_;
};

// The operating system's generator, fit for secrets. Any thread.
class SystemRandom final : public RandomSource {
 public:
  std::uint64_t Next() override;
};

}  // namespace noetl
