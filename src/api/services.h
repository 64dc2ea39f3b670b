// What the routes work with. One per server; all parts outlive it and may be used from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/metrics.h"
#include "base/settings.h"
#include "conductor/conductor.h"
#include "store/store.h"
#include "vault/vault.h"

namespace noetl::api {

class Streams;
struct RouterParts;

struct Services {
  store::Store* store = nullptr;
  conductor::Conductor* conductor = nullptr;
  vault::Vault* vault = nullptr;
  conductor::SecretSource* secrets = nullptr;
  Clock* clock = nullptr;
  IdSource* ids = nullptr;
  Metrics* metrics = nullptr;
  const Settings* settings = nullptr;
  Streams* streams = nullptr;
  std::string version;
  std::string data_directory;
  std::int64_t started_at_us = 0;
  bool embedded_worker = false;
  // What the router keeps for its routes (router_parts.h); made and owned by it.
  RouterParts* parts = nullptr;
};

}  // namespace noetl::api
