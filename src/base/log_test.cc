#include "base/log.h"

#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/time.h"

namespace noetl {
namespace {

class LogTest : public testing::Test {
 protected:
  void TearDown() override { ConfigureLog({}); }

  void Use(LogLevel level, LogFormat format) { ConfigureLog({level, format, &stream_}); }

  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    std::istringstream in(stream_.str());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  std::ostringstream stream_;
};

TEST_F(LogTest, TextLines) {
  Use(LogLevel::kInfo, LogFormat::kText);
  LogDebug("hidden");
  LogInfo("run finished", {{"execution", 42}, {"status", "COMPLETED"}, {"note", "two words\n{}"}});
  LogError("bad\nthing {} %s", {{"empty", ""}, {"data", Json::Array({1, nullptr})}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(ParseTime(lines[0].substr(0, 27)));
  EXPECT_EQ(lines[0].substr(27),
            " INFO run finished execution=42 status=COMPLETED note=\"two words\\n{}\"");
  EXPECT_EQ(lines[1].substr(27), " ERROR bad\\nthing {} %s empty=\"\" data=[1,null]");
}

TEST_F(LogTest, JsonLines) {
  Use(LogLevel::kTrace, LogFormat::kJson);
  Log(LogLevel::kTrace, "a \xff \n", {{"time", 1}, {"x", 2.5}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  const auto record = ParseJson(lines[0]);
  ASSERT_TRUE(record) << lines[0];
  EXPECT_EQ((*record)["level"], Json("trace"));
  EXPECT_EQ((*record)["message"], Json("a ? \n"));
  EXPECT_EQ((*record)["time_"], Json(1));
  EXPECT_EQ((*record)["x"], Json(2.5));
  EXPECT_TRUE(ParseTime((*record)["time"].AsString()));
}

TEST_F(LogTest, LevelsFromSettings) {
  const auto level = [](const Settings::Variables& environment) {
    return LogOptions::From(*Settings::Load(environment)).level;
  };
  EXPECT_EQ(level({}), LogLevel::kInfo);
  EXPECT_EQ(level({{"NOETL_LOG", "warning"}}), LogLevel::kWarn);
  EXPECT_EQ(level({{"NOETL_DEBUG", "1"}}), LogLevel::kDebug);
  EXPECT_EQ(level({{"NOETL_DEBUG", "1"}, {"NOETL_LOG", "trace"}}), LogLevel::kTrace);
  EXPECT_EQ(LogOptions::From(*Settings::Load({{"NOETL_LOG_FORMAT", "json"}})).format,
            LogFormat::kJson);
  Use(LogLevel::kOff, LogFormat::kText);
  LogError("hidden");
  Log(LogLevel::kOff, "hidden");
  EXPECT_TRUE(Lines().empty());
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  Use(LogLevel::kInfo, LogFormat::kJson);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 200; ++i) LogInfo("message", {{"i", i}});
      });
    }
  }
  const auto lines = Lines();
  EXPECT_EQ(lines.size(), 800u);
  for (const std::string& line : lines) EXPECT_TRUE(ParseJson(line)) << line;
}

}  // namespace
}  // namespace noetl
