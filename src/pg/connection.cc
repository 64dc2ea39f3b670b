#include "pg/connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "pg/host_lookup.h"

namespace noetl::pg {
namespace {

constexpr std::size_t kCancelErrorBytes = 256;
// Messages a server may have left for an idle connection; one that talks on is not idle.
constexpr int kIdleReadsMax = 16;

struct FreeResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using OwnedResult = std::unique_ptr<PGresult, FreeResult>;

std::string FieldOf(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? "" : text;
}

std::vector<std::string> SplitComma(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(Trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string* Find(Parameters& parameters, std::string_view keyword) {
  const auto found = std::ranges::find(parameters, keyword, &Parameters::value_type::first);
  return found == parameters.end() ? nullptr : &found->second;
}

std::string Joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ","));
}

// One entry a host and address, so that libpq has nothing left to look up.
void Spread(Parameters& parameters, const std::vector<std::string>& hosts,
            const std::vector<std::vector<std::string>>& addresses) {
  std::string* const port = Find(parameters, "port");
  const std::vector<std::string> given =
      port == nullptr ? std::vector<std::string>{""} : SplitComma(*port);
  std::vector<std::string> names;
  std::vector<std::string> numbers;
  std::vector<std::string> ports;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const std::string& address : addresses[i]) {
      const bool path = address.starts_with('/') || address.starts_with('@');
      names.push_back(hosts[i]);
      numbers.push_back(path ? "" : address);
      ports.push_back(given.size() == 1 ? given[0] : given[std::min(i, given.size() - 1)]);
    }
  }
  *Find(parameters, "host") = Joined(names);
  if (port != nullptr) *port = Joined(ports);
  parameters.emplace_back("hostaddr", Joined(numbers));
}

}  // namespace

Result<Parameters> ParseConnectionString(std::string_view text) {
  std::string address(Trim(text));
  // "postgresql+driver://" is how some libraries write it.
  const std::size_t scheme = address.find("://");
  const std::size_t plus = address.find('+');
  if (scheme != std::string::npos && plus < scheme) address.erase(plus, scheme - plus);
  char* message = nullptr;
  PQconninfoOption* const options = PQconninfoParse(address.c_str(), &message);
  PQfreemem(message);
  if (options == nullptr) {
    return Fail("parameters",
                "the connection string is no address of PostgreSQL: write "
                "postgresql://user:password@host:port/database, with special characters of the "
                "password percent-encoded, or host=... user=... dbname=...");
  }
  Parameters parameters;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) parameters.emplace_back(option->keyword, option->val);
  }
  PQconninfoFree(options);
  const std::string* const host = Find(parameters, "host");
  if (host != nullptr && host->find('@') != std::string::npos && !host->starts_with('@')) {
    return Fail("parameters",
                "the connection string has more than one @: percent-encode those of the password");
  }
  return parameters;
}

ResultView::Kind ResultView::kind() const {
  switch (PQresultStatus(result_)) {
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE: return Kind::kRows;
    case PGRES_COMMAND_OK: return Kind::kCommand;
    case PGRES_EMPTY_QUERY: return Kind::kEmpty;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH: return Kind::kCopy;
    default: return Kind::kError;
  }
}

bool ResultView::complete() const { return PQresultStatus(result_) != PGRES_SINGLE_TUPLE; }
int ResultView::rows() const { return PQntuples(result_); }
int ResultView::columns() const { return PQnfields(result_); }
std::string_view ResultView::ColumnName(int column) const { return PQfname(result_, column); }
TypeId ResultView::ColumnType(int column) const { return PQftype(result_, column); }
bool ResultView::IsNull(int row, int column) const {
  return PQgetisnull(result_, row, column) != 0;
}
std::string_view ResultView::Text(int row, int column) const {
  return {PQgetvalue(result_, row, column),
          static_cast<std::size_t>(PQgetlength(result_, row, column))};
}

std::string ResultView::tag() const {
  std::string_view text = PQcmdStatus(result_);
  // "INSERT 0 5": the counts come after the words.
  const std::size_t digit = text.find_first_of("0123456789");
  return std::string(Trim(text.substr(0, digit)));
}

