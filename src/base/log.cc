#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/clock.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"

namespace noetl {

namespace {

struct LevelNames {
  std::string_view setting;
  std::string_view upper;
};

// In the order of LogLevel.
constexpr std::array<LevelNames, 6> kLevels = {{{"trace", "TRACE"},
                                                {"debug", "DEBUG"},
                                                {"info", "INFO"},
                                                {"warn", "WARN"},
                                                {"error", "ERROR"},
                                                {"off", "OFF"}}};

const LevelNames& NamesOf(LogLevel level) { return kLevels[static_cast<std::size_t>(level)]; }

std::shared_ptr<spdlog::logger> MakeLogger(std::ostream* stream) {
  spdlog::sink_ptr sink;
  if (stream) sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*stream, true);
  else sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("noetl", std::move(sink));
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::trace);
  // A log that cannot be written must not disturb the work it tells about.
  logger->set_error_handler([](const std::string&) {});
  return logger;
}

struct State {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::atomic<LogFormat> format{LogFormat::kText};
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> logger = MakeLogger(nullptr);

  std::shared_ptr<spdlog::logger> Logger() {
    const std::lock_guard lock(mutex);
    return logger;
  }
};

// Never destroyed: other threads may log while the process ends.
State& TheState() {
  static State& state = *new State;
  return state;
}

// The text with '?' for every byte that is not UTF-8.
std::string ValidText(std::string_view text) {
  std::string valid(text);
  std::size_t from = 0;
  while (const auto bad = FirstInvalidUtf8(std::string_view(valid).substr(from))) {
    valid[from + *bad] = '?';
    from += *bad;
  }
  return valid;
}

bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("_-./:+@").contains(c);
  });
}

// Control characters would break the rule of one line a record, or play with the terminal.
void AppendOneLine(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') out += "\\n";
    else if (byte < 0x20 || byte == 0x7f) out += fmt::format("\\x{:02x}", byte);
    else out += c;
  }
}

std::string TextLine(LogLevel level, std::string_view time, std::string_view message,
                     std::initializer_list<LogField> fields) {
  std::string line = fmt::format("{} {} ", time, NamesOf(level).upper);
  AppendOneLine(line, message);
  for (const LogField& field : fields) {
    line += fmt::format(" {}=", field.key);
    if (field.value.is_string() && IsPlain(field.value.AsString())) line += field.value.AsString();
    else AppendOneLine(line, WriteJson(field.value));
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view time, std::string_view message,
                     std::initializer_list<LogField> fields) {
  JsonObjectBuilder record;
  record.Add("time", time).Add("level", NamesOf(level).setting).Add("message", message);
  for (const LogField& field : fields) {
    const bool taken = field.key == "time" || field.key == "level" || field.key == "message";
    record.Add(taken ? fmt::format("{}_", field.key) : std::string(field.key), field.value);
  }
  return ValidText(WriteJson(record.Build()));
}

}  // namespace

LogOptions LogOptions::From(const Settings& settings) {
  LogOptions options;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i].setting == settings.Text("NOETL_LOG")) options.level = static_cast<LogLevel>(i);
  }
  if (settings.Bool("NOETL_DEBUG")) options.level = std::min(options.level, LogLevel::kDebug);
  if (settings.Text("NOETL_LOG_FORMAT") == "json") options.format = LogFormat::kJson;
  return options;
}

void ConfigureLog(const LogOptions& options) {
  State& state = TheState();
  auto logger = MakeLogger(options.stream);
  state.level = options.level;
  state.format = options.format;
  const std::lock_guard lock(state.mutex);
  state.logger = std::move(logger);
}

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff && level >= TheState().level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  try {
    State& state = TheState();
    const std::string time = FormatTime(SystemClock().NowMicros());
    const std::string line = state.format.load(std::memory_order_relaxed) == LogFormat::kJson
                                 ? JsonLine(level, time, message, fields)
                                 : TextLine(level, time, message, fields);
    state.Logger()->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    // Only memory can run out here; the record is lost and the work goes on.
  }
}

}  // namespace noetl
