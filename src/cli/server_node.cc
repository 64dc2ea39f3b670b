#include "cli/server_node.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "api/access.h"
#include "base/log.h"
#include "cli/command.h"

namespace noetl::cli {

void ServerNode::Relay::OnEvents(const store::ExecutionRow& execution,
                                 std::span<const store::EventRow> events) {
  if (api::Streams* to = streams.load(std::memory_order_acquire)) to->OnEvents(execution, events);
}

void ServerNode::Relay::OnLogs(std::span<const store::LogChunk> chunks) {
  if (api::Streams* to = streams.load(std::memory_order_acquire)) to->OnLogs(chunks);
}

// Who may call: anybody on loopback; elsewhere whoever has the token.
Result<api::RouterOptions> ServerNode::Access() const {
  const Settings& settings = *options_.settings;
  const std::string& host = settings.Text("NOETL_HOST");
  const std::string& mode = settings.Text("NOETL_AUTH_MODE");
  api::RouterOptions access{.internal_token = settings.Text("NOETL_INTERNAL_API_TOKEN"),
                            .api_token = settings.Text("NOETL_API_TOKEN"),
                            .origins = settings.List("NOETL_CORS_ORIGINS"),
                            .metrics = !settings.Bool("NOETL_DISABLE_METRICS"),
                            .sql = settings.Bool("NOETL_SQL_API_ENABLED")};
  if (mode == "oidc")
    return Fail("insecure", "NOETL_AUTH_MODE=oidc is not supported yet; use token");
  access.login = mode == "token" ||
                 (mode == "auto" && (!api::IsLoopbackHost(host) || !access.api_token.empty()));
  if (mode == "none" && !api::IsLoopbackHost(host) && !options_.insecure) {
    return Fail("insecure",
                fmt::format("serving {} without a login lets everybody who can reach it "
                            "run commands here; set NOETL_API_TOKEN, or say --insecure",
                            host));
  }
  if (access.login && access.api_token.empty()) {
    if (!options_.insecure) {
      return Fail("insecure", fmt::format("serving {} needs a token: set NOETL_API_TOKEN to a long "
                                          "random text, or say --insecure",
                                          host));
    }
    access.login = false;
  }
  access.any_host = !access.login && options_.insecure;
  return access;
}

void ServerNode::MakeServices() {
  services_ = {.store = &node_->store(),
               .conductor = &node_->conductor(),
               .vault = &node_->vault(),
               .secrets = &node_->secrets(),
               .clock = &node_->clock(),
               .ids = &node_->ids(),
               .metrics = &metrics_,
               .settings = options_.settings,
               .streams = streams_.get(),
               .version = VersionNumber(),
               .data_directory = options_.directory,
               .started_at_us = node_->clock().NowMicros(),
               .embedded_worker = options_.worker};
}

Result<std::unique_ptr<ServerNode>> ServerNode::Open(ServerNodeOptions options) {
  std::unique_ptr<ServerNode> server(new ServerNode(std::move(options)));
  const Settings& settings = *server->options_.settings;
  NOETL_ASSIGN(const api::RouterOptions access, server->Access());
  NOETL_ASSIGN(server->node_, Node::Open({.directory = server->options_.directory,
                                          .settings = &settings,
                                          .listener = &server->relay_,
                                          .worker = server->options_.worker,
                                          .refuse_early = true}));
  server->streams_ =
      std::make_unique<api::Streams>(&server->node_->store(), &server->node_->clock());
  server->relay_.streams.store(server->streams_.get(), std::memory_order_release);
  server->MakeServices();
  server->router_ = std::make_unique<api::Router>(access, &server->services_);
  const std::int64_t threads = settings.Int("NOETL_WORKERS");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  NOETL_ASSIGN(server->http_,
               api::HttpServer::Start({.host = settings.Text("NOETL_HOST"),
                                       .port = static_cast<int>(settings.Int("NOETL_PORT")),
                                       .threads = threads > 0 ? static_cast<int>(threads) : cores,
                                       .tls_cert = settings.Text("NOETL_TLS_CERT"),
                                       .tls_key = settings.Text("NOETL_TLS_KEY"),
                                       .tls_client_ca = settings.Text("NOETL_TLS_CLIENT_CA")},
                                      server->router_.get()));
  auto control = ControlServer::Serve(server->options_.directory, NodeHandler(server->node_.get()));
  if (control) server->control_ = *std::move(control);
  else
    LogWarn("commands of this machine cannot use the server", {{"error", control.error().message}});
  return server;
}

// Requests first, then what they use.
ServerNode::~ServerNode() {
  control_.reset();
  // Those who wait are answered, so that nothing holds up the end.
  if (streams_) streams_->Stop();
  if (node_) node_->conductor().StopOffering();
  if (http_) http_->Stop();
  if (node_) {
    std::mutex mutex;
    std::condition_variable done;
    bool stopped = false;
    node_->StopTools([&] {
      const std::lock_guard lock(mutex);
      stopped = true;
      done.notify_one();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return stopped; });
  }
  relay_.streams.store(nullptr, std::memory_order_release);
  http_.reset();
  router_.reset();
  node_.reset();
  streams_.reset();
}

std::string ServerNode::url() const {
  const std::string& host = options_.settings->Text("NOETL_HOST");
  const bool tls = !options_.settings->Text("NOETL_TLS_CERT").empty();
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", tls ? "https" : "http", v6 ? fmt::format("[{}]", host) : host,
                     http_->port());
}

}  // namespace noetl::cli
