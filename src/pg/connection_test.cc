#include "pg/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pg/server_testing.h"

namespace noetl::pg {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

Parameters With(Parameters parameters, const std::string& keyword, const std::string& value) {
  for (auto& [known, old] : parameters) {
    if (known == keyword) old = value;
  }
  return parameters;
}

class PgConnection : public ::testing::Test {
 protected:
  std::optional<Failure> Connect(const Parameters& parameters, std::int64_t timeout_ms = 60'000) {
    connection_ = std::make_unique<Connection>(&loop_);
    std::optional<Failure> got;
    connection_->Connect(parameters, timeout_ms, [&](std::optional<Failure> failure) {
      got = std::move(failure);
      loop_.Stop();
    });
    loop_.Run();
    return got;
  }
  // All cells and tags, then the SQLSTATE if there was an error.
  std::string Run(std::string sql, std::vector<Value> values = {}, bool row_by_row = false) {
    std::string out;
    Query query{.sql = std::move(sql), .values = std::move(values), .row_by_row = row_by_row};
    query.on_result = [&](const ResultView& result) {
      pieces_ += 1;
      if (result.kind() == ResultView::Kind::kCopy) out += "copy ";
      if (result.kind() == ResultView::Kind::kError) return;
      for (int row = 0; row < result.rows(); ++row) {
        for (int column = 0; column < result.columns(); ++column) {
          out += result.IsNull(row, column) ? "NULL" : std::string(result.Text(row, column));
          out += ' ';
        }
      }
      if (result.complete()) out += fmt::format("{}:{} ", result.tag(), result.affected());
    };
    query.on_done = [&](std::optional<Failure> failure) {
      if (failure) out += failure->sqlstate.empty() ? "lost" : failure->sqlstate;
      loop_.Stop();
    };
    connection_->Send(std::move(query));
    loop_.Run();
    return out;
  }

