#include "api/housekeeping.h"

#include <functional>

#include "api/metrics.h"
#include "base/log.h"

namespace noetl::api {

namespace {

// Rows that one transaction removes: commits wait for no more than this.
constexpr std::int64_t kPieceRows = 5000;
// Pieces of one sweep; the rest goes with the next.
constexpr int kPiecesMax = 20;

Result<std::int64_t> InPieces(const std::function<Result<std::int64_t>()>& purge) {
  std::int64_t removed = 0;
  for (int piece = 0; piece < kPiecesMax; ++piece) {
    NOETL_ASSIGN(const std::int64_t count, purge());
    removed += count;
    if (count < kPieceRows) break;
  }
  return removed;
}

}  // namespace

Result<Swept> SweepStore(Services& services) {
  store::Store& store = *services.store;
  const std::int64_t now_us = services.clock->NowMicros();
  const std::int64_t kept_us =
      services.settings->DurationMs("NOETL_OUTBOX_RETENTION_SECONDS") * 1000;
  Swept swept;
  NOETL_ASSIGN(swept.keychain, store.PurgeKeychain(now_us));
  NOETL_ASSIGN(swept.request_keys, store.PurgeKeys(now_us));
  NOETL_ASSIGN(swept.results, InPieces([&] { return store.PurgeResults(now_us, kPieceRows); }));
  NOETL_ASSIGN(swept.outbox,
               InPieces([&] { return store.PurgeOutbox(now_us - kept_us, kPieceRows); }));
  CounterTable& purged = MetricsOf(services).cleanup_rows_purged;
  purged.Add({"keychain"}, static_cast<double>(swept.keychain));
  purged.Add({"request_key"}, static_cast<double>(swept.request_keys));
  purged.Add({"result_store"}, static_cast<double>(swept.results));
  purged.Add({"outbox"}, static_cast<double>(swept.outbox));
  return swept;
}

void SweepQuietly(Services& services) {
  const Result<Swept> swept = SweepStore(services);
  if (!swept) LogWarn("what has expired cannot be removed", {{"error", swept.error().message}});
}

}  // namespace noetl::api
