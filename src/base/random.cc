#include "base/random.h"

#include <sys/random.h>
#include <bit>
#include <cerrno>

#include "base/check.h"

namespace noetl {

std::uint64_t RandomSource::Below(std::uint64_t bound) {
  NOETL_CHECK(bound > 0, "nothing is below zero");
  // Numbers from the incomplete last block would favour small results.
  const std::uint64_t reject_below = (0 - bound) % bound;
  while (true) {
    const std::uint64_t value = Next();
    if (value >= reject_below) return value % bound;
  }
}

double RandomSource::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

void RandomSource::Fill(std::span<std::uint8_t> bytes) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) bits = Next();
    bytes[i] = static_cast<std::uint8_t>(bits);
    bits >>= 8;
  }
}

// The state of xoshiro256** comes from splitmix64, which maps no seed to all zeros.
SeededRandom::SeededRandom(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

std::uint64_t SeededRandom::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t SystemRandom::Next() {
  std::uint64_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof(value), 0);
  } while (got < 0 && errno == EINTR);
  NOETL_CHECK(got == static_cast<ssize_t>(sizeof(value)), "the system gives no random numbers");
  return value;
}

}  // namespace noetl
