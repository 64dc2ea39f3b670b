#include "http_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace noetl::bench {

namespace {

using Steady = std::chrono::steady_clock;

// An answer that takes longer is one that never comes.
constexpr auto kAnswerMax = std::chrono::seconds(60);
constexpr std::size_t kReadBytes = 64u << 10;

double Micros(Steady::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct Answer {
  int status = 0;
  std::string_view body;
  std::size_t bytes = 0;  // of head and body
};

// False: not all of it is there.
bool ReadAnswer(std::string_view bytes, Answer& answer) {
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  constexpr std::size_t kStatusAt = 9;  // behind "HTTP/1.1 "
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return false;
  const std::string_view head = bytes.substr(0, end + 2);
  const std::size_t at = head.find(kLength);
  std::size_t length = 0;
  if (at == std::string_view::npos) Give(fmt::format("an answer without a length: {}", head));
  std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), length);
  answer.bytes = end + 4 + length;
  if (bytes.size() < answer.bytes) return false;
  std::from_chars(head.data() + kStatusAt, head.data() + head.size(), answer.status);
  answer.body = bytes.substr(end + 4, length);
  return true;
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    Give(fmt::format("cannot connect to port {}", port));
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) Give("the server closed a connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Appends what has come; false: the other side has closed.
bool Receive(int fd, std::string& bytes, int flags) {
  static std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), flags);
  if (got == 0) return false;
  if (got > 0) bytes.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

struct Connection {
  int fd = -1;
  bool busy = false;
  std::string in;
  Steady::time_point due;
  Steady::time_point sent;
};

class Run {
 public:
  explicit Run(const Load& load)
      : load_(load), connections_(static_cast<std::size_t>(load.connections)) {
    // Timers may otherwise be 50 us late, which is much beside a pace of 20,000/s.
    prctl(PR_SET_TIMERSLACK, 1);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Open(i);
      idle_.push_back(i);
    }
  }
  ~Run() {
    for (const Connection& connection : connections_) close(connection.fd);
    close(epoll_);
  }

  LoadResult Go() {
    start_ = Steady::now();
    end_ = start_ + std::chrono::duration_cast<Steady::duration>(
                        std::chrono::duration<double>(load_.seconds));
    for (;;) {
      const auto now = Steady::now();
      if (now < end_) SendDue(now);
      else more_ = false;
      if (!more_ && open_ == 0) break;
      if (now > end_ + kAnswerMax) Give("answers are missing");
      Wait(now);
    }
    result_.seconds = std::chrono::duration<double>(Steady::now() - start_).count();
    if (load_.rate > 0) result_.unsent = std::max<std::int64_t>(0, Asked(end_) - result_.offered);
    return std::move(result_);
  }

 private:
  void Open(std::size_t index) {
    connections_[index].fd = Connect(load_.port);
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = index}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_[index].fd, &event);
  }

  // Operations that the rate asks for until then.
  std::int64_t Asked(Steady::time_point now) const {
    return 1 + static_cast<std::int64_t>(std::chrono::duration<double>(now - start_).count() *
                                         load_.rate);
  }
  Steady::time_point DueAt(std::int64_t number) const {
    return start_ + std::chrono::duration_cast<Steady::duration>(
                        std::chrono::duration<double>(static_cast<double>(number) / load_.rate));
  }

  void SendDue(Steady::time_point now) {
    const bool paced = load_.rate > 0;
    while (more_ && !idle_.empty() && (!paced || result_.offered < Asked(now))) {
      if (!load_.next(request_)) {
        more_ = false;
        return;
      }
      const std::size_t index = idle_.back();
      idle_.pop_back();
      Connection& connection = connections_[index];
      connection.busy = true;
      connection.sent = Steady::now();
      connection.due = paced ? DueAt(result_.offered) : connection.sent;
      ++result_.offered;
      ++open_;
      SendAll(connection.fd, request_);
    }
  }

  void Wait(Steady::time_point now) {
    auto until = now < end_ ? end_ : end_ + kAnswerMax;
    if (load_.rate > 0 && more_ && !idle_.empty())
      until = std::clamp(DueAt(result_.offered), now, until);
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - now).count();
    const timespec timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    std::array<epoll_event, 256> events;
    const int count = epoll_pwait2(epoll_, events.data(), events.size(), &timeout, nullptr);
    for (int i = 0; i < count; ++i) Read(events[static_cast<std::size_t>(i)].data.u64);
  }

  void Read(std::size_t index) {
    Connection& connection = connections_[index];
    if (!Receive(connection.fd, connection.in, MSG_DONTWAIT)) {
      if (connection.busy) Give("the server closed a connection");
      close(connection.fd);
      Open(index);
      return;
    }
    Answer answer;
    if (connection.busy && ReadAnswer(connection.in, answer)) Finish(index, answer);
  }

  void Finish(std::size_t index, const Answer& answer) {
    Connection& connection = connections_[index];
    const auto now = Steady::now();
    const bool refused = answer.status == 429 || answer.status == 503;
    if (!refused && (answer.status < 200 || answer.status > 299))
      Give(fmt::format("status {}: {}", answer.status, answer.body));
    const bool again = !refused && load_.answered && load_.answered(answer.body, request_);
    connection.in.erase(0, answer.bytes);
    if (again) return SendAll(connection.fd, request_);
    if (refused) {
      ++result_.refused;
    } else {
      result_.admitted.Add(Micros(now - connection.sent));
      result_.since_due.Add(Micros(now - connection.due));
    }
    connection.busy = false;
    --open_;
    idle_.push_back(index);
    // Others that are due already go with the next round.
    if (load_.rate == 0 && now < end_) SendDue(now);
  }

  const Load& load_;
  int epoll_ = -1;
  std::vector<Connection> connections_;
  std::vector<std::size_t> idle_;
  std::string request_;
  Steady::time_point start_;
  Steady::time_point end_;
  bool more_ = true;
  std::int64_t open_ = 0;
  LoadResult result_;
};

}  // namespace

void Give(const std::string& message) {
  fmt::print(stderr, "http_bench: {}\n", message);
  std::exit(1);
}

double Latencies::At(double part) const {
  if (all_.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(all_.size())));
  const auto place = all_.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::ranges::nth_element(all_, place);
  return *place;
}

LoadResult RunLoad(const Load& load) { return Run(load).Go(); }

std::string Get(std::string_view target) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", target);
}

std::string Post(std::string_view target, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      target, body.size(), body);
}

std::string Ask(int port, const std::string& request) {
  const int fd = Connect(port);
  SendAll(fd, request);
  std::string bytes;
  Answer answer;
  while (!ReadAnswer(bytes, answer)) {
    if (!Receive(fd, bytes, 0)) Give("the server closed a connection");
  }
  close(fd);
  if (answer.status != 200) Give(fmt::format("status {}: {}", answer.status, answer.body));
  return std::string(answer.body);
}

}  // namespace noetl::bench
