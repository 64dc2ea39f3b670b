#include "vault/keychain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "vault/stats.h"
#include "vault/testing.h"

namespace noetl::vault {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr std::int64_t kNow = 1'780'000'000'000'000;
constexpr std::int64_t kSecond = 1'000'000;
// In every secret of these tests, and in no message.
constexpr std::string_view kMark = "geheim";

// Answers from a list, at once or when told to.
class FakeFetcher final : public Fetcher {
 public:
  void Fetch(FetchRequest request, Done done) override {
    std::optional<Result<FetchReply>> reply;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
      if (hold_) {
        held_.push_back(std::move(done));
        return;
      }
      reply = Take();
    }
    done(*std::move(reply));
  }

  void Answer(int status, std::string body) { Add(FetchReply{status, std::move(body)}); }
  void Break(std::string message) { Add(Fail("fetch", std::move(message))); }
  void Hold() {
    const std::lock_guard lock(mutex_);
    hold_ = true;
  }
  // Answers what is held, in order, and holds no more.
  void Release() {
    while (true) {
      Done done;
      Result<FetchReply> reply;
      {
        const std::lock_guard lock(mutex_);
        hold_ = false;
        if (held_.empty()) return;
        done = std::move(held_.front());
        held_.pop_front();
        reply = Take();
      }
      done(std::move(reply));
    }
  }
  std::vector<FetchRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Add(Result<FetchReply> reply) {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
  }
  Result<FetchReply> Take() {
    if (replies_.empty()) return FetchReply{500, "geheim: nobody expected this request"};
    Result<FetchReply> reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

  mutable std::mutex mutex_;
  std::vector<FetchRequest> requests_;
  std::deque<Result<FetchReply>> replies_;
  std::deque<Done> held_;
  bool hold_ = false;
};

class KeychainTest : public testing::Test {
 protected:
  KeychainTest()
      : vault_(&store_, *Keys::FromText(crypto::Base64Encode(std::string(32, 'k'))), &clock_,
               &ids_) {}

  KeychainRequest Request(std::string_view entries, std::string_view alias) const {
    return {.entries = Parse(entries),
            .workload = workload_,
            .alias = std::string(alias),
            .catalog_id = 7,
            .execution_id = 42,
            .reader = {.worker_id = "worker-7", .execution_id = 42}};
  }

  std::optional<Result<Json>> Start(Keychain& keychain, const KeychainRequest& request) {
    std::optional<Result<Json>> out;
    keychain.Resolve(request, [&](Result<Json> value) { out = std::move(value); });
    return out;
  }

  Result<Json> Resolve(std::string_view entries, std::string_view alias) {
    Keychain keychain(&vault_, &fetcher_, &clock_, options_);
    std::optional<Result<Json>> out = Start(keychain, Request(entries, alias));
    EXPECT_TRUE(out) << "nobody answered";
    if (!out) return Json();
    if (!*out) {
      EXPECT_THAT(out->error().message, Not(HasSubstr(std::string(kMark))));
    }
    return *std::move(out);
  }
  Json Good(std::string_view entries, std::string_view alias) {
    Result<Json> value = Resolve(entries, alias);
    EXPECT_TRUE(value) << value.error().code << ": " << value.error().message;
    return value.value_or(Json());
  }
  Error Bad(std::string_view entries, std::string_view alias) {
    Result<Json> value = Resolve(entries, alias);
    EXPECT_FALSE(value);
    return value ? Error() : value.error();
  }
  void Store(std::string_view name, std::string_view data) {
    ASSERT_TRUE(vault_.Put({.name = std::string(name), .type = "any", .data = Parse(data)}));
  }
  std::string LastOutcome() const {
    const auto audit = store_.audit();
    return audit.empty() ? ""
                         : audit.back().operation + " " + audit.back().credential + " " +
                               audit.back().outcome;
  }

  FakeSecrets store_;
  ManualClock clock_{kNow};
  SequentialIds ids_;
  Vault vault_;
  FakeFetcher fetcher_;
  KeychainOptions options_;
  Json workload_ = Parse(R"({"environment":"prod","host":"https://issuer.test"})");
};

constexpr std::string_view kOauth = R"([{"name":"api","kind":"oauth2",
    "endpoint":"{{ workload.host }}/token","headers":{"X-Env":"{{ environment }}"},
    "data":{"grant_type":"client_credentials","client_secret":"geheim & co"}}])";

