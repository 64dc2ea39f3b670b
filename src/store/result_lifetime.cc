#include "store/result_lifetime.h"

#include <algorithm>

namespace noetl::store {

namespace {

// Execution and workflow mean the same time.
int RankOf(std::string_view scope) {
  if (scope == kStepScope) return 0;
  return scope == kPermanentScope ? 2 : 1;
}

}  // namespace

bool ExtendLifetime(ResultRow& stored, const ResultRow& asked) {
  const ResultRow before = stored;
  const std::int64_t expiry = stored.expires_at_us;
  const bool expired = expiry != 0 && expiry <= asked.created_at_us;
  if (expired || RankOf(asked.scope) > RankOf(stored.scope)) stored.scope = asked.scope;
  if (expired) {
    stored.expires_at_us = asked.expires_at_us;
  } else if (expiry != 0) {
    stored.expires_at_us = asked.expires_at_us == 0 ? 0 : std::max(expiry, asked.expires_at_us);
  }
  if (stored.scope == kPermanentScope) stored.expires_at_us = 0;
  return stored != before;
}

}  // namespace noetl::store
