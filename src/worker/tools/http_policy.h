// What HTTP requests of this worker may reach, and how.
//
// Made once from the settings. A setting that cannot be read makes every request fail with its
// name, so that a mistyped deny list never means "allow". Immutable; any thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace noetl::worker {

class HttpPolicy {
 public:
  // Null: the defaults of all settings.
  explicit HttpPolicy(const Settings* settings);

  // Error "config": a setting that limits requests cannot be read.
  const Status& status() const { return status_; }
  // Whether a connection to this address is forbidden. An IPv4 address inside an IPv6 one counts as
  // itself.
  bool Denies(const sockaddr* address) const;
  // Whether requests may name this host.
  bool AllowsHost(std::string_view host) const;
  // Whether requests to this host get a made-up answer.
  bool Mocks(std::string_view host) const;
  // "host::address:port" for each replaced name, as curl takes them.
  const std::vector<std::string>& connect_to() const { return connect_to_; }

  bool use_proxy() const { return use_proxy_; }
  std::int64_t timeout_ms() const { return timeout_ms_; }
  // Where uploaded files must be; empty: nothing may be uploaded.
  const std::string& files_root() const { return files_root_; }
  // The value of an environment variable that commands may use as a secret. Error "auth".
  Result<std::string> Secret(std::string_view name) const;

 private:
  struct Network {
    std::array<std::uint8_t, 16> prefix{};
    int bits = 0;
  };

  Status AddNetwork(std::string_view text);
  Status AddMapping(std::string_view text);

  Status status_;
  std::vector<Network> denied_;
  std::vector<std::string> allowed_hosts_;
  std::vector<std::string> connect_to_;
  std::vector<std::string> secret_names_;
  std::string files_root_;
  std::int64_t timeout_ms_ = 0;
  bool use_proxy_ = false;
  bool mock_local_ = false;
};

}  // namespace noetl::worker
