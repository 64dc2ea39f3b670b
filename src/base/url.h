// Percent-encoding of URLs. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace noetl {

// Everything but letters, digits and "-._~" as %XX: right for path segments, query values and forms.
std::string PercentEncode(std::string_view text);

}  // namespace noetl
