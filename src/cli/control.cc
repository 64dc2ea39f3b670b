#include "cli/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/json_io.h"
#include "cli/node.h"
#include "playbook/model.h"

namespace noetl::cli {
namespace {

constexpr std::string_view kSocketName = "control";
constexpr std::size_t kReadBytes = 64u << 10;
// How long the conductor may take to answer: it answers after a commit.
constexpr std::chrono::seconds kConductorSeconds{30};

std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::unexpected<Error> SystemFail(std::string_view code, std::string_view what) {
  return Fail(code, fmt::format("{}: {}", what, std::strerror(errno)));
}

// Through the open directory, so that a long path fits the short field of the address.
sockaddr_un AddressIn(int directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory, kSocketName);
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

Json Refusal(const Error& error) {
  return Json::Object({{"ok", false}, {"code", error.code}, {"message", error.message}});
}

}  // namespace

std::int64_t IdOf(const Json& id) {
  if (id.is_int()) return id.AsInt();
  const std::string_view text = id.AsString();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

// ---- the server

struct ControlServer::Client {
  explicit Client(int descriptor) : socket(descriptor), moved_ms(NowMs()) {}
  Descriptor socket;
  std::int64_t moved_ms;
  std::string in;
  std::size_t searched = 0;  // of `in`: no line ends before
  std::string out;           // closed when it is written
};

Result<std::unique_ptr<ControlServer>> ControlServer::Serve(const std::string& directory,
                                                            Handler handler, std::int64_t idle_ms) {
  std::unique_ptr<ControlServer> server(new ControlServer());
  server->idle_ms_ = idle_ms;
  server->handler_ = std::move(handler);
  server->directory_ = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (server->directory_ < 0) return SystemFail("io", directory);
  server->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  server->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->listener_ < 0 || server->wake_ < 0) return SystemFail("io", "a control socket");
  unlinkat(server->directory_, kSocketName.data(), 0);
  const sockaddr_un address = AddressIn(server->directory_);
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  // Nobody can connect before the mode is set: listening comes after it.
  if (bind(server->listener_, plain, sizeof(address)) != 0 ||
      fchmodat(server->directory_, kSocketName.data(), 0600, 0) != 0 ||
      listen(server->listener_, static_cast<int>(kControlClientsMax)) != 0) {
    return SystemFail("io", fmt::format("{}/{}", directory, kSocketName));
  }
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

ControlServer::~ControlServer() {
  stopping_ = true;
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
    thread_.join();
    unlinkat(directory_, kSocketName.data(), 0);
  }
  for (const int descriptor : {listener_, wake_, directory_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void ControlServer::Run() {
  while (!stopping_) {
    std::vector<pollfd> watched = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    for (const auto& client : clients_) {
      const short wanted = client->out.empty() ? POLLIN : POLLOUT;
      watched.push_back({client->socket.get(), wanted, 0});
    }
    const int timeout =
        clients_.empty() ? -1 : static_cast<int>(std::min<std::int64_t>(idle_ms_, 500));
    if (poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return;
    const std::int64_t now_ms = NowMs();
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = *clients_[i];
      const short events = watched[i + 2].revents;
      bool alive = now_ms - client.moved_ms < idle_ms_;
      if (alive && events != 0) alive = client.out.empty() ? Read(client) : Write(client);
      if (!alive) clients_[i].reset();
    }
    std::erase(clients_, nullptr);
    if ((watched[0].revents & POLLIN) != 0) Accept();
  }
  clients_.clear();
}

void ControlServer::Accept() {
  while (true) {
    Descriptor socket(accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) return;
    if (clients_.size() >= kControlClientsMax) continue;  // closed: the other side may try again
    clients_.push_back(std::make_unique<Client>(socket.Take()));
  }
}

bool ControlServer::Read(Client& client) {
  char buffer[kReadBytes];
  const ssize_t count = recv(client.socket.get(), buffer, sizeof(buffer), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  client.moved_ms = NowMs();
  client.in.append(buffer, static_cast<std::size_t>(count));
  const std::size_t end = client.in.find('\n', client.searched);
  client.searched = client.in.size();
  if (end != std::string::npos) {
    client.out = Answer(std::string_view(client.in).substr(0, end));
  } else if (client.in.size() > kControlBytesMax) {
    client.out = WriteJson(Refusal({"too_large", fmt::format("a request is larger than {} MiB",
                                                             kControlBytesMax >> 20)})) +
                 "\n";
  }
  return client.out.empty() || Write(client);
}

bool ControlServer::Write(Client& client) {
  client.moved_ms = NowMs();
  const ssize_t count =
      send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  client.out.erase(0, static_cast<std::size_t>(count));
  return !client.out.empty();  // one request a connection
}

std::string ControlServer::Answer(std::string_view line) const {
  const auto request = ParseJson(line);
  Result<Json> answer = !request ? Result<Json>(std::unexpected(request.error()))
                        : request->is_object()
                            ? handler_(*request)
                            : Result<Json>(Fail("bad_request", "a request is a JSON map"));
  Json text = answer ? answer->With("ok", true) : Refusal(answer.error());
  return WriteJson(text) + "\n";
}

// ---- what the node does

namespace {

using Answered = Result<Json>;

// Waits for an answer that comes on another thread.
Answered Await(std::future<Answered> answer) {
  if (answer.wait_for(kConductorSeconds) == std::future_status::ready) return answer.get();
  return Fail("unavailable", "no answer within 30 s; the disk may be slow or full");
}

Answered RegisterPlaybook(Node& node, const Json& request) {
  const std::string content = request["content"].ToString();
  const playbook::Loaded loaded = playbook::Load(content);
  if (!loaded.ok()) return Fail("invalid", "the playbook is not valid; see `noetl validate`");
  std::string path = request["path"].ToString();
  if (path.empty()) path = loaded.playbook->path;
  NOETL_ASSIGN(const store::CatalogEntry entry,
               node.store().Register({.catalog_id = node.ids().Next(),
                                      .path = path,
                                      .content = content,
                                      .created_at_us = node.clock().NowMicros()}));
  return Json::Object(
      {{"catalog_id", std::to_string(entry.catalog_id)}, {"version", entry.version}});
}

Answered StartRun(Node& node, const Json& request) {
  auto promise = std::make_shared<std::promise<Answered>>();
  std::future<Answered> answer = promise->get_future();
  node.conductor().Start(
      {.execution_id = IdOf(request["execution_id"]),
       .catalog_id = IdOf(request["catalog_id"]),
       .payload = request["payload"]},
      [promise](Result<std::int64_t> started) {
        if (!started) return promise->set_value(std::unexpected(started.error()));
        promise->set_value(Json::Object({{"execution_id", std::to_string(*started)}}));
      });
  return Await(std::move(answer));
}

Answered CancelRun(Node& node, const Json& request) {
  auto promise = std::make_shared<std::promise<Answered>>();
  std::future<Answered> answer = promise->get_future();
  node.conductor().Cancel(
      IdOf(request["execution_id"]), request["reason"].ToString(), "cli",
      request["cascade"].AsBool(), [promise](Result<conductor::Conductor::CancelAnswer> done) {
        if (!done) return promise->set_value(std::unexpected(done.error()));
        promise->set_value(
            Json::Object({{"cancelled", done->cancelled}, {"status", done->status}}));
      });
  return Await(std::move(answer));
}

}  // namespace

ControlServer::Handler NodeHandler(Node* node) {
  return [node](const Json& request) -> Answered {
    const std::string_view op = request["op"].AsString();
    if (op == "ping") return Json::Object({{"pid", getpid()}});
    if (op == "new_id") return Json::Object({{"id", std::to_string(node->ids().Next())}});
    if (op == "register") return RegisterPlaybook(*node, request);
    if (op == "start") return StartRun(*node, request);
    if (op == "cancel") return CancelRun(*node, request);
    return Fail("bad_request", fmt::format("there is no request '{}'", op));
  };
}

// ---- the client

namespace {

std::unexpected<Error> Gone(std::string_view directory, std::string_view why) {
  return Fail("unreachable",
              fmt::format("the process that uses {} does not answer ({})", directory, why));
}

// Waits until the socket can be read or written; false when the time is over.
bool Ready(int socket, short wanted, std::int64_t until_ms) {
  while (true) {
    const std::int64_t left = until_ms - NowMs();
    if (left <= 0) return false;
    pollfd watched{socket, wanted, 0};
    if (poll(&watched, 1, static_cast<int>(left)) > 0) return true;
  }
}

}  // namespace

Result<Json> CallOwner(const std::string& directory, const Json& request, std::int64_t timeout_ms) {
  std::string out = WriteJson(request) + "\n";
  if (out.size() > kControlBytesMax) {
    return Fail("too_large", fmt::format("the playbook or payload is larger than {} MiB",
                                         kControlBytesMax >> 20));
  }
  const Descriptor folder(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return Gone(directory, std::strerror(errno));
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return SystemFail("io", "a control socket");
  const sockaddr_un address = AddressIn(folder.get());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Gone(directory, std::strerror(errno));
  const std::int64_t until_ms = NowMs() + timeout_ms;
  for (std::string_view rest = out; !rest.empty();) {
    if (!Ready(socket.get(), POLLOUT, until_ms)) return Gone(directory, "no answer in time");
    const ssize_t count = send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count >= 0) rest.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EAGAIN && errno != EINTR) return Gone(directory, std::strerror(errno));
  }
  std::string in;
  while (in.empty() || in.back() != '\n') {
    if (!Ready(socket.get(), POLLIN, until_ms)) return Gone(directory, "no answer in time");
    char buffer[4096];
    const ssize_t count = recv(socket.get(), buffer, sizeof(buffer), 0);
    if (count == 0) return Gone(directory, "it went away");
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return Gone(directory, std::strerror(errno));
    in.append(buffer, static_cast<std::size_t>(count));
    if (in.size() > kControlBytesMax) return Gone(directory, "its answer is too large");
  }
  NOETL_ASSIGN(Json answer, ParseJson(in));
  if (answer["ok"].AsBool()) return answer;
  return Fail(answer["code"].AsString(), answer["message"].ToString());
}

}  // namespace noetl::cli