TEST_F(KeychainTest, CredentialsByRenderedName) {
  Store("pg_prod", R"({"password":"geheim"})");
  const std::string_view entries = R"([
      {"name":"a","kind":"credential","credential":"pg_{{ workload.environment }}"},
      {"name":"b","kind":"credential_ref","ref":"pg_{{ environment }}","credential":"nobody"},
      {"name":"pg_prod","kind":"credential"},
      {"name":"d","credential":"pg_prod"}])";
  for (const char* alias : {"a", "b", "pg_prod", "d"}) {
    EXPECT_EQ(Good(entries, alias), Parse(R"({"password":"geheim"})"));
    EXPECT_EQ(LastOutcome(), std::string("resolve_keychain ") + alias + " ok");
  }
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"credential","credential":"x_{{ environment }}"}])", "a"),
            (Error{"not_found", "keychain entry 'a': credential 'x_{{ environment }}' not found"}));
  EXPECT_EQ(LastOutcome(), "resolve_keychain a credential_not_found");
}

TEST_F(KeychainTest, BearerAndStatic) {
  Store("stored", R"({"token":"geheim"})");
  const std::string_view entries = R"([
      {"name":"stored","kind":"credential"},
      {"name":"a","kind":"bearer","token":"{{ keychain.stored.token }}"},
      {"name":"b","kind":"static","map":{"env":"{{ environment }}","token":"x{{ stored.token }}"}},
      {"name":"c","kind":"bearer","token":"{{ keychain.b.token }}","token_type":"MAC"}])";
  EXPECT_EQ(Good(entries, "a"), Parse(R"({"access_token":"geheim","token_type":"Bearer"})"));
  EXPECT_EQ(Good(entries, "b"), Parse(R"({"env":"prod","token":"xgeheim"})"));
  EXPECT_EQ(Good(entries, "c"), Parse(R"({"access_token":"xgeheim","token_type":"MAC"})"));
}

// Only what an entry names is resolved with it: others may be broken.
TEST_F(KeychainTest, EntriesAreLazyAndSeeOnlyEarlierOnes) {
  const std::string_view entries = R"([
      {"name":"broken","kind":"credential","credential":"nobody"},
      {"name":"fine","kind":"static","map":{"x":"1"}},
      {"name":"early","kind":"static","map":{"x":"{{ keychain.late.x }}"}},
      {"name":"late","kind":"static","map":{"x":"2"}},
      {"name":"self","kind":"static","map":{"x":"{{ keychain.self.x }}"}},
      {"name":"all","kind":"static","map":{"n":"{{ keychain | length }}"}}])";
  EXPECT_EQ(Good(entries, "fine"), Parse(R"({"x":"1"})"));
  EXPECT_EQ(Bad(entries, "early").code, "template");
  EXPECT_EQ(LastOutcome(), "resolve_keychain early template_error");
  EXPECT_EQ(Bad(entries, "self").code, "template");
  EXPECT_EQ(Bad(entries, "all").code, "not_found");
  EXPECT_EQ(Bad(entries, "nobody").code, "not_found");
}

TEST_F(KeychainTest, NothingIsSentWithAGapInIt) {
  Store("stored", R"({"token":"geheim"})");
  const auto entry = [](std::string_view field) {
    return fmt::format(R"([{{"name":"stored","kind":"credential"}},{{"name":"a","kind":"oauth2",)"
                       R"("endpoint":"https://issuer.test/t",{}}}])",
                       field);
  };
  for (const char* field :
       {R"("headers":{"Authorization":"Bearer {{ keychain.stored.tokn }}"})",
        R"("headers":{"Authorization":"{{ keychain.stored.tokn }}"})",
        R"("data":{"secret":"{{ nothing }}"})", R"("data":"{{ nothing }}")",
        R"("data":{"secret":"{{ keychain.stored.token + 1 }}"})", R"("method":"{{ '' }}")",
        R"("headers":{"Authorization":"{{ environment | nothing }}"})"}) {
    EXPECT_EQ(Bad(entry(field), "a").code, "template") << field;
  }
  EXPECT_THAT(fetcher_.requests(), IsEmpty());
}

