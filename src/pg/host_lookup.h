// Addresses of host names, found on a thread of their own: the system's resolver blocks.
//
// A lookup lives on its loop's thread and answers there once; destroying it forgets the question,
// and the thread ends by itself when the resolver lets go.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"

namespace noetl::pg {

// Whether the text is an address or a path of a socket, so that there is nothing to look up.
bool IsAddress(const std::string& host);

class HostLookup {
 public:
  // For each host its addresses as text, in the order to try them. Error: "resolve", naming the
  // host.
  using Found = std::move_only_function<void(Result<std::vector<std::vector<std::string>>>)>;

  HostLookup(EventLoop* loop, std::vector<std::string> hosts, Found found);
  ~HostLookup();
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace noetl::pg
