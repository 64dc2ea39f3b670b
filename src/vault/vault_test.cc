#include "vault/vault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/testing.h"
#include "vault/testing.h"

namespace noetl::vault {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kNow = 1'780'000'000'000'000;
constexpr std::int64_t kSecond = 1'000'000;

std::shared_ptr<const Keys> KeysOf(char fill) {
  return *Keys::FromText(crypto::Base64Encode(std::string(32, fill)));
}

std::shared_ptr<const Keys> Versions(std::string_view current) {
  const auto key = [](char fill) { return crypto::Base64Encode(std::string(32, fill)); };
  const std::string text = fmt::format(R"({{"current":"{}","keys":{{"v1":"{}","v2":"{}"}}}})",
                                       current, key('a'), key('b'));
  return *Keys::Load(*Settings::Load({{"NOETL_ENCRYPTION_KEYS", text}}), "", false);
}

class VaultTest : public testing::Test {
 protected:
  Vault Make(std::shared_ptr<const Keys> keys = KeysOf('a'), VaultOptions options = {}) {
    return {&store_, std::move(keys), &clock_, &ids_, options};
  }
  static Credential Postgres() {
    return {.name = "pg_demo",
            .type = "postgres",
            .data = Parse(R"({"host":"db","password":"geheim"})")};
  }
  std::vector<std::string> Audit() const {
    std::vector<std::string> out;
    for (const store::AuditRow& row : store_.audit()) {
      out.push_back(fmt::format("{} {} {}", row.operation, row.credential, row.outcome));
    }
    return out;
  }

