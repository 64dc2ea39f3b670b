// The `postgres` tool: SQL on a pooled connection.
//
// A call is a chain of queries on one connection: session settings when they differ from those in
// force, BEGIN and the schema, each statement, the catalog when a column's type is not known,
// COMMIT. The first failure ends the chain; the pool rolls back what is open.
#include <algorithm>
#include <utility>

#include "worker/tools/postgres_config.h"
#include "worker/tools/postgres_error.h"
#include "worker/tools/postgres_rows.h"
#include "worker/tools/process_fields.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kKind = "postgres";
// The server's own timer is the second line: it counts when this worker is gone. A moment later
// than ours, so that the message is ours.
constexpr std::int64_t kServerTimeoutMarginMs = 1'000;
// The largest the server takes.
constexpr std::int64_t kServerTimeoutMsMax = 2'147'483'647;
// What the server calls a query that was cancelled.
constexpr std::string_view kCancelledState = "57014";

class PostgresRun final : public Running {
 public:
  PostgresRun(EventLoop* loop, std::shared_ptr<pg::Pool> pool, PostgresPlan plan, Tool::Done done)
      : loop_(loop), pool_(std::move(pool)), plan_(std::move(plan)), done_(std::move(done)) {}
  ~PostgresRun() override {
    loop_->CancelTimer(timeout_);
    loop_->CancelTimer(grace_);
    pool_->Forget(waiter_);
  }

