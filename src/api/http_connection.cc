// The half of a connection that reads: from the first byte to the handler, and the end.
#include "api/http_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>

#include "api/http_parser.h"
#include "base/log.h"
#include "base/text.h"

namespace noetl::api::inside {
namespace {

namespace http = boost::beast::http;
constexpr auto kAwait = asio::as_tuple(asio::deferred);

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// A body that gains nothing from gzip is a little larger with it.
constexpr std::size_t kGzipOverhead = 4u << 10;
// In the place of a status: there is nobody to tell.
constexpr int kSilent = -1;

std::int64_t NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::size_t Count(const Headers& headers, std::string_view name) {
  std::size_t count = 0;
  for (const auto& [key, value] : headers.entries()) {
    if (key.size() == name.size() && ToLower(key) == name) ++count;
  }
  return count;
}

bool IsUpper(std::string_view method) {
  return std::none_of(method.begin(), method.end(),
                      [](char letter) { return letter >= 'a' && letter <= 'z'; });
}

struct Flaw {
  int status = 0;  // 0: none
  std::string_view what;
};

// What Beast lets through and we do not.
Flaw FlawOf(Request* request, bool http10) {
  const Headers& headers = request->headers;
  if (!IsUpper(request->method)) return {400, "methods are written in upper case"};
  if (!SplitTarget(request)) return {400, "the request target is not a path"};
  const std::size_t hosts = Count(headers, "host");
  if (hosts > 1 || (hosts == 0 && !http10)) return {400, "exactly one Host header is needed"};
  if (Count(headers, "transfer-encoding") > 0) {
    // Anything else than plain chunks is a way to disagree with a proxy about where a body ends.
    if (http10 || Count(headers, "transfer-encoding") > 1 ||
        ToLower(headers.Find("Transfer-Encoding")) != "chunked" || headers.Has("Content-Length")) {
      return {400, "Transfer-Encoding must be chunked alone, without Content-Length"};
    }
  }
  const std::string_view length = headers.Find("Content-Length");
  if (Count(headers, "content-length") > 1 ||
      length.find_first_not_of("0123456789") != std::string_view::npos) {
    return {400, "Content-Length must be one number"};
  }
  const std::string_view encoding = headers.Find("Content-Encoding");
  if (!encoding.empty() && !HasToken("gzip,x-gzip,identity", ToLower(encoding))) {
    return {415, "the Content-Encoding of the body is not known here: send gzip or none"};
  }
  const std::string_view expect = headers.Find("Expect");
  if (!expect.empty() && ToLower(expect) != "100-continue") {
    return {417, "only 100-continue can be expected"};
  }
  return {};
}

bool IsGzip(const Request& request) {
  const std::string encoding = ToLower(request.headers.Find("Content-Encoding"));
  return encoding == "gzip" || encoding == "x-gzip";
}

}  // namespace

std::int64_t NowMs() { return NowUs() / 1000; }

// --- ReadBuffer

void ReadBuffer::Reserve(std::size_t capacity) {
  if (capacity <= capacity_) {
    if (begin_ > 0) std::copy(data_.get() + begin_, data_.get() + end_, data_.get());
  } else {
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (end_ > begin_) std::copy(data_.get() + begin_, data_.get() + end_, larger.get());
    data_ = std::move(larger);
    capacity_ = capacity;
  }
  end_ -= begin_;
  begin_ = 0;
}

void ReadBuffer::Release() {
  data_.reset();
  capacity_ = begin_ = end_ = 0;
}

// --- Connection: from any thread

Connection::Connection(std::shared_ptr<Core> core, Socket socket, bool turned_away)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      wake_(socket_.get_executor()),
      turned_away_(turned_away) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // A client that vanished without a word ends a stream some day.
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto remote = socket_.remote_endpoint(ignored);
  if (!ignored) {
    asio::ip::address address = remote.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped()) {
      address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    }
    peer_ = address.to_string();
  }
  if (core_->tls) tls_ = std::make_unique<TlsStream>(socket_, *core_->tls);
  wake_.expires_at(Timer::time_point::max());
}

Connection::~Connection() = default;

