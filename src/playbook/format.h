// The canonical text of a playbook, and the schema for editors.
#pragma once

#include <string>

#include "base/json.h"
#include "playbook/yaml.h"

namespace noetl::playbook {

// YAML of a canonical tree: fixed key order, block style, comments kept. Formatting the result
// again gives the same text.
std::string FormatYaml(const Node& canonical);

// JSON Schema (draft 2020-12) of the playbook language, made from the tables that the parser uses.
Json PlaybookSchema();

}  // namespace noetl::playbook
