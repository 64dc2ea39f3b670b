// A credential sealed to a worker's key, as a server does it. For tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/json_io.h"

namespace noetl::worker {

inline Json SealTo(std::string_view public_text, std::string_view plain) {
  const auto pair = crypto::MakeX25519Pair();
  const auto shared =
      crypto::X25519Derive(pair.private_key, *crypto::KeyFrom(*crypto::Base64Decode(public_text)));
  const std::string derived = crypto::HkdfSha256(crypto::AsText(*shared), "", "noetl-sealed-v1",
                                                 crypto::kKeyBytes + crypto::kNonceBytes);
  crypto::Nonce nonce;
  std::ranges::copy(derived.substr(crypto::kKeyBytes), nonce.begin());
  const std::string sealed = crypto::Seal(crypto::Cipher::kChaCha20Poly1305,
                                          *crypto::KeyFrom(derived.substr(0, crypto::kKeyBytes)),
                                          nonce, plain, "x25519-hkdf-sha256-chacha20-poly1305|v=1");
  return Json::Object({{"alg", "x25519-hkdf-sha256-chacha20-poly1305"},
                       {"v", 1},
                       {"eph_pub", crypto::Base64Encode(crypto::AsText(pair.public_key))},
                       {"ciphertext", crypto::Base64Encode(sealed)}});
}

}  // namespace noetl::worker
