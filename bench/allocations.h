// Counts calls of operator new in this program.
#pragma once

#include <cstdint>

namespace noetl::bench {

std::int64_t Allocations();

}  // namespace noetl::bench
