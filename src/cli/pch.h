// Precompiled for the files of the command line: the parser of arguments is a large header.
#pragma once

#include "base/pch.h"

#include <CLI/CLI.hpp>
