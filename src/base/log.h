// Structured logs: one line a record, to stderr.
//
// A record is a level, a message and fields. In text form it reads
//   2026-06-04T06:51:26.037000Z INFO run finished execution=42 status=COMPLETED
// and in JSON form it is one object with the members time, level, message and the fields. Safe from
// any thread; never throws. Secrets are the caller's business: nothing is hidden here.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <string_view>

#include "base/json.h"
#include "base/settings.h"

namespace noetl {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat { kText, kJson };

struct LogField {
  std::string_view key;
  Json value;
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  // Where lines go instead of stderr, for tests. Must outlive the next ConfigureLog.
  std::ostream* stream = nullptr;

  // From NOETL_LOG, NOETL_DEBUG and NOETL_LOG_FORMAT.
  static LogOptions From(const Settings& settings);
};

// Replaces the options for the whole process. Before the first call: text of level info.
void ConfigureLog(const LogOptions& options);

// Whether a record of this level would be written; ask before making costly fields.
bool LogEnabled(LogLevel level);

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogDebug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kDebug, message, fields);
}
inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarn(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarn, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace noetl
