// How long to wait before a task, or a single tool, runs again. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"

namespace noetl::engine {

// Numbers, numeric text and durations ("2s") in milliseconds; a bare number means seconds.
std::optional<std::int64_t> SecondsToMs(const Json& value);
// An integer or text that is one.
std::optional<std::int64_t> WholeNumber(const Json& value);

// The declared timeout of a task from its rendered {timeout_ms, timeout_seconds, timeout, spec}.
std::optional<std::int64_t> TimeoutMs(const Json& declared);

// Delay before retry number `retry` (from 1) of a policy rule with the rendered settings
// {backoff, delay, max_delay}; a longer `retry_after` of the error wins.
std::int64_t PolicyDelayMs(const Json& settings, int retry, const Json& error);

}  // namespace noetl::engine
