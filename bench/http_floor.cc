#include "http_floor.h"

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "http_load.h"

namespace noetl::bench {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

// The three events of a run that starts.
constexpr std::size_t kRecordBytes = 3 * 560;
// Written over again and again, as a write-ahead log is: a file that grows costs a second write, of
// its new length.
constexpr std::size_t kFileBytes = 16u << 20;
// As long as the answer to a start.
constexpr const char* kBody =
    R"({"execution_id":"380331916856836096","status":"started","commands_generated":1})";

// Appends and syncs on its own thread; all who wait at that moment share one sync.
class Committer {
 public:
  using Done = std::move_only_function<void()>;

  Committer(asio::io_context& context, const std::string& file)
      : context_(context), file_(file), fd_(open(file.c_str(), O_CREAT | O_WRONLY, 0600)) {
    const std::string zeros(kFileBytes, '\0');
    if (fd_ < 0 || write(fd_, zeros.data(), zeros.size()) < 0 || fsync(fd_) != 0)
      Give("cannot make " + file);
    thread_ = std::thread([this] { Work(); });
  }
  ~Committer() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
    close(fd_);
    unlink(file_.c_str());
  }
  void Add(Done done) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(done));
    }
    wake_.notify_one();
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      std::vector<Done> batch = std::exchange(waiting_, {});
      lock.unlock();
      const std::string bytes(batch.size() * kRecordBytes, 'x');
      if (at_ + bytes.size() > kFileBytes) at_ = 0;
      if (pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at_)) < 0 ||
          fdatasync(fd_) != 0) {
        Give("cannot write " + file_);
      }
      at_ += bytes.size();
      asio::post(context_, [batch = std::move(batch)]() mutable {
        for (Done& done : batch) done();
      });
      lock.lock();
    }
  }

  asio::io_context& context_;
  std::string file_;
  int fd_;
  std::size_t at_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Done> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

asio::awaitable<void> Durable(Committer& committer) {
  return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      [&committer](auto handler) { committer.Add(std::move(handler)); }, asio::use_awaitable);
}

asio::awaitable<void> Serve(tcp::socket socket, Committer& committer) {
  socket.set_option(tcp::no_delay(true));
  boost::beast::flat_buffer buffer;
  try {
    for (;;) {
      http::request<http::string_body> request;
      co_await http::async_read(socket, buffer, request, asio::use_awaitable);
      if (request.method() == http::verb::post) co_await Durable(committer);
      http::response<http::string_body> response(http::status::ok, request.version());
      response.set(http::field::content_type, "application/json");
      response.body() = kBody;
      response.prepare_payload();
      co_await http::async_write(socket, response, asio::use_awaitable);
    }
  } catch (const boost::system::system_error&) {
    // The client has gone.
  }
}

asio::awaitable<void> Accept(tcp::acceptor& acceptor, Committer& committer) {
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), Serve(std::move(socket), committer), asio::detached);
  }
}

}  // namespace

struct FloorServer::Parts {
  explicit Parts(const std::string& file) : committer(context, file) {
    asio::co_spawn(context, Accept(acceptor, committer), asio::detached);
    thread = std::thread([this] { context.run(); });
  }
  ~Parts() {
    context.stop();
    thread.join();
  }

  asio::io_context context{1};
  tcp::acceptor acceptor{context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  Committer committer;
  std::thread thread;
};

FloorServer::FloorServer(const std::string& file) : parts_(std::make_unique<Parts>(file)) {}
FloorServer::~FloorServer() = default;
int FloorServer::port() const { return parts_->acceptor.local_endpoint().port(); }

}  // namespace noetl::bench
