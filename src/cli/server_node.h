// A node that serves HTTP: store, conductor and worker of node.h behind the API.
//
// Opening it takes the data directory, starts the node and then the listener. Closing it lets
// requests that are being answered finish, stops the tools and closes the node.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "api/http_server.h"
#include "api/router.h"
#include "api/services.h"
#include "api/streams.h"
#include "base/metrics.h"
#include "base/result.h"
#include "base/settings.h"
#include "cli/control.h"
#include "cli/node.h"

namespace noetl::cli {

struct ServerNodeOptions {
  std::string directory;
  const Settings* settings = nullptr;
  bool worker = true;     // false: commands wait for workers elsewhere
  bool insecure = false;  // serve another address than loopback without a token
};

class ServerNode {
 public:
  // Errors: those of Node::Open and HttpServer::Start; "insecure" when the address needs a token.
  static Result<std::unique_ptr<ServerNode>> Open(ServerNodeOptions options);
  ~ServerNode();
  ServerNode(const ServerNode&) = delete;
  ServerNode& operator=(const ServerNode&) = delete;

  // "http://127.0.0.1:8082".
  std::string url() const;
  Node& node() { return *node_; }
  const api::Router& router() const { return *router_; }

 private:
  // The node tells of what was committed before there are streams to tell.
  class Relay final : public conductor::Listener {
   public:
    void OnEvents(const store::ExecutionRow& execution,
                  std::span<const store::EventRow> events) override;
    void OnLogs(std::span<const store::LogChunk> chunks) override;
    std::atomic<api::Streams*> streams = nullptr;
  };

  explicit ServerNode(ServerNodeOptions options) : options_(std::move(options)) {}
  Result<api::RouterOptions> Access() const;
  void MakeServices();

  ServerNodeOptions options_;
  Relay relay_;
  Metrics metrics_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<api::Streams> streams_;
  api::Services services_;
  std::unique_ptr<api::Router> router_;
  std::unique_ptr<api::HttpServer> http_;
  std::unique_ptr<ControlServer> control_;
};

}  // namespace noetl::cli
