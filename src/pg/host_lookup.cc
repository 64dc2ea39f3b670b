#include "pg/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace noetl::pg {
namespace {

using Addresses = std::vector<std::vector<std::string>>;

Result<std::vector<std::string>> Lookup(const std::string& host) {
  if (IsAddress(host)) return std::vector<std::string>{host};
  const addrinfo hints{
      .ai_flags = AI_ADDRCONFIG, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    return Fail("resolve", fmt::format("host '{}' is unknown: {}", host, gai_strerror(status)));
  }
  std::vector<std::string> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      found.emplace_back(text.data());
    }
  }
  freeaddrinfo(list);
  if (found.empty()) return Fail("resolve", fmt::format("host '{}' has no address", host));
  return found;
}

Result<Addresses> LookupAll(const std::vector<std::string>& hosts) {
  Addresses all;
  for (const std::string& host : hosts) {
    NOETL_ASSIGN(std::vector<std::string> found, Lookup(host));
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  // A zone such as %eth0 belongs to an address, too.
  const std::string bare = host.substr(0, host.find('%'));
  return host.empty() || host.starts_with('/') || host.starts_with('@') ||
         inet_pton(AF_INET, bare.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, bare.c_str(), bytes.data()) == 1;
}

struct HostLookup::Shared {
  std::mutex mutex;
  EventLoop* loop;  // null once nobody waits
  Found found;      // the loop thread's
};

HostLookup::HostLookup(EventLoop* loop, std::vector<std::string> hosts, Found found)
    : shared_(std::make_shared<Shared>()) {
  shared_->loop = loop;
  shared_->found = std::move(found);
  const auto answer = [](const std::shared_ptr<Shared>& shared, Result<Addresses> result) {
    const std::lock_guard lock(shared->mutex);
    if (shared->loop == nullptr) return;
    shared->loop->Post([shared, result = std::move(result)]() mutable {
      if (Found waiting = std::exchange(shared->found, nullptr)) waiting(std::move(result));
    });
  };
  try {
    std::thread([shared = shared_, hosts = std::move(hosts), answer] {
      pthread_setname_np(pthread_self(), "pg-resolve");
      answer(shared, LookupAll(hosts));
    }).detach();
  } catch (const std::system_error&) {
    answer(shared_, Fail("resolve", "no thread is left to look up a host"));
  }
}

HostLookup::~HostLookup() {
  shared_->found = nullptr;
  const std::lock_guard lock(shared_->mutex);
  shared_->loop = nullptr;
}

}  // namespace noetl::pg
