// Rendering of tool fields, the same for single tools and for tasks of a pipeline.
//
// Pure functions over a scope; any thread that may use the scope.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "expr/tree.h"
#include "playbook/model.h"

namespace noetl::engine {

// How text of a tool field is treated: only fields that take structures parse JSON-looking text.
expr::Output OutputOf(std::string_view field);

// Renders one field. In noetl.io/v10 a value that is undefined or null must not be spliced into the
// text of a statement, command or address: unless `default` or a test guards it, that is E410 with
// the path in the message. Leaves that `defer` keeps verbatim are not checked.
Result<Json> RenderField(std::string_view field, const expr::Tree& value, const expr::Scope& scope,
                         playbook::Profile profile, expr::Output output,
                         const expr::Tree::Defer& defer = nullptr);

}  // namespace noetl::engine