TEST_F(KeychainTest, KindsAndProvidersThatAreNotThereAreNamed) {
  for (const char* kind : {"google_id_token", "google_oauth", "google_service_account", "magic"}) {
    const Error error = Bad(fmt::format(R"([{{"name":"a","kind":"{}"}}])", kind), "a");
    EXPECT_EQ(error.code, "unsupported");
    EXPECT_THAT(error.message, AllOf(HasSubstr(kind), HasSubstr("oauth2")));
  }
  const Error provider = Bad(R"([{"name":"a","kind":"secrets","provider":"gcp"}])", "a");
  EXPECT_EQ(provider.code, "unsupported");
  EXPECT_THAT(provider.message, AllOf(HasSubstr("gcp"), HasSubstr("vault")));
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"secrets"}])", "a").code, "invalid");
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"bearer"}])", "a").code, "invalid");
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"static","map":{},"scope":"galaxy"}])", "a").code,
            "invalid");
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"oauth2","endpoint":"file:///etc/passwd"}])", "a").code,
            "invalid");
}

TEST_F(KeychainTest, EnvironmentOffersOnlyWhatItWasTold) {
  options_ = KeychainOptions::From(
      *Settings::Load({{"NOETL_KEYCHAIN_ENV_VARS", "API_KEY,NOETL_ENCRYPTION_KEY,UNSET"}}),
      {{"API_KEY", "geheim"}, {"OTHER", "geheim2"}, {"NOETL_ENCRYPTION_KEY", "geheim3"}});
  EXPECT_EQ(Good(R"([{"name":"a","kind":"secrets","provider":"env","map":{"k":"API_KEY"}}])", "a"),
            Parse(R"({"k":"geheim"})"));
  EXPECT_EQ(Good(R"([{"name":"API_KEY","kind":"secret_manager","provider":"env"}])", "API_KEY"),
            Json("geheim"));
  for (const char* name : {"OTHER", "NOETL_ENCRYPTION_KEY", "UNSET"}) {
    EXPECT_EQ(Bad(fmt::format(R"([{{"name":"{}","provider":"env"}}])", name), name).code,
              "refused");
  }
}

TEST_F(KeychainTest, FilesStayInsideTheirFolder) {
  const TemporaryDirectory directory;
  const std::string root = directory.path() + "/secrets";
  std::filesystem::create_directory(root);
  std::ofstream(root + "/password") << "geheim\n";
  std::ofstream(directory.path() + "/key") << "geheim2";
  std::filesystem::create_symlink("../key", root + "/link");
  std::ofstream(root + "/large") << std::string(100'000, 'x');
  const auto entry = [](std::string_view path) {
    return fmt::format(R"([{{"name":"a","provider":"file","map":{{"p":"{}"}}}}])", path);
  };
  EXPECT_EQ(Bad(entry("password"), "a").code, "refused");
  options_.files_root = root;
  EXPECT_EQ(Good(entry("password"), "a"), Parse(R"({"p":"geheim"})"));
  EXPECT_EQ(Bad(entry("../key"), "a").code, "refused");
  EXPECT_EQ(Bad(entry("link"), "a").code, "refused");
  EXPECT_EQ(Bad(entry(directory.path() + "/key"), "a").code, "refused");
  EXPECT_EQ(Bad(entry("nothing"), "a").code, "not_found");
  EXPECT_EQ(Bad(entry("large"), "a").code, "invalid");
}

TEST_F(KeychainTest, HashiCorpVault) {
  options_.vault_address = "https://vault.test:8200/";
  options_.vault_token = "geheim-token";
  fetcher_.Answer(200, R"({"data":{"data":{"user":"u","password":"geheim"}}})");
  fetcher_.Answer(200, R"({"data":{"data":{"password":"geheim2"}}})");
  fetcher_.Answer(200, R"({"data":{"data":{"value":"geheim3","other":1}}})");
  // Each place is asked for once, however many fields are taken from it.
  EXPECT_EQ(Good(R"([{"name":"a","kind":"secrets","provider":"vault","map":{
                      "u":"kv/{{ environment }}/db#user","p":"kv/prod/db#password",
                      "long":"kv/data/other#password","plain":"token"}}])",
                 "a"),
            Parse(R"({"u":"u","p":"geheim","long":"geheim2","plain":"geheim3"})"));
  std::vector<std::string> urls;
  for (const FetchRequest& request : fetcher_.requests()) {
    urls.push_back(request.url);
    EXPECT_THAT(request.headers, Contains(Pair("X-Vault-Token", "geheim-token")));
  }
  EXPECT_THAT(urls, ElementsAre("https://vault.test:8200/v1/kv/data/prod/db",
                                "https://vault.test:8200/v1/kv/data/other",
                                "https://vault.test:8200/v1/secret/data/token"));
}

