// What a worker tells about itself over HTTP: /metrics, /health and /ready.
//
// The address is WORKER_METRICS_BIND; "off" means none. Two workers on one machine share the default
// address: who comes second goes on without a page and says so, unless the address was asked for.
// Loop and link outlive the page. Lives on the loop's thread.
#pragma once

#include <memory>

#include "base/event_loop.h"
#include "base/result.h"
#include "base/settings.h"
#include "worker/remote/link.h"
#include "worker/remote/status_listener.h"

namespace noetl::worker {

// nullptr: there is no page. Errors have the code "settings" and name the variable.
Result<std::unique_ptr<StatusListener>> OpenStatusPage(EventLoop* loop, RemoteLink* link,
                                                       const Settings& settings);

// The answer of a worker to one path.
StatusAnswer AnswerOfWorker(RemoteLink& link, std::string_view path);

}  // namespace noetl::worker
