// One connection to PostgreSQL that never blocks the thread of its event loop.
//
// Connect, then one query at a time; each answers once through its callbacks, from the loop and
// never from inside the call that started it. A callback may start the next query or destroy the
// connection. Destroying one closes it: callbacks that have not been called never are. Host names
// are looked up on a thread of their own, and so is a cancel request sent; neither outlives its
// socket by much or touches the connection. Everything else lives on the loop's thread; the loop
// must outlive the connection.
//
// Passwords go to the server and nowhere else: no message made here contains one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"
#include "pg/failure.h"
#include "pg/sql_params.h"
#include "pg/value.h"

struct pg_conn;
struct pg_result;

namespace noetl::pg {

class HostLookup;

// Keyword and value as libpq knows them: host, port, dbname, user, password, sslmode ...
using Parameters = std::vector<std::pair<std::string, std::string>>;

// Takes "postgresql://..." or "host=... user=..." apart. Error "parameters"; since the text may
// hold a password, the message does not repeat any of it.
Result<Parameters> ParseConnectionString(std::string_view text);

// A piece of a query's outcome, only valid inside the callback that gets it.
class ResultView {
 public:
  enum class Kind : std::uint8_t {
    kRows,     // some or all rows of a statement
    kCommand,  // a statement without rows has ended
    kEmpty,    // the text held no statement
    kCopy,     // COPY to or from the client, which is not served: its data is thrown away
    kError,
  };

  explicit ResultView(pg_result* result) : result_(result) {}

  Kind kind() const;
  // No more rows of this statement follow.
  bool complete() const;
  int rows() const;
  int columns() const;
  std::string_view ColumnName(int column) const;
  TypeId ColumnType(int column) const;
  bool IsNull(int row, int column) const;
  std::string_view Text(int row, int column) const;
  // "INSERT", "CREATE TABLE"; known when complete.
  std::string tag() const;
  // Rows inserted, changed or read; 0 for statements that count none.
  std::int64_t affected() const;
  Failure failure() const;

 private:
  pg_result* result_;
};

struct Query {
  std::string sql;
  // With values (or `bound`): one statement, each value for its $n. Without: any number.
  std::vector<Value> values;
  bool bound = false;
  // Rows come one by one as they arrive instead of all at the end of their statement.
  bool row_by_row = false;
  std::move_only_function<void(const ResultView&)> on_result;
  // After all results; the first error, if there was one.
  std::move_only_function<void(std::optional<Failure>)> on_done;
};

class Connection {
 public:
  using Connected = std::move_only_function<void(std::optional<Failure>)>;

  explicit Connection(EventLoop* loop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Once, first. `timeout_ms` covers looking up, connecting and logging in.
  void Connect(const Parameters& parameters, std::int64_t timeout_ms, Connected connected);

  // Only when connected and not busy.
  void Send(Query query);
  bool busy() const { return busy_; }
  // Asks the server to end the running query, which then fails with SQLSTATE 57014 unless it was
  // faster. Returns at once. The request may arrive late and hit a later query, so a connection
  // that has `cancelled` set is good for nothing but to be closed.
  void Cancel();
  bool cancelled() const { return cancelled_; }

  // The connection has ended; `lost` is called when that happens between queries.
  bool broken() const { return broken_; }
  void OnLost(std::move_only_function<void()> lost) { lost_ = std::move(lost); }
  // Looks, without waiting, whether the server has closed an idle connection meanwhile.
  bool Alive();

  bool in_transaction() const;
  // What the server reported of a setting such as "server_encoding"; empty when it did not.
  std::string_view Setting(const char* name) const;

  // For the owner, kept as long as the connection: which session settings are in force, and the
  // shapes of types the catalog told.
  std::string note;
  std::map<TypeId, TypeShape> shapes;

 private:
  void Found(Parameters parameters, const std::vector<std::string>& hosts,
             Result<std::vector<std::vector<std::string>>> addresses);
  void Open(const Parameters& parameters);
  void PollConnect();
  void EndConnect(std::optional<Failure> failure);
  void Watch(unsigned interest);
  void Unwatch();
  void OnReady(unsigned ready);
  void Flush();
  void Advance();
  bool DrainCopy();
  void Take(pg_result* result);
  void EndQuery();
  void Later(std::move_only_function<void()> task);

  EventLoop* loop_;
  pg_conn* conn_ = nullptr;
  std::unique_ptr<HostLookup> lookup_;
  Connected connected_;
  EventLoop::TimerId connect_timer_ = 0;
  EventLoop::TimerId later_ = 0;
  int watched_ = -1;
  unsigned interest_ = 0;
  Query query_;
  std::optional<Failure> failure_;
  std::move_only_function<void()> lost_;
  bool busy_ = false;
  bool copying_ = false;
  bool broken_ = false;
  bool cancelled_ = false;
  // Tells a method, after a callback, whether the connection still exists.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace noetl::pg
