// Precompiled for the folders that use the conductor: what nearly all of their files include.
#pragma once

#include "base/pch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "conductor/conductor.h"
#include "store/store.h"
