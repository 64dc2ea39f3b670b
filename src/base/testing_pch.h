// Precompiled for the files of tests.
#pragma once

#include "base/pch.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
