#include "worker/remote/sealed.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json_io.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kAlgorithm = "x25519-hkdf-sha256-chacha20-poly1305";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kInfo = "noetl-sealed-v1";
constexpr std::size_t kShownMax = 60;  // of a word that the server sent

std::unexpected<Error> Wrong(std::string_view what) {
  return Fail("sealed", fmt::format("the sealed credential cannot be opened: {}", what));
}

}  // namespace

std::string SealKey::public_text() const {
  return crypto::Base64Encode(crypto::AsText(pair_.public_key));
}

Result<Json> SealKey::Open(const Json& sealed) const {
  if (const Json& name = sealed["alg"]; name.AsString() != kAlgorithm) {
    return Wrong(fmt::format("its algorithm is '{}', not {}", name.ToString().substr(0, kShownMax),
                             kAlgorithm));
  }
  if (const Json& version = sealed["v"]; !version.is_int() || version.AsInt() != kVersion) {
    return Wrong(fmt::format("its version is {}, not {}", WriteJson(version).substr(0, kShownMax),
                             kVersion));
  }
  const std::optional<std::string> sender = crypto::Base64Decode(sealed["eph_pub"].AsString());
  const std::optional<crypto::Key> sender_key =
      sender ? crypto::KeyFrom(*sender) : std::optional<crypto::Key>();
  if (!sender_key) {
    return Wrong(fmt::format("eph_pub is not base64 of {} bytes", crypto::kKeyBytes));
  }
  const std::optional<std::string> text = crypto::Base64Decode(sealed["ciphertext"].AsString());
  if (!text || text->size() < crypto::kTagBytes)
    return Wrong(fmt::format("ciphertext is not base64 of {} bytes or more", crypto::kTagBytes));
  std::optional<crypto::Key> shared = crypto::X25519Derive(pair_.private_key, *sender_key);
  if (!shared) return Wrong("eph_pub is not a key");
  const crypto::WipeAtEnd wipe_shared(*shared);
  std::string derived = crypto::HkdfSha256(crypto::AsText(*shared), "", kInfo,
                                           crypto::kKeyBytes + crypto::kNonceBytes);
  const crypto::WipeAtEnd wipe_derived(derived);
  crypto::Key key = *crypto::KeyFrom(std::string_view(derived).substr(0, crypto::kKeyBytes));
  const crypto::WipeAtEnd wipe_key(key);
  crypto::Nonce nonce;
  std::ranges::copy(std::string_view(derived).substr(crypto::kKeyBytes), nonce.begin());
  std::optional<std::string> plain =
      crypto::Open(crypto::Cipher::kChaCha20Poly1305, key, nonce, *text,
                   fmt::format("{}|v={}", kAlgorithm, kVersion));
  if (!plain) return Wrong("it was sealed to another key, or changed on its way");
  const crypto::WipeAtEnd wipe_plain(*plain);
  Result<Json> credential = ParseJson(*plain);
  if (!credential || !credential->is_object()) return Wrong("what is in it is not a credential");
  return credential;
}

}  // namespace noetl::worker
