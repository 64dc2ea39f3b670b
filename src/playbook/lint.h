// Checks that need the whole compiled model: routing shape and template scopes.
#pragma once

#include "playbook/diagnostics.h"
#include "playbook/model.h"

namespace noetl::playbook {

// E276, W250, W273 to W277, W405 to W407, E402, E431, W408, W414, W432, W281-type authoring lints
// and the like: everything that is about meaning and not about form.
void Lint(const Playbook& playbook, Diagnostics* diagnostics);

}  // namespace noetl::playbook
