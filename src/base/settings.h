// Every setting of every process, in one table.
//
// `Settings::Load` reads an environment and overrides (command line flags) against the table and
// reports all problems at once; a process that has a `Settings` has only valid values. The page
// docs/settings.md is printed from the table and a test compares them. Immutable after loading, any
// thread. Values of type secret are never printed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace noetl {

enum class SettingType { kBool, kInt, kDouble, kString, kDuration, kEnum, kList, kSecret };
enum class SettingScope { kServer, kWorker, kCli, kBoth, kAll };

struct Setting {
  std::string_view name;
  SettingType type;
  SettingScope scope;
  // As a user would write it; "" is unset.
  std::string_view fallback;
  std::string_view meaning;
  // Other names for the same thing, comma separated: two that differ are an error.
  std::string_view aliases = "";
  // Variables of other programs that give the value when this one is unset, first set first.
  std::string_view borrowed = "";
  // kEnum: the allowed words, separated by blanks; "a=b" reads a as b.
  std::string_view choices = "";
  // kInt, kDouble, kDuration (seconds).
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  // Known, and without effect in this version: nothing reads it. Its value is checked all the same,
  // and a process that finds it set says so.
  bool unread = false;
};

struct SettingGroup {
  std::string_view title;
  std::span<const Setting> settings;
};

// Names that take a part of their own, such as NOETL_TOOL_MAX_<KIND>.
struct SettingFamily {
  std::string_view prefix;
  std::string_view suffix;
  std::string_view pattern;
  std::string_view meaning;
  bool unread = false;  // as in `Setting`
};

// Names we know and do nothing with. A trailing * stands for any rest.
struct IgnoredSetting {
  std::string_view name;
  bool silent;  // not ours to talk about: set by a container platform or for tools
};

std::span<const SettingGroup> SettingGroups();
std::span<const SettingFamily> SettingFamilies();
std::span<const IgnoredSetting> IgnoredSettings();
// The setting of that name (not alias), or nullptr.
const Setting* FindSetting(std::string_view name);
// The page docs/settings.md.
std::string SettingsMarkdown();

class Settings {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  // Overrides win over the environment; a blank value counts as unset. Error "settings": a line for
  // each problem, each naming its variable.
  static Result<Settings> Load(const Variables& environment, const Variables& overrides = {});

  // Typed reads. Asking for a name that the table lacks, or for another type, is a bug.
  bool Bool(std::string_view name) const;
  std::int64_t Int(std::string_view name) const;
  double Double(std::string_view name) const;
  std::int64_t DurationMs(std::string_view name) const;
  // kString, kEnum and kSecret.
  const std::string& Text(std::string_view name) const;
  const std::vector<std::string>& List(std::string_view name) const;
  // Whether somebody gave a value, as opposed to the default.
  bool IsSet(std::string_view name) const;
  // The members of a family that are set, by the part that stands in for <...>.
  Variables Family(std::string_view prefix) const;

  // What the user should know at start: settings without effect, unknown names. Each is one line.
  const std::vector<std::string>& notices() const { return notices_; }
  // "name=value (source)" for every setting that is set. Secrets show as ***.
  std::vector<std::string> Describe() const;

 private:
  using Value = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>>;
  struct Entry {
    Value value;
    std::string source;  // the variable or "override"; empty for a default
    std::string text;    // as given
  };
  friend class SettingsLoader;

  Settings() = default;
  const Entry& Get(std::string_view name, std::initializer_list<SettingType> types) const;

  std::map<std::string_view, Entry> entries_;
  Variables families_;
  std::vector<std::string> notices_;
};

}  // namespace noetl
