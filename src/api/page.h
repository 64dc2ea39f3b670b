// The page docs/http-api.md, printed from the table of routes.
#pragma once

#include <span>
#include <string>

#include "api/route.h"

namespace noetl::api {

std::string HttpApiMarkdown(std::span<const Route* const> routes);

}  // namespace noetl::api
