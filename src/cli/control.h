// How other processes of the same user speak with the one that owns a data directory.
//
// The owner serves a socket `<directory>/control` (mode 0600, in a directory of mode 0700) as long
// as its node is open. A connection carries one request and one answer, each a line of JSON: {"ok": true, ...} or
// {"ok": false, "code", "message"}. Requests:
//   {"op": "ping"}                                        -> pid
//   {"op": "register", "path", "content"}                 -> catalog_id, version
//   {"op": "new_id"}                                      -> id
//   {"op": "start", "execution_id", "catalog_id", "payload"} -> execution_id
//   {"op": "cancel", "execution_id", "reason", "cascade"} -> cancelled, status
// Ids are texts. Starting under an id that exists changes nothing, so that a request whose answer was
// lost can be repeated; without one a new id is made. A server has one thread; clients may be on any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::cli {

class Node;

// A payload of a run, or a playbook; larger lines are refused.
inline constexpr std::size_t kControlBytesMax = 16u << 20;
// Connections at once; more are turned away.
inline constexpr std::size_t kControlClientsMax = 32;
// A connection on which nothing moves for so long is closed.
inline constexpr std::int64_t kControlIdleMs = 10'000;

class ControlServer {
 public:
  // Gives the answer to one request; called on the server's thread. An error becomes the answer.
  using Handler = std::function<Result<Json>(const Json& request)>;

  // The caller holds the lock of the directory: a socket that is left there is of a dead process.
  static Result<std::unique_ptr<ControlServer>> Serve(const std::string& directory, Handler handler,
                                                      std::int64_t idle_ms = kControlIdleMs);
  // Removes the socket; a request that is being answered is finished first.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct Client;

  ControlServer() = default;
  void Run();
  void Accept();
  // False: the connection is done.
  bool Read(Client& client);
  bool Write(Client& client);
  std::string Answer(std::string_view line) const;

  int directory_ = -1;
  int listener_ = -1;
  int wake_ = -1;  // eventfd
  std::int64_t idle_ms_ = kControlIdleMs;
  Handler handler_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Answers requests with what the node does. It must outlive the handler.
ControlServer::Handler NodeHandler(Node* node);

// One request to the owner of the directory. Errors: those of the answer; "unreachable" when nobody
// serves the directory or the owner went away before it answered.
Result<Json> CallOwner(const std::string& directory, const Json& request,
                       std::int64_t timeout_ms = kControlIdleMs);

// Ids travel as texts; 0: not an id.
std::int64_t IdOf(const Json& id);

}  // namespace noetl::cli