  FakeSecrets store_;
  ManualClock clock_{kNow};
  SequentialIds ids_{100};
  Reader reader_{.worker_id = "worker-7", .execution_id = 42};
};

TEST_F(VaultTest, CredentialsRoundTripAndAreEncryptedAtRest) {
  Vault vault = Make();
  Credential credential = Postgres();
  credential.tags = {"db"};
  credential.meta = Parse(R"({"owner":"ops"})");
  const Result<Credential> put = vault.Put(credential);
  ASSERT_TRUE(put);
  EXPECT_TRUE(put->data.is_null());
  EXPECT_EQ(put->ToJson(),
            Parse(R"({"id":"100","name":"pg_demo","type":"postgres","meta":{"owner":"ops"},
                      "tags":["db"],"created_at":"2026-05-28T20:26:40.000000Z",
                      "updated_at":"2026-05-28T20:26:40.000000Z"})"));
  EXPECT_THAT((*store_.FindCredential(100))->data_encrypted, Not(HasSubstr("geheim")));
  EXPECT_EQ(vault.Find("pg_demo", true, reader_)->data, credential.data);
  EXPECT_EQ(vault.Find("100", true, reader_)->data, credential.data);
  EXPECT_TRUE(vault.Find("pg_demo", false, reader_)->data.is_null());
}

TEST_F(VaultTest, PutReplacesEverything) {
  Vault vault = Make();
  Credential credential = Postgres();
  credential.tags = {"db"};
  credential.description = "old";
  const std::int64_t id = vault.Put(credential)->id;
  clock_.Advance(kSecond);
  credential = Postgres();
  credential.data = Parse(R"({"password":"new"})");
  const Credential put = *vault.Put(credential);
  EXPECT_EQ(put.id, id);
  EXPECT_EQ(put.created_at_us, kNow);
  EXPECT_EQ(put.updated_at_us, kNow + kSecond);
  EXPECT_FALSE(put.tags);
  EXPECT_EQ(put.description, "");
  EXPECT_EQ(vault.Find("pg_demo", true, reader_)->data, credential.data);
}

TEST_F(VaultTest, FieldsThatCannotBeUsedAreNamed) {
  Vault vault = Make();
  const auto problem = [&](auto change) {
    Credential credential = Postgres();
    change(credential);
    const Result<Credential> put = vault.Put(credential);
    EXPECT_FALSE(put);
    return put ? "" : put.error().code + ": " + put.error().message;
  };
  EXPECT_EQ(problem([](Credential& c) { c.name = "  "; }), "invalid: name is blank");
  EXPECT_EQ(problem([](Credential& c) { c.type = ""; }), "invalid: type is blank");
  EXPECT_EQ(problem([](Credential& c) { c.data = Json(); }), "invalid: data is missing");
  EXPECT_THAT(problem([](Credential& c) { c.name = std::string(300, 'x'); }), HasSubstr("name"));
  EXPECT_THAT(problem([](Credential& c) { c.data = std::string(kSecretBytesMax, 'x'); }),
              HasSubstr("data has more"));
}

TEST_F(VaultTest, EveryReadOfASecretIsAudited) {
  Vault vault = Make();
  ASSERT_TRUE(vault.Put(Postgres()));
  ASSERT_TRUE(vault.Find("pg_demo", false, reader_));
  ASSERT_TRUE(vault.List("", "", 0, 10));
  EXPECT_THAT(Audit(), ElementsAre());
  ASSERT_TRUE(vault.Find("100", true, reader_));
  EXPECT_EQ(vault.Find("nobody", true, reader_).error().code, "not_found");
  EXPECT_THAT(Audit(), ElementsAre("get_credential pg_demo ok",
                                   "get_credential nobody credential_not_found"));
  const store::AuditRow row = store_.audit()[0];
  EXPECT_EQ(row.worker_id, "worker-7");
  EXPECT_EQ(row.execution_id, 42);
  EXPECT_EQ(row.kek_version, "v1");
  EXPECT_EQ(row.occurred_at_us, kNow);
}

TEST_F(VaultTest, WhatCannotBeAuditedIsNotGivenOut) {
  Vault vault = Make();
  ASSERT_TRUE(vault.Put(Postgres()));
  store_.FailAudit("the disk is full");
  EXPECT_EQ(vault.Find("pg_demo", true, reader_).error().code, "io");
  EXPECT_EQ(vault.Find("nobody", true, reader_).error().code, "not_found");
}

TEST_F(VaultTest, AWrongKeyIsAnErrorWithoutSecrets) {
  ASSERT_TRUE(Make().Put(Postgres()));
  const Vault other = Make(KeysOf('z'));
  const Result<Credential> found = other.Find("pg_demo", true, reader_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, "decrypt");
  EXPECT_THAT(found.error().message, HasSubstr("pg_demo"));
  EXPECT_THAT(found.error().message, Not(HasSubstr("geheim")));
  EXPECT_THAT(Audit(), ElementsAre("get_credential pg_demo provider_fetch_error"));
  EXPECT_EQ(other.CheckKeys().error().code, "decrypt");
  EXPECT_TRUE(Make().CheckKeys());
}

TEST_F(VaultTest, CheckKeysIsFineWithoutCredentials) { EXPECT_TRUE(Make().CheckKeys()); }

TEST_F(VaultTest, BoundRecordsOpenInTheirRowOnly) {
  Vault vault = Make(KeysOf('a'), {.bind_rows = true});
  Credential second = Postgres();
  second.name = "other";
  ASSERT_TRUE(vault.Put(Postgres()));
  ASSERT_TRUE(vault.Put(second));
  ASSERT_TRUE(vault.Put(Postgres()));
  const std::string envelope = (*store_.FindCredential("pg_demo"))->data_encrypted;
  EXPECT_EQ(Parse(envelope)["v"], Json(2));
  EXPECT_TRUE(vault.Find("pg_demo", true, reader_));
  store_.SetEnvelope((*store_.FindCredential("other"))->id, envelope);
  EXPECT_EQ(vault.Find("other", true, reader_).error().code, "decrypt");
  const KeychainKey key{.name = "t", .catalog_id = 1};
  ASSERT_TRUE(vault.PutKeychain(key, Parse(R"({"token":"x"})"), 0, false, Json()));
  EXPECT_EQ(vault.FindKeychain(key)->data, Parse(R"({"token":"x"})"));
  // A server without the setting reads both kinds.
  EXPECT_TRUE(Make().Find("pg_demo", true, reader_));
}

TEST_F(VaultTest, DeletesByNameAndId) {
  Vault vault = Make();
  const std::int64_t id = vault.Put(Postgres())->id;
  EXPECT_EQ(vault.Delete("pg_demo"), id);
  EXPECT_EQ(vault.Delete("pg_demo").error().code, "not_found");
  EXPECT_EQ(vault.Find("pg_demo", false, reader_).error().code, "not_found");
}

// The name of one may be the id of another; ids go first.
TEST_F(VaultTest, IdsGoBeforeNames) {
  Vault vault = Make();
  const std::int64_t id = vault.Put(Postgres())->id;
  Credential numeric = Postgres();
  numeric.name = std::to_string(id);
  ASSERT_TRUE(vault.Put(numeric));
  numeric.name = "777";
  ASSERT_TRUE(vault.Put(numeric));
  EXPECT_EQ(vault.Find(std::to_string(id), false, reader_)->name, "pg_demo");
  EXPECT_EQ(vault.Find("777", false, reader_)->name, "777");
}

// As a worker does it.
std::optional<std::string> OpenSealed(const Json& sealed, const crypto::Key& private_key) {
  const auto other = crypto::KeyFrom(*crypto::Base64Decode(sealed["eph_pub"].AsString()));
  const auto shared = crypto::X25519Derive(private_key, *other);
  const std::string derived =
      crypto::HkdfSha256(crypto::AsText(*shared), "", "noetl-sealed-v1", 44);
  crypto::Nonce nonce;
  std::ranges::copy(derived.substr(32), nonce.begin());
  return crypto::Open(crypto::Cipher::kChaCha20Poly1305, *crypto::KeyFrom(derived.substr(0, 32)),
                      nonce, *crypto::Base64Decode(sealed["ciphertext"].AsString()),
                      "x25519-hkdf-sha256-chacha20-poly1305|v=1");
}

TEST_F(VaultTest, SealedForOneWorkerOnly) {
  Vault vault = Make();
  ASSERT_TRUE(vault.Put(Postgres()));
  const crypto::X25519Pair worker = crypto::MakeX25519Pair();
  const std::string public_key = crypto::Base64Encode(crypto::AsText(worker.public_key));
  const Result<Json> sealed = vault.Seal("pg_demo", public_key, reader_);
  ASSERT_TRUE(sealed);
  EXPECT_EQ((*sealed)["alg"], Json("x25519-hkdf-sha256-chacha20-poly1305"));
  EXPECT_EQ((*sealed)["v"], Json(1));
  const std::optional<std::string> plain = OpenSealed(*sealed, worker.private_key);
  ASSERT_TRUE(plain);
  EXPECT_EQ(Parse(*plain)["data"], Postgres().data);
  EXPECT_EQ(Parse(*plain)["name"], Json("pg_demo"));
  EXPECT_FALSE(OpenSealed(*sealed, crypto::MakeX25519Pair().private_key));
  EXPECT_THAT(Audit(), ElementsAre("get_sealed pg_demo ok"));
}

TEST_F(VaultTest, SealsWhatIsNotStored) {
  Vault vault = Make();
  const crypto::X25519Pair worker = crypto::MakeX25519Pair();
  const std::string public_key = crypto::Base64Encode(crypto::AsText(worker.public_key));
  const Json secret = Parse(R"({"name":"alias","data":{"token":"t"}})");
  const Result<Json> sealed = vault.SealGiven("alias", secret, public_key, reader_);
  ASSERT_TRUE(sealed);
  const std::optional<std::string> plain = OpenSealed(*sealed, worker.private_key);
  ASSERT_TRUE(plain);
  EXPECT_EQ(Parse(*plain), secret);
  EXPECT_FALSE(OpenSealed(*sealed, crypto::MakeX25519Pair().private_key));
  EXPECT_EQ(vault.SealGiven("other", secret, "AAAA", reader_).error().code, "no_pubkey");
  EXPECT_THAT(Audit(),
              testing::UnorderedElementsAre("get_sealed alias ok", "get_sealed other no_pubkey"));
}

TEST_F(VaultTest, KeysThatCannotBeUsedSealNothing) {
  Vault vault = Make();
  ASSERT_TRUE(vault.Put(Postgres()));
  for (const std::string& key : {std::string(), std::string("AAAA"), std::string("?"),
                                 crypto::Base64Encode(std::string(32, '\0'))}) {
    EXPECT_EQ(vault.Seal("pg_demo", key, reader_).error().code, "no_pubkey");
  }
  EXPECT_THAT(Audit(), testing::Each("get_sealed pg_demo no_pubkey"));
  const std::string good =
      crypto::Base64Encode(crypto::AsText(crypto::MakeX25519Pair().public_key));
  EXPECT_EQ(vault.Seal("nobody", good, reader_).error().code, "not_found");
}

TEST_F(VaultTest, CacheKeys) {
  const auto key = [](std::string_view scope, std::int64_t execution) {
    return KeychainKey{
        .name = "t", .catalog_id = 7, .scope_type = std::string(scope), .execution_id = execution}
        .CacheKey();
  };
  EXPECT_EQ(key("local", 9), "t:7:9");
  EXPECT_EQ(key("local", 0), "t:7:local");
  EXPECT_EQ(key("shared", 9), "t:7:shared:9");
  EXPECT_EQ(key("shared", 0), "t:7:shared");
  EXPECT_EQ(key("global", 9), "t:7:global");
  EXPECT_EQ(key("anything", 9), "t:7:global");
}

TEST_F(VaultTest, KeychainEntriesExpireAndCountReads) {
  Vault vault = Make();
  const KeychainKey key{.name = "openai", .catalog_id = 7};
  using State = KeychainEntry::State;
  EXPECT_EQ(vault.FindKeychain(key)->state, State::kNotFound);
  const Json data = Parse(R"({"token":"geheim"})");
  EXPECT_EQ(vault.PutKeychain(key, data, kNow + 10 * kSecond, true, Json()), kNow + 10 * kSecond);
  EXPECT_THAT((*store_.FindKeychain("openai:7:global"))->data_encrypted, Not(HasSubstr("geheim")));
  EXPECT_EQ(vault.FindKeychain(key)->access_count, 1);
  const KeychainEntry found = *vault.FindKeychain(key);
  EXPECT_EQ(found.state, State::kFound);
  EXPECT_EQ(found.data, data);
  EXPECT_EQ(found.access_count, 2);
  EXPECT_TRUE(found.auto_renew);
  clock_.Advance(10 * kSecond);
  const KeychainEntry expired = *vault.FindKeychain(key);
  EXPECT_EQ(expired.state, State::kExpired);
  EXPECT_TRUE(expired.data.is_null());
  EXPECT_EQ(vault.DeleteKeychain(key), true);
  EXPECT_EQ(vault.DeleteKeychain(key), false);
  EXPECT_THAT(Audit(), ElementsAre("resolve_keychain openai ok", "resolve_keychain openai ok"));
}

TEST_F(VaultTest, KeychainDefaultsAndRefusals) {
  Vault vault = Make();
  KeychainKey key{.name = "t", .catalog_id = 7, .scope_type = "local", .execution_id = 9};
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()), kNow + 600 * kSecond);
  key.scope_type = "shared";
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()), kNow + 86'400 * kSecond);
  key.scope_type = "global";
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()), kNow + 86'400 * kSecond);
  EXPECT_EQ(vault.PutKeychain(key, Json(1), kNow, false, Json()).error().code, "invalid");
  key.scope_type = "local";
  key.execution_id = 0;
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()).error().code, "invalid");
  key.scope_type = "everybody";
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()).error().code, "invalid");
  key.scope_type = "global";
  key.name = "";
  EXPECT_EQ(vault.PutKeychain(key, Json(1), 0, false, Json()).error().code, "invalid");
}

