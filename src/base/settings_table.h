// The parts of the table of settings that have a file of their own. For settings_table.cc only.
#pragma once

#include <span>

#include "base/settings.h"

namespace noetl {

std::span<const Setting> WorkerSettings();
std::span<const Setting> ToolSettings();
std::span<const Setting> CommandLineSettings();

}  // namespace noetl
