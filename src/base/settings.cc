#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/text.h"

namespace noetl {

namespace {

// Splits at `separator`, without the blanks around the parts and without empty parts.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = Trim(text.substr(0, end));
    if (!part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<bool> ParseTruth(std::string_view text) {
  const std::string word = ToLower(text);
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view TypeText(SettingType type) {
  switch (type) {
    case SettingType::kBool: return "bool";
    case SettingType::kInt: return "int";
    case SettingType::kDouble: return "number";
    case SettingType::kString: return "text";
    case SettingType::kDuration: return "duration";
    case SettingType::kEnum: return "choice";
    case SettingType::kList: return "list";
    case SettingType::kSecret: return "secret";
  }
  return "";
}

std::string_view ScopeText(SettingScope scope) {
  switch (scope) {
    case SettingScope::kServer: return "server";
    case SettingScope::kWorker: return "worker";
    case SettingScope::kCli: return "cli";
    case SettingScope::kBoth: return "server, worker";
    case SettingScope::kAll: return "all";
  }
  return "";
}

bool InRange(const Setting& setting, double value) {
  return value >= setting.min && value <= setting.max;
}

// What a right value would look like.
std::string Wanted(const Setting& setting) {
  const bool bounded = setting.max < std::numeric_limits<double>::infinity();
  const std::string range = bounded
                                ? fmt::format("from {:.15g} to {:.15g}", setting.min, setting.max)
                                : fmt::format("of at least {:.15g}", setting.min);
  switch (setting.type) {
    case SettingType::kBool: return "1, true, yes, on, 0, false, no or off";
    case SettingType::kInt: return "a whole number " + range;
    case SettingType::kDouble: return "a number " + range;
    case SettingType::kDuration: return "a time such as 30, 90s, 5m or 250ms, in seconds " + range;
    case SettingType::kEnum: {
      std::string words;
      for (const std::string_view choice : Split(setting.choices, ' ')) {
        if (choice.contains('=')) continue;
        words += fmt::format("{}{}", words.empty() ? "one of " : ", ", choice);
      }
      return words;
    }
    default: return "a text";
  }
}

using Value = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>>;

std::optional<Value> ParseEnum(const Setting& setting, std::string_view text) {
  const std::string word = ToLower(text);
  for (const std::string_view choice : Split(setting.choices, ' ')) {
    const std::size_t equals = choice.find('=');
    if (choice.substr(0, equals) != word) continue;
    return std::string(equals == std::string_view::npos ? choice : choice.substr(equals + 1));
  }
  return std::nullopt;
}

// The value of a trimmed text; nothing when it is wrong. An empty text is the type's zero.
std::optional<Value> ParseValue(const Setting& setting, std::string_view text) {
  switch (setting.type) {
    case SettingType::kString:
    case SettingType::kSecret: return std::string(text);
    case SettingType::kEnum:
      if (text.empty()) return std::string();
      return ParseEnum(setting, text);
    case SettingType::kList: {
      std::vector<std::string> items;
      for (const std::string_view item : Split(text, ',')) items.emplace_back(item);
      return items;
    }
    case SettingType::kBool: {
      if (text.empty()) return false;
      if (const auto truth = ParseTruth(text)) return *truth;
      return std::nullopt;
    }
    case SettingType::kInt: {
      if (text.empty()) return std::int64_t{0};
      const auto value = ParseWhole<std::int64_t>(text);
      if (!value || !InRange(setting, static_cast<double>(*value))) return std::nullopt;
      return *value;
    }
    case SettingType::kDouble: {
      if (text.empty()) return 0.0;
      const auto value = ParseWhole<double>(text);
      if (!value || !InRange(setting, *value)) return std::nullopt;
      return *value;
    }
    case SettingType::kDuration: {
      if (text.empty()) return std::int64_t{0};
      const auto value = ParseDurationMs(text);
      if (!value || !InRange(setting, static_cast<double>(*value) / 1000)) return std::nullopt;
      return *value;
    }
  }
  return std::nullopt;
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

const std::map<std::string_view, const Setting*>& Index() {
  static const std::map<std::string_view, const Setting*> index = [] {
    std::map<std::string_view, const Setting*> made;
    for (const SettingGroup& group : SettingGroups()) {
      for (const Setting& setting : group.settings) made[setting.name] = &setting;
    }
    return made;
  }();
  return index;
}

// All names a user may write, aliases too.
const std::map<std::string_view, const Setting*>& KnownNames() {
  static const std::map<std::string_view, const Setting*> known = [] {
    std::map<std::string_view, const Setting*> made = Index();
    for (const auto& [name, setting] : Index()) {
      for (const std::string_view alias : Split(setting->aliases, ',')) made[alias] = setting;
    }
    return made;
  }();
  return known;
}

std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

// The names a user may write for the setting.
std::string NameCell(const Setting& setting) {
  std::string names = fmt::format("`{}`", setting.name);
  for (const std::string_view alias : Split(setting.aliases, ','))
    names += fmt::format(", `{}`", alias);
  return names;
}

std::string GroupTable(const SettingGroup& group) {
  std::string table =
      fmt::format("\n## {}\n\n| name | type | default | scope | meaning |\n|---|---|---|---|---|\n",
                  group.title);
  for (const Setting& setting : group.settings) {
    if (setting.unread) continue;
    std::string meaning = Cell(setting.meaning);
    if (setting.type == SettingType::kEnum) meaning += "; " + Wanted(setting);
    if (!setting.borrowed.empty())
      meaning += fmt::format("; when unset, taken from {}", setting.borrowed);
    const std::string fallback =
        setting.fallback.empty() ? std::string("–") : fmt::format("`{}`", Cell(setting.fallback));
    table += fmt::format("| {} | {} | {} | {} | {} |\n", NameCell(setting), TypeText(setting.type),
                         fallback, ScopeText(setting.scope), meaning);
  }
  return table;
}

std::string UnreadSection() {
  std::string section =
      "\n## Known names without effect yet\n\n"
      "Names of parts that do not exist in this version, or that work without the setting. Their "
      "values\n"
      "are checked like all others; a process that starts with one of them set says so and goes "
      "on.\n\n"
      "| name | meaning |\n|---|---|\n";
  for (const SettingGroup& group : SettingGroups()) {
    for (const Setting& setting : group.settings) {
      if (!setting.unread) continue;
      section += fmt::format("| {} | {} |\n", NameCell(setting), Cell(setting.meaning));
    }
  }
  for (const SettingFamily& family : SettingFamilies()) {
    if (family.unread) section += fmt::format("| `{}` | {} |\n", family.pattern, family.meaning);
  }
  return section;
}

}  // namespace

class SettingsLoader {
 public:
  SettingsLoader(const Settings::Variables& environment, const Settings::Variables& overrides)
      : environment_(environment), overrides_(overrides) {}

  Result<Settings> Run() {
    CheckOverrides();
    for (const auto& [name, setting] : Index()) Load(*setting);
    CheckNames();
    if (problems_.empty()) CheckTogether();
    if (problems_.empty()) return std::move(settings_);
    std::string message;
    for (const std::string& problem : problems_) {
      message += fmt::format("{}{}", message.empty() ? "" : "\n", problem);
    }
    return Fail("settings", std::move(message));
  }

 private:
  struct Found {
    std::string_view text;
    std::string source;
  };

  static std::optional<std::string_view> Lookup(const Settings::Variables& from,
                                                std::string_view name) {
    const auto at = from.find(name);
    if (at == from.end()) return std::nullopt;
    const std::string_view text = Trim(at->second);
    // Kubernetes sets NOETL_PORT to such a link for a service that is called noetl, and
    // POSTGRES_PORT for one that is called postgres.
    const bool link = name.ends_with("_PORT") && text.starts_with("tcp://");
    if (text.empty() || link) return std::nullopt;
    return text;
  }

  // The value under the name or an alias. Two names that disagree are a problem.
  std::optional<Found> Given(const Settings::Variables& from, const Setting& setting) {
    std::optional<Found> found;
    std::vector<std::string_view> names = Split(setting.aliases, ',');
    names.insert(names.begin(), setting.name);
    for (const std::string_view name : names) {
      const auto text = Lookup(from, name);
      if (!text) continue;
      if (found && found->text != *text) {
        problems_.push_back(fmt::format("{} and {} are the same setting and have different values",
                                        found->source, name));
      }
      if (!found) found = Found{*text, std::string(name)};
    }
    return found;
  }

  void Load(const Setting& setting) {
    std::optional<Found> found = Given(overrides_, setting);
    if (found) found->source = "override";
    else found = Given(environment_, setting);
    if (found && setting.unread) {
      unread_.emplace_back(found->source == "override" ? setting.name : found->source);
    }
    if (!found) found = Borrow(setting);

    Settings::Entry& entry = settings_.entries_[setting.name];
    auto value = ParseValue(setting, found ? found->text : setting.fallback);
    if (!value) {
      NOETL_CHECK(found, "a default of the settings table is wrong");
      const std::string_view name = found->source == "override" ? setting.name : found->source;
      const bool secret = setting.type == SettingType::kSecret;
      problems_.push_back(
          fmt::format("{}: '{}' is not {}", name, secret ? "***" : found->text, Wanted(setting)));
      return;
    }
    entry.value = std::move(*value);
    if (!found) return;
    entry.source = found->source;
    entry.text = found->text;
  }

  // A variable of another program counts only when we understand it.
  std::optional<Found> Borrow(const Setting& setting) const {
    for (const std::string_view name : Split(setting.borrowed, ',')) {
      const auto text = Lookup(environment_, name);
      if (text && ParseValue(setting, *text)) return Found{*text, std::string(name)};
    }
    return std::nullopt;
  }

  void CheckOverrides() {
    for (const auto& [name, value] : overrides_) {
      if (!KnownNames().contains(name))
        problems_.push_back(fmt::format("{}: no such setting", name));
    }
  }

  // Sorts the names that the table lacks into families, ignored ones and typing errors.
  void CheckNames() {
    std::vector<std::string_view> known;
    for (const auto& [name, setting] : KnownNames()) known.push_back(name);
    std::vector<std::string> ignored;
    for (const auto& [name, value] : environment_) {
      if (KnownNames().contains(name) || Trim(value).empty() || TakeFamily(name, value)) continue;
      if (Borrowed(name)) continue;
      if (const IgnoredSetting* entry = FindIgnored(name)) {
        if (!entry->silent) ignored.push_back(name);
        continue;
      }
      if (!name.starts_with("NOETL_")) continue;
      const auto near = NearestName(name, known);
      settings_.notices_.push_back(
          near ? fmt::format("unknown setting {}, did you mean {}?", name, *near)
               : fmt::format("unknown setting {}", name));
    }
    NoticeNames("these settings have no effect here and are ignored: ", ignored);
    NoticeNames("warning: these settings are known but have no effect in this version: ", unread_);
  }

  void NoticeNames(std::string_view lead, std::span<const std::string> names) {
    if (names.empty()) return;
    settings_.notices_.push_back(fmt::format("{}{}", lead, fmt::join(names, ", ")));
  }

  static bool Borrowed(std::string_view name) {
    for (const auto& [own, setting] : Index()) {
      const auto names = Split(setting->borrowed, ',');
      if (std::find(names.begin(), names.end(), name) != names.end()) return true;
    }
    return false;
  }

  static const IgnoredSetting* FindIgnored(std::string_view name) {
    for (const IgnoredSetting& entry : IgnoredSettings()) {
      if (Matches(entry.name, name)) return &entry;
    }
    return nullptr;
  }

  bool TakeFamily(const std::string& name, const std::string& value) {
    for (const SettingFamily& family : SettingFamilies()) {
      const bool member = name.size() > family.prefix.size() + family.suffix.size() &&
                          name.starts_with(family.prefix) && name.ends_with(family.suffix);
      if (!member) continue;
      settings_.families_[name] = std::string(Trim(value));
      if (family.unread) unread_.push_back(name);
      return true;
    }
    return false;
  }

  // Rules about several settings at once.
  void CheckTogether() {
    const Settings& s = settings_;
    if (s.Bool("NOETL_EVENT_INGEST_PUBLISH_ONLY")) {
      problems_.push_back(
          "NOETL_EVENT_INGEST_PUBLISH_ONLY: events are always stored before they are acknowledged; "
          "remove this setting");
    }
    if (s.Int("NOETL_SHARD_INDEX") >= s.Int("NOETL_SHARD_COUNT")) {
      problems_.push_back("NOETL_SHARD_INDEX must be below NOETL_SHARD_COUNT");
    }
    for (const auto& [cert, key] : {std::pair("NOETL_TLS_CERT", "NOETL_TLS_KEY"),
                                    std::pair("NOETL_TLS_CLIENT_CERT", "NOETL_TLS_CLIENT_KEY")}) {
      if (s.IsSet(cert) == s.IsSet(key)) continue;
      problems_.push_back(fmt::format("{} and {} must be set together", cert, key));
    }
  }

  const Settings::Variables& environment_;
  const Settings::Variables& overrides_;
  Settings settings_;
  std::vector<std::string> problems_;
  std::vector<std::string> unread_;  // set, and nothing reads them
};

const Setting* FindSetting(std::string_view name) {
  const auto at = Index().find(name);
  return at == Index().end() ? nullptr : at->second;
}

Result<Settings> Settings::Load(const Variables& environment, const Variables& overrides) {
  return SettingsLoader(environment, overrides).Run();
}

const Settings::Entry& Settings::Get(std::string_view name,
                                     std::initializer_list<SettingType> types) const {
  const Setting* setting = FindSetting(name);
  NOETL_CHECK(setting != nullptr, fmt::format("{} is not in the settings table", name));
  NOETL_CHECK(
      types.size() == 0 || std::find(types.begin(), types.end(), setting->type) != types.end(),
      fmt::format("{} has another type in the settings table", name));
  return entries_.at(setting->name);
}

bool Settings::Bool(std::string_view name) const {
  return std::get<bool>(Get(name, {SettingType::kBool}).value);
}

std::int64_t Settings::Int(std::string_view name) const {
  return std::get<std::int64_t>(Get(name, {SettingType::kInt}).value);
}

double Settings::Double(std::string_view name) const {
  return std::get<double>(Get(name, {SettingType::kDouble}).value);
}

std::int64_t Settings::DurationMs(std::string_view name) const {
  return std::get<std::int64_t>(Get(name, {SettingType::kDuration}).value);
}

const std::string& Settings::Text(std::string_view name) const {
  return std::get<std::string>(
      Get(name, {SettingType::kString, SettingType::kEnum, SettingType::kSecret}).value);
}

const std::vector<std::string>& Settings::List(std::string_view name) const {
  return std::get<std::vector<std::string>>(Get(name, {SettingType::kList}).value);
}

bool Settings::IsSet(std::string_view name) const { return !Get(name, {}).source.empty(); }

Settings::Variables Settings::Family(std::string_view prefix) const {
  Variables members;
  for (const SettingFamily& family : SettingFamilies()) {
    if (family.prefix != prefix) continue;
    for (const auto& [name, value] : families_) {
      if (!name.starts_with(prefix) || !name.ends_with(family.suffix)) continue;
      const std::size_t length = name.size() - prefix.size() - family.suffix.size();
      members[name.substr(prefix.size(), length)] = value;
    }
    return members;
  }
  NOETL_CHECK(false, fmt::format("{} is no family of the settings table", prefix));
}

std::vector<std::string> Settings::Describe() const {
  std::vector<std::string> lines;
  for (const auto& [name, entry] : entries_) {
    if (entry.source.empty()) continue;
    const bool secret = FindSetting(name)->type == SettingType::kSecret;
    lines.push_back(fmt::format("{}={} ({})", name, secret ? "***" : entry.text, entry.source));
  }
  return lines;
}

std::string SettingsMarkdown() {
  std::string page =
      "# Settings\n\n"
      "Generated from the table in `src/base/settings_table.cc`; a test compares the two. To write "
      "it\n"
      "again: `UPDATE_DOCS=1 base_test --gtest_filter='SettingsPage.*'`.\n\n"
      "Settings are environment variables. A blank value counts as unset. Truth values are `1`, "
      "`true`,\n"
      "`yes`, `on` and `0`, `false`, `no`, `off`, in any case. A duration is a number of seconds, "
      "or a\n"
      "number with `ms`, `s`, `m`, `h` or `d`. A list is separated by commas. A wrong value stops "
      "the\n"
      "start and names the variable.\n";
  for (const SettingGroup& group : SettingGroups()) page += GroupTable(group);
  page += "\n## Families\n\n| name | meaning |\n|---|---|\n";
  for (const SettingFamily& family : SettingFamilies()) {
    if (!family.unread) page += fmt::format("| `{}` | {} |\n", family.pattern, family.meaning);
  }
  page +=
      "\n## Accepted and ignored\n\nThese belong to other programs or to parts that do not exist "
      "here. They do no harm.\n\n";
  for (const IgnoredSetting& ignored : IgnoredSettings())
    page += fmt::format("- `{}`\n", ignored.name);
  return page + UnreadSection();
}

}  // namespace noetl
