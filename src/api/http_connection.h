// The inside of the HTTP server: what all connections share (`Core`) and one connection.
//
// For http_server.cc, http_connection.cc and http_exchange.cc only: this header brings Boost along.
//
// A connection reads in a coroutine and writes by callbacks, both on its strand. Each request becomes
// a `ServerExchange` in the connection's queue before its handler sees it; answers are written from
// the head of the queue, so they leave in the order of requests whenever they come. The coroutine
// keeps the connection alive; exchanges that handlers still hold keep only its memory.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/gzip.h"
#include "api/http.h"
#include "api/http_server.h"
#include "api/http_wire.h"

namespace noetl::api::inside {

namespace asio = boost::asio;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Strand>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Strand>;
using TlsStream = asio::ssl::stream<Socket&>;
template <typename T>
using Task = asio::awaitable<T, Strand>;

class Connection;

// Requests of one connection that wait for their answers, and the bytes of their bodies: a client
// that sends without reading gets no further. One request above the bytes is always let in.
inline constexpr std::size_t kPipelineMax = 128;
inline constexpr std::size_t kPipelineBytesMax = 1u << 20;
// Header bytes are read into this much at first; a request of a program fits.
inline constexpr std::size_t kReadBytes = 4u << 10;
// Bodies are read in pieces of at least this.
inline constexpr std::size_t kBodyReadBytes = 64u << 10;
// What is read and thrown away of a refused body, so that the connection can go on.
inline constexpr std::size_t kDrainBytesMax = 64u << 10;
// Closing while bytes of the client are unread resets the connection and may take the answer with
// it. So after an error the rest is read and thrown away, for this long and this much: a body of any
// size that is taken somewhere.
inline constexpr std::int64_t kLingerMs = 1'000;
inline constexpr std::size_t kLingerBytesMax = 64u << 20;
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::int64_t NowMs();

// Shared by the server, its connections and thus by every exchange that a handler holds.
struct Core {
  Core(HttpServerOptions options, HttpHandler* handler);

  std::string NewRequestId();
  // Connections are counted from their first moment to the end of their coroutine. Any thread.
  void Add(Connection* connection, bool turned_away);
  void Remove(Connection* connection, bool turned_away);
  // Those that live at this moment.
  std::vector<std::shared_ptr<Connection>> Connections();
  // Those with a deadline that has passed.
  std::vector<std::shared_ptr<Connection>> Overdue(std::int64_t now_ms);
  // False: some are still there after that time.
  bool WaitEmpty(std::int64_t timeout_ms);

  const HttpServerOptions options;
  HttpHandler* const handler;
  asio::io_context io;
  std::unique_ptr<asio::ssl::context> tls;
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> in_flight{0};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> turned_away{0};
  std::atomic<std::size_t> serving{0};   // connections
  std::atomic<std::size_t> refusing{0};  // connections above the limit, until their 503 is sent

 private:
  const std::uint64_t id_start_;
  std::atomic<std::uint64_t> ids_{0};
  std::mutex mutex_;
  std::condition_variable empty_;
  std::vector<Connection*> connections_;
};

// The body of one answer that goes on. Any thread.
class StreamBody final : public BodyStream {
 public:
  StreamBody(std::weak_ptr<Connection> connection, bool chunked,
             std::move_only_function<void()> closed);
  ~StreamBody() override;

  bool Write(std::string text) override;
  std::size_t waiting() const override { return waiting_.load(std::memory_order_relaxed); }
  void Close() override;

  // For the connection: moves what waits to `out`. True: that was the last of it.
  bool Take(std::string* out);
  // For the connection: what was taken is on its way.
  void Taken();
  // No more will be taken. Returns what must be called now, or nothing when it was called before.
  std::move_only_function<void()> End();

 private:
  const std::weak_ptr<Connection> connection_;
  const bool chunked_;
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  std::string pending_;            // framed
  std::size_t taken_payload_ = 0;  // of what the connection writes at the moment
  bool closing_ = false;           // by Close
  bool ended_ = false;             // by the connection
  std::move_only_function<void()> closed_;
};

// One request and its answer. `Send`, `Stream` and `Abandon` claim the answer; the strand reads it
// once `ready` is set.
class ServerExchange final : public Exchange {
 public:
  explicit ServerExchange(std::shared_ptr<Connection> connection);

  const Request& request() const override { return request_; }
  void Send(Response response) override;
  std::shared_ptr<BodyStream> Stream(Response head,
                                     std::move_only_function<void()> closed) override;
  bool gone() const override;

  // Every handler's reference is gone: nobody can answer any more.
  void Abandon();
  // For the connection's own answers, which no handler made. On the strand, before it is queued.
  void SendNow(Response response);
  // An interim answer. As SendNow.
  void SendRaw(std::string text);

  bool ready() const { return ready_.load(); }

 private:
  friend class Connection;

  bool Claim();
  AnswerForm Form() const;

