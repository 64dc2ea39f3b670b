// Secrets for workers: sealed ones, whether they are stored or belong to a run.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/testing.h"
#include "base/crypto.h"
#include "conductor/testing.h"
#include "vault/vault.h"

namespace noetl::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kRun = "77";

// Answers when the test says so, as a fetch from elsewhere does.
class LateSecrets final : public conductor::SecretSource {
 public:
  void FindSecret(std::string alias, std::int64_t execution_id,
                  bus::ServerEnd::Loaded found) override {
    asked.push_back(fmt::format("{} of {}", alias, execution_id));
    waiting_.push_back({std::move(alias), std::move(found)});
  }
  Result<std::string> KeepInput(std::int64_t, std::string_view, const Json&) override {
    return Fail("unsupported", "no inputs here");
  }
  void Answer() {
    for (auto& [alias, found] : std::exchange(waiting_, {})) {
      const auto secret = secrets.find(alias);
      if (secret == secrets.end()) {
        found(Fail("not_found", fmt::format("there is no '{}'", alias)));
      } else {
        found(Json::Object({{"name", alias}, {"type", "keychain"}, {"data", secret->second}}));
      }
    }
  }

  std::map<std::string, Json, std::less<>> secrets;
  std::vector<std::string> asked;

 private:
  std::vector<std::pair<std::string, bus::ServerEnd::Loaded>> waiting_;
};

class SealedRouteTest : public ::testing::Test {
 protected:
  SealedRouteTest() : machine_({.worker = false}) {
    vault_ = std::make_unique<vault::Vault>(
        api_.store.get(), *vault::Keys::FromText(crypto::Base64Encode(std::string(32, 'k'))),
        &api_.clock, &api_.ids);
    api_.services.conductor = machine_.conductor.get();
    api_.services.vault = vault_.get();
    api_.services.secrets = &secrets_;
    Register("sealer", crypto::Base64Encode(crypto::AsText(pair_.public_key)));
    Register("keyless", "");
  }

  void Register(std::string_view name, std::string_view key) {
    store::RuntimeRow row;
    row.kind = "worker_pool";
    row.name = name;
    row.runtime = WriteJson(Json::Object({{"worker_public_key", key}}));
    ASSERT_TRUE(machine_.conductor->fleet().Register(std::move(row)));
  }

  static std::string Target(std::string_view alias, std::string_view worker = "sealer",
                            std::string_view run = kRun) {
    return fmt::format("/api/credentials/{}/sealed?worker_id={}&execution_id={}", alias, worker,
                       run);
  }
  Asked Ask(std::string_view target) {
    api_.run = [this] { secrets_.Answer(); };
    return api_.Get(target);
  }

  // What the worker reads.
  Json Open(const Json& sealed) const {
    const auto other = crypto::KeyFrom(*crypto::Base64Decode(sealed["eph_pub"].AsString()));
    const auto shared = crypto::X25519Derive(pair_.private_key, *other);
    const std::string derived =
        crypto::HkdfSha256(crypto::AsText(*shared), "", "noetl-sealed-v1", 44);
    crypto::Nonce nonce;
    std::ranges::copy(derived.substr(32), nonce.begin());
    const auto plain =
        crypto::Open(crypto::Cipher::kChaCha20Poly1305, *crypto::KeyFrom(derived.substr(0, 32)),
                     nonce, *crypto::Base64Decode(sealed["ciphertext"].AsString()),
                     "x25519-hkdf-sha256-chacha20-poly1305|v=1");
    return plain ? ParseJson(*plain).value_or(Json()) : Json();
  }

  // Operation, name, outcome and worker, oldest first.
  std::vector<std::string> Audit() const {
    std::vector<std::string> out;
    const std::vector<store::AuditRow> rows = api_.store->ListAudit({.limit = 100}).value();
    for (const store::AuditRow& row : rows) {
      out.push_back(
          fmt::format("{} {} {} {}", row.operation, row.credential, row.outcome, row.worker_id));
    }
    std::ranges::reverse(out);
    return out;
  }

  conductor::Machine machine_;
  crypto::X25519Pair pair_ = crypto::MakeX25519Pair();
  TestApi api_{{.families = {CredentialRoutes()}}};
  LateSecrets secrets_;
  std::unique_ptr<vault::Vault> vault_;
};

TEST_F(SealedRouteTest, StoredOnesNeedNobodyElse) {
  ASSERT_TRUE(vault_->Put({.name = "pg", .type = "postgres", .data = Json::Object({{"p", 1}})}));
  const Asked asked = Ask(Target("pg"));
  ASSERT_EQ(asked.status(), 200) << asked.response.body;
  EXPECT_EQ(asked.header("Cache-Control"), "no-store");
  EXPECT_EQ(Open(asked.body)["type"], Json("postgres"));
  EXPECT_EQ(Open(asked.body)["data"], Json::Object({{"p", 1}}));
  EXPECT_THAT(secrets_.asked, ElementsAre());
  EXPECT_THAT(Audit(), ElementsAre("get_sealed pg ok sealer"));
}

TEST_F(SealedRouteTest, SecretsOfTheRunComeLater) {
  secrets_.secrets["alias"] = Json::Object({{"token", "geheim"}});
  const auto exchange = api_.Begin(MakeRequest("GET", Target("alias")));
  EXPECT_FALSE(exchange->answered());
  secrets_.Answer();
  const Response response = exchange->Wait();
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.Find("Cache-Control"), "no-store");
  EXPECT_THAT(response.body, Not(HasSubstr("geheim")));
  const Json opened = Open(ParseJson(response.body).value());
  EXPECT_EQ(opened["name"], Json("alias"));
  EXPECT_EQ(opened["type"], Json("keychain"));
  EXPECT_EQ(opened["data"], Json::Object({{"token", "geheim"}}));
  EXPECT_THAT(secrets_.asked, ElementsAre("alias of 77"));
  EXPECT_THAT(Audit(), ElementsAre("get_sealed alias credential_not_found sealer",
                                   "get_sealed alias ok sealer"));
}

TEST_F(SealedRouteTest, SecretInputsHaveSlashesInTheirNames) {
  secrets_.secrets["input/77/key"] = Json::Object({{"value", "geheim"}});
  const Asked asked = Ask(Target("input%2F77%2Fkey"));
  ASSERT_EQ(asked.status(), 200) << asked.response.body;
  EXPECT_EQ(Open(asked.body)["data"], Json::Object({{"value", "geheim"}}));
}

TEST_F(SealedRouteTest, NobodyIsAskedInVain) {
  secrets_.secrets["alias"] = Json::Object({{"token", "geheim"}});
  EXPECT_EQ(Ask(Target("alias", "keyless")).code(), "no_pubkey");
  EXPECT_EQ(Ask(Target("alias", "nobody")).code(), "no_pubkey");
  EXPECT_EQ(Ask(Target("alias", "")).status(), 400);
  EXPECT_EQ(Ask("/api/credentials/alias/sealed?worker_id=sealer").status(), 404);  // of which run?
  EXPECT_THAT(secrets_.asked, ElementsAre());
  EXPECT_EQ(Ask(Target("other")).status(), 404);
  EXPECT_THAT(secrets_.asked, ElementsAre("other of 77"));
}

}  // namespace
}  // namespace noetl::api
