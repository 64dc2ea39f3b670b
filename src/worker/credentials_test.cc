#include "worker/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "worker/tools/http_auth.h"

namespace noetl::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Json Good(std::string_view tool, std::string_view config, std::string_view type,
          std::string_view data) {
  const Result<Json> applied = ApplyCredential(tool, Parse(config), "cred", type, Parse(data));
  EXPECT_TRUE(applied) << applied.error().message;
  return applied.value_or(Json());
}

std::string Bad(std::string_view tool, std::string_view config, std::string_view type,
                std::string_view data) {
  const Result<Json> applied = ApplyCredential(tool, Parse(config), "cred", type, Parse(data));
  EXPECT_FALSE(applied) << type << data;
  if (applied) return "";
  EXPECT_EQ(applied.error().code, "auth");
  EXPECT_THAT(applied.error().message, AllOf(HasSubstr("'cred'"), Not(HasSubstr("geheim"))));
  return applied.error().message;
}

// What the http tool sends for the config.
std::vector<std::string> Sent(const Json& config) {
  const HttpPolicy policy(nullptr);
  const Result<HttpAuth> auth = ReadHttpAuth(config["auth"], policy);
  EXPECT_TRUE(auth) << auth.error().message;
  std::vector<std::string> out;
  if (!auth) return out;
  for (const HttpHeader& header : auth->headers) out.push_back(header.name + ": " + header.value);
  if (!auth->query.empty()) out.push_back("?" + auth->query);
  return out;
}

TEST(CredentialsTest, PostgresFieldsInBothSpellings) {
  const Json wanted = Parse(R"({"query":"select 1","host":"db","port":5433,"user":"u",
                               "password":"geheim","database":"demo","sslmode":"require"})");
  const std::string_view config = R"({"auth":"cred","credential":"cred","query":"select 1"})";
  EXPECT_EQ(Good("postgres", config, "postgres",
                 R"({"db_host":"db","db_port":"5433","db_user":"u","db_password":"geheim",
                     "db_name":"demo","sslmode":"require","comment":"x"})"),
            wanted);
  EXPECT_EQ(Good("postgres", config, " Postgres ",
                 R"({"host":"db","port":5433,"user":"u","password":"geheim","database":"demo",
                     "sslmode":"require"})"),
            wanted);
}

TEST(CredentialsTest, TheStepGoesBeforeTheCredential) {
  EXPECT_EQ(Good("postgres", R"({"auth":"cred","db_host":"mine","database":null})", "postgres",
                 R"({"host":"db","user":"u","database":"demo"})"),
            Parse(R"({"db_host":"mine","database":"demo","user":"u"})"));
  EXPECT_EQ(Good("http", R"({"auth":"cred","headers":{"authorization":"mine"}})", "bearer",
                 R"({"token":"geheim"})"),
            Parse(R"({"headers":{"authorization":"mine"}})"));
  EXPECT_EQ(Good("nats", R"({"url":"mine"})", "nats", R"({"nats_url":"x","extra":1})"),
            Parse(R"({"url":"mine","extra":1})"));
}

TEST(CredentialsTest, PortsAreNumbers) {
  for (const char* port : {R"("geheim")", "0", "65536", R"("54x")"}) {
    EXPECT_THAT(Bad("postgres", "{}", "postgres", fmt::format(R"({{"port":{}}})", port)),
                HasSubstr("port"));
  }
}

TEST(CredentialsTest, RequestsGetWhatTheToolSends) {
  const std::string_view config = R"({"auth":"cred","url":"https://x.test"})";
  for (const char* data :
       {R"({"token":"t"})", R"({"access_token":"t"})", R"({"bearer_token":"t"})"}) {
    EXPECT_THAT(Sent(Good("http", config, "bearer", data)), ElementsAre("Authorization: Bearer t"));
  }
  EXPECT_THAT(Sent(Good("http", config, "basic", R"({"user":"u","db_password":"p"})")),
              ElementsAre("Authorization: Basic dTpw"));
  EXPECT_THAT(Sent(Good("http", config, "api_key", R"({"key":"k"})")), ElementsAre("X-API-Key: k"));
  EXPECT_THAT(Sent(Good("http", config, "api_key", R"({"api_key":"k","header":"X-Mine"})")),
              ElementsAre("X-Mine: k"));
  EXPECT_THAT(Sent(Good("http", config, "api_key", R"({"token":"k","in":"query","param":"q"})")),
              ElementsAre("?q=k"));
  EXPECT_THAT(Sent(Good("http", config, "oauth2", R"({"access_token":"t"})")),
              ElementsAre("Authorization: Bearer t"));
}

