// Envelopes: see keys.h.
#include <algorithm>

#include "base/json.h"
#include "base/json_io.h"
#include "vault/keys.h"

namespace noetl::vault {
namespace {

constexpr crypto::Cipher kCipher = crypto::Cipher::kAes256Gcm;
constexpr std::string_view kAlgorithm = "AES-256-GCM";
constexpr std::string_view kProvider = "local";
constexpr std::size_t kWrappedBytes = crypto::kNonceBytes + crypto::kKeyBytes + crypto::kTagBytes;

std::unexpected<Error> NotAnEnvelope(std::string_view why) {
  return Fail("decrypt", fmt::format("not a wallet envelope record: {}", why));
}

// A parsed record, with texts still in base64.
struct Envelope {
  std::int64_t version = 1;
  std::string payload;
  std::string provider;
  std::string key_id;
  std::string key_version;
  std::string data_key;
};

Result<Envelope> ParseEnvelope(std::string_view text) {
  // The message of the parser could quote the record.
  const Result<Json> parsed = ParseJson(text);
  if (!parsed) return NotAnEnvelope("it is not JSON");
  const Json& wrapped = (*parsed)["dek"];
  for (const Json* member : {&(*parsed)["alg"], &(*parsed)["ct"], &wrapped["p"], &wrapped["kid"],
                             &wrapped["kv"], &wrapped["ct"]}) {
    if (!member->is_string()) return NotAnEnvelope("a member is missing");
  }
  const std::int64_t version = (*parsed)["v"].AsInt();
  if (version != 1 && version != 2) return NotAnEnvelope("its version is not 1 or 2");
  if ((*parsed)["alg"].AsString() != kAlgorithm) {
    return NotAnEnvelope(fmt::format("its algorithm is not {}", kAlgorithm));
  }
  return Envelope{.version = version,
                  .payload = (*parsed)["ct"].ToString(),
                  .provider = wrapped["p"].ToString(),
                  .key_id = wrapped["kid"].ToString(),
                  .key_version = wrapped["kv"].ToString(),
                  .data_key = wrapped["ct"].ToString()};
}

std::string WriteEnvelope(const Envelope& envelope) {
  return WriteJson(Json::Object({{"v", envelope.version},
                                 {"alg", kAlgorithm},
                                 {"ct", envelope.payload},
                                 {"dek", Json::Object({{"p", envelope.provider},
                                                       {"kid", envelope.key_id},
                                                       {"kv", envelope.key_version},
                                                       {"ct", envelope.data_key}})}}));
}

void Wrap(const Keys& keys, const crypto::Key& data_key, std::string_view aad, Envelope* envelope) {
  const MasterKey& master = *keys.Find(keys.current());
  envelope->provider = kProvider;
  envelope->key_id = keys.source();
  envelope->key_version = keys.current();
  envelope->data_key =
      crypto::Base64Encode(crypto::SealWithNonce(kCipher, master, crypto::AsText(data_key), aad));
}

std::string_view BoundTo(const Envelope& envelope, std::string_view aad) {
  return envelope.version == 1 ? "" : aad;
}

// The caller wipes the key.
Result<crypto::Key> Unwrap(const Keys& keys, const Envelope& envelope, std::string_view aad) {
  if (envelope.provider != kProvider) {
    return Fail("decrypt", "the data key was wrapped by another provider than 'local'");
  }
  const MasterKey* master = keys.Find(envelope.key_version);
  if (master == nullptr) {
    return Fail("decrypt",
                "the record was wrapped with a version of the master key that this "
                "server does not have");
  }
  const std::optional<std::string> wrapped = crypto::Base64Decode(envelope.data_key);
  if (!wrapped || wrapped->size() != kWrappedBytes) {
    return NotAnEnvelope("its data key is not 60 bytes in base64");
  }
  std::optional<std::string> opened =
      crypto::OpenWithNonce(kCipher, *master, *wrapped, BoundTo(envelope, aad));
  if (!opened) {
    return Fail("decrypt",
                "the record was changed, belongs to another row, or was made with "
                "another master key");
  }
  const crypto::WipeAtEnd wipe(*opened);
  return *crypto::KeyFrom(*opened);
}

}  // namespace

std::string EnvelopeAad(std::string_view table, std::string_view primary_key) {
  return fmt::format("noetl|{}|{}|v2", table, primary_key);
}

std::string SealEnvelope(const Keys& keys, std::string_view plain, std::string_view aad) {
  crypto::Key data_key;
  const crypto::WipeAtEnd wipe(data_key);
  crypto::RandomBytes(data_key);
  Envelope envelope{.version = aad.empty() ? 1 : 2};
  envelope.payload = crypto::Base64Encode(crypto::SealWithNonce(kCipher, data_key, plain, aad));
  Wrap(keys, data_key, aad, &envelope);
  return WriteEnvelope(envelope);
}

Result<std::string> OpenEnvelope(const Keys& keys, std::string_view text, std::string_view aad) {
  NOETL_ASSIGN(const Envelope envelope, ParseEnvelope(text));
  NOETL_ASSIGN(crypto::Key data_key, Unwrap(keys, envelope, aad));
  const crypto::WipeAtEnd wipe(data_key);
  const std::optional<std::string> payload = crypto::Base64Decode(envelope.payload);
  if (!payload) return NotAnEnvelope("its payload is not base64");
  std::optional<std::string> plain =
      crypto::OpenWithNonce(kCipher, data_key, *payload, BoundTo(envelope, aad));
  if (!plain) return Fail("decrypt", "the payload of the record was changed");
  return std::move(*plain);
}

Result<std::string> RewrapEnvelope(const Keys& keys, std::string_view text, std::string_view aad) {
  NOETL_ASSIGN(Envelope envelope, ParseEnvelope(text));
  NOETL_ASSIGN(crypto::Key data_key, Unwrap(keys, envelope, aad));
  const crypto::WipeAtEnd wipe(data_key);
  Wrap(keys, data_key, BoundTo(envelope, aad), &envelope);
  return WriteEnvelope(envelope);
}

Result<std::string> EnvelopeKeyVersion(std::string_view text) {
  NOETL_ASSIGN(Envelope envelope, ParseEnvelope(text));
  return std::move(envelope.key_version);
}

}  // namespace noetl::vault
