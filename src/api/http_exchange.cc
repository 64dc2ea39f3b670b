// Exchanges, streams, and the half of a connection that writes.
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "api/http_connection.h"
#include "base/log.h"

namespace noetl::api::inside {
namespace {

// Answers written at once; the system takes twice as many pieces in one call.
constexpr std::size_t kBatchMax = 32;
// Batches written before other connections have their turn.
constexpr std::size_t kRoundsMax = 16;

}  // namespace

// --- StreamBody

StreamBody::StreamBody(std::weak_ptr<Connection> connection, bool chunked,
                       std::move_only_function<void()> closed)
    : connection_(std::move(connection)), chunked_(chunked), closed_(std::move(closed)) {}

StreamBody::~StreamBody() {
  if (auto closed = End()) closed();
}

bool StreamBody::Write(std::string text) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || ended_) return false;
    if (text.empty()) return true;
    // A piece that alone is above the bound goes out when nothing else waits.
    const std::size_t waiting = waiting_.load(std::memory_order_relaxed);
    if (waiting > 0 && waiting + text.size() > kStreamBytesMax) return false;
    waiting_.fetch_add(text.size(), std::memory_order_relaxed);
    if (chunked_) {
      AppendChunk(text, &pending_);
    } else {
      pending_.append(text);
    }
  }
  if (const auto connection = connection_.lock()) connection->FlushSoon();
  return true;
}

void StreamBody::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || ended_) return;
    closing_ = true;
  }
  if (const auto connection = connection_.lock()) connection->FlushSoon();
}

bool StreamBody::Take(std::string* out) {
  const std::lock_guard lock(mutex_);
  out->clear();
  std::swap(*out, pending_);
  taken_payload_ = waiting_.load(std::memory_order_relaxed);
  if (closing_ && chunked_) out->append(kLastChunk);
  return closing_;
}

void StreamBody::Taken() {
  const std::lock_guard lock(mutex_);
  waiting_.fetch_sub(taken_payload_, std::memory_order_relaxed);
  taken_payload_ = 0;
}

std::move_only_function<void()> StreamBody::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  return std::exchange(closed_, nullptr);
}

// --- ServerExchange

ServerExchange::ServerExchange(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

bool ServerExchange::gone() const { return connection_->gone(); }

bool ServerExchange::Claim() {
  if (claimed_.exchange(true)) return false;
  if (counted_) connection_->core().in_flight.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

AnswerForm ServerExchange::Form() const {
  return {.http10 = http10_,
          .head_only = request_.method == "HEAD",
          .close = close_ || connection_->core().stopping.load(std::memory_order_relaxed),
          .gzip = AcceptsGzip(request_.headers.Find("Accept-Encoding")),
          .request_id = request_.id};
}

void ServerExchange::Send(Response response) {
  if (!Claim()) {
    LogError("a request was answered twice", {{"path", Json(request_.path)}});
    return;
  }
  if (connection_->done()) return;
  answer_ = MakeAnswer(std::move(response), Form());
  ready_.store(true, std::memory_order_release);
  connection_->FlushSoon();
}

std::shared_ptr<BodyStream> ServerExchange::Stream(Response head,
                                                   std::move_only_function<void()> closed) {
  auto stream = std::make_shared<StreamBody>(connection_, !http10_, std::move(closed));
  const bool mine = Claim();
  if (!mine) LogError("a request was answered twice", {{"path", Json(request_.path)}});
  if (!mine || connection_->done()) {
    if (auto callback = stream->End()) callback();
    return stream;
  }
  answer_ = MakeStreamHead(head, Form());
  stream_ = stream;
  ready_.store(true);
  if (dropped_.load()) {
    if (auto callback = stream->End()) callback();
  }
  connection_->FlushSoon();
  return stream;
}

void ServerExchange::Abandon() {
  if (!Claim()) return;
  abandoned_ = true;
  ready_.store(true, std::memory_order_release);
  connection_->FlushSoon();
}

void ServerExchange::SendNow(Response response) {
  if (!Claim()) return;
  answer_ = MakeAnswer(std::move(response), Form());
  ready_.store(true, std::memory_order_release);
}

void ServerExchange::SendRaw(std::string text) {
  claimed_.store(true);
  answer_.head = std::move(text);
  ready_.store(true, std::memory_order_release);
}

// --- The writer

void Connection::FlushSoon() {
  if (done()) return;
  if (socket_.get_executor().running_in_this_thread()) {
    Flush();
  } else {
    PostFlush();
  }
}

void Connection::PostFlush() {
  if (flush_posted_.exchange(true, std::memory_order_acq_rel)) return;
  // Weak: what is posted to a server that has stopped must not keep it.
  asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->flush_posted_.exchange(false, std::memory_order_acq_rel);
      self->Flush();
    }
  });
}

void Connection::Flush() {
  for (std::size_t round = 0; round < kRoundsMax; ++round) {
    if (writing_ || corked_ || aborted_ || done()) return;
    // Answers may still reach a client that only closed its side; a stream has no end to wait for.
    if (eof_ && !queue_.empty() && queue_.front()->ready() && queue_.front()->stream_) {
      return Abort();
    }
    writing_ = true;  // also keeps calls from inside Gather out
    Gather();
    if (out_.empty()) {
      writing_ = false;
      return;
    }
    if (!WriteOut()) return;
    BatchDone();
  }
  PostFlush();
}

