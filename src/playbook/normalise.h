// Rewrites every accepted form to the canonical one.
//
// A pure function from tree to tree. The validator, the compiler and the engine see canonical trees
// only; nodes keep the position and path they were written at. Legacy forms give a warning in
// noetl.io/v2 and an error in noetl.io/v10.
#pragma once

#include "playbook/diagnostics.h"
#include "playbook/model.h"
#include "playbook/yaml.h"

namespace noetl::playbook {

Node Normalise(Node document, Diagnostics* diagnostics);

}  // namespace noetl::playbook