TEST(CredentialsTest, ASecretIsWhatTheStepSays) {
  const std::string_view data = R"({"secret":"s"})";
  EXPECT_THAT(Sent(Good("http", R"({"auth":"cred"})", "secret", data)),
              ElementsAre("Authorization: Bearer s"));
  EXPECT_THAT(Sent(Good("http", R"({"auth":{"type":"api_key","credential":"cred","header":"X-H"}})",
                        "secret", data)),
              ElementsAre("X-H: s"));
}

TEST(CredentialsTest, ConnectionsGetFlatFields) {
  EXPECT_EQ(Good("nats", "{}", "nats",
                 R"({"nats_url":"nats://x","nats_username":"u","nats_password":"p","nats_token":"t",
                     "bucket":"b"})"),
            Parse(R"({"url":"nats://x","user":"u","password":"p","token":"t","bucket":"b"})"));
  EXPECT_EQ(Good("snowflake", R"({"role":"mine"})", "snowflake",
                 R"({"sf_account":"a","sf_user":"u","private_key":"k","sf_role":"theirs"})"),
            Parse(R"({"role":"mine","account":"a","user":"u","private_key":"k"})"));
  EXPECT_EQ(Good("kafka", "{}", "kafka", R"({"brokers":"b"})"), Parse(R"({"brokers":"b"})"));
  EXPECT_EQ(Good("nats", "{}", "bearer", R"({"token":"t"})"), Parse(R"({"token":"t"})"));
  EXPECT_EQ(Good("postgres", "{}", "basic", R"({"username":"u","password":"p"})"),
            Parse(R"({"user":"u","password":"p"})"));
  EXPECT_EQ(Good("duckdb", "{}", "gcs_hmac", R"({"key_id":"i","secret_key":"s"})"),
            Parse(R"({"key_id":"i","secret_key":"s"})"));
}

TEST(CredentialsTest, PythonGetsVariables) {
  EXPECT_EQ(Good("python", R"({"env":{"AWS_DEFAULT_REGION":"mine"}})", "aws",
                 R"({"aws_access_key_id":"i","secret_key":"s","region":"r"})"),
            Parse(R"({"env":{"AWS_DEFAULT_REGION":"mine","AWS_ACCESS_KEY_ID":"i",
                             "AWS_SECRET_ACCESS_KEY":"s"}})"));
}

TEST(CredentialsTest, KeychainEntriesGoByTheirShape) {
  const auto sent = [](std::string_view data) {
    return Sent(Good("http", R"({"auth":"cred"})", "keychain", data));
  };
  EXPECT_THAT(sent(R"({"access_token":"t","token_type":"Bearer"})"),
              ElementsAre("Authorization: Bearer t"));
  EXPECT_THAT(sent(R"({"token":"t"})"), ElementsAre("Authorization: Bearer t"));
  EXPECT_THAT(sent(R"({"api_key":"k"})"), ElementsAre("X-API-Key: k"));
  EXPECT_THAT(sent(R"({"username":"u","password":"p"})"), ElementsAre("Authorization: Basic dTpw"));
  EXPECT_THAT(sent(R"("t")"), ElementsAre("Authorization: Bearer t"));
  const std::string_view postgres = R"({"db_host":"db","db_user":"u","db_password":"p"})";
  const Json flat = Parse(R"({"host":"db","user":"u","password":"p"})");
  EXPECT_EQ(Good("postgres", "{}", "keychain", postgres), flat);
  EXPECT_EQ(Good("transfer", "{}", "keychain", postgres), flat);
  EXPECT_EQ(Good("nats", "{}", "keychain", R"({"url":"u","token":"t"})"),
            Parse(R"({"url":"u","token":"t"})"));
  EXPECT_EQ(Good("python", R"({"a":1})", "keychain", R"({"a":2,"b":3})"),
            Parse(R"({"a":1,"b":3})"));
}