std::int64_t ResultView::affected() const {
  const std::string_view text = PQcmdTuples(result_);
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

Failure ResultView::failure() const {
  Failure failure{.severity = FieldOf(result_, PG_DIAG_SEVERITY),
                  .sqlstate = FieldOf(result_, PG_DIAG_SQLSTATE),
                  .message = FieldOf(result_, PG_DIAG_MESSAGE_PRIMARY),
                  .detail = FieldOf(result_, PG_DIAG_MESSAGE_DETAIL),
                  .hint = FieldOf(result_, PG_DIAG_MESSAGE_HINT)};
  if (failure.sqlstate.empty()) {  // libpq itself speaks
    failure = ConnectFailure(PQresultErrorMessage(result_));
    failure.kind = Failure::Kind::kLost;
  }
  return failure;
}

Connection::Connection(EventLoop* loop) : loop_(loop) {}

Connection::~Connection() {
  lookup_.reset();
  loop_->CancelTimer(connect_timer_);
  loop_->CancelTimer(later_);
  Unwatch();
  PQfinish(conn_);
}

void Connection::Later(std::move_only_function<void()> task) {
  later_ = loop_->After(0, std::move(task));
}

void Connection::Connect(const Parameters& parameters, std::int64_t timeout_ms,
                         Connected connected) {
  NOETL_CHECK(conn_ == nullptr && !connected_, "a connection connects once");
  connected_ = std::move(connected);
  connect_timer_ = loop_->After(timeout_ms * 1'000, [this, timeout_ms] {
    EndConnect(Failure{.kind = Failure::Kind::kTimeout,
                       .message = fmt::format("no connection within {} ms", timeout_ms)});
  });
  Parameters copy = parameters;
  const std::string* const host = Find(copy, "host");
  std::vector<std::string> hosts = host == nullptr ? std::vector<std::string>() : SplitComma(*host);
  if (Find(copy, "hostaddr") != nullptr || std::ranges::all_of(hosts, IsAddress)) {
    Later([this, copy = std::move(copy)] { Open(copy); });
    return;
  }
  lookup_ = std::make_unique<HostLookup>(loop_, hosts,
                                         [this, copy = std::move(copy), hosts](auto found) mutable {
                                           Found(std::move(copy), hosts, std::move(found));
                                         });
}

void Connection::Found(Parameters parameters, const std::vector<std::string>& hosts,
                       Result<std::vector<std::vector<std::string>>> addresses) {
  if (!addresses) {
    return EndConnect(
        Failure{.kind = Failure::Kind::kResolve, .message = addresses.error().message});
  }
  Spread(parameters, hosts, *addresses);
  Open(parameters);
}

void Connection::Open(const Parameters& parameters) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : parameters) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  conn_ = PQconnectStartParams(keywords.data(), values.data(), 0);
  NOETL_CHECK(conn_ != nullptr, "no memory for a connection");
  // By default notices go to stderr.
  PQsetNoticeReceiver(conn_, [](void*, const PGresult*) {}, nullptr);
  // The only way to learn the SQLSTATE of a refused login.
  PQsetErrorVerbosity(conn_, PQERRORS_VERBOSE);
  if (PQstatus(conn_) == CONNECTION_BAD) return EndConnect(ConnectFailure(PQerrorMessage(conn_)));
  Watch(EventLoop::kWritable);
}

void Connection::PollConnect() {
  Unwatch();  // libpq may close this socket and open another
  switch (PQconnectPoll(conn_)) {
    case PGRES_POLLING_READING: return Watch(EventLoop::kReadable);
    case PGRES_POLLING_WRITING: return Watch(EventLoop::kWritable);
    case PGRES_POLLING_OK:
      PQsetnonblocking(conn_, 1);
      Watch(EventLoop::kReadable);
      return EndConnect(std::nullopt);
    default: return EndConnect(ConnectFailure(PQerrorMessage(conn_)));
  }
}

void Connection::EndConnect(std::optional<Failure> failure) {
  lookup_.reset();
  loop_->CancelTimer(std::exchange(connect_timer_, 0));
  loop_->CancelTimer(std::exchange(later_, 0));
  if (failure) {
    broken_ = true;
    Unwatch();
  }
  Connected connected = std::exchange(connected_, nullptr);
  connected(std::move(failure));  // may destroy this
}

void Connection::Watch(unsigned interest) {
  const int socket = PQsocket(conn_);
  if (socket == watched_ && interest == interest_) return;
  Unwatch();
  if (socket < 0) return;
  watched_ = socket;
  interest_ = interest;
  loop_->Watch(socket, interest, [this](unsigned ready) { OnReady(ready); });
}

void Connection::Unwatch() {
  if (watched_ >= 0) loop_->Unwatch(watched_);
  watched_ = -1;
  interest_ = 0;
}

void Connection::Send(Query query) {
  NOETL_CHECK(conn_ != nullptr && !connected_ && !busy_, "one query at a time");
  query_ = std::move(query);
  busy_ = true;
  failure_.reset();
  int sent = 0;
  if (query_.bound || !query_.values.empty()) {
    std::vector<const char*> values;
    for (const Value& value : query_.values) values.push_back(value ? value->c_str() : nullptr);
    sent = PQsendQueryParams(conn_, query_.sql.c_str(), static_cast<int>(values.size()), nullptr,
                             values.data(), nullptr, nullptr, 0);
  } else {
    sent = PQsendQuery(conn_, query_.sql.c_str());
  }
  if (sent == 0) {
    broken_ = true;
    failure_ = ConnectFailure(PQerrorMessage(conn_));
    failure_->kind = Failure::Kind::kLost;
    Unwatch();
    return Later([this] { EndQuery(); });
  }
  if (query_.row_by_row) PQsetSingleRowMode(conn_);
  Flush();
}

