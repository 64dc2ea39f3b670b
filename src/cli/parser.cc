#include "cli/parser.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/console.h"

namespace noetl::cli {

// ---- options

Option Option::Required(bool required) const {
  option_->required(required);
  return *this;
}

Option Option::Type(std::string_view name) const {
  option_->type_name(std::string(name));
  return *this;
}

Option Option::Meaning(std::string_view text) const {
  option_->description(std::string(text));
  return *this;
}

Option Option::Group(std::string_view heading) const {
  option_->group(std::string(heading));
  return *this;
}

Option Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Option Option::Repeated() const {
  // Words behind the value are not more values: they may be arguments.
  option_->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}

Option Option::ValueOptional() const {
  option_->expected(0, 1);
  return *this;
}

Option Option::Excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

// Checks have no description: help would show it behind the type.
Option Option::OneOf(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values).description(""));
  return *this;
}

Option Option::Range(std::int64_t least, std::int64_t most) const {
  const bool open = most == std::numeric_limits<std::int64_t>::max();
  const std::string wanted = open ? fmt::format("a whole number from {} on", least)
                                  : fmt::format("a whole number from {} to {}", least, most);
  const auto check = [least, most, wanted](const std::string& text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const bool good = error == std::errc() && stop == end && number >= least && number <= most;
    return good ? std::string() : fmt::format("'{}' is not {}", text, wanted);
  };
  option_->check(check);
  return *this;
}

Option Option::Positive() const { return Range(1, std::numeric_limits<std::int64_t>::max()); }

Option Option::NonNegative() const { return Range(0, std::numeric_limits<std::int64_t>::max()); }

bool Option::given() const { return option_->count() > 0; }

// ---- parser

namespace {

template <typename T>
CLI::Option* AddTo(CLI::App& app, std::string_view names, T* value, std::string_view meaning) {
  return app.add_option(std::string(names), *value, std::string(meaning));
}

}  // namespace

Parser::Parser(std::string_view summary, std::string_view title)
    : owned_(std::make_unique<CLI::App>(std::string(summary), std::string(title))),
      app_(owned_.get()) {
  app_->get_formatter()->label("TEXT", "");  // says nothing of a value
}

Parser::Parser(CLI::App* verb) : app_(verb) {}

Parser::~Parser() = default;

Option Parser::Add(std::string_view names, std::string* value, std::string_view meaning) {
  return Option(AddTo(*app_, names, value, meaning));
}

Option Parser::Add(std::string_view names, std::vector<std::string>* values,
                   std::string_view meaning) {
  return Option(AddTo(*app_, names, values, meaning));
}

Option Parser::Add(std::string_view names, int* value, std::string_view meaning) {
  return Option(AddTo(*app_, names, value, meaning));
}

Option Parser::Add(std::string_view names, std::int64_t* value, std::string_view meaning) {
  return Option(AddTo(*app_, names, value, meaning));
}

Option Parser::Add(std::string_view names, bool* value, std::string_view meaning) {
  return Option(AddTo(*app_, names, value, meaning));
}

Option Parser::Add(std::string_view names, std::function<void(const std::string&)> take,
                   std::string_view meaning) {
  return Option(
      app_->add_option_function<std::string>(std::string(names), take, std::string(meaning)));
}

Option Parser::Flag(std::string_view names, bool* given, std::string_view meaning) {
  return Option(app_->add_flag(std::string(names), *given, std::string(meaning)));
}

Option Parser::Flag(std::string_view names, std::function<void()> given, std::string_view meaning) {
  return Option(app_->add_flag_function(
      std::string(names), [given = std::move(given)](std::int64_t) { given(); },
      std::string(meaning)));
}

Parser& Parser::Verb(std::string_view name, std::string_view summary,
                     const std::function<Action(Parser&)>& declare) {
  CLI::App* const verb = app_->add_subcommand(std::string(name), std::string(summary));
  verb->fallthrough();
  std::unique_ptr<Parser> parser(new Parser(verb));
  Action action = declare(*parser);
  verbs_.push_back({std::move(parser), std::move(action)});
  return *this;
}

Action Parser::VerbAction(Action otherwise) {
  app_->require_subcommand(otherwise ? 0 : 1, 1);
  return [this, otherwise = std::move(otherwise)](Console& console) {
    for (const VerbEntry& verb : verbs_) {
      if (verb.parser->app_->parsed()) return verb.action(console);
    }
    return otherwise(console);
  };
}

Result<Parser::Asked> Parser::Parse(std::vector<std::string> words) {
  std::ranges::reverse(words);  // the library takes them from the back
  try {
    app_->parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return Asked::kHelp;
  } catch (const CLI::ParseError& error) {
    return Fail("usage", error.what());
  }
  return Asked::kAction;
}

std::string Parser::Help() const {
  // A command with verbs shows what they take too, unless one of them was asked for.
  const bool all = app_->get_subcommands().empty() && !verbs_.empty();
  return app_->help("", all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal);
}

// ---- what there is

std::vector<Parser::OptionText> Parser::LongOptions() const {
  std::vector<OptionText> all;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    for (const std::string& name : option->get_lnames())
      all.push_back({"--" + name, option->get_description()});
  }
  return all;
}

bool Parser::HasOption(std::string_view name) const {
  return app_->get_option_no_throw(std::string(name)) != nullptr;
}

std::vector<const Parser*> Parser::verbs() const {
  std::vector<const Parser*> all;
  for (const VerbEntry& verb : verbs_) all.push_back(verb.parser.get());
  return all;
}

std::string Parser::name() const { return app_->get_name(); }

}  // namespace noetl::cli