  EventLoop loop_;
  std::unique_ptr<Connection> connection_;
  int pieces_ = 0;
};

TEST_F(PgConnection, AsksAndHears) {
  TestServer& server = TestServer::Shared();
  ASSERT_FALSE(Connect(server.parameters()).has_value());
  EXPECT_EQ(Run("SELECT 1, NULL; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1), (2)"),
            "1 NULL SELECT:1 CREATE TABLE:0 INSERT:2 ");
  EXPECT_EQ(Run("SELECT $1::int + 1, $2", {"41", "x"}), "42 x SELECT:1 ");
  EXPECT_EQ(Run("SELECT $1::int", {std::nullopt}), "NULL SELECT:1 ");
  EXPECT_EQ(Run(""), ":0 ");
  pieces_ = 0;
  EXPECT_EQ(Run("SELECT generate_series(1, 3)", {}, true), "1 2 3 SELECT:3 ");
  EXPECT_EQ(pieces_, 4);
  EXPECT_EQ(Run("SELECT 1; SELECT 1/0; SELECT 2"), "1 SELECT:1 22012");
  EXPECT_FALSE(connection_->in_transaction());
  EXPECT_EQ(Run("BEGIN"), "BEGIN:0 ");
  EXPECT_TRUE(connection_->in_transaction());
  EXPECT_EQ(Run("ROLLBACK"), "ROLLBACK:0 ");
  EXPECT_EQ(connection_->Setting("server_encoding"), "UTF8");
  EXPECT_EQ(connection_->Setting("nonsense"), "");
  // More than fits into any buffer, both ways.
  const std::string big(5'000'000, 'x');
  EXPECT_EQ(Run("SELECT length($1), $1", {big}), "5000000 " + big + " SELECT:1 ");
}

TEST_F(PgConnection, KnownTypesAreThoseOfTheCatalog) {
  ASSERT_FALSE(Connect(TestServer::Shared().parameters()).has_value());
  int known = 0;
  Query query{.sql =
                  "SELECT a.oid, a.typelem, e.typdelim FROM pg_type a JOIN pg_type e "
                  "ON e.oid = a.typelem WHERE a.typcategory = 'A'"};
  query.on_result = [&](const ResultView& result) {
    for (int row = 0; row < result.rows(); ++row) {
      const auto number = [&](int column) {
        return static_cast<TypeId>(std::stoul(std::string(result.Text(row, column))));
      };
      const TypeShape shape = ShapeOf(number(0));
      if (shape.element == 0) continue;
      ++known;
      EXPECT_EQ(shape.element, number(1));
      EXPECT_EQ(shape.delimiter, result.Text(row, 2).front()) << number(0);
    }
  };
  query.on_done = [&](auto) { loop_.Stop(); };
  connection_->Send(std::move(query));
  loop_.Run();
  EXPECT_GT(known, 40);
}

TEST_F(PgConnection, CopyDoesNotHang) {
  ASSERT_FALSE(Connect(TestServer::Shared().parameters()).has_value());
  EXPECT_EQ(Run("CREATE TEMP TABLE t (a int)"), "CREATE TABLE:0 ");
  EXPECT_THAT(Run("COPY t FROM STDIN"), HasSubstr("57014"));
  EXPECT_THAT(Run("COPY (SELECT generate_series(1, 100000)) TO STDOUT"), HasSubstr("copy"));
  EXPECT_EQ(Run("SELECT 1"), "1 SELECT:1 ");
}

TEST_F(PgConnection, Cancels) {
  TestServer& server = TestServer::Shared();
  ASSERT_FALSE(Connect(server.parameters()).has_value());
  connection_->Cancel();  // nothing runs: nothing happens
  EXPECT_FALSE(connection_->cancelled());
  loop_.After(50'000, [&] { connection_->Cancel(); });
  EXPECT_EQ(Run("SELECT pg_sleep(600)"), "57014");
  EXPECT_TRUE(connection_->cancelled());
}

TEST_F(PgConnection, TellsWhyItCannotConnect) {
  TestServer& server = TestServer::Shared();
  const std::optional<Failure> wrong = Connect(With(server.parameters(), "password", "secret77"));
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(wrong->sqlstate, "28P01");
  EXPECT_EQ(wrong->kind, Failure::Kind::kConnect);
  EXPECT_THAT(wrong->message, Not(HasSubstr("secret77")));
  EXPECT_EQ(Connect(With(server.parameters(), "dbname", "nowhere"))->sqlstate, "3D000");
  const std::optional<Failure> refused = Connect(With(server.parameters(), "port", "1"));
  EXPECT_THAT(refused->message, HasSubstr("refused"));
  EXPECT_EQ(Connect(With(server.parameters(), "host", "no.such.host.invalid"))->kind,
            Failure::Kind::kResolve);
  EXPECT_EQ(Connect({{"port", "x"}, {"host", "127.0.0.1"}})->kind, Failure::Kind::kConnect);
}

TEST_F(PgConnection, LooksUpHostsAndTriesEach) {
  TestServer& server = TestServer::Shared();
  EXPECT_FALSE(Connect(With(server.parameters(), "host", "localhost")).has_value());
  EXPECT_FALSE(Connect(With(With(server.parameters(), "host", "127.0.0.1,localhost"), "port",
                            fmt::format("1,{}", server.port())))
                   .has_value());
}

TEST_F(PgConnection, GivesUpOnASilentServer) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(Connect({{"host", "127.0.0.1"}, {"port", port}}, 50)->kind, Failure::Kind::kTimeout);
  close(listener);
}

TEST_F(PgConnection, NoticesThatTheServerIsGone) {
  TestServer& server = TestServer::Shared();
  ASSERT_FALSE(Connect(server.parameters()).has_value());
  loop_.After(20'000, [&] { server.Restart(); });
  EXPECT_THAT(Run("SELECT pg_sleep(600)"), AnyOf("57P01", "lost"));
  EXPECT_TRUE(connection_->broken());

  ASSERT_FALSE(Connect(server.parameters()).has_value());
  EXPECT_TRUE(connection_->Alive());
  server.Restart();
  EXPECT_FALSE(connection_->Alive());
  EXPECT_EQ(Run("SELECT 1"), "lost");

  ASSERT_FALSE(Connect(server.parameters()).has_value());
  connection_->OnLost([&] { loop_.Stop(); });
  loop_.Post([&] { server.Restart(); });
  loop_.Run();
  EXPECT_TRUE(connection_->broken());
}

TEST_F(PgConnection, MayEndInsideItsCallbacks) {
  TestServer& server = TestServer::Shared();
  ASSERT_FALSE(Connect(server.parameters()).has_value());
  Query query{.sql = "SELECT 1; SELECT 2"};
  int results = 0;
  query.on_result = [&](const ResultView&) {
    ++results;
    connection_.reset();
    loop_.Stop();
  };
  query.on_done = [](auto) { FAIL(); };
  connection_->Send(std::move(query));
  loop_.Run();
  EXPECT_EQ(results, 1);
  connection_ = std::make_unique<Connection>(&loop_);
  connection_->Connect(server.parameters(), 60'000, [&](auto) {
    connection_.reset();
    loop_.Stop();
  });
  loop_.Run();
  // Neither the lookup nor the login is waited for.
  connection_ = std::make_unique<Connection>(&loop_);
  connection_->Connect(With(server.parameters(), "host", "localhost"), 60'000,
                       [](auto) { FAIL(); });
  connection_.reset();
}

TEST(PgParameters, ConnectionStrings) {
  const auto text = [](std::string_view given) {
    const Result<Parameters> parsed = ParseConnectionString(given);
    if (!parsed) return parsed.error().message;
    std::string out;
    for (const auto& [keyword, value] : *parsed) out += keyword + "=" + value + " ";
    return out;
  };
  EXPECT_EQ(text("postgresql://u:p%40%3A%2F@h:5433/d?sslmode=require"),
            "user=u password=p@:/ dbname=d host=h port=5433 sslmode=require ");
  EXPECT_EQ(text("postgresql+psycopg://u@h/d"), "user=u dbname=d host=h ");
  EXPECT_EQ(text(" host=h password='a b' "), "password=a b host=h ");
  EXPECT_THAT(text("postgresql://u:hunter77%zz@h/d"), Not(HasSubstr("hunter77")));
  EXPECT_THAT(text("host=h hunter77"), Not(HasSubstr("hunter77")));
  EXPECT_THAT(text("postgresql://u:hun@ter77@h/d"),
              AllOf(HasSubstr("percent-encode"), Not(HasSubstr("ter77"))));
}

}  // namespace
}  // namespace noetl::pg
