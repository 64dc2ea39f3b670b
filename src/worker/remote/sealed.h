// Credentials that only this worker process can open.
//
// A key pair is made at the start and lives as long as the process; its public half is told at
// registration. The server encrypts a credential to it (X25519, HKDF-SHA256, ChaCha20-Poly1305), so that
// nobody between the two reads it. Both halves of the secret are wiped at the end. Immutable, any
// thread.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"

namespace noetl::worker {

class SealKey {
 public:
  SealKey() : pair_(crypto::MakeX25519Pair()) {}
  ~SealKey() { crypto::Wipe(pair_.private_key); }
  SealKey(const SealKey&) = delete;
  SealKey& operator=(const SealKey&) = delete;

  // Base64 of the public half.
  std::string public_text() const;
  // The credential in {alg, v, eph_pub, ciphertext}. "sealed": another form, or it was not sealed to
  // this key, or was changed on its way; the message says which part is wrong and shows no secret.
  Result<Json> Open(const Json& sealed) const;

 private:
  crypto::X25519Pair pair_;
};

}  // namespace noetl::worker