TEST_F(KeychainTest, HashiCorpVaultWithACredential) {
  const std::string_view entries =
      R"([{"name":"db","provider":"vault","auth":"hc_{{ environment }}"}])";
  EXPECT_EQ(Bad(R"([{"name":"db","provider":"vault"}])", "db").code, "refused");
  EXPECT_EQ(Bad(entries, "db").code, "not_found");
  Store("hc_prod", R"({"url":"http://other.test","token":"geheim-token"})");
  fetcher_.Answer(200, R"({"data":{"data":{"only":"geheim"}}})");
  EXPECT_EQ(Good(entries, "db"), Json("geheim"));
  EXPECT_EQ(fetcher_.requests()[0].url, "http://other.test/v1/secret/data/db");
  fetcher_.Answer(404, R"({"errors":["geheim"]})");
  EXPECT_EQ(Bad(R"([{"name":"x","provider":"vault","auth":"hc_prod"}])", "x").code, "fetch");
  fetcher_.Answer(200, R"({"data":{"data":{"a":"geheim","b":"geheim"}}})");
  EXPECT_EQ(Bad(R"([{"name":"y","provider":"vault","auth":"hc_prod"}])", "y").code, "invalid");
  fetcher_.Answer(200, R"({"data":"geheim"})");
  EXPECT_EQ(Bad(R"([{"name":"z","provider":"vault","auth":"hc_prod"}])", "z").code, "fetch");
  for (const char* path : {"kv/../sys/seal", "kv//x", "", "kv/./x"}) {
    const auto text = fmt::format(
        R"([{{"name":"w","provider":"vault","auth":"hc_prod","map":{{"f":"{}"}}}}])", path);
    EXPECT_EQ(Bad(text, "w").code, "invalid") << path;
  }
}

TEST_F(KeychainTest, OauthSendsAFormAndKeepsTheToken) {
  fetcher_.Answer(200, R"({"access_token":"geheim","expires_in":3600})");
  EXPECT_EQ(Good(kOauth, "api")["access_token"], Json("geheim"));
  const FetchRequest request = fetcher_.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.url, "https://issuer.test/token");
  EXPECT_EQ(request.body, "grant_type=client_credentials&client_secret=geheim%20%26%20co");
  EXPECT_THAT(request.headers, Contains(Pair("X-Env", "prod")));
  EXPECT_THAT(request.headers, Contains(Pair("Content-Type", "application/x-www-form-urlencoded")));
  const store::KeychainRow row = **store_.FindKeychain("api:7:42");
  EXPECT_EQ(row.expires_at_us, kNow + 3540 * kSecond);
  EXPECT_EQ(row.scope_type, "local");
  EXPECT_THAT(row.data_encrypted, Not(HasSubstr("geheim")));
  // Kept: another keychain of the same run asks nobody.
  EXPECT_EQ(Good(kOauth, "api")["access_token"], Json("geheim"));
  EXPECT_EQ(fetcher_.requests().size(), 1u);
  // Expired: it does.
  clock_.Advance(3540 * kSecond);
  fetcher_.Answer(200, R"({"access_token":"geheim2"})");
  EXPECT_EQ(Good(kOauth, "api")["access_token"], Json("geheim2"));
  EXPECT_EQ((*store_.FindKeychain("api:7:42"))->expires_at_us, clock_.NowMicros() + 600 * kSecond);
}

TEST_F(KeychainTest, JsonBodiesQueriesAndOtherAnswers) {
  fetcher_.Answer(200, R"([1])");
  EXPECT_EQ(Good(R"([{"name":"a","kind":"http","endpoint":"https://x.test/s?v=1","method":"get",
                      "data":{"q":"a b"}}])",
                 "a"),
            Parse("[1]"));
  EXPECT_EQ(fetcher_.requests()[0].url, "https://x.test/s?v=1&q=a%20b");
  EXPECT_EQ(fetcher_.requests()[0].body, "");
  fetcher_.Answer(200, R"([1])");
  const std::string_view json = R"([{"name":"b","kind":"oauth2","endpoint":"https://x.test/s",
      "headers":{"content-type":"application/json"},"data":{"n":1}}])";
  EXPECT_EQ(Bad(json, "b").code, "fetch");
  EXPECT_EQ(fetcher_.requests()[1].body, R"({"n":1})");
}

