// Why a connection could not be made, was lost, or a statement failed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace noetl::pg {

struct Failure {
  enum class Kind : std::uint8_t {
    kServer,   // the server said no: `sqlstate` tells what
    kResolve,  // the host's name is unknown
    kConnect,  // no connection; `sqlstate` when it was the server that refused
    kLost,     // the connection ended in the middle
    kTimeout,  // too slow to connect, or no connection came free in time
    kBusy,     // too many wait already
  };

  Kind kind = Kind::kServer;
  std::string severity;
  std::string sqlstate;  // five characters, or empty
  std::string message;
  std::string detail;
  std::string hint;
};

// What libpq says about a connection that failed, taken apart: SQLSTATE and message of the server
// when it answered, else the text on one line. Expects messages of verbose form.
Failure ConnectFailure(std::string_view text);

}  // namespace noetl::pg
