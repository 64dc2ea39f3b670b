// Which server a command speaks with: contexts that are kept in $HOME/.noetl/config.yaml, and the
// options that go before them.
//
// The address comes from --server-url, else --host with --port, else the context (--context, or the
// current one), else http://localhost:8082. The token comes from --session-token, else
// NOETL_SESSION_TOKEN, else the context. The file holds tokens: it is written with mode 0600 in a
// directory of mode 0700, in one step. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/settings.h"
#include "cli/console.h"
#include "cli/http_client.h"
#include "cli/parser.h"

namespace noetl::cli {

inline constexpr std::string_view kDefaultServer = "http://localhost:8082";
// Members of a context in the file.
inline constexpr std::string_view kContextUrl = "server_url";
inline constexpr std::string_view kContextRuntime = "runtime";
inline constexpr std::string_view kContextToken = "gateway_session_token";
inline constexpr std::string_view kContextDomain = "gateway_auth0_domain";

// The file. Members that this program does not know stay in it.
struct ContextFile {
  std::string path;
  std::string current;  // empty: none
  std::map<std::string, Json> contexts;
  Json other;  // members of the document beside those

  // No file is no error. Errors: "config" when it cannot be read.
  static Result<ContextFile> Load();
  Status Save() const;
  // "config" with the names that there are.
  Result<Json> Find(const std::string& name) const;
};

// What a user may say about the server.
struct ServerOptions {
  std::string server_url;
  std::string host;
  std::string port;
  std::string context;
  std::string session_token;
  bool gateway = false;
  bool logs_in = false;  // has no token yet, and that is no reason to warn

  // Whether an address or a context was named.
  bool named() const {
    return !server_url.empty() || !context.empty() || (!host.empty() && !port.empty());
  }
};
// Declares them; `options` outlives the parser.
void AddServerOptions(Parser& parser, ServerOptions* options);

struct Server {
  std::unique_ptr<HttpClient> client;
  std::string context;           // empty: none
  std::string runtime = "auto";  // of the context
};

// The server that is meant, with the default address when nothing says otherwise. Nothing is sent.
Result<Server> FindServer(const ServerOptions& options, Console& console);
// The same with the token of the routes for operators of the server, when there is one.
Result<Server> FindServerForCare(const ServerOptions& options, Console& console);

// For commands that read the data directory when no server is meant: the server when the options
// name one, or the current context is not local; never when a data directory is named.
Result<std::optional<Server>> FindServerInsteadOf(const std::string& data,
                                                  const ServerOptions& options, Console& console);

// "http://host:1", or why it is none ("usage").
Result<std::string> CheckUrl(std::string_view url);
// local, distributed or auto, or "usage".
Result<std::string> CheckRuntime(std::string_view runtime);

}  // namespace noetl::cli
