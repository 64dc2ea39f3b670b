// What a router keeps for its routes. Made by the router and found through Services::parts.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/background.h"
#include "api/metrics.h"
#include "api/process_stats.h"
#include "api/route.h"
#include "api/router.h"
#include "api/services.h"
#include "api/sessions.h"
#include "base/json.h"

namespace noetl::api {

struct RouterParts {
  RouterParts(RouterOptions router_options, Services& services)
      : options(std::move(router_options)),
        metrics(*services.metrics, services.version),
        sessions(services.clock) {}

  const RouterOptions options;
  ServerMetrics metrics;
  Sessions sessions;
  ProcessStats process;
  Json openapi;
  std::string openapi_text;

  // Answers that cost a walk through the store are made anew only after a while.
  struct Kept {
    std::int64_t until_us = 0;  // monotonic
    Json value;
  };
  std::mutex kept_mutex;
  Kept dashboard;
  Kept widgets;

  Background background;  // last: its tasks use the others
};

// Runs the rest of a call on the background thread; "overloaded" when too much waits there.
void InBackground(CallPtr call, void (*rest)(CallPtr));

}  // namespace noetl::api
