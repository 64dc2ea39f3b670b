#include "pg/sql_split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/text.h"
#include "pg/sql_lexer.h"

namespace noetl::pg {
namespace {

TEST(SqlSplit, AtSemicolonsOutsideOfEverything) {
  struct Case {
    const char* script;
    std::vector<std::string> statements;
  };
  const Case cases[] = {
      {"", {}},
      {" ; -- nothing\n;; /* at ; all */ ;", {}},
      {"SELECT 1", {"SELECT 1"}},
      {" SELECT 1 ;\n SELECT 2; ", {"SELECT 1", "SELECT 2"}},
      {"SELECT 'a;b', 'it''s; so';x", {"SELECT 'a;b', 'it''s; so'", "x"}},
      {R"(SELECT 'back\';x)", {R"(SELECT 'back\')", "x"}},
      {R"(SELECT E'it\'s;', e'\\';x)", {R"(SELECT E'it\'s;', e'\\')", "x"}},
      {R"(SELECT "a;""b;" FROM t;x)", {R"(SELECT "a;""b;" FROM t)", "x"}},
      {"SELECT $$a;b$$;x", {"SELECT $$a;b$$", "x"}},
      {"DO $do$ BEGIN x; y $$ ; END $do$;x", {"DO $do$ BEGIN x; y $$ ; END $do$", "x"}},
      {"SELECT $1;SELECT $2", {"SELECT $1", "SELECT $2"}},
      {"SELECT a$b$c; SELECT d$b$", {"SELECT a$b$c", "SELECT d$b$"}},
      {"a -- x;y\n b;c", {"a -- x;y\n b", "c"}},
      {"a /* ; /* ; */ ; */ b;c", {"a /* ; /* ; */ ; */ b", "c"}},
      {"CREATE RULE r AS ON INSERT TO t DO (a; b);x",
       {"CREATE RULE r AS ON INSERT TO t DO (a; b)", "x"}},
      {"CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END;"
       " SELECT 2; END; x",
       {"CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END;"
        " SELECT 2; END",
        "x"}},
      {"BEGIN; SELECT 1; END; x", {"BEGIN", "SELECT 1", "END", "x"}},
      {"SELECT 'never ends; x", {"SELECT 'never ends; x"}},
      {"SELECT $a$ never ends; x", {"SELECT $a$ never ends; x"}},
      {"/* never ends; x", {}},
      {"-- first\nSELECT 1; -- last", {"-- first\nSELECT 1"}},
      {"SELECT 'ü;', \"ä\"; ö", {"SELECT 'ü;', \"ä\"", "ö"}},
  };
  for (const Case& each : cases) EXPECT_EQ(SplitStatements(each.script), each.statements);
}

TEST(SqlSplit, TokensLoseNothing) {
  EXPECT_TRUE(rc::check("any text", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("'", "''", "\"", "$$", "$a$", "$1", "--", "\n", "/*", "*/",
                                      ";", "E'", "\\", "x", " ", "(", ")", "1.5", "ü", ":"));
    std::string script;
    for (const std::string& piece : pieces) script += piece;
    std::string again;
    SqlLexer lexer(script);
    while (const auto token = lexer.Next()) {
      RC_ASSERT(!token->text.empty());
      again += token->text;
    }
    RC_ASSERT(again == script);
    for (const std::string& statement : SplitStatements(script)) {
      RC_ASSERT(!statement.empty());
      RC_ASSERT(Trim(statement) == statement);
    }
  }));
}

TEST(SqlSplit, WholeStatementsComeBack) {
  EXPECT_TRUE(rc::check("joined with ;", [] {
    const auto statements =
        *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
            "SELECT 1", "INSERT INTO t VALUES ('a;''b')", "SELECT $x$ ; $$ ' $x$",
            "DELETE FROM \"a;b\"", "SELECT E'\\';' /* ; */", "(SELECT 1; SELECT 2)"));
    std::string script;
    for (const std::string& statement : statements) script += statement + ";\n";
    RC_ASSERT(SplitStatements(script) == statements);
  }));
}

TEST(SqlSplit, KnowsWhatStatementsDo) {
  const auto text = [](std::string_view statement) {
    const StatementTraits traits = TraitsOf(statement);
    std::string out;
    if (traits.reads) out += "reads ";
    if (traits.controls_transaction) out += "controls ";
    if (traits.outside_transaction) out += "outside ";
    if (traits.touches_session) out += "touches ";
    return std::string(Trim(out));
  };
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"-- c\n select 1", "reads"},
      {"WITH a AS (SELECT 1) SELECT * FROM a", "reads"},
      {"UPDATE t SET a = 1", ""},
      {"INSERT INTO \"temp\" VALUES ('temporary')", ""},
      {"BEGIN", "controls"},
      {"START TRANSACTION", "controls"},
      {"COMMIT", "controls"},
      {"ROLLBACK", "controls"},
      {"ROLLBACK TO SAVEPOINT a", ""},
      {"SAVEPOINT a", ""},
      {"PREPARE TRANSACTION 'a'", "controls touches"},
      {"VACUUM t", "outside"},
      {"CREATE DATABASE d", "outside"},
      {"ALTER SYSTEM SET x = 1", "outside"},
      {"CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)", "outside"},
      {"REFRESH MATERIALIZED VIEW CONCURRENTLY v", ""},
      {"CREATE TABLE database (a int)", ""},
      {"SET search_path TO x", "touches"},
      {"SET LOCAL search_path TO x", ""},
      {"SET TRANSACTION READ ONLY", ""},
      {"LISTEN a", "touches"},
      {"PREPARE p AS SELECT 1", "touches"},
      {"CREATE TEMP TABLE t (a int)", "touches"},
      {"SELECT 1 INTO TEMPORARY t", "reads touches"},
      {"SELECT pg_advisory_lock(1)", "reads touches"},
      {"SELECT set_config('a.b', 'c', false)", "reads touches"},
      {"DO $$ BEGIN END $$", "touches"},
      {"DISCARD ALL", "outside touches"},
  };
  for (const auto& [statement, expected] : cases) EXPECT_EQ(text(statement), expected) << statement;
}

TEST(SqlSplit, Quotes) {
  EXPECT_EQ(QuoteIdentifier("a\"; DROP"), "\"a\"\"; DROP\"");
  EXPECT_EQ(QuoteLiteral("it's"), "'it''s'");
  EXPECT_EQ(QuoteLiteral("a\\'b"), "E'a\\\\''b'");
}

}  // namespace
}  // namespace noetl::pg
