#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace noetl {

namespace {

std::string_view Bytes(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

// OpenSSL fails here only when it is broken or out of memory.
struct Sha256Hasher::State {
  State() : context(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    NOETL_CHECK(context != nullptr, "no memory for a hash");
    Start(EVP_sha256());
  }

  // Null: the algorithm of the last time, which OpenSSL then need not look up again.
  void Start(const EVP_MD* algorithm) {
    NOETL_CHECK(EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1, "SHA-256 is missing");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context;
};

Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::Update(std::string_view bytes) {
  NOETL_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1,
              "SHA-256 refused bytes");
}

Sha256Digest Sha256Hasher::Finish() {
  Sha256Digest digest;
  unsigned length = 0;
  NOETL_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &length) == 1 &&
                  length == digest.size(),
              "SHA-256 gave no digest");
  state_->Start(nullptr);
  return digest;
}

std::string Sha256Hasher::FinishHex() { return HexText(Bytes(Finish())); }

Sha256Digest Sha256(std::string_view bytes) {
  thread_local Sha256Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

std::string Sha256Hex(std::string_view bytes) { return HexText(Bytes(Sha256(bytes))); }

std::string HexText(std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kHex[byte >> 4]);
    text.push_back(kHex[byte & 15]);
  }
  return text;
}

}  // namespace noetl
