#include "engine/pipeline_retry.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "engine/pipeline.h"

namespace noetl::engine {
namespace {

constexpr std::int64_t kDelayMsDefault = 1'000;
// Larger numbers are not meant as a time; it also keeps the arithmetic inside 64 bits.
constexpr double kSecondsMax = 1e9;

struct Backoff {
  std::string kind;  // none, linear, exponential; anything else is constant
  std::int64_t delay_ms = 0;
  std::int64_t max_ms = kRetryDelayMsMax;
  double multiplier = 2;
};

std::int64_t DelayMs(const Backoff& backoff, int retry, const Json& error) {
  double delay = static_cast<double>(backoff.delay_ms);
  if (backoff.kind == "none") delay = 0;
  if (backoff.kind == "linear") delay *= retry;
  if (backoff.kind == "exponential") delay *= std::pow(backoff.multiplier, retry - 1);
  const auto max = std::clamp<std::int64_t>(backoff.max_ms, 0, kRetryDelayMsMax);
  // In doubles until it is capped: a late exponential is beyond any integer.
  auto ms = static_cast<std::int64_t>(std::llround(std::min(delay, static_cast<double>(max))));
  ms = std::max(ms, SecondsToMs(error["retry_after"]).value_or(0));
  return std::clamp<std::int64_t>(ms, 0, kRetryDelayMsMax);
}

bool KindMatches(const Json& retry_on, std::string_view kind) {
  if (retry_on.is_string()) return KindMatches(Json::Array({retry_on}), kind);
  return std::ranges::any_of(retry_on.items(), [&](const Json& wanted) {
    const std::string_view name = wanted.AsString();
    return name == "error" || name == kind || (name == "connection_error" && kind == "connection");
  });
}

bool ShouldRetry(const Json& retry, const Json& error) {
  const Json& kinds = retry["retry_on"];
  const Json& statuses = retry["retry_on_status"];
  if (kinds.is_null() && statuses.is_null()) return error["retryable"].AsBool();
  if (KindMatches(kinds, error["kind"].AsString())) return true;
  return std::ranges::any_of(statuses.items(), [&](const Json& wanted) {
    const auto status = WholeNumber(wanted);
    return status && error["http_status"].is_int() && *status == error["http_status"].AsInt();
  });
}

std::int64_t RunsMax(const Json& retry) {
  if (const auto runs = WholeNumber(retry)) return *runs;
  for (std::string_view name : {"max_attempts", "attempts"}) {
    if (const auto runs = WholeNumber(retry[name])) return *runs;
  }
  if (const auto retries = WholeNumber(retry["max_retries"])) return *retries + 1;
  return kRetryRunsDefault;
}

Backoff ToolBackoff(const Json& retry) {
  Backoff backoff{.kind = "fixed", .delay_ms = kDelayMsDefault};
  if (const auto ms = WholeNumber(retry["initial_delay_ms"])) backoff.delay_ms = *ms;
  for (std::string_view name : {"delay", "backoff_seconds"}) {
    if (const auto ms = SecondsToMs(retry[name])) backoff.delay_ms = *ms;
  }
  if (const auto seconds = SecondsToMs(retry["backoff"])) {
    backoff.delay_ms = *seconds;
  } else if (retry["backoff"].is_string()) {
    backoff.kind = retry["backoff"].ToString();
  } else if (retry.Has("backoff_multiplier")) {
    backoff.kind = "exponential";
  }
  backoff.multiplier = std::max(1.0, retry["backoff_multiplier"].AsDouble(backoff.multiplier));
  if (const auto ms = WholeNumber(retry["max_delay_ms"])) backoff.max_ms = *ms;
  return backoff;
}

}  // namespace

std::optional<std::int64_t> SecondsToMs(const Json& value) {
  if (value.is_string()) {
    const auto ms = ParseDurationMs(Trim(value.AsString()));
    return ms && *ms >= 0 ? ms : std::nullopt;
  }
  if (!value.is_number()) return std::nullopt;
  const double seconds = value.AsDouble();
  if (!(seconds >= 0 && seconds <= kSecondsMax)) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(seconds * 1000));
}

std::optional<std::int64_t> WholeNumber(const Json& value) {
  if (value.is_int()) return value.AsInt();
  if (value.is_double() && std::abs(value.AsDouble()) <= kSecondsMax) {
    return static_cast<std::int64_t>(value.AsDouble());
  }
  if (!value.is_string()) return std::nullopt;
  const std::string_view text = Trim(value.AsString());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> TimeoutMs(const Json& declared) {
  if (const auto ms = WholeNumber(declared["timeout_ms"]); ms && *ms > 0) return ms;
  for (std::string_view name : {"timeout_seconds", "timeout", "spec"}) {
    const Json& value = declared[name];
    if (value.is_object()) {
      const auto read = SecondsToMs(value["read"]);
      if (read) return *read + SecondsToMs(value["connect"]).value_or(0);
      continue;
    }
    // Nobody means a limit of nothing.
    if (const auto ms = SecondsToMs(value); ms && *ms > 0) return ms;
  }
  return std::nullopt;
}

std::int64_t PolicyDelayMs(const Json& settings, int retry, const Json& error) {
  Backoff backoff{.kind = "none",
                  .delay_ms = SecondsToMs(settings["delay"]).value_or(kDelayMsDefault)};
  const Json& declared = settings["backoff"];
  if (const auto ms = SecondsToMs(declared)) {
    backoff.kind = "fixed";
    backoff.delay_ms = *ms;
  } else if (declared.is_string()) {
    backoff.kind = declared.ToString();
  } else if (!settings["delay"].is_null()) {
    backoff.kind = "fixed";
  }
  if (const auto ms = SecondsToMs(settings["max_delay"])) backoff.max_ms = *ms;
  return DelayMs(backoff, retry, error);
}

RetryDecision DecideToolRetry(const Json& retry, int runs_done, const Json& error_info) {
  if (retry.is_null() || (retry.is_bool() && !retry.AsBool())) return {};
  const Json error = ErrorObject("", error_info);
  if (runs_done >= RunsMax(retry) || !ShouldRetry(retry, error)) return {};
  return {.again = true, .delay_ms = DelayMs(ToolBackoff(retry), runs_done, error)};
}

}  // namespace noetl::engine
