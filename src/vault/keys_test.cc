#include "vault/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/temporary_directory.h"
#include "base/testing.h"

namespace noetl::vault {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string KeyText(char fill) { return crypto::Base64Encode(std::string(32, fill)); }

Settings With(const Settings::Variables& variables) {
  Result<Settings> settings = Settings::Load(variables);
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message);
  return settings ? *settings : *Settings::Load({});
}

std::shared_ptr<const Keys> Good(const Settings::Variables& variables,
                                 const std::string& directory = "") {
  auto keys = Keys::Load(With(variables), directory, false);
  EXPECT_TRUE(keys) << (keys ? "" : keys.error().message);
  return keys.value_or(nullptr);
}

std::string Problem(const Settings::Variables& variables, const std::string& directory = "",
                    bool has_records = false) {
  const auto keys = Keys::Load(With(variables), directory, has_records);
  EXPECT_FALSE(keys);
  if (keys) return "";
  EXPECT_EQ(keys.error().code, "key");
  return keys.error().message;
}

void Write(const std::string& path, std::string_view text, std::filesystem::perms mode) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, mode);
}

constexpr auto kOwnerOnly =
    std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;

std::shared_ptr<const Keys> Two(std::string_view current) {
  return Good(
      {{"NOETL_ENCRYPTION_KEYS", fmt::format(R"({{"current":"{}","keys":{{"v1":"{}","v2":"{}"}}}})",
                                             current, KeyText('a'), KeyText('b'))}});
}

TEST(KeysTest, FromTheEnvironment) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  EXPECT_EQ(keys->current(), "v1");
  EXPECT_EQ(keys->source(), "env:NOETL_ENCRYPTION_KEY");
  ASSERT_NE(keys->Find("v1"), nullptr);
  EXPECT_EQ(crypto::AsText(*keys->Find("v1")), std::string(32, 'a'));
  EXPECT_EQ(keys->Find("v2"), nullptr);
}

TEST(KeysTest, SeveralKeysGoBeforeTheSingleOne) {
  const auto keys = Good(
      {{"NOETL_ENCRYPTION_KEY", KeyText('x')},
       {"NOETL_ENCRYPTION_KEYS", fmt::format(R"({{"current":"b","keys":{{"a":"{}","b":"{}"}}}})",
                                             KeyText('a'), KeyText('b'))}});
  EXPECT_EQ(keys->current(), "b");
  EXPECT_EQ(crypto::AsText(*keys->Find("a")), std::string(32, 'a'));
  EXPECT_EQ(keys->Find("v1"), nullptr);
}

TEST(KeysTest, WrongKeysAreNamedAndNotShown) {
  const std::string secret = crypto::Base64Encode("too short to be a key");
  const std::string short_key = Problem({{"NOETL_ENCRYPTION_KEY", secret}});
  EXPECT_THAT(short_key, HasSubstr("NOETL_ENCRYPTION_KEY: holds 21 bytes, not 32"));
  EXPECT_THAT(short_key, Not(HasSubstr(secret)));
  EXPECT_THAT(Problem({{"NOETL_ENCRYPTION_KEY", "geheim!"}}), Not(HasSubstr("geheim")));
  EXPECT_THAT(Problem({{"NOETL_ENCRYPTION_KEYS", "{geheim"}}), Not(HasSubstr("geheim")));
  EXPECT_THAT(Problem({{"NOETL_ENCRYPTION_KEYS", R"({"current":"v1","keys":{}})"}}),
              HasSubstr("NOETL_ENCRYPTION_KEYS"));
  EXPECT_THAT(Problem({{"NOETL_ENCRYPTION_KEYS",
                        fmt::format(R"({{"current":"v9","keys":{{"v1":"{}"}}}})", KeyText('a'))}}),
              HasSubstr("'v9'"));
  const std::string broken =
      Problem({{"NOETL_ENCRYPTION_KEYS", R"({"current":"v1","keys":{"v1":"geheim"}})"}});
  EXPECT_THAT(broken, HasSubstr("key 'v1'"));
  EXPECT_THAT(broken, Not(HasSubstr("geheim")));
}

TEST(KeysTest, NoKeyAndNoDirectoryIsRefusedUnlessAllowed) {
  EXPECT_THAT(Problem({}), HasSubstr("NOETL_ENCRYPTION_KEY: is not set"));
  const auto one = Good({{"NOETL_ALLOW_INSECURE_DEFAULT_KEY", "true"}});
  const auto two = Good({{"NOETL_ALLOW_INSECURE_DEFAULT_KEY", "true"}});
  EXPECT_NE(*one->Find("v1"), *two->Find("v1"));
}

