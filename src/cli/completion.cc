#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/parser.h"

namespace noetl::cli {
namespace {

constexpr std::array<std::string_view, 3> kShells = {"bash", "zsh", "fish"};

// What can follow a command: its options as the parser knows them, and words that it takes.
struct Words {
  std::string_view name;
  std::string_view summary;
  std::vector<Parser::OptionText> options;
  std::vector<std::string> values;
};

void AddOptions(const Parser& parser, Words* words) {
  for (Parser::OptionText& option : parser.LongOptions()) {
    const auto known = std::ranges::find(words->options, option.name, &Parser::OptionText::name);
    if (known == words->options.end()) words->options.push_back(std::move(option));
  }
}

std::vector<Words> AllWords() {
  std::vector<Words> all;
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    Words words{.name = command.name, .summary = command.summary};
    Parser parser;
    command.declare(parser);
    AddOptions(parser, &words);
    for (const Parser* verb : parser.verbs()) {
      words.values.push_back(verb->name());
      AddOptions(*verb, &words);
    }
    if (command.name == "completion") words.values.assign(kShells.begin(), kShells.end());
    all.push_back(std::move(words));
  }
  return all;
}

std::string Names(const std::vector<Words>& all) {
  std::string text = "help";
  for (const Words& words : all) text += fmt::format(" {}", words.name);
  return text;
}

std::string OptionNames(const Words& words) {
  std::vector<std::string> names;
  for (const Parser::OptionText& option : words.options) names.push_back(option.name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string Bash(const std::vector<Words>& all) {
  std::string cases;
  for (const Words& words : all) {
    cases += fmt::format("    {}) options='{}'; values='{}' ;;\n", words.name, OptionNames(words),
                         fmt::join(words.values, " "));
  }
  return fmt::format(R"(# bash completion for noetl
_noetl() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} commands='{}' options='' values=''
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
    help) values=$commands ;;
{}  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _noetl noetl
)",
                     Names(all), cases);
}

// A text between single quotes of zsh and fish.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += "'\\''";
    else out += c;
  }
  return out + "'";
}

// Brackets and colons mean something in what zsh is told of an option.
std::string ZshText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string Zsh(const std::vector<Words>& all) {
  std::string commands;
  std::string cases;
  for (const Words& words : all) {
    commands +=
        fmt::format("    {}\n", Quoted(fmt::format("{}:{}", words.name, ZshText(words.summary))));
    cases += fmt::format("    {})\n      _arguments", words.name);
    for (const Parser::OptionText& option : words.options) {
      cases += fmt::format(" \\\n        {}",
                           Quoted(fmt::format("{}[{}]", option.name, ZshText(option.meaning))));
    }
    cases += words.values.empty()
                 ? " \\\n        '*:file:_files' ;;\n"
                 : fmt::format(" \\\n        '1:value:({})' ;;\n", fmt::join(words.values, " "));
  }
  return fmt::format(R"(#compdef noetl
_noetl() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
compdef _noetl noetl
)",
                     commands, cases);
}

std::string Fish(const std::vector<Words>& all) {
  std::string text = "# fish completion for noetl\n";
  for (const Words& words : all) {
    text += fmt::format("complete -c noetl -n __fish_use_subcommand -f -a {} -d {}\n", words.name,
                        Quoted(words.summary));
    const std::string when =
        fmt::format("complete -c noetl -n '__fish_seen_subcommand_from {}'", words.name);
    for (const Parser::OptionText& option : words.options) {
      text += fmt::format("{} -l {} -d {}\n", when, option.name.substr(2), Quoted(option.meaning));
    }
    if (!words.values.empty())
      text += fmt::format("{} -f -a {}\n", when,
                          Quoted(fmt::format("{}", fmt::join(words.values, " "))));
  }
  return text;
}

}  // namespace

Action DeclareCompletion(Parser& parser) {
  auto shell = std::make_shared<std::string>();
  parser.Add("SHELL", shell.get(), "bash, zsh or fish").Required();
  return [shell](Console& console) {
    const std::vector<Words> all = AllWords();
    if (*shell == "bash") console.Out(Bash(all));
    else if (*shell == "zsh") console.Out(Zsh(all));
    else if (*shell == "fish") console.Out(Fish(all));
    else {
      console.Err(fmt::format("noetl completion: '{}' is not one of {}\n", *shell,
                              fmt::join(kShells, ", ")));
      return kExitInvalid;
    }
    return kExitOk;
  };
}

}  // namespace noetl::cli
