#include "cli/table.h"

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "playbook/diagnostics.h"
#include "playbook/yaml.h"

namespace noetl::cli {
namespace {

TEST(Table, ColumnsAreAligned) {
  Console console;
  Table table({{"NAME"}, {"N", true}, {"TEXT", false, true}});
  table.Add({"größe", "7", "a\nb\x1b[31m"});
  table.Add({"x", "1234", ""});
  EXPECT_EQ(table.Text(console, 0),
            "NAME      N  TEXT\n"
            "größe     7  a b [31m\n"
            "x      1234\n");
  EXPECT_EQ(table.Text(console, 0, 2).substr(0, 6), "  NAME");
}

TEST(Table, WideColumnsGiveWayToTheTerminal) {
  Console console;
  Table table({{"ID"}, {"PATH", false, true}, {"ERROR", false, true}});
  table.Add({"123456789", std::string(30, 'p'), std::string(300, 'e')});
  const std::string text = table.Text(console, 40);
  const std::string line = text.substr(text.find('\n') + 1);
  EXPECT_EQ(line, "123456789  pppppppppppp…  eeeeeeeeeeeee…\n");
}

TEST(Table, CutCountsCodePoints) {
  EXPECT_EQ(Cut("äöü", 3), "äöü");
  EXPECT_EQ(Cut("äöüß", 3), "äö…");
  EXPECT_EQ(Cut("abc", 1), "…");
  EXPECT_EQ(Cut("", 0), "");
}

TEST(Table, Texts) {
  EXPECT_EQ(OneLine("  a\tb\r\nc\x7f "), "a b  c");
  EXPECT_EQ(OneLine("x\xc2\x9by"), "x y");
  EXPECT_EQ(BytesText(10), "10 bytes");
  EXPECT_EQ(BytesText(1'536), "1.5 KiB");
  EXPECT_EQ(TimeText(0), "-");
  EXPECT_EQ(TimeText(1'000'000), "1970-01-01 00:00:01");
}

TEST(Yaml, ReadsBackAsTheSameValue) {
  for (const char* text :
       {R"({"a":1,"b":[1,[2,[]],{"c":null,"d":{"e":"x: y"}}],"f":{},"g":[[],[1]]})",
        R"(["yes","no","null","1","1e3","a b"," a","a ","-x","# c","","ä","line\nend","e",{}])",
        R"("text")", "[]", "{}", "1.5", R"({"true":true,"1":2,"a b":"c"})"}) {
    // A playbook is a map, and so is what its reader takes.
    const Json value = Json::Object({{"value", *ParseJson(text)}});
    playbook::Node node;
    playbook::Diagnostics diagnostics;
    ASSERT_TRUE(playbook::ParseYaml(WriteYaml(value), &node, &diagnostics)) << WriteYaml(value);
    EXPECT_EQ(WriteJson(playbook::NodeToJson(node)["value"]), text) << WriteYaml(value);
  }
}

}  // namespace
}  // namespace noetl::cli