TEST(KeysTest, TheFileIsMadeOnceForItsOwnerOnly) {
  const TemporaryDirectory directory;
  const auto made = Good({}, directory.path());
  const std::string path = directory.path() + "/key";
  EXPECT_EQ(std::filesystem::status(path).permissions(), kOwnerOnly);
  EXPECT_EQ(std::filesystem::file_size(path), 45u);
  EXPECT_EQ(made->source(), "file:key");
  const auto again = Good({{"NOETL_ALLOW_INSECURE_DEFAULT_KEY", "true"}}, directory.path());
  EXPECT_EQ(*made->Find("v1"), *again->Find("v1"));
  // No draft is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(KeysTest, AFileThatOthersMayReadIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/key";
  Write(path, KeyText('a') + "\n", kOwnerOnly);
  EXPECT_EQ(crypto::AsText(*Good({}, directory.path())->Find("v1")), std::string(32, 'a'));
  for (const auto more : {std::filesystem::perms::group_read, std::filesystem::perms::others_read,
                          std::filesystem::perms::group_write}) {
    std::filesystem::permissions(path, kOwnerOnly | more);
    EXPECT_THAT(Problem({}, directory.path()), HasSubstr("may be read by others"));
  }
}

TEST(KeysTest, ABrokenFileIsNeverReplaced) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/key";
  for (const std::string& text :
       {std::string(), std::string("AAAA"), KeyText('a').substr(1), std::string(5000, 'A')}) {
    Write(path, text, kOwnerOnly);
    EXPECT_THAT(Problem({}, directory.path()), HasSubstr(path));
    EXPECT_EQ(std::filesystem::file_size(path), text.size());
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(Problem({}, directory.path()), HasSubstr(path));
}

TEST(KeysTest, NoNewFileWhenRecordsExist) {
  const TemporaryDirectory directory;
  EXPECT_THAT(Problem({}, directory.path(), true), HasSubstr("is missing"));
  EXPECT_THAT(Problem({{"NOETL_ALLOW_INSECURE_DEFAULT_KEY", "true"}}, directory.path(), true),
              HasSubstr("is missing"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/key"));
}

TEST(KeysTest, ProcessesThatStartTogetherUseOneKey) {
  const TemporaryDirectory directory;
  constexpr int kThreads = 8;
  std::vector<std::shared_ptr<const Keys>> keys(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { keys[static_cast<std::size_t>(i)] = Good({}, directory.path()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : keys) EXPECT_EQ(*each->Find("v1"), *keys[0]->Find("v1"));
}

TEST(EnvelopeTest, HasTheExactForm) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  const std::string plain = R"({"password":"geheim"})";
  const Json envelope = Parse(SealEnvelope(*keys, plain));
  const auto names = [](const Json& object) {
    std::string out;
    for (const JsonMember& member : object.members()) out += std::string(member.key()) + " ";
    return out;
  };
  EXPECT_EQ(names(envelope), "v alg ct dek ");
  EXPECT_EQ(names(envelope["dek"]), "p kid kv ct ");
  EXPECT_EQ(envelope["v"], Json(1));
  EXPECT_EQ(envelope["alg"], Json("AES-256-GCM"));
  EXPECT_EQ(envelope["dek"]["p"], Json("local"));
  EXPECT_EQ(envelope["dek"]["kid"], Json("env:NOETL_ENCRYPTION_KEY"));
  EXPECT_EQ(envelope["dek"]["kv"], Json("v1"));
  EXPECT_EQ(envelope["dek"]["ct"].AsString().size(), 80u);
  EXPECT_EQ(crypto::Base64Decode(envelope["ct"].AsString())->size(), 12 + plain.size() + 16);
  EXPECT_EQ(OpenEnvelope(*keys, WriteJson(envelope)), plain);
  EXPECT_NE(SealEnvelope(*keys, plain), SealEnvelope(*keys, plain));
}

// Made by another program from the same description.
TEST(EnvelopeTest, OpensWhatTheLayersSay) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('k')}});
  const crypto::Key master = *crypto::KeyFrom(std::string(32, 'k'));
  const crypto::Key data_key = *crypto::KeyFrom(std::string(32, 'd'));
  const auto layer = [](const crypto::Key& key, std::string_view plain) {
    const crypto::Nonce nonce{1, 2, 3};
    return crypto::Base64Encode(std::string(crypto::AsText(nonce)) +
                                crypto::Seal(crypto::Cipher::kAes256Gcm, key, nonce, plain));
  };
  const std::string envelope =
      fmt::format(R"({{"dek":{{"kv":"v1","kid":"somewhere","p":"local","ct":"{}"}},"ct":"{}",)"
                  R"("alg":"AES-256-GCM","v":1}})",
                  layer(master, crypto::AsText(data_key)), layer(data_key, "[1]"));
  EXPECT_EQ(OpenEnvelope(*keys, envelope), "[1]");
}