  Request request_;
  const std::shared_ptr<Connection> connection_;
  bool http10_ = false;
  bool close_ = false;    // after the answer, as the client or the connection wishes
  bool counted_ = false;  // in flight
  bool abandoned_ = false;
  bool head_sent_ = false;  // of a stream
  std::atomic<bool> claimed_{false};
  std::atomic<bool> ready_{false};
  std::atomic<bool> dropped_{false};  // the connection will not look at it again
  WireAnswer answer_;
  std::shared_ptr<StreamBody> stream_;
};

// Bytes that were read and not yet understood.
class ReadBuffer {
 public:
  std::string_view text() const { return {data_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  void Consume(std::size_t size) { begin_ += size; }
  void Clear() { begin_ = end_ = 0; }
  // Makes the whole at least this large, keeping the text, which moves to the front.
  void Reserve(std::size_t capacity);
  asio::mutable_buffer room() { return {data_.get() + end_, capacity_ - end_}; }
  void Added(std::size_t size) { end_ += size; }
  void Release();

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class RequestParser;

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Core> core, Socket socket, bool turned_away);
  ~Connection();

  // Starts the coroutine. Once.
  void Start();

  // --- any thread
  // An exchange became ready, or a stream has more.
  void FlushSoon();
  void PostFlush();
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  // Whether the coroutine has ended: nothing is sent any more.
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool Overdue(std::int64_t now_ms) const;
  Core& core() { return *core_; }
  void Post(void (Connection::*what)());

  // --- on the strand
  void CheckDeadlines();
  void OnStop();
  void Abort();

 private:
  friend struct Core;

  enum class Read { kData, kEof, kTimeout, kCancelled, kError };
  enum class Phase { kIdle, kHeader, kBody, kFinish, kLinger };
  struct Problem {
    int status = 0;  // 0: none; kSilent: the client has gone
    std::string_view what;
  };

  // --- http_connection.cc: the reader
  Task<void> Run();
  Task<bool> Handshake();
  // True: there are bytes of a next request.
  Task<bool> AwaitRequest();
  // True: the connection goes on.
  Task<bool> ServeRequest();
  // False: no request came of it.
  Task<bool> ReadHeader(RequestParser* parser);
  Task<bool> ReadBody(ServerExchange* exchange, RequestParser* parser, std::size_t body_max);
  Task<Problem> ReadLength(std::string* body, std::uint64_t length, Inflater* inflater);
  Task<Problem> ReadChunks(std::string* body, RequestParser* parser, Inflater* inflater,
                           std::size_t body_max);
  // The answer that refuses; true: the connection goes on behind it.
  Task<bool> Refuse(std::shared_ptr<ServerExchange> exchange, RequestParser* parser,
                    Response refusal);
  Task<void> AwaitRoom();
  void Dispatch(std::shared_ptr<ServerExchange> exchange);
  Task<void> Finish();
  Task<void> Linger();
  // More bytes into the buffer, which is made `size` large, or to `direct`, which has room for that
  // many. came_ says how many. What is ready is written before waiting.
  Task<Read> ReadSome(std::size_t size, char* direct);
  asio::mutable_buffer Room(std::size_t size, char* direct);
  Task<void> AwaitWake();
  static Problem InflateProblem(Inflater::Outcome outcome);
  Problem ReadProblem(Read outcome);
  void Complain(Problem problem, std::string_view request_id);
  void ArmRead(std::int64_t timeout_ms);
  void DisarmRead();
  void OnEof();
  void End();

  // --- http_exchange.cc: the writer
  void Flush();
  void Gather();
  // True: the item is written whole with this batch.
  bool GatherStream(ServerExchange* exchange);
  // True: all of the batch is written.
  bool WriteOut();
  void AwaitWritable();
  void Wrote(const error_code& error, std::size_t size);
  void Advance(std::size_t size);
  void BatchDone();
  void DropQueue();
  void CallLater(std::move_only_function<void()> callback);
  void Wake();

  const std::shared_ptr<Core> core_;  // first: it outlives the socket
  Socket socket_;
  std::unique_ptr<TlsStream> tls_;
  Timer wake_;  // never expires: the reader waits on it for the writer
  const bool turned_away_;
  std::string peer_;
  std::size_t place_ = 0;  // in the core's list

  std::atomic<bool> gone_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> flush_posted_{false};
  std::atomic<std::int64_t> read_deadline_{kNever};
  std::atomic<std::int64_t> write_deadline_{kNever};

  ReadBuffer buffer_;
  std::size_t came_ = 0;  // with the last read
  Phase phase_ = Phase::kHeader;
  bool expired_ = false;  // the read deadline passed
  bool eof_ = false;
  bool linger_ = false;
  bool closing_ = false;  // no further request is taken
  bool corked_ = false;   // the reader works: what becomes ready is written when it is through
  bool writing_ = false;  // a batch is on its way
  bool aborted_ = false;
  bool woken_ = false;

  std::vector<std::shared_ptr<ServerExchange>> queue_;
  std::size_t queued_bytes_ = 0;  // of bodies of requests in the queue
  // What is being written: buffers from out_next_ on, of the first batch_ exchanges of the queue.
  std::vector<asio::const_buffer> out_;
  std::size_t out_next_ = 0;
  std::size_t batch_ = 0;
  std::string stream_text_;
  StreamBody* stream_writing_ = nullptr;
};

}  // namespace noetl::api::inside
