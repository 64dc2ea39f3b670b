// The tables of the store and how older files become newer ones.
//
// Migrations go forward only: each is applied once, in order, in one transaction with its number.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "store/sqlite/connection.h"

namespace noetl::store {

// Brings the file to the newest schema. "schema" when a newer program has written it, "corrupt" when
// it is the database of something else.
Status Migrate(Connection& connection);

// The same check without writing: anything but the newest schema is refused.
Status CheckSchema(Connection& connection);

}  // namespace noetl::store