  void Begin() {
    timeout_ = loop_->After(plan_.timeout_ms * 1'000, [this] { End(&timed_out_); });
    const pg::Pool::WaiterId waiter =
        pool_->Borrow([this](std::expected<pg::Lease, pg::Failure> lease) {
          waiter_ = 0;
          if (!lease) return Fail(lease.error(), "Failed to get connection");
          lease_ = *std::move(lease);
          Prepare();
        });
    if (done_ && !lease_) waiter_ = waiter;
  }

  void Stop() override { End(&stopped_); }

 private:
  // Asks the server to stop, and waits a while for it to do so.
  void End(bool* why) {
    if (!done_ || stopped_ || timed_out_) return;
    *why = true;
    if (lease_) lease_->Cancel();
    pool_->Forget(std::exchange(waiter_, 0));
    grace_ = loop_->After(lease_ ? kStopGraceMs * 1'000 : 0, [this] { Answer(Ended()); });
  }

  ToolAnswer Ended() const {
    if (stopped_) return Cancelled(kKind);
    if (!lease_) {
      return PostgresError({.failure = {.kind = pg::Failure::Kind::kTimeout,
                                        .message = TimeoutMessage(plan_.timeout_ms)},
                            .context = "Failed to get connection"});
    }
    ToolAnswer answer =
        Failed(kKind, "db_timeout", "PG_57014", true, TimeoutMessage(plan_.timeout_ms));
    answer.outcome.error_info = answer.outcome.error_info.With("pg_code", kCancelledState)
                                    .With("sqlstate", kCancelledState)
                                    .With("details", Details());
    return answer;
  }

  Json Details() const {
    const std::size_t last = plan_.statements.size() - 1;
    return Json::Object({{"statement_index", std::min(next_, last)}});
  }

  void Fail(const pg::Failure& failure, std::string_view context,
            std::optional<std::size_t> statement = {}) {
    Answer(PostgresError({failure, context, statement, plan_.password}));
  }

  // A link of the chain that gives no rows.
  void Do(std::string sql, std::string_view context, void (PostgresRun::*next)()) {
    pg::Query query{.sql = std::move(sql)};
    query.on_done = [this, context, next](std::optional<pg::Failure> failure) {
      if (stopped_ || timed_out_) return Answer(Ended());
      if (failure) return Fail(*failure, context);
      (this->*next)();
    };
    lease_->Send(std::move(query));
  }

  void Prepare() {
    rows_.emplace(PostgresRowsOptions{.values = plan_.values,
                                      .as_objects = plan_.as_objects,
                                      .rows_max = plan_.rows_max,
                                      .bytes_max = plan_.bytes_max,
                                      .clean = lease_->Setting("server_encoding") != "UTF8"});
    // A declared limit of minutes and one of hours share a connection without talk: the setting
    // stays in force until another is wanted.
    wanted_ = fmt::format("SET application_name TO {}; SET statement_timeout TO {}",
                          pg::QuoteLiteral(plan_.application),
                          std::min(plan_.timeout_ms + kServerTimeoutMarginMs, kServerTimeoutMsMax));
    if (plan_.touches_session) lease_.Touch();
    if (lease_->note == wanted_) return Open();
    Do(wanted_, "Failed to get connection", &PostgresRun::Open);
  }

  void Open() {
    lease_->note = std::move(wanted_);
    const std::string path =
        plan_.schema.empty() ? "" : "search_path TO " + pg::QuoteIdentifier(plan_.schema);
    if (plan_.one_transaction) {
      return Do(path.empty() ? "BEGIN" : "BEGIN; SET LOCAL " + path,
                path.empty() ? "Execute failed" : "Failed to set schema", &PostgresRun::Next);
    }
    if (path.empty()) return Next();
    lease_.Touch();  // outside a transaction it lasts as long as the session
    Do("SET " + path, "Failed to set schema", &PostgresRun::Next);
  }

  void Next() {
    if (next_ == plan_.statements.size()) return Types();
    PostgresStatement& statement = plan_.statements[next_];
    rows_->Begin();
    pg::Query query{.sql = std::move(statement.sql),
                    .values = std::move(statement.values),
                    .bound = plan_.bound,
                    .row_by_row = true};
    query.on_result = [this](const pg::ResultView& result) { Take(result); };
    query.on_done = [this](std::optional<pg::Failure> failure) { Done(std::move(failure)); };
    lease_->Send(std::move(query));
  }

  void Take(const pg::ResultView& result) {
    copies_ = copies_ || result.kind() == pg::ResultView::Kind::kCopy;
    if (!rows_->excess()) rows_->Add(result);
    if (copies_ || rows_->excess()) lease_->Cancel();
  }

  std::string_view Context() const {
    if (next_ + 1 < plan_.statements.size()) return "Batch execute failed";
    return plan_.statements[next_].traits.reads ? "Query failed" : "Execute failed";
  }

  void Done(std::optional<pg::Failure> failure) {
    if (stopped_ || timed_out_) return Answer(Ended());
    if (copies_) {
      return Answer(Refuse("config", "CONFIG",
                           "Configuration error: COPY FROM STDIN and COPY TO STDOUT have no place "
                           "to go in a step; use INSERT and SELECT"));
    }
    if (rows_->excess()) {
      ToolAnswer answer =
          Failed(kKind, "tool_error", "PG_RESULT_TOO_LARGE", false,
                 fmt::format("Database error: {}: {}", Context(), *rows_->excess()));
      answer.outcome.error_info = answer.outcome.error_info.With("details", Details());
      return Answer(std::move(answer));
    }
    if (failure) return Fail(*failure, Context(), next_);
    ++next_;
    Next();
  }

  // Columns of types that are not built in: the catalog knows which of them are arrays.
  void Types() {
    const std::vector<pg::TypeId> unknown = rows_->UnknownTypes(lease_->shapes);
    if (unknown.empty() || (lease_->in_transaction() && !plan_.one_transaction)) return Commit();
    for (const pg::TypeId type : unknown) lease_->shapes[type] = {};
    pg::Query query{.sql = fmt::format(R"(
        SELECT t.oid,
               CASE WHEN t.typcategory = 'A'
                    THEN CASE WHEN e.typbasetype <> 0 THEN e.typbasetype ELSE e.oid END
                    ELSE 0 END,
               coalesce(e.typdelim, ',')
          FROM pg_catalog.pg_type t
          LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
         WHERE t.oid IN ({}))",
                                       fmt::join(unknown, ", "))};
    query.on_result = [this](const pg::ResultView& result) {
      if (result.kind() != pg::ResultView::Kind::kRows) return;
      for (int row = 0; row < result.rows(); ++row) {
        const auto number = [&](int column) {
          return static_cast<pg::TypeId>(pg::ToJson(26, result.Text(row, column)).AsInt());
        };
        lease_->shapes[number(0)] = {number(1), result.Text(row, 2).front()};
      }
    };
    // The statements have done their work: a failure here only leaves arrays as text.
    query.on_done = [this](auto) {
      if (stopped_ || timed_out_) return Answer(Ended());
      Commit();
    };
    lease_->Send(std::move(query));
  }

  void Commit() {
    if (plan_.one_transaction) return Do("COMMIT", "Execute failed", &PostgresRun::Finish);
    if (lease_->in_transaction()) {
      return Answer(Failed(kKind, "tool_error", "PG_OPEN_TRANSACTION", false,
                           "Database error: Execute failed: the SQL ends inside a transaction, "
                           "which was rolled back; add COMMIT"));
    }
    Finish();
  }

  void Finish() {
    ToolAnswer answer;
    answer.outcome.payload = rows_->Payload(lease_->shapes);
    Answer(std::move(answer));
  }

  void Answer(ToolAnswer answer) {
    loop_->CancelTimer(std::exchange(timeout_, 0));
    loop_->CancelTimer(std::exchange(grace_, 0));
    Tool::Done done = std::exchange(done_, nullptr);
    {
      const pg::Lease returned = std::move(lease_);
    }  // others may wait for it
    done(std::move(answer));  // may destroy this
  }

  EventLoop* loop_;
  std::shared_ptr<pg::Pool> pool_;
  PostgresPlan plan_;
  Tool::Done done_;
  pg::Lease lease_;
  std::optional<PostgresRows> rows_;
  std::string wanted_;  // settings of the session
  std::size_t next_ = 0;
  pg::Pool::WaiterId waiter_ = 0;
  EventLoop::TimerId timeout_ = 0;
  EventLoop::TimerId grace_ = 0;
  bool stopped_ = false;
  bool timed_out_ = false;
  bool copies_ = false;
};

class Postgres final : public Tool {
 public:
  explicit Postgres(const ToolSetup& setup)
      : loop_(setup.loop), settings_(setup.settings), pools_(setup.loop) {}

  std::unique_ptr<Running> Start(ToolCall call, Done done) override {
    Result<PostgresPlan> plan = PlanPostgres(call, *settings_);
    if (!plan) {
      const bool auth = plan.error().code == "auth";
      done(auth ? Refuse("auth", "AUTH", "Authentication error: " + plan.error().message)
                : Refuse("config", "CONFIG", "Configuration error: " + plan.error().message));
      return nullptr;
    }
    std::shared_ptr<pg::Pool> pool = plan->dedicated
                                         ? pools_.Single(std::move(plan->pool))
                                         : pools_.Get(plan->pool_name, std::move(plan->pool));
    auto run =
        std::make_unique<PostgresRun>(loop_, std::move(pool), *std::move(plan), std::move(done));
    run->Begin();
    return run;
  }

 private:
  EventLoop* loop_;
  const Settings* settings_;
  pg::Pools pools_;
};

}  // namespace

std::unique_ptr<Tool> MakePostgres(const ToolSetup& setup) {
  return std::make_unique<Postgres>(setup);
}

}  // namespace noetl::worker
