// The rules of a `kind: Subscription` document. Pure, any thread.
#pragma once

#include <vector>

#include "playbook/diagnostics.h"
#include "playbook/yaml.h"

namespace noetl::api {

// Everything that is wrong with the document's `spec`, in the order of the rules; the code is "E090".
std::vector<playbook::Diagnostic> CheckSubscription(const playbook::Node& document);

}  // namespace noetl::api
