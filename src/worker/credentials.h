// Stored credentials in the fields of a tool.
//
// A step names a credential (`auth: pg_prod`); the worker fetches it and puts its fields where the
// tool expects them. What the step says itself goes before what the credential says. Pure
// functions, any thread. Error "auth" names the credential and its type and never holds a value of
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::worker {

// `config` without `auth` and `credential`, and with the credential in it: flat fields for tools
// that connect somewhere, `auth: {type: bearer|basic|api_key, ...}` for requests, `env` for python.
// A credential of type `keychain` is taken for what it looks like.
Result<Json> ApplyCredential(std::string_view tool_kind, const Json& config, std::string_view alias,
                             std::string_view type, const Json& data);

// The values of a credential that must not be shown, longest first, each once. Of a type that we
// know these are its secret fields; of one that we do not, all texts but those with a harmless
// name.
std::vector<std::string> SecretsOf(std::string_view type, const Json& data);

}  // namespace noetl::worker