void Connection::Start() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->Run(); }, asio::detached);
}

void Connection::Post(void (Connection::*what)()) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), what] { (self.get()->*what)(); });
}

bool Connection::Overdue(std::int64_t now_ms) const {
  return read_deadline_.load(std::memory_order_relaxed) <= now_ms ||
         write_deadline_.load(std::memory_order_relaxed) <= now_ms;
}

// --- Connection: deadlines and the end, on the strand

void Connection::ArmRead(std::int64_t timeout_ms) {
  expired_ = false;
  read_deadline_.store(NowMs() + timeout_ms, std::memory_order_relaxed);
}

void Connection::DisarmRead() {
  expired_ = false;
  read_deadline_.store(kNever, std::memory_order_relaxed);
}

void Connection::CheckDeadlines() {
  const std::int64_t now = NowMs();
  if (write_deadline_.load(std::memory_order_relaxed) <= now) return Abort();
  if (read_deadline_.load(std::memory_order_relaxed) > now) return;
  DisarmRead();
  expired_ = true;
  // TLS cannot take up a record again that was cut off.
  if (tls_ && writing_) return Abort();
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::OnStop() {
  for (const auto& exchange : queue_) {
    if (exchange->ready() && exchange->stream_) exchange->stream_->Close();
  }
  if (phase_ != Phase::kIdle && phase_ != Phase::kHeader) return;
  closing_ = true;
  if (tls_ && writing_) return;  // the end of the write wakes the reader
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::OnEof() {
  eof_ = true;
  gone_.store(true, std::memory_order_relaxed);
  Flush();  // which ends a stream
}

void Connection::End() {
  gone_.store(true, std::memory_order_relaxed);
  error_code ignored;
  socket_.close(ignored);
  aborted_ = true;
  DropQueue();
  DisarmRead();
  done_.store(true, std::memory_order_release);
  core_->Remove(this, turned_away_);
}

// --- The reader

Task<void> Connection::Run() {
  const auto self = shared_from_this();
  try {
    if (co_await Handshake()) {
      if (turned_away_) {
        Complain({503, "too many connections"}, {});
      } else {
        bool more = true;
        while (more) {
          more = co_await AwaitRequest();
          if (more) more = co_await ServeRequest();
        }
      }
      co_await Finish();
    }
  } catch (const std::exception& error) {
    LogError("a connection failed", {{"error", Json(std::string(error.what()))}});
    Abort();
  }
  while (writing_) co_await AwaitWake();
  End();
}

Task<bool> Connection::Handshake() {
  if (!tls_) co_return true;
  ArmRead(core_->options.header_timeout_ms);
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
  DisarmRead();
  co_return !error;
}

Task<Connection::Read> Connection::ReadSome(std::size_t size, char* direct) {
  corked_ = false;
  Flush();
  while (true) {
    if (aborted_) co_return Read::kError;
    if (expired_) co_return Read::kTimeout;
    if (closing_ && queue_.empty() && phase_ != Phase::kLinger) co_return Read::kCancelled;
    error_code error;
    std::size_t came = 0;
    if (tls_) {
      const asio::mutable_buffer room = Room(size, direct);
      std::tie(error, came) = co_await tls_->async_read_some(room, kAwait);
    } else {
      // Memory is taken only when there is something to read: most connections are idle.
      std::tie(error) = co_await socket_.async_wait(Socket::wait_read, kAwait);
      if (!error) came = socket_.read_some(Room(size, direct), error);
      if (error == asio::error::would_block) continue;
    }
    if (error == asio::error::operation_aborted && !aborted_) {
      co_return expired_ ? Read::kTimeout : Read::kCancelled;
    }
    corked_ = true;
    if (error) {
      const bool end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
      if (!end) Abort();
      co_return end ? Read::kEof : Read::kError;
    }
    if (direct == nullptr) buffer_.Added(came);
    came_ = came;
    co_return Read::kData;
  }
}

asio::mutable_buffer Connection::Room(std::size_t size, char* direct) {
  if (direct != nullptr) return {direct, size};
  buffer_.Reserve(size);
  return buffer_.room();
}

Task<void> Connection::AwaitWake() {
  woken_ = false;
  corked_ = false;
  Flush();
  // What is awaited may have happened within the flush.
  if (!woken_) co_await wake_.async_wait(kAwait);
}

Task<bool> Connection::AwaitRequest() {
  while (!closing_ && !core_->stopping && !aborted_) {
    if (buffer_.size() > 0) co_return true;
    buffer_.Release();
    phase_ = Phase::kIdle;
    DisarmRead();
    // While answers are under way the client may wait as long as they take.
    if (queue_.empty()) ArmRead(core_->options.idle_timeout_ms);
    const Read outcome = co_await ReadSome(kReadBytes, nullptr);
    if (outcome == Read::kEof) OnEof();
    if (outcome != Read::kCancelled && outcome != Read::kData) co_return false;
  }
  co_return false;
}

Task<bool> Connection::ServeRequest() {
  phase_ = Phase::kHeader;
  auto exchange = std::make_shared<ServerExchange>(shared_from_this());
  Request& request = exchange->request_;
  RequestParser parser(&request);
  if (!co_await ReadHeader(&parser)) co_return false;
  DisarmRead();
  phase_ = Phase::kBody;
  request.received_us = NowUs();
  request.peer = peer_;
  request.tls = tls_ != nullptr;
  const std::string_view id = request.headers.Find("X-Request-Id");
  request.id = IsRequestId(id) ? std::string(id) : core_->NewRequestId();
  exchange->http10_ = parser.http10();
  exchange->close_ = !parser.keep_alive();
  if (const Flaw flaw = FlawOf(&request, parser.http10()); flaw.status != 0) {
    Complain({flaw.status, flaw.what}, request.id);
    co_return false;
  }
  if (queue_.size() >= kPipelineMax || queued_bytes_ >= kPipelineBytesMax) co_await AwaitRoom();
  HttpHandler::Admission admission = core_->handler->Admit(request);
  if (admission.refusal) {
    co_return co_await Refuse(std::move(exchange), &parser, std::move(*admission.refusal));
  }
  if (!parser.is_done()) {
    const bool whole = co_await ReadBody(exchange.get(), &parser, admission.body_max);
    if (!whole) co_return false;
  }
  DisarmRead();
  if (closing_ || aborted_) co_return false;
  const bool more = !exchange->close_;
  Dispatch(std::move(exchange));
  co_return more;
}

Task<bool> Connection::ReadHeader(RequestParser* parser) {
  const std::size_t limit = core_->options.header_bytes_max;
  parser->header_limit(static_cast<std::uint32_t>(limit));
  bool armed = false;
  while (true) {
    // Some clients send a line break too many behind a body.
    while (!parser->got_some() && buffer_.text().starts_with("\r\n")) buffer_.Consume(2);
    error_code error = http::error::need_more;
    if (buffer_.size() > 0) {
      const std::size_t size = parser->put({buffer_.text().data(), buffer_.size()}, error);
      buffer_.Consume(size);
      parser->header_bytes += size;
    }
    if (error == http::error::header_limit || parser->header_bytes > limit ||
        (!parser->is_header_done() && parser->header_bytes + buffer_.size() > limit)) {
      Complain({431, "the header is too large"}, {});
      co_return false;
    }
    if (error && error != http::error::need_more) {
      Complain({400, "this is not an HTTP/1.1 request"}, {});
      co_return false;
    }
    if (parser->is_header_done()) co_return true;
    if (!armed) ArmRead(core_->options.header_timeout_ms);
    armed = true;
    const Read outcome = co_await ReadSome(std::max(kReadBytes, buffer_.size() * 2), nullptr);
    if (outcome == Read::kTimeout) {
      Complain({408, "the header did not arrive in time"}, {});
      co_return false;
    }
    if (outcome == Read::kEof) OnEof();
    if (outcome == Read::kEof || outcome == Read::kError || closing_) co_return false;
  }
}

Task<void> Connection::AwaitRoom() {
  while (!aborted_ && !closing_ &&
         (queue_.size() >= kPipelineMax || queued_bytes_ >= kPipelineBytesMax)) {
    co_await AwaitWake();
  }
}

Task<bool> Connection::Refuse(std::shared_ptr<ServerExchange> exchange, RequestParser* parser,
                              Response refusal) {
  const auto length = parser->content_length();
  const bool body = !parser->is_done();
  // Nothing needs to be read of a body that waits for our leave, or of a long one; but then the
  // connection cannot go on.
  const bool drain = body && !parser->chunked() && length && *length <= kDrainBytesMax &&
                     !exchange->request_.headers.Has("Expect");
  if (body && !drain) {
    exchange->close_ = true;
    linger_ = true;
  }
  const bool more = !exchange->close_;
  exchange->SendNow(std::move(refusal));
  queue_.push_back(std::move(exchange));
  if (!more || !drain) co_return more;
  std::string thrown_away;
  const Problem problem = co_await ReadLength(&thrown_away, *length, nullptr);
  co_return problem.status == 0;
}

Task<bool> Connection::ReadBody(ServerExchange* exchange, RequestParser* parser,
                                std::size_t body_max) {
  Request& request = exchange->request_;
  std::optional<Inflater> inflater;
  if (IsGzip(request)) inflater.emplace(body_max);
  Inflater* const inflate = inflater ? &*inflater : nullptr;
  const std::uint64_t length = parser->content_length().value_or(0);
  if (length > body_max + (inflate != nullptr ? kGzipOverhead : 0)) {
    Complain({413, "the body is too large"}, request.id);
    co_return false;
  }
  if (request.headers.Has("Expect") && buffer_.size() == 0 && !parser->http10()) {
    auto interim = std::make_shared<ServerExchange>(shared_from_this());
    interim->SendRaw(std::string(kContinue));
    queue_.push_back(std::move(interim));
  }
  Problem problem;
  if (parser->chunked()) {
    problem = co_await ReadChunks(&request.body, parser, inflate, body_max);
  } else {
    problem = co_await ReadLength(&request.body, length, inflate);
  }
  if (problem.status == 0 && inflate != nullptr && !inflate->complete()) {
    problem = {400, "the body is not whole gzip data"};
  }
  if (problem.status > 0) Complain(problem, request.id);
  co_return problem.status == 0;
}

Task<Connection::Problem> Connection::ReadLength(std::string* body, std::uint64_t length,
                                                 Inflater* inflater) {
  std::uint64_t left = length;
  while (true) {
    const std::string_view piece = buffer_.text().substr(0, left);
    left -= piece.size();
    if (inflater == nullptr) {
      body->append(piece);
    } else if (const auto outcome = inflater->Write(piece, body);
               outcome != Inflater::Outcome::kFine) {
      co_return InflateProblem(outcome);
    }
    buffer_.Consume(piece.size());
    if (left == 0) co_return Problem{};
    ArmRead(core_->options.body_timeout_ms);
    Read outcome = Read::kData;
    if (inflater == nullptr) {
      // Straight into the body, which grows with what came, not with what was promised.
      const std::size_t before = body->size();
      const std::size_t room = std::min<std::uint64_t>(left, std::max(before, kBodyReadBytes));
      body->resize_and_overwrite(before + room, [](char*, std::size_t size) { return size; });
      outcome = co_await ReadSome(room, body->data() + before);
      const std::size_t came = outcome == Read::kData ? came_ : 0;
      body->resize(before + came);
      left -= came;
    } else {
      outcome = co_await ReadSome(kBodyReadBytes, nullptr);
    }
    if (const Problem problem = ReadProblem(outcome); problem.status != 0) co_return problem;
  }
}

Task<Connection::Problem> Connection::ReadChunks(std::string* body, RequestParser* parser,
                                                 Inflater* inflater, std::size_t body_max) {
  parser->ReadBodyInto(body, body_max, inflater);
  while (true) {
    error_code error;
    if (buffer_.size() > 0) {
      buffer_.Consume(parser->put({buffer_.text().data(), buffer_.size()}, error));
    }
    if (parser->too_large()) co_return Problem{413, "the body is too large"};
    if (parser->not_gzip()) co_return Problem{400, "the body is not gzip data"};
    if (error && error != http::error::need_more) {
      co_return Problem{400, "the chunks of the body are broken"};
    }
    if (parser->is_done()) co_return Problem{};
    // Only a line of a chunk or trailers can be left over.
    if (buffer_.size() >= core_->options.header_bytes_max) {
      co_return Problem{431, "a chunk's header or the trailers are too large"};
    }
    ArmRead(core_->options.body_timeout_ms);
    const Read outcome =
        co_await ReadSome(std::max(kBodyReadBytes, core_->options.header_bytes_max * 2), nullptr);
    if (const Problem problem = ReadProblem(outcome); problem.status != 0) co_return problem;
  }
}

Connection::Problem Connection::InflateProblem(Inflater::Outcome outcome) {
  if (outcome == Inflater::Outcome::kTooLarge) return {413, "the body is too large"};
  return {400, "the body is not gzip data"};
}

Connection::Problem Connection::ReadProblem(Read outcome) {
  switch (outcome) {
    case Read::kData: return {};
    case Read::kCancelled: return closing_ || aborted_ ? Problem{kSilent, {}} : Problem{};
    case Read::kTimeout: return {408, "the body did not arrive in time"};
    case Read::kEof: OnEof(); return {kSilent, {}};
    case Read::kError: break;
  }
  return {kSilent, {}};
}

void Connection::Complain(Problem problem, std::string_view request_id) {
  auto exchange = std::make_shared<ServerExchange>(shared_from_this());
  exchange->request_.id = request_id.empty() ? core_->NewRequestId() : std::string(request_id);
  exchange->close_ = true;
  Response response =
      core_->handler->Malformed(problem.status, problem.what, exchange->request_.id);
  if (problem.status == 503) response.headers.Set("Retry-After", "1");
  exchange->SendNow(std::move(response));
  queue_.push_back(std::move(exchange));
  linger_ = true;
}

void Connection::Dispatch(std::shared_ptr<ServerExchange> exchange) {
  queued_bytes_ += exchange->request_.body.size();
  exchange->counted_ = true;
  core_->in_flight.fetch_add(1, std::memory_order_relaxed);
  queue_.push_back(exchange);
  ServerExchange* const raw = exchange.get();
  // A reference of its own for the handler: when the last copy of it goes, nobody can answer.
  std::shared_ptr<Exchange> handle(
      raw, [exchange = std::move(exchange)](Exchange*) { exchange->Abandon(); });
  try {
    core_->handler->Handle(std::move(handle));
  } catch (const std::exception& error) {
    LogError("a request's handler failed", {{"error", Json(std::string(error.what()))}});
  }
}

Task<void> Connection::Finish() {
  phase_ = Phase::kFinish;
  closing_ = true;
  DisarmRead();
  corked_ = false;
  Flush();
  std::size_t thrown_away = 0;
  while (!aborted_ && (!queue_.empty() || writing_)) {
    buffer_.Clear();
    if (eof_ || thrown_away > kLingerBytesMax) {
      co_await AwaitWake();
      continue;
    }
    const Read outcome = co_await ReadSome(kReadBytes, nullptr);
    if (outcome == Read::kData) {
      thrown_away += came_;
      linger_ = true;
    }
    if (outcome == Read::kEof) OnEof();
  }
  if (!aborted_) co_await Linger();
}

Task<void> Connection::Linger() {
  phase_ = Phase::kLinger;
  error_code ignored;
  if (tls_) {
    ArmRead(kLingerMs);
    co_await tls_->async_shutdown(kAwait);
  } else if (linger_ && !eof_) {
    ArmRead(kLingerMs);
    socket_.shutdown(Socket::shutdown_send, ignored);
    std::size_t thrown_away = 0;
    while (thrown_away < kLingerBytesMax) {
      buffer_.Clear();
      const Read outcome = co_await ReadSome(kBodyReadBytes, nullptr);
      if (outcome != Read::kData && outcome != Read::kCancelled) break;
      if (outcome == Read::kData) thrown_away += came_;
    }
  }
}

}  // namespace noetl::api::inside