TEST_F(VaultTest, RotationWrapsOldKeysAnewAndLeavesTheRest) {
  Vault old = Make(Versions("v1"), {.bind_rows = true});
  for (const char* name : {"a", "b", "c"}) {
    Credential credential = Postgres();
    credential.name = name;
    ASSERT_TRUE(old.Put(credential));
  }
  const KeychainKey key{.name = "t", .catalog_id = 1};
  ASSERT_TRUE(old.PutKeychain(key, Json("geheim"), 0, false, Json()));
  Vault vault = Make(Versions("v2"));
  Credential fresh = Postgres();
  fresh.name = "d";
  ASSERT_TRUE(vault.Put(fresh));
  fresh.name = "e";
  store_.SetEnvelope(vault.Put(fresh)->id, "not an envelope");
  EXPECT_EQ(*vault.KeyStatus(),
            Parse(R"({"credential":{"invalid":1,"v1":3,"v2":1},"keychain":{"v1":1}})"));

  const Vault::Rotated rotated = *vault.Rotate(2, 1000);
  EXPECT_EQ(rotated.credential.processed, 5);
  EXPECT_EQ(rotated.credential.rewrapped, 3);
  EXPECT_EQ(rotated.credential.skipped, 1);
  EXPECT_EQ(rotated.credential.failed, 1);
  EXPECT_EQ(rotated.credential.last_id, (*store_.FindCredential("e"))->id);
  EXPECT_EQ(rotated.keychain.rewrapped, 1);
  EXPECT_EQ(*vault.KeyStatus(),
            Parse(R"({"credential":{"invalid":1,"v2":4},"keychain":{"v2":1}})"));
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(vault.Find(name, true, reader_)->data, Postgres().data);
  }
  EXPECT_EQ(vault.FindKeychain(key)->data, Json("geheim"));
  EXPECT_EQ(vault.Rotate(2, 1000)->credential.rewrapped, 0);
  EXPECT_EQ(vault.Rotate(2, 1)->credential.processed, 2);
  EXPECT_EQ(vault.Rotate(0, 1).error().code, "invalid");
}

// Somebody replaces the credential between the read and the write of the pass.
TEST_F(VaultTest, RotationNeverOverwritesAChange) {
  Vault vault = Make(Versions("v1"));
  const std::int64_t id = vault.Put(Postgres())->id;
  const std::string before = (*store_.FindCredential(id))->data_encrypted;
  Credential changed = Postgres();
  changed.data = Json("new");
  ASSERT_TRUE(vault.Put(changed));
  EXPECT_EQ(store_.RewrapCredential(id, before, "late"), false);
  EXPECT_EQ(vault.Find("pg_demo", true, reader_)->data, Json("new"));
}

}  // namespace
}  // namespace noetl::vault
