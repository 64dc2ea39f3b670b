#include "cli/parser.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"

namespace noetl::cli {
namespace {

using Words = std::vector<std::string>;

TEST(Parser, PutsValuesWhereTheyBelong) {
  std::string file;
  std::string format;
  Words tags;
  int slots = 0;
  std::int64_t limit = 5;
  bool data = true;
  bool all = false;
  int times = 0;
  Parser parser;
  parser.Add("FILE", &file, "a file").Required();
  parser.Add("-o,--output", [&](const std::string& text) { format = text; }, "how");
  parser.Add("--tag", &tags, "tags").Repeated();
  parser.Add("--slots", &slots, "slots");
  parser.Add("--limit", &limit, "most");
  parser.Add("--data", &data, "true or false");
  parser.Flag("--all", &all, "all of them");
  parser.Flag("-j,--json", [&] { ++times; }, "as JSON");
  const auto asked = parser.Parse({"--tag", "a", "f.yaml", "--tag=b", "--slots", "3", "--limit",
                                   "9000000000", "--data", "false", "--all", "-j", "-o", "yaml"});
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(*asked, Parser::Asked::kAction);
  EXPECT_EQ(file, "f.yaml");
  EXPECT_EQ(format, "yaml");
  EXPECT_EQ(tags, (Words{"a", "b"}));
  EXPECT_EQ(slots, 3);
  EXPECT_EQ(limit, 9'000'000'000);
  EXPECT_FALSE(data);
  EXPECT_TRUE(all);
  EXPECT_EQ(times, 1);
}

// The message for these words, after --limit, --mode, --check and --write were declared.
std::string Complaint(const Words& words) {
  std::int64_t limit = 0;
  std::int64_t after = 0;
  int count = 0;
  std::string mode;
  bool check = false;
  bool write = false;
  Parser parser;
  parser.Add("--limit", &limit, "").Range(1, 10);
  parser.Add("--after", &after, "").NonNegative();
  parser.Add("--count", &count, "").Positive();
  parser.Add("--mode", &mode, "").OneOf({"fast", "safe"});
  const Option checks = parser.Flag("--check", &check, "");
  parser.Flag("--write", &write, "").Excludes(checks);
  const auto asked = parser.Parse(words);
  if (asked) return "";
  EXPECT_EQ(asked.error().code, "usage");
  return asked.error().message;
}

TEST(Parser, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Complaint({"--limit", "10", "--after", "0", "--count", "1", "--mode", "safe"}), "");
  EXPECT_EQ(Complaint({"--limit", "11"}), "--limit: '11' is not a whole number from 1 to 10");
  EXPECT_EQ(Complaint({"--limit", "many"}), "--limit: 'many' is not a whole number from 1 to 10");
  EXPECT_EQ(Complaint({"--limit", "1.5"}), "--limit: '1.5' is not a whole number from 1 to 10");
  EXPECT_EQ(Complaint({"--after", "-1"}), "--after: '-1' is not a whole number from 0 on");
  EXPECT_EQ(Complaint({"--count", "0"}), "--count: '0' is not a whole number from 1 on");
  EXPECT_NE(Complaint({"--count", "99999999999"}), "");
  EXPECT_NE(Complaint({"--mode", "wild"}), "");
  EXPECT_NE(Complaint({"--check", "--write"}), "");
  EXPECT_NE(Complaint({"--nope"}), "");
  EXPECT_NE(Complaint({"word"}), "");
}

TEST(Parser, KnowsWhatWasGiven) {
  std::string svg;
  std::string name;
  Parser parser;
  const Option drawn = parser.Add("--svg", &svg, "").ValueOptional();
  const Option named = parser.Add("--name", &name, "");
  ASSERT_TRUE(parser.Parse({"--svg"}));
  EXPECT_TRUE(drawn.given());
  EXPECT_FALSE(named.given());
  EXPECT_EQ(svg, "");
}

TEST(Parser, HelpShowsTypesDefaultsAndGroups) {
  std::int64_t limit = 50;
  std::string url;
  bool secret = false;
  Parser parser("list things", "noetl things");
  parser.Add("--limit", &limit, "so many").Type("N").ShowDefault();
  parser.Add("--url", &url, "where").Group("Server");
  parser.Flag("--secret", &secret, "not told").Hidden();
  const auto asked = parser.Parse({"--help"});
  ASSERT_TRUE(asked);
  EXPECT_EQ(*asked, Parser::Asked::kHelp);
  const std::string help = parser.Help();
  for (const char* part : {"list things", "noetl things", "--limit N=50", "so many", "Server:"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
  EXPECT_EQ(help.find("--secret"), std::string::npos);
}

TEST(Parser, VerbsHaveOptionsAndActionsOfTheirOwn) {
  std::string server;
  bool force = false;
  Console console;
  const auto run = [&](const Words& words, bool verb_needed) {
    Parser parser;
    parser.Add("--server", &server, "");
    parser.Verb("start", "begin", [](Parser&) -> Action { return [](Console&) { return 1; }; });
    parser.Verb("stop", "end", [&](Parser& verb) -> Action {
      verb.Flag("--force", &force, "");
      return [](Console&) { return 2; };
    });
    const Action action =
        verb_needed ? parser.VerbAction() : parser.VerbAction([](Console&) { return 3; });
    return parser.Parse(words) ? action(console) : -1;
  };
  EXPECT_EQ(run({"start"}, true), 1);
  EXPECT_EQ(run({"stop", "--force", "--server", "x"}, true), 2);
  EXPECT_TRUE(force);
  EXPECT_EQ(server, "x");
  EXPECT_EQ(run({}, true), -1);
  EXPECT_EQ(run({}, false), 3);
  EXPECT_EQ(run({"start", "--force"}, true), -1);
  EXPECT_EQ(run({"start", "stop"}, true), -1);
}

TEST(Parser, ListsWhatThereIs) {
  bool flag = false;
  Parser parser;
  parser.Flag("-a,--all,--every", &flag, "all of them");
  parser.Verb("add", "one more", [&](Parser& verb) -> Action {
    verb.Flag("--now", &flag, "at once");
    return [](Console&) { return 0; };
  });
  std::vector<std::string> names;
  for (const Parser::OptionText& option : parser.LongOptions()) names.push_back(option.name);
  EXPECT_EQ(names, (Words{"--help", "--all", "--every"}));
  EXPECT_TRUE(parser.HasOption("-a"));
  EXPECT_FALSE(parser.HasOption("--now"));
  ASSERT_EQ(parser.verbs().size(), 1u);
  EXPECT_EQ(parser.verbs()[0]->name(), "add");
  EXPECT_TRUE(parser.verbs()[0]->HasOption("--now"));
}

}  // namespace
}  // namespace noetl::cli
