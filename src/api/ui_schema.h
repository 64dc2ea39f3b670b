// The form of a run's input, inferred from the `workload` of a playbook.
//
// Each entry of the workload is a field: its name, what kind of value its default is, and hints that
// stand in a comment at the end of its line (`# ui:secret`, `# ui:enum=[a,b]`, `# ui:credential=glob`,
// `# ui:description=text`). A document that cannot be read, or has no workload, gives no fields. Pure,
// any thread.
#pragma once

#include <string_view>

#include "base/json.h"

namespace noetl::api {

// {title, description_markdown, exposed_in_ui, fields: [{name, kind, default, description, secret,
// credential_glob, options, children}]}
Json UiSchema(std::string_view content);

}  // namespace noetl::api