TEST_F(KeychainTest, LifetimesFollowTheIssuer) {
  struct Case {
    std::string_view fields;
    std::string_view answer;
    std::int64_t seconds;  // 0: not kept
  };
  const Case cases[] = {
      {"", R"({"expires_in":"120"})", 60},
      {"", R"({"expires_in":62})", 5},
      {"", R"({"expires_in":60})", 0},
      {"", R"({"expires_in":-5})", 0},
      {"", R"({"t":1})", 600},
      {R"(,"scope":"global")", R"({"t":1})", 86'400},
      {R"(,"scope":"shared")", R"({"t":1})", 86'400},
      {R"(,"ttl_seconds":30)", R"({"expires_in":3600})", 30},
      {R"(,"ttl_seconds":"7200")", R"({"expires_in":3600})", 3540},
      {"", R"({"expires_at":"2026-05-28T20:30:00Z"})", 140},
  };
  int number = 0;
  for (const Case& each : cases) {
    const std::string name = fmt::format("n{}", ++number);
    fetcher_.Answer(200, std::string(each.answer));
    Good(fmt::format(R"([{{"name":"{}","kind":"oauth2","endpoint":"https://x.test"{}}}])", name,
                     each.fields),
         name);
    std::int64_t kept = 0;
    const std::vector<store::KeychainRow> rows = *store_.ListKeychain(7, 100);
    for (const store::KeychainRow& row : rows) {
      if (row.name == name) kept = (row.expires_at_us - kNow) / kSecond;
    }
    EXPECT_EQ(kept, each.seconds) << each.fields << each.answer;
  }
}

TEST_F(KeychainTest, ScopesShareAsFarAsTheySay) {
  const auto ask = [&](std::string_view scope, std::int64_t execution, std::int64_t root) {
    Keychain keychain(&vault_, &fetcher_, &clock_, options_);
    KeychainRequest request =
        Request(fmt::format(R"([{{"name":"s_{0}","kind":"oauth2","endpoint":"https://x.test",)"
                            R"("scope":"{0}"}}])",
                            scope),
                "s_" + std::string(scope));
    request.execution_id = execution;
    request.root_execution_id = root;
    fetcher_.Answer(200, R"({"t":1})");
    const std::size_t before = fetcher_.requests().size();
    EXPECT_TRUE(Start(keychain, request));
    const bool asked = fetcher_.requests().size() > before;
    if (!asked) fetcher_.Fetch({}, [](const auto&) {});  // takes the spare answer
    return asked;
  };
  EXPECT_TRUE(ask("local", 1, 1));
  EXPECT_FALSE(ask("local", 1, 1));
  EXPECT_TRUE(ask("execution", 2, 1));
  EXPECT_TRUE(ask("local", 2, 1));
  EXPECT_TRUE(ask("shared", 1, 1));
  EXPECT_FALSE(ask("shared", 2, 1));
  EXPECT_TRUE(ask("shared", 3, 3));
  EXPECT_TRUE(ask("global", 1, 1));
  EXPECT_FALSE(ask("global", 9, 9));
  // Nobody's run: nothing is kept.
  EXPECT_TRUE(ask("local", 0, 0));
  EXPECT_TRUE(ask("local", 0, 0));
}

TEST_F(KeychainTest, FailuresAreToldWithoutTheirBody) {
  fetcher_.Answer(401, "geheim");
  const Error refused = Bad(kOauth, "api");
  EXPECT_EQ(refused.code, "fetch");
  EXPECT_THAT(refused.message, HasSubstr("https://issuer.test answered 401"));
  EXPECT_EQ(LastOutcome(), "resolve_keychain api provider_fetch_error");
  fetcher_.Answer(503, "geheim");
  EXPECT_EQ(Bad(kOauth, "api").code, "unavailable");
  fetcher_.Answer(302, "geheim");
  EXPECT_EQ(Bad(kOauth, "api").code, "fetch");
  fetcher_.Break("could not connect");
  EXPECT_EQ(Bad(kOauth, "api").code, "unavailable");
  fetcher_.Answer(200, "<geheim>");
  EXPECT_EQ(Bad(kOauth, "api").code, "fetch");
  EXPECT_THAT(*store_.ListKeychain(7, 10), IsEmpty());
  // Passwords in an address are not for messages.
  fetcher_.Answer(404, "");
  EXPECT_THAT(
      Bad(R"([{"name":"a","kind":"http","endpoint":"https://u:geheim@x.test/geheim?geheim"}])", "a")
          .message,
      HasSubstr("https://x.test answered 404"));
}

TEST_F(KeychainTest, WhatCannotBeAuditedIsNotHandedOut) {
  store_.FailAudit("the disk is full");
  EXPECT_EQ(Bad(R"([{"name":"a","kind":"bearer","token":"geheim"}])", "a").code, "io");
  const auto& written =
      vault_.stats()
          .audits[IndexIn(kAuditOperations, "resolve_keychain")][IndexIn(kAuditOutcomes, "ok")];
  EXPECT_EQ(written[0], 0);
  EXPECT_EQ(written[1], 1);
}

TEST_F(KeychainTest, RefreshesInTheBackgroundBeforeTheEnd) {
  Keychain keychain(&vault_, &fetcher_, &clock_, options_);
  const KeychainRequest request = Request(kOauth, "api");
  fetcher_.Answer(200, R"({"access_token":"one","expires_in":360})");
  EXPECT_TRUE(Start(keychain, request)->has_value());
  clock_.Advance(250 * kSecond);
  // 50 s left: served from what is kept while the next one is on its way, asked for once.
  fetcher_.Hold();
  fetcher_.Answer(200, R"({"access_token":"two","expires_in":360})");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((**Start(keychain, request))["access_token"], Json("one"));
  }
  EXPECT_EQ(fetcher_.requests().size(), 2u);
  fetcher_.Release();
  EXPECT_EQ((**Start(keychain, request))["access_token"], Json("two"));
  EXPECT_EQ(fetcher_.requests().size(), 2u);
  // A refresh that fails leaves the old value.
  clock_.Advance(250 * kSecond);
  fetcher_.Answer(500, "");
  EXPECT_EQ((**Start(keychain, request))["access_token"], Json("two"));
  EXPECT_EQ(fetcher_.requests().size(), 3u);
  fetcher_.Answer(200, R"({"access_token":"three","expires_in":360})");
  EXPECT_EQ((**Start(keychain, request))["access_token"], Json("two"));
  EXPECT_EQ((**Start(keychain, request))["access_token"], Json("three"));
  const SecretStats& stats = vault_.stats();
  const auto counted = [&](Refreshed what) {
    return stats.refreshes[static_cast<std::size_t>(what)].load();
  };
  EXPECT_EQ(counted(Refreshed::kTriggered), 3);
  EXPECT_EQ(counted(Refreshed::kSucceeded), 2);
  EXPECT_EQ(counted(Refreshed::kFailed), 1);
  EXPECT_EQ(counted(Refreshed::kShared), 0);
  const std::size_t oauth2 = IndexIn(kProviders, "oauth2");
  EXPECT_EQ(stats.fetches[oauth2][0], 3);
  EXPECT_EQ(stats.fetches[oauth2][1], 1);
  EXPECT_EQ(stats.fetch_times[oauth2].Read().count(), 4);
}

TEST_F(KeychainTest, WhoeverComesTooLateForTheOldValueWaitsForTheRefresh) {
  Keychain keychain(&vault_, &fetcher_, &clock_, options_);
  const KeychainRequest request = Request(kOauth, "api");
  fetcher_.Answer(200, R"({"access_token":"one","expires_in":360})");
  EXPECT_TRUE(Start(keychain, request)->has_value());
  clock_.Advance(250 * kSecond);
  fetcher_.Hold();
  fetcher_.Answer(200, R"({"access_token":"two","expires_in":360})");
  EXPECT_TRUE(Start(keychain, request)->has_value());
  clock_.Advance(100 * kSecond);
  std::optional<Result<Json>> late;
  keychain.Resolve(request, [&](Result<Json> value) { late = std::move(value); });
  EXPECT_FALSE(late);
  fetcher_.Release();
  ASSERT_TRUE(late);
  EXPECT_EQ((**late)["access_token"], Json("two"));
  EXPECT_EQ(vault_.stats().refreshes[static_cast<std::size_t>(Refreshed::kShared)], 1);
  EXPECT_EQ(fetcher_.requests().size(), 2u);
}

TEST_F(KeychainTest, ManyThreadsShareOneFetch) {
  Keychain keychain(&vault_, &fetcher_, &clock_, options_);
  fetcher_.Hold();
  fetcher_.Answer(200, R"({"access_token":"geheim","expires_in":3600})");
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  std::atomic<int> good = 0;
  std::latch started(kThreads);
  std::latch done(kThreads * kEach);
  const auto ask = [&] {
    keychain.Resolve(Request(kOauth, "api"), [&](const Result<Json>& value) {
      if (value && (*value)["access_token"] == Json("geheim")) ++good;
      done.count_down();
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ask();
      started.count_down();
      for (int j = 1; j < kEach; ++j) ask();
    });
  }
  started.wait();
  fetcher_.Release();
  for (std::thread& thread : threads) thread.join();
  done.wait();
  EXPECT_EQ(good, kThreads * kEach);
  EXPECT_EQ(fetcher_.requests().size(), 1u);
  // Each of them read a secret.
  EXPECT_EQ(store_.audit().size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST_F(KeychainTest, EntriesBuildOnTokensOfEarlierOnes) {
  Store("client", R"({"client_id":"id","client_secret":"geheim"})");
  fetcher_.Answer(200, R"({"access_token":"geheim1","expires_in":3600})");
  fetcher_.Answer(200, R"({"session":"geheim2"})");
  const std::string_view entries = R"([
      {"name":"client","kind":"credential"},
      {"name":"login","kind":"oauth2","endpoint":"https://x.test/login",
       "data":{"id":"{{ keychain.client.client_id }}","secret":"{{ client.client_secret }}"}},
      {"name":"session","kind":"http","endpoint":"https://x.test/session","method":"POST",
       "headers":{"Authorization":"Bearer {{ keychain.login.access_token }}"}}])";
  EXPECT_EQ(Good(entries, "session")["session"], Json("geheim2"));
  EXPECT_EQ(fetcher_.requests()[0].body, "id=id&secret=geheim");
  EXPECT_THAT(fetcher_.requests()[1].headers, Contains(Pair("Authorization", "Bearer geheim1")));
  EXPECT_EQ(Good(entries, "login")["access_token"], Json("geheim1"));
  EXPECT_EQ(fetcher_.requests().size(), 2u);
}

TEST_F(KeychainTest, KubernetesSecrets) {
  const auto entry = [](std::string_view path) {
    return fmt::format(R"([{{"name":"a","provider":"k8s","map":{{"p":"{}"}}}}])", path);
  };
  options_.service_account = "/nowhere";
  EXPECT_EQ(Bad(entry("db#password"), "a").code, "refused");
  const TemporaryDirectory account;
  std::ofstream(account.path() + "/token") << "geheim-token";
  std::ofstream(account.path() + "/namespace") << "apps\n";
  options_ = KeychainOptions::From(*Settings::Load({}), {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                         {"KUBERNETES_SERVICE_PORT", "6443"}});
  options_.service_account = account.path();
  const std::string answer =
      fmt::format(R"({{"data":{{"password":"{}","binary":"{}"}}}})", crypto::Base64Encode("geheim"),
                  crypto::Base64Encode("\xff\xfe"));
  fetcher_.Answer(200, answer);
  EXPECT_EQ(Good(entry("db#password"), "a"), Parse(R"({"p":"geheim"})"));
  const FetchRequest request = fetcher_.requests()[0];
  EXPECT_EQ(request.url, "https://[fd00::1]:6443/api/v1/namespaces/apps/secrets/db");
  EXPECT_EQ(request.authorities, account.path() + "/ca.crt");
  EXPECT_THAT(request.headers, Contains(Pair("Authorization", "Bearer geheim-token")));
  EXPECT_EQ((*store_.FindKeychain("a:7:42"))->expires_at_us, kNow + 600 * kSecond);
  clock_.Advance(600 * kSecond);
  EXPECT_EQ(Bad(entry("../x#p"), "a").code, "invalid");
  EXPECT_EQ(Bad(entry("a/b/c#p"), "a").code, "invalid");
  fetcher_.Answer(200, answer);
  EXPECT_EQ(Bad(entry("other/db#nothing"), "a").code, "not_found");
}

}  // namespace
}  // namespace noetl::vault
