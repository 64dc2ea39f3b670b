// What a server keeps besides runs, as plain rows.
//
// Times are microseconds since 1970 in UTC; 0 means absent, as do empty texts. JSON columns are text
// in the stored form; empty: null.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace noetl::store {

// A named secret. `data_encrypted` is an envelope that only the vault can open.
struct CredentialRow {
  std::int64_t id = 0;
  std::string name;  // unique
  std::string type;
  std::string data_encrypted;
  std::string meta;  // JSON
  std::vector<std::string> tags;
  bool has_tags = false;  // an empty list is not the same as none
  std::string description;
  std::int64_t created_at_us = 0;
  std::int64_t updated_at_us = 0;

  bool operator==(const CredentialRow&) const = default;
};

// A token or secret that was resolved for a playbook, kept until it expires.
struct KeychainRow {
  std::string cache_key;  // unique
  std::string name;
  std::int64_t catalog_id = 0;
  std::int64_t execution_id = 0;  // 0: not of one run
  std::string scope_type;         // local, global, shared
  std::string credential_type;
  std::string cache_type = "secret";
  std::string data_encrypted;
  bool auto_renew = false;
  std::string renew_config;  // JSON
  std::int64_t expires_at_us = 0;
  std::int64_t access_count = 0;
  std::int64_t accessed_at_us = 0;
  std::int64_t created_at_us = 0;

  bool operator==(const KeychainRow&) const = default;
};

// One read of a secret.
struct AuditRow {
  std::int64_t audit_id = 0;
  std::int64_t occurred_at_us = 0;
  std::string credential;
  std::string operation;  // get_credential, get_sealed, resolve_keychain
  std::string outcome;  // ok, credential_not_found, no_pubkey, provider_fetch_error, template_error
  std::string worker_id;
  std::int64_t execution_id = 0;
  std::int64_t parent_execution_id = 0;
  std::string kek_version;
  std::string notes;

  bool operator==(const AuditRow&) const = default;
};

// A worker, or another process, that has made itself known. Known by kind and name.
struct RuntimeRow {
  std::int64_t runtime_id = 0;
  std::string name;
  std::string kind = "worker_pool";  // worker_pool, server_api, broker
  std::string uri;
  std::string status;
  std::string labels;          // JSON
  std::string capabilities;    // JSON
  std::int64_t capacity = -1;  // -1: not told
  std::string runtime;         // JSON
  std::int64_t heartbeat_us = 0;
  std::int64_t created_at_us = 0;
  std::int64_t updated_at_us = 0;

  bool operator==(const RuntimeRow&) const = default;
};

// A value that steps of one run share.
struct VariableRow {
  std::int64_t execution_id = 0;
  std::string name;
  std::string type;   // user_defined, step_result, computed, iterator_state
  std::string value;  // JSON
  std::string source_step;
  std::int64_t created_at_us = 0;
  std::int64_t accessed_at_us = 0;
  std::int64_t access_count = 0;

  bool operator==(const VariableRow&) const = default;
};

// A result that was put by a worker: what is known of it without its body. How long it is kept
// follows from its scope (result_lifetime.h) and from its expiry.
struct ResultRow {
  std::int64_t result_id = 0;
  std::int64_t execution_id = 0;
  std::string name;
  std::string scope = "execution";
  std::string source_step;
  std::string ref;
  std::int64_t bytes = 0;
  std::string sha256;  // hex
  std::int64_t created_at_us = 0;
  std::int64_t expires_at_us = 0;  // 0: never

  bool operator==(const ResultRow&) const = default;
};

// Bytes under a name.
struct ObjectRow {
  std::string key;
  std::string media_type;
  std::string digest;  // SHA-256, hex
  std::string bytes;
  std::int64_t created_at_us = 0;

  bool operator==(const ObjectRow&) const = default;
};

// A request that must have one effect however often it is sent: the run it started.
struct RequestKeyRow {
  std::int64_t scope = 0;  // the parent run, or 0
  std::string key;
  std::int64_t execution_id = 0;
  std::string digest;  // of the body; empty: not compared
  std::int64_t created_at_us = 0;
  std::int64_t expires_at_us = 0;

  bool operator==(const RequestKeyRow&) const = default;
};

// A standing order to start a playbook for each message of a source. The row follows from the events
// "subscription.*" of its log, which are rows of the event table with its id as that of the run.
struct SubscriptionRow {
  std::int64_t subscription_id = 0;
  std::string path;             // of its document in the catalog
  std::int64_t catalog_id = 0;  // the version that was registered
  std::string state;            // REGISTERED, ACTIVE, PAUSED, DRAINING, DEACTIVATED
  std::int64_t last_event_id = 0;
  std::string last_event_type;
  std::int64_t created_at_us = 0;
  std::int64_t updated_at_us = 0;
  std::int64_t head = 0;  // seq of the newest event
  Sha256Digest chain{};   // after it

  bool operator==(const SubscriptionRow&) const = default;
};

// What a scraper of metrics wants to know of a store. Times are 0 when nothing waits.
struct StoreGauges {
  std::int64_t oldest_pending_us = 0;  // when the first command that waits for a worker was issued
  std::int64_t oldest_outbox_us = 0;   // when the first copy that is not published was made
  std::int64_t connections_in_use = 0;
  std::int64_t connections_idle = 0;
  std::int64_t writers_waiting = 0;  // calls that wait for the one connection that writes

  bool operator==(const StoreGauges&) const = default;
};

// A copy of an event on its way out. The payload is the event itself, read when it is taken.
struct OutboxRow {
  std::int64_t outbox_id = 0;
  std::int64_t execution_id = 0;
  std::int64_t event_id = 0;
  std::int64_t seq = 0;
  std::string event_type;
  std::int64_t attempts = 0;
};

}  // namespace noetl::store