// Nothing goes out without its credential because of a mistake.
TEST(CredentialsTest, WhatCannotBeUsedIsAnError) {
  EXPECT_THAT(Bad("http", "{}", "auth0", R"({"x":"geheim"})"),
              AllOf(HasSubstr("'auth0'"), HasSubstr("postgres, bearer"), HasSubstr("keychain")));
  EXPECT_THAT(Bad("http", "{}", "postgres", R"({"password":"geheim"})"), HasSubstr("'postgres'"));
  EXPECT_THAT(Bad("http", "{}", "keychain", R"({"x":"geheim"})"), HasSubstr("access_token"));
  EXPECT_THAT(Bad("http", "{}", "google_service_account", R"({"private_key":"geheim"})"),
              HasSubstr("google_service_account"));
  EXPECT_THAT(Bad("http", "{}", "bearer", R"({"tokn":"geheim"})"), HasSubstr("has no token"));
  EXPECT_THAT(Bad("http", "{}", "bearer", R"({"token":""})"), HasSubstr("has no token"));
  EXPECT_THAT(Bad("http", "{}", "api_key", "{}"), HasSubstr("has no api_key"));
  EXPECT_THAT(Bad("http", "{}", "basic", "{}"), HasSubstr("has no username"));
  EXPECT_THAT(Bad("postgres", "{}", "postgres", R"("geheim")"), HasSubstr("not fields"));
  EXPECT_THAT(Bad("http", "{}", "keychain", "[1]"), HasSubstr("not fields"));
  EXPECT_THAT(Bad("http", "{}", "secret", "{}"), HasSubstr("has no secret"));
}

TEST(SecretsTest, SecretFieldsOfKnownTypesOnly) {
  EXPECT_THAT(SecretsOf("postgres", Parse(R"({"db_host":"postgres","db_user":"postgres",
                                              "db_password":"geheim","note":"hello world"})")),
              ElementsAre("geheim"));
  EXPECT_THAT(SecretsOf("Basic", Parse(R"({"username":"u","password":"p"})")),
              ElementsAre("dTpw", "p"));
  EXPECT_THAT(SecretsOf("api_key", Parse(R"({"key":"k","header":"X-Key"})")), ElementsAre("k"));
  EXPECT_THAT(SecretsOf("secret", Parse(R"({"value":"geheim"})")), ElementsAre("geheim"));
  EXPECT_THAT(SecretsOf("snowflake", Parse(R"({"sf_account":"a","sf_private_key":"pem",
                                               "sf_private_key_passphrase":"phrase"})")),
              ElementsAre("phrase", "pem"));
  EXPECT_THAT(SecretsOf("aws", Parse(R"({"access_key_id":"id","aws_secret_access_key":"geheim"})")),
              ElementsAre("geheim"));
  EXPECT_THAT(SecretsOf("nats", Parse(R"({"nats_url":"nats://u:geheim@x:4222/","bucket":"b"})")),
              ElementsAre("geheim"));
  EXPECT_THAT(
      SecretsOf("gcp", Parse(R"({"client_email":"e","source":{"client_secret":"geheim"}})")),
      ElementsAre("geheim"));
}

TEST(SecretsTest, EverythingOfOthersButHarmlessNames) {
  EXPECT_THAT(SecretsOf("keychain", Parse(R"({"openai":"sk-1","token_type":"Bearer","n":5,
                                              "more":{"deep":["sk-22"],"user":"u"}})")),
              ElementsAre("sk-22", "sk-1"));
  EXPECT_THAT(SecretsOf("keychain", Json("geheim")), ElementsAre("geheim"));
  EXPECT_THAT(SecretsOf("auth0", Parse(R"({"pin":1234,"password":99})")), ElementsAre("99"));
  EXPECT_THAT(SecretsOf("keychain", Json()), IsEmpty());
  EXPECT_THAT(SecretsOf("keychain", Parse(R"({"a":"same","b":"same","c":""})")),
              ElementsAre("same"));
}

}  // namespace
}  // namespace noetl::worker
