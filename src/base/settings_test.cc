#include "base/settings.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace noetl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Settings Good(const Settings::Variables& environment, const Settings::Variables& overrides = {}) {
  auto settings = Settings::Load(environment, overrides);
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message);
  return settings ? *settings : *Settings::Load({});
}

std::string Problems(const Settings::Variables& environment,
                     const Settings::Variables& overrides = {}) {
  auto settings = Settings::Load(environment, overrides);
  return settings ? "" : settings.error().message;
}

TEST(Settings, DefaultsAreValid) {
  const Settings settings = Good({});
  EXPECT_EQ(settings.Text("NOETL_HOST"), "127.0.0.1");
  EXPECT_EQ(settings.Int("NOETL_PORT"), 8082);
  EXPECT_EQ(settings.DurationMs("NOETL_LEASE_SECONDS"), 30'000);
  EXPECT_EQ(settings.Int("NOETL_COMMAND_CONTEXT_MAX_BYTES"), 32'768);
  EXPECT_TRUE(settings.Bool("NOETL_ENABLE_UI"));
  EXPECT_EQ(settings.List("NOETL_HTTP_DENY_CIDRS").size(), 2u);
  EXPECT_FALSE(settings.IsSet("NOETL_PORT"));
  EXPECT_THAT(settings.notices(), IsEmpty());
}

TEST(Settings, TruthValues) {
  for (const char* yes : {"1", "true", "YES", "On", " true "}) {
    EXPECT_TRUE(Good({{"NOETL_DEBUG", yes}}).Bool("NOETL_DEBUG")) << yes;
  }
  for (const char* no : {"0", "false", "NO", "Off"}) {
    EXPECT_FALSE(Good({{"NOETL_ENABLE_UI", no}}).Bool("NOETL_ENABLE_UI")) << no;
  }
  EXPECT_TRUE(Good({{"NOETL_ENABLE_UI", "  "}}).Bool("NOETL_ENABLE_UI"));
  EXPECT_THAT(Problems({{"NOETL_DEBUG", "maybe"}}), HasSubstr("NOETL_DEBUG: 'maybe'"));
}

TEST(Settings, ReportsAllProblemsAtOnce) {
  const std::string problems = Problems({{"NOETL_PORT", "99999"},
                                         {"NOETL_LEASE_SECONDS", "soon"},
                                         {"NOETL_LOG", "loud"},
                                         {"NATS_URL", "nats://a"},
                                         {"NOETL_NATS_URL", "nats://b"}});
  EXPECT_THAT(problems, HasSubstr("NOETL_PORT: '99999' is not a whole number from 0 to 65535"));
  EXPECT_THAT(problems, HasSubstr("NOETL_LEASE_SECONDS: 'soon'"));
  EXPECT_THAT(problems, HasSubstr("NOETL_LOG: 'loud' is not one of trace, debug"));
  EXPECT_THAT(problems, HasSubstr("NATS_URL and NOETL_NATS_URL are the same setting"));
  EXPECT_THAT(problems, Not(HasSubstr("nats://")));
}

TEST(Settings, OverridesAliasesAndBorrowedNames) {
  EXPECT_EQ(Good({{"NOETL_PORT", "1"}}, {{"NOETL_PORT", "2"}}).Int("NOETL_PORT"), 2);
  EXPECT_EQ(Good({{"NOETL_NATS_URL", "nats://a"}}).Text("NATS_URL"), "nats://a");
  EXPECT_EQ(Good({{"NOETL_NATS_URL", "x"}, {"NATS_URL", "x"}}).Text("NATS_URL"), "x");
  EXPECT_EQ(Good({{"RUST_LOG", "debug"}}).Text("NOETL_LOG"), "debug");
  EXPECT_EQ(Good({{"RUST_LOG", "info,sqlx=warn"}}).Text("NOETL_LOG"), "info");
  EXPECT_EQ(Good({{"RUST_LOG", "debug"}, {"NOETL_LOG", "error"}}).Text("NOETL_LOG"), "error");
  EXPECT_EQ(Good({{"NOETL_SHARD_ID", "7"}}).Int("NOETL_SNOWFLAKE_NODE_ID"), 7);
  EXPECT_THAT(Problems({}, {{"NOETL_PROT", "1"}}), HasSubstr("NOETL_PROT: no such setting"));
}

TEST(Settings, TypesAndChoices) {
  EXPECT_EQ(Good({{"NOETL_LEASE_SECONDS", "1.5m"}}).DurationMs("NOETL_LEASE_SECONDS"), 90'000);
  EXPECT_EQ(Good({{"NOETL_COMMAND_BUS", "Postgres"}}).Text("NOETL_COMMAND_BUS"), "http");
  EXPECT_EQ(Good({{"NOETL_NONCONVERGENCE_SWEEP_ENABLED", "true"}})
                .Text("NOETL_NONCONVERGENCE_SWEEP_ENABLED"),
            "report");
  EXPECT_EQ(Good({{"NOETL_TEMPLATE_ENV", "A, B ,,C"}}).List("NOETL_TEMPLATE_ENV"),
            (std::vector<std::string>{"A", "B", "C"}));
  EXPECT_EQ(Good({{"NOETL_PORT", "tcp://10.0.0.1:8082"}}).Int("NOETL_PORT"), 8082);
  EXPECT_EQ(Good({{"POSTGRES_PORT", "tcp://10.0.0.2:5432"}}).Int("POSTGRES_PORT"), 5432);
  EXPECT_NE(Problems({{"NOETL_PORT", "80x"}}), "");
  EXPECT_NE(Problems({{"NOETL_LEASE_SECONDS", "0"}}), "");
}

TEST(Settings, RulesAcrossSettings) {
  EXPECT_THAT(Problems({{"NOETL_SHARD_INDEX", "2"}, {"NOETL_SHARD_COUNT", "2"}}),
              HasSubstr("NOETL_SHARD_INDEX"));
  EXPECT_THAT(Problems({{"NOETL_TLS_CERT", "a.pem"}}), HasSubstr("NOETL_TLS_KEY"));
  EXPECT_THAT(Problems({{"NOETL_EVENT_INGEST_PUBLISH_ONLY", "true"}}), HasSubstr("remove"));
}

TEST(Settings, Notices) {
  const Settings settings = Good({{"NOETL_PROT", "1"},
                                  {"NOETL_WARM_POOL", "1"},
                                  {"NOETL_STATE_BUILDER", "on"},
                                  {"NOETL_SERVICE_HOST", "x"},
                                  {"NOETL_PORT_8082_TCP", "x"},
                                  {"PATH", "/bin"}});
  EXPECT_THAT(settings.notices(), Contains("unknown setting NOETL_PROT, did you mean NOETL_PORT?"));
  EXPECT_THAT(settings.notices(), Contains("these settings have no effect here and are ignored: "
                                           "NOETL_STATE_BUILDER, NOETL_WARM_POOL"));
  EXPECT_EQ(settings.notices().size(), 2u);
}

TEST(Settings, SettingsThatNothingReadsAreNamedOnce) {
  const auto unread = [](const Settings::Variables& environment,
                         const Settings::Variables& overrides = {}) {
    return Good(environment, overrides).notices();
  };
  const std::string lead = "warning: these settings are known but have no effect in this version: ";
  EXPECT_THAT(unread({{"DATABASE_URL", "postgres://u:hunter2@h/d"}}),
              ElementsAre(lead + "DATABASE_URL"));
  EXPECT_THAT(unread({{"NOETL_FEED_FILTER_SUBJECT", "a.>"}, {"NOETL_ENABLE_UI", "false"}},
                     {{"WORKER_MODE", "command"}}),
              ElementsAre(lead + "NOETL_FEED_FILTER_SUBJECT, NOETL_ENABLE_UI, WORKER_MODE"));
  EXPECT_THAT(unread({{"NOETL_MCP_KUBERNETES_ENDPOINT", "http://k"}}),
              ElementsAre(lead + "NOETL_MCP_KUBERNETES_ENDPOINT"));
  // Not said by the user: blank, or set for another program.
  EXPECT_THAT(unread({{"DATABASE_URL", " "}, {"HOSTNAME", "h"}, {"NODE_NAME", "n"}}), IsEmpty());
  EXPECT_NE(Problems({{"NOETL_KMS_PROVIDER", "aws"}}), "");
}

TEST(Settings, Families) {
  const Settings settings = Good({{"NOETL_TOOL_MAX_PYTHON", "3"},
                                  {"NOETL_MCP_KUBERNETES_ENDPOINT", "http://k"},
                                  {"NOETL_MCP_URL", "http://m"}});
  EXPECT_EQ(settings.Family("NOETL_TOOL_MAX_"), (Settings::Variables{{"PYTHON", "3"}}));
  EXPECT_EQ(settings.Family("NOETL_MCP_"), (Settings::Variables{{"KUBERNETES", "http://k"}}));
  EXPECT_EQ(settings.Text("NOETL_MCP_URL"), "http://m");
}

TEST(Settings, SecretsAreNeverPrinted) {
  const Settings settings =
      Good({{"POSTGRES_PASSWORD", "hunter2"}, {"NOETL_PORT", "80"}}, {{"NOETL_HOST", "::1"}});
  EXPECT_EQ(settings.Text("POSTGRES_PASSWORD"), "hunter2");
  EXPECT_EQ(settings.Describe(),
            (std::vector<std::string>{"NOETL_HOST=::1 (override)", "NOETL_PORT=80 (NOETL_PORT)",
                                      "POSTGRES_PASSWORD=*** (POSTGRES_PASSWORD)"}));
}

TEST(SettingsDeathTest, UnknownNamesAreBugs) {
  const Settings settings = Good({});
  EXPECT_DEATH(settings.Text("NOETL_NO_SUCH"), "NOETL_NO_SUCH is not in the settings table");
  EXPECT_DEATH(settings.Int("NOETL_HOST"), "has another type");
}

TEST(SettingsTable, NamesAreUniqueAndComplete) {
  std::set<std::string_view> names;
  for (const SettingGroup& group : SettingGroups()) {
    for (const Setting& setting : group.settings) {
      EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
      EXPECT_FALSE(setting.meaning.empty()) << setting.name;
      EXPECT_EQ(setting.type == SettingType::kEnum, !setting.choices.empty()) << setting.name;
      EXPECT_TRUE(setting.type != SettingType::kSecret || setting.fallback.empty()) << setting.name;
    }
  }
  EXPECT_GT(names.size(), 150u);
}

TEST(SettingsPage, KeepsSettingsWithoutEffectApart) {
  const std::string page = SettingsMarkdown();
  const std::size_t section = page.find("\n## Known names without effect yet\n");
  ASSERT_NE(section, std::string::npos);
  for (const SettingGroup& group : SettingGroups()) {
    for (const Setting& setting : group.settings) {
      const std::size_t at = page.find(fmt::format("| `{}`", setting.name));
      ASSERT_NE(at, std::string::npos) << setting.name;
      EXPECT_EQ(at > section, setting.unread) << setting.name;
    }
  }
}

TEST(SettingsPage, MatchesTheTable) {
  const std::string path = NOETL_SOURCE_DIR "/docs/settings.md";
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path, std::ios::binary) << SettingsMarkdown();
  std::stringstream page;
  page << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_EQ(page.str(), SettingsMarkdown()) << "run with UPDATE_DOCS=1 to write the page again";
}

}  // namespace
}  // namespace noetl
