// What a run is given: its payload from options and files, and the playbooks beside its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/parser.h"
#include "playbook/model.h"

namespace noetl::cli {

// Later ones win: the file, then the JSON text, then single values.
struct PayloadOptions {
  std::string input;             // a file with a JSON map, "-" for standard input; empty: none
  std::string json;              // a JSON map; empty: none
  std::vector<std::string> set;  // NAME=VALUE; the value is JSON or text
};

// Declares --set, -i and --payload; `options` outlives the parser.
void AddPayloadOptions(Parser& parser, PayloadOptions* options);

// Errors have code "usage" or "file" and name the option or the file.
Result<Json> ReadPayload(const PayloadOptions& options);

struct Neighbour {
  std::string file;
  std::string content;
  std::shared_ptr<const playbook::Playbook> playbook;
};

// The other valid playbooks of the file's directory, sorted by name: they are there to be called.
std::vector<Neighbour> Neighbours(const std::string& file);

}  // namespace noetl::cli