// `kid` tells people where the key came from; everything else counts.
TEST(EnvelopeTest, EveryChangedByteFails) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  const std::string aad = EnvelopeAad("credential", "42");
  for (const std::string& bound : {std::string(), aad}) {
    const std::string envelope = SealEnvelope(*keys, R"({"password":"geheim"})", bound);
    const std::size_t kid = envelope.find("env:");
    const std::size_t kid_end = kid + keys->source().size();
    for (std::size_t i = 0; i < envelope.size(); ++i) {
      if (i >= kid && i < kid_end) continue;
      for (const int bit : {1, 2, 4, 32}) {
        std::string changed = envelope;
        changed[i] = static_cast<char>(changed[i] ^ bit);
        const Result<std::string> opened = OpenEnvelope(*keys, changed, bound);
        ASSERT_FALSE(opened) << i << " " << changed;
        EXPECT_EQ(opened.error().code, "decrypt");
        EXPECT_THAT(opened.error().message, Not(HasSubstr("geheim")));
      }
      EXPECT_FALSE(OpenEnvelope(*keys, envelope.substr(0, i), bound));
    }
  }
}

TEST(EnvelopeTest, AnotherKeyDoesNotOpen) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  const auto others = Good({{"NOETL_ENCRYPTION_KEY", KeyText('b')}});
  const Result<std::string> opened = OpenEnvelope(*others, SealEnvelope(*keys, "geheim"));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, "decrypt");
}

TEST(EnvelopeTest, VersionTwoOpensInItsRowOnly) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  const std::string aad = EnvelopeAad("credential", "42");
  EXPECT_EQ(aad, "noetl|credential|42|v2");
  const std::string envelope = SealEnvelope(*keys, "x", aad);
  EXPECT_EQ(Parse(envelope)["v"], Json(2));
  EXPECT_EQ(OpenEnvelope(*keys, envelope, aad), "x");
  EXPECT_FALSE(OpenEnvelope(*keys, envelope, EnvelopeAad("credential", "43")));
  EXPECT_FALSE(OpenEnvelope(*keys, envelope, EnvelopeAad("keychain", "42")));
  EXPECT_FALSE(OpenEnvelope(*keys, envelope));
  // Older records are read wherever they are.
  EXPECT_EQ(OpenEnvelope(*keys, SealEnvelope(*keys, "x"), aad), "x");
}

TEST(EnvelopeTest, OtherProvidersAreRefused) {
  const auto keys = Good({{"NOETL_ENCRYPTION_KEY", KeyText('a')}});
  const Json envelope = Parse(SealEnvelope(*keys, "x"));
  const Json other = envelope.With("dek", envelope["dek"].With("p", "gcp-kms"));
  EXPECT_FALSE(OpenEnvelope(*keys, WriteJson(other)));
  EXPECT_THAT(OpenEnvelope(*keys, R"({"host":"db"})").error().message,
              HasSubstr("not a wallet envelope record"));
}

TEST(EnvelopeTest, RewrappingKeepsThePayload) {
  const auto before = Two("v1");
  const auto after = Two("v2");
  for (const std::string& aad : {std::string(), EnvelopeAad("credential", "1")}) {
    const std::string old = SealEnvelope(*before, "geheim", aad);
    EXPECT_EQ(EnvelopeKeyVersion(old), "v1");
    const Result<std::string> wrapped = RewrapEnvelope(*after, old, aad);
    ASSERT_TRUE(wrapped);
    EXPECT_EQ(EnvelopeKeyVersion(*wrapped), "v2");
    EXPECT_EQ(Parse(old)["ct"], Parse(*wrapped)["ct"]);
    EXPECT_EQ(OpenEnvelope(*after, *wrapped, aad), "geheim");
    // The old key is not needed any more.
    const auto only_new =
        Good({{"NOETL_ENCRYPTION_KEYS",
               fmt::format(R"({{"current":"v2","keys":{{"v2":"{}"}}}})", KeyText('b'))}});
    EXPECT_EQ(OpenEnvelope(*only_new, *wrapped, aad), "geheim");
    EXPECT_FALSE(OpenEnvelope(*only_new, old, aad));
  }
}

}  // namespace
}  // namespace noetl::vault
