// Commands with commands of their own: `noetl context add`, `noetl context list`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace noetl::cli {

class Verbs {
 public:
  explicit Verbs(CLI::App& app) : app_(app) { app_.require_subcommand(1); }

  // `declare` puts options on the parser of the verb and gives what to do. Options of the command
  // itself may stand behind the verb too.
  template <typename Declare>
  Verbs& Add(std::string_view name, std::string_view summary, Declare declare) {
    CLI::App* const verb = app_.add_subcommand(std::string(name), std::string(summary));
    verb->fallthrough();
    actions_.emplace_back(verb, declare(*verb));
    return *this;
  }
  // The action of the verb that was given. The parser outlives it.
  Action Done() {
    return [actions = std::move(actions_)](Console& console) {
      for (const auto& [verb, action] : actions) {
        if (verb->parsed()) return action(console);
      }
      return kExitInvalid;
    };
  }

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, Action>> actions_;
};

}  // namespace noetl::cli
