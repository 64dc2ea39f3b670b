// The options and arguments of one command, or of one of its verbs (`noetl context add`).
//
// A command declares on its parser what it takes and where each value goes, and gives back what to
// do once they have been read. What values point to must outlive the parser; the actions of verbs
// must not outlive it. The face of the library that does the work, which is large and is included
// in parser.cc alone. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace noetl::cli {

class Console;
class Parser;

// Runs a command whose options have been read; gives the exit code.
using Action = std::function<int(Console&)>;

// A handle of something that was added to a parser; the parser owns it.
class Option {
 public:
  Option() = default;  // of nothing; to be assigned to

  Option Required(bool required = true) const;
  // What help shows for the value: "N", "FILE".
  Option Type(std::string_view name) const;
  // Replaces the text of its help.
  Option Meaning(std::string_view text) const;
  // The heading in help under which it stands.
  Option Group(std::string_view heading) const;
  Option Hidden() const { return Group(""); }
  // Help tells the value that the variable has now.
  Option ShowDefault() const;

  // May be given many times, with one value each time.
  Option Repeated() const;
  // The value may be left out.
  Option ValueOptional() const;
  // Not together with the other one.
  Option Excludes(const Option& other) const;

  Option OneOf(const std::vector<std::string>& values) const;
  Option Range(std::int64_t least, std::int64_t most) const;
  Option Positive() const;
  Option NonNegative() const;

  // After parsing: it was on the command line.
  bool given() const;

 private:
  friend class Parser;
  explicit Option(CLI::Option* option) : option_(option) {}

  CLI::Option* option_ = nullptr;
};

class Parser {
 public:
  // `title` is how usage calls the command: "noetl run".
  explicit Parser(std::string_view summary = "", std::string_view title = "");
  ~Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  // `names` is "--limit", "-l,--limit", or "FILE" for an argument without a name.
  Option Add(std::string_view names, std::string* value, std::string_view meaning);
  Option Add(std::string_view names, std::vector<std::string>* values, std::string_view meaning);
  Option Add(std::string_view names, int* value, std::string_view meaning);
  Option Add(std::string_view names, std::int64_t* value, std::string_view meaning);
  Option Add(std::string_view names, bool* value, std::string_view meaning);  // "true", "false"
  Option Add(std::string_view names, std::function<void(const std::string&)> take,
             std::string_view meaning);
  // Without a value.
  Option Flag(std::string_view names, bool* given, std::string_view meaning);
  Option Flag(std::string_view names, std::function<void()> given, std::string_view meaning);

  // `declare` puts options on the parser of the verb and gives what to do. Options of the command
  // itself may stand behind the verb too.
  Parser& Verb(std::string_view name, std::string_view summary,
               const std::function<Action(Parser&)>& declare);
  // The action of the verb that was given, else `otherwise`; without that one has to be given.
  Action VerbAction(Action otherwise = {});

  // What the command line wants.
  enum class Asked { kAction, kHelp };
  // Reads the words behind the command into the variables. An error has code "usage".
  Result<Asked> Parse(std::vector<std::string> words);
  // For the command, or for the verb that was given.
  std::string Help() const;

  struct OptionText {
    std::string name;  // with dashes
    std::string meaning;
  };
  std::vector<OptionText> LongOptions() const;
  bool HasOption(std::string_view name) const;
  std::vector<const Parser*> verbs() const;
  std::string name() const;

 private:
  struct VerbEntry {
    std::unique_ptr<Parser> parser;
    Action action;
  };

  explicit Parser(CLI::App* verb);

  std::unique_ptr<CLI::App> owned_;  // none in a verb: the command's has it
  CLI::App* app_;
  std::vector<VerbEntry> verbs_;
};

}  // namespace noetl::cli