void Connection::Flush() {
  // An error shows as a result.
  const bool more = PQflush(conn_) > 0;
  Watch(more ? EventLoop::kReadable | EventLoop::kWritable : EventLoop::kReadable);
}

void Connection::OnReady(unsigned ready) {
  if (connected_) return PollConnect();
  if ((ready & EventLoop::kWritable) != 0 && PQstatus(conn_) == CONNECTION_OK) Flush();
  if ((ready & EventLoop::kReadable) != 0 && PQconsumeInput(conn_) == 0) broken_ = true;
  if (PQstatus(conn_) == CONNECTION_BAD) broken_ = true;
  if (broken_) Unwatch();
  while (PGnotify* const notify = PQnotifies(conn_)) PQfreemem(notify);
  if (busy_) return Advance();
  if (broken_ && lost_) {
    auto lost = std::exchange(lost_, nullptr);
    lost();  // may destroy this
  }
}

void Connection::Advance() {
  const std::weak_ptr<bool> alive = alive_;
  // A lost connection has an error to tell, and then the end.
  while (!copying_ || DrainCopy()) {
    if (copying_) return EndQuery();
    if (!broken_ && PQisBusy(conn_) != 0) return;
    const OwnedResult result(PQgetResult(conn_));
    if (result == nullptr) return EndQuery();
    Take(result.get());
    if (alive.expired()) return;
  }
}

void Connection::Take(pg_result* result) {
  const ResultView view(result);
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COPY_IN) PQputCopyEnd(conn_, "there is no data to copy from");
  if (status == PGRES_COPY_IN) Flush();
  copying_ = status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
  if (status == PGRES_COPY_BOTH) broken_ = true;
  if (view.kind() == ResultView::Kind::kError) {
    if (!failure_) failure_ = view.failure();
    if (PQstatus(conn_) == CONNECTION_BAD) broken_ = true;
  }
  if (!query_.on_result) return;
  // The callback may destroy this connection, but not itself.
  const std::weak_ptr<bool> alive = alive_;
  auto on_result = std::exchange(query_.on_result, nullptr);
  on_result(view);
  if (!alive.expired()) query_.on_result = std::move(on_result);
}

// Throws away what COPY sends. True when it is all here, or (still copying) never will be.
bool Connection::DrainCopy() {
  if (broken_ && !failure_) {
    failure_ = Failure{.kind = Failure::Kind::kLost, .message = "the connection was lost"};
  }
  if (broken_) return true;
  while (true) {
    char* buffer = nullptr;
    const int got = PQgetCopyData(conn_, &buffer, 1);
    PQfreemem(buffer);
    if (got == 0) return false;
    if (got > 0) continue;
    copying_ = false;
    return true;
  }
}

void Connection::EndQuery() {
  later_ = 0;
  busy_ = false;
  copying_ = false;
  Query ended = std::exchange(query_, {});
  std::optional<Failure> failure = std::exchange(failure_, std::nullopt);
  ended.on_done(std::move(failure));  // may destroy this
}

void Connection::Cancel() {
  if (!busy_ || broken_ || std::exchange(cancelled_, true)) return;
  PGcancel* const cancel = PQgetCancel(conn_);
  if (cancel == nullptr) return;
  const auto send = [cancel] {
    pthread_setname_np(pthread_self(), "pg-cancel");
    std::array<char, kCancelErrorBytes> error{};
    PQcancel(cancel, error.data(), static_cast<int>(error.size()));
    PQfreeCancel(cancel);
  };
  try {
    std::thread(send).detach();  // opens a connection of its own, and waits for the server
  } catch (const std::system_error&) {
    PQfreeCancel(cancel);
  }
}

bool Connection::Alive() {
  for (int reads = 0; !broken_ && reads < kIdleReadsMax; ++reads) {
    pollfd look{.fd = PQsocket(conn_), .events = POLLIN, .revents = 0};
    if (poll(&look, 1, 0) == 0) return true;
    if (PQconsumeInput(conn_) == 0 || PQstatus(conn_) == CONNECTION_BAD) break;
    while (PGnotify* const notify = PQnotifies(conn_)) PQfreemem(notify);
  }
  broken_ = true;
  Unwatch();
  return false;
}

bool Connection::in_transaction() const {
  const PGTransactionStatusType status = PQtransactionStatus(conn_);
  return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

std::string_view Connection::Setting(const char* name) const {
  const char* const value = PQparameterStatus(conn_, name);
  return value == nullptr ? "" : value;
}

}  // namespace noetl::pg
