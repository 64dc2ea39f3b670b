#include "worker/tools/http_policy.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

constexpr std::size_t kV4Offset = 12;
constexpr int kV4Bits = 32;
constexpr int kV6Bits = 128;
// An IPv4 address is kept as ::ffff:a.b.c.d.
constexpr Bytes kV4Mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
// 64:ff9b::a.b.c.d reaches a.b.c.d through a translating router.
constexpr Bytes kV4Translated = {0x00, 0x64, 0xff, 0x9b};

Bytes FromV4(const void* address) {
  Bytes bytes = kV4Mapped;
  std::memcpy(bytes.data() + kV4Offset, address, 4);
  return bytes;
}

Bytes FromV6(const void* address) {
  Bytes bytes;
  std::memcpy(bytes.data(), address, bytes.size());
  if (std::memcmp(bytes.data(), kV4Translated.data(), kV4Offset) == 0) {
    return FromV4(bytes.data() + kV4Offset);
  }
  return bytes;
}

std::optional<Bytes> ParseAddress(const std::string& text) {
  std::array<std::uint8_t, 16> raw;
  if (inet_pton(AF_INET, text.c_str(), raw.data()) == 1) return FromV4(raw.data());
  if (inet_pton(AF_INET6, text.c_str(), raw.data()) == 1) return FromV6(raw.data());
  return std::nullopt;
}

std::optional<int> ParseInt(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool SamePrefix(const Bytes& a, const Bytes& b, int bits) {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (std::memcmp(a.data(), b.data(), whole) != 0) return false;
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - bits % 8));
  return (a[whole] & mask) == (b[whole] & mask);
}

Settings Defaults() {
  Result<Settings> settings = Settings::Load({});
  NOETL_CHECK(settings.has_value(), "the defaults of the settings are valid");
  return *std::move(settings);
}

}  // namespace

HttpPolicy::HttpPolicy(const Settings* settings) {
  if (settings == nullptr) {
    static const Settings kDefaults = Defaults();
    settings = &kDefaults;
  }
  allowed_hosts_ = settings->List("NOETL_HTTP_ALLOW_HOSTS");
  secret_names_ = settings->List("NOETL_KEYCHAIN_ENV_VARS");
  files_root_ = settings->Text("NOETL_HTTP_FILES_ROOT");
  timeout_ms_ = settings->DurationMs("NOETL_HTTP_REQUEST_TIMEOUT_SECONDS");
  use_proxy_ = settings->Bool("NOETL_HTTP_USE_PROXY");
  mock_local_ = settings->Bool("NOETL_HTTP_MOCK_LOCAL");
  for (const std::string& text : settings->List("NOETL_HTTP_DENY_CIDRS")) {
    if (status_) status_ = AddNetwork(text);
  }
  for (const std::string& text : settings->List("NOETL_HTTP_HOST_MAP")) {
    if (status_) status_ = AddMapping(text);
  }
}

Status HttpPolicy::AddNetwork(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  const std::optional<Bytes> bytes = ParseAddress(address);
  const bool v4 = address.find(':') == std::string::npos;
  const int bits_max = v4 ? kV4Bits : kV6Bits;
  const std::optional<int> bits =
      slash == std::string_view::npos ? bits_max : ParseInt(text.substr(slash + 1));
  if (!bytes || !bits || *bits < 0 || *bits > bits_max) {
    return Fail("config", fmt::format("NOETL_HTTP_DENY_CIDRS: '{}' is not a network such as "
                                      "10.0.0.0/8 or fe80::/10",
                                      text));
  }
  denied_.push_back({.prefix = *bytes, .bits = *bits + (v4 ? kV6Bits - kV4Bits : 0)});
  return {};
}

Status HttpPolicy::AddMapping(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view target = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const std::size_t colon = target.rfind(':');
  if (equals == 0 || target.empty() || colon == 0 || colon == std::string_view::npos ||
      !ParseInt(target.substr(colon + 1))) {
    return Fail("config", fmt::format("NOETL_HTTP_HOST_MAP: '{}' is not host=address:port", text));
  }
  connect_to_.push_back(fmt::format("{}::{}", text.substr(0, equals), target));
  return {};
}

bool HttpPolicy::Denies(const sockaddr* address) const {
  Bytes bytes;
  if (address->sa_family == AF_INET) {
    bytes = FromV4(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  } else if (address->sa_family == AF_INET6) {
    bytes = FromV6(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  } else {
    return true;
  }
  return std::ranges::any_of(denied_, [&](const Network& network) {
    return SamePrefix(network.prefix, bytes, network.bits);
  });
}

bool HttpPolicy::AllowsHost(std::string_view host) const {
  if (allowed_hosts_.empty()) return true;
  const std::string name(host);
  return std::ranges::any_of(allowed_hosts_, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) == 0;
  });
}

bool HttpPolicy::Mocks(std::string_view host) const {
  return mock_local_ && ToLower(host).ends_with(".local");
}

Result<std::string> HttpPolicy::Secret(std::string_view name) const {
  const std::string text(name);
  if (std::ranges::find(secret_names_, text) == secret_names_.end()) {
    return Fail("auth", fmt::format("'{}' is not known to this worker: it is no stored credential "
                                    "that the worker can read, and NOETL_KEYCHAIN_ENV_VARS does "
                                    "not name it",
                                    name));
  }
  const char* value = std::getenv(text.c_str());
  if (value == nullptr || *value == '\0') {
    return Fail("auth", fmt::format("the environment variable {} is empty on this worker", name));
  }
  return std::string(value);
}

}  // namespace noetl::worker