void Connection::Gather() {
  out_.clear();
  out_next_ = 0;
  batch_ = 0;
  while (batch_ < std::min(queue_.size(), kBatchMax)) {
    ServerExchange* exchange = queue_[batch_].get();
    if (!exchange->ready()) return;
    if (exchange->abandoned_) {
      exchange->abandoned_ = false;
      exchange->answer_ =
          MakeAnswer(core_->handler->Malformed(500, "no answer was made to this request",
                                               exchange->request_.id),
                     exchange->Form());
    }
    if (exchange->stream_) {
      if (GatherStream(exchange)) ++batch_;
      return;
    }
    out_.emplace_back(asio::buffer(exchange->answer_.head));
    if (!exchange->answer_.body.empty()) out_.emplace_back(asio::buffer(exchange->answer_.body));
    ++batch_;
    if (exchange->answer_.close) return;
  }
}

bool Connection::GatherStream(ServerExchange* exchange) {
  StreamBody& stream = *exchange->stream_;
  if (core_->stopping) stream.Close();
  if (!exchange->head_sent_) {
    exchange->head_sent_ = true;
    out_.emplace_back(asio::buffer(exchange->answer_.head));
  }
  if (exchange->request_.method == "HEAD") return true;
  const bool last = stream.Take(&stream_text_);
  stream_writing_ = &stream;
  if (!stream_text_.empty()) out_.emplace_back(asio::buffer(stream_text_));
  // The body of HTTP/1.0 ends without a byte: nothing is left to write, and the batch is done.
  if (last && out_.empty()) out_.emplace_back();
  return last;
}

bool Connection::WriteOut() {
  while (!tls_ && out_next_ < out_.size()) {
    error_code error;
    const std::span pieces(out_.begin() + static_cast<std::ptrdiff_t>(out_next_), out_.end());
    const std::size_t size = socket_.write_some(pieces, error);
    if (error == asio::error::would_block) break;
    if (error) {
      writing_ = false;
      Abort();
      return false;
    }
    Advance(size);
  }
  if (out_next_ == out_.size()) return true;
  AwaitWritable();
  return false;
}

void Connection::Advance(std::size_t size) {
  while (out_next_ < out_.size() && size >= out_[out_next_].size()) {
    size -= out_[out_next_++].size();
  }
  if (size > 0) out_[out_next_] += size;
}

void Connection::AwaitWritable() {
  write_deadline_.store(NowMs() + core_->options.write_timeout_ms, std::memory_order_relaxed);
  if (!tls_) {
    socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const error_code& error) {
      // A reader's timeout cancels all that waits on the socket; the writer just waits again.
      self->Wrote(error == asio::error::operation_aborted ? error_code() : error, 0);
    });
    return;
  }
  const std::span pieces(out_.begin() + static_cast<std::ptrdiff_t>(out_next_), out_.end());
  tls_->async_write_some(pieces,
                         [self = shared_from_this()](const error_code& error, std::size_t size) {
                           self->Wrote(error, size);
                         });
}

void Connection::Wrote(const error_code& error, std::size_t size) {
  if (error || aborted_) {
    writing_ = false;
    Abort();
    return;
  }
  Advance(size);
  if (!WriteOut()) return;
  BatchDone();
  Flush();
}

void Connection::BatchDone() {
  writing_ = false;
  write_deadline_.store(kNever, std::memory_order_relaxed);
  if (stream_writing_ != nullptr) {
    stream_writing_->Taken();
    stream_writing_ = nullptr;
    // A burst must not keep its memory.
    if (stream_text_.capacity() > kBodyReadBytes) std::string().swap(stream_text_);
  }
  bool close = false;
  for (std::size_t i = 0; i < batch_; ++i) {
    ServerExchange& exchange = *queue_[i];
    queued_bytes_ -= exchange.request_.body.size();
    close = close || exchange.answer_.close;
    if (exchange.stream_) CallLater(exchange.stream_->End());
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(batch_));
  batch_ = 0;
  if (close) {
    // Requests behind it stay without an answer, as the client was told.
    DropQueue();
    closing_ = true;
  }
  if (queue_.empty() && phase_ == Phase::kIdle) ArmRead(core_->options.idle_timeout_ms);
  Wake();
}

void Connection::Wake() {
  woken_ = true;
  wake_.cancel();
  // A reader that only watches for the end of the client has nothing to watch for any more.
  if (closing_ && queue_.empty()) {
    error_code ignored;
    socket_.cancel(ignored);
  }
}

void Connection::Abort() {
  gone_.store(true, std::memory_order_relaxed);
  if (!aborted_) {
    aborted_ = true;
    error_code ignored;
    socket_.close(ignored);
  }
  read_deadline_.store(kNever, std::memory_order_relaxed);
  write_deadline_.store(kNever, std::memory_order_relaxed);
  // What is being written belongs to the queue until the socket lets go of it.
  if (!writing_) DropQueue();
  woken_ = true;
  wake_.cancel();
}

void Connection::DropQueue() {
  std::vector<std::shared_ptr<ServerExchange>> dropped;
  dropped.swap(queue_);
  queued_bytes_ = 0;
  stream_writing_ = nullptr;
  out_.clear();
  out_next_ = 0;
  batch_ = 0;
  for (const auto& exchange : dropped) {
    // When it gets its stream at this very moment, one of both sides sees what the other did.
    exchange->dropped_.store(true);
    if (exchange->ready() && exchange->stream_) CallLater(exchange->stream_->End());
  }
}

void Connection::CallLater(std::move_only_function<void()> callback) {
  // Not from here: the callback may answer other requests of this connection.
  if (callback) asio::post(core_->io, std::move(callback));
}

}  // namespace noetl::api::inside
