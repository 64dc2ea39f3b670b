#include "cli/context.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/text.h"
#include "cli/files.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "cli/table.h"
#include "playbook/yaml.h"

namespace noetl::cli {

namespace {

constexpr std::array<std::string_view, 3> kRuntimes = {"local", "distributed", "auto"};

std::unexpected<Error> FileError(std::string_view path, int code) {
  return Fail("config", fmt::format("{}: {}", path, std::strerror(code)));
}

Result<Json> ReadYaml(const std::string& path) {
  const auto text = ReadInput(path);
  if (!text) return Fail("config", text.error().message);
  if (Trim(*text).empty()) return Json::Object();
  playbook::Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(*text, &root, &diagnostics) || !root.is_map()) {
    return Fail("config", fmt::format("{} is not a file of contexts; `noetl context add` makes one "
                                      "once it is moved away",
                                      path));
  }
  return playbook::NodeToJson(root);
}

// Replaces the file in one step; nobody else can read it, not even for a moment.
Status WritePrivate(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  int failed = 0;
  {
    const Descriptor file(mkstemp(temporary.data()));
    if (!file.is_open()) return FileError(path, errno);
    if (fchmod(file.get(), 0600) != 0) failed = errno;
    if (failed == 0) failed = WriteAll(file, content);
    if (failed == 0 && fsync(file.get()) != 0) failed = errno;
  }
  if (failed == 0 && rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return {};
  unlink(temporary.c_str());
  return FileError(path, failed);
}

bool HasControl(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

// What the context says, then what the options say over it.
struct Choice {
  Server server;
  HttpOptions http;
};

Status TakeContext(const ServerOptions& options, Choice* choice) {
  NOETL_ASSIGN(const ContextFile file, ContextFile::Load());
  const std::string& name = options.context.empty() ? file.current : options.context;
  if (name.empty()) return {};
  NOETL_ASSIGN(const Json context, file.Find(name));
  choice->server.context = name;
  choice->http.base_url = context[kContextUrl].ToString();
  choice->http.token = context[kContextToken].ToString();
  NOETL_ASSIGN(choice->server.runtime, CheckRuntime(context[kContextRuntime].is_string()
                                                        ? context[kContextRuntime].AsString()
                                                        : "auto"));
  return {};
}

Result<Choice> Choose(const ServerOptions& options, const Settings& settings, Console& console) {
  Choice choice;
  NOETL_TRY(TakeContext(options, &choice));
  HttpOptions& http = choice.http;
  if (!options.server_url.empty()) http.base_url = options.server_url;
  else if (!options.host.empty() && !options.port.empty())
    http.base_url = fmt::format("http://{}:{}", options.host, options.port);
  // Another address than that of the context does not get its token.
  const bool elsewhere = !options.server_url.empty() || !options.host.empty();
  if (elsewhere && options.context.empty()) http.token.clear();
  if (http.base_url.empty()) http.base_url = kDefaultServer;
  NOETL_ASSIGN(http.base_url, CheckUrl(http.base_url));
  const std::string& from_environment = settings.Text("NOETL_SESSION_TOKEN");
  if (!from_environment.empty()) http.token = from_environment;
  if (!options.session_token.empty()) http.token = options.session_token;
  if (HasControl(http.token)) return Fail("usage", "the token has a line break or another control");
  http.authorities = settings.Text("NOETL_TLS_CA");
  http.certificate = settings.Text("NOETL_TLS_CLIENT_CERT");
  http.key = settings.Text("NOETL_TLS_CLIENT_KEY");
  const bool gateway = options.gateway || settings.Bool("NOETL_USE_GATEWAY") ||
                       http.base_url.find("gateway.") != std::string::npos;
  if (gateway) http.prefix = "/noetl";
  if (gateway && http.token.empty() && !options.logs_in) {
    console.Err(
        "warning: a gateway needs a session and there is no token\n"
        "  `noetl auth login --token TOKEN` logs in; NOETL_SESSION_TOKEN gives a token\n");
  }
  return choice;
}

Result<Server> Find(const ServerOptions& options, bool care, Console& console) {
  const auto settings = LoadSettings({}, console);
  if (!settings) return Fail("settings", "the settings above are wrong");
  NOETL_ASSIGN(Choice choice, Choose(options, *settings, console));
  const std::string& internal = settings->Text("NOETL_INTERNAL_API_TOKEN");
  if (care && !internal.empty() && options.session_token.empty()) choice.http.token = internal;
  choice.server.client = std::make_unique<HttpClient>(std::move(choice.http));
  return std::move(choice.server);
}

}  // namespace

// ---- the file

Result<ContextFile> ContextFile::Load() {
  ContextFile file;
  const char* const home = std::getenv("HOME");
  if (!home || *home == '\0') return file;
  file.path = fmt::format("{}/.noetl/config.yaml", home);
  if (access(file.path.c_str(), F_OK) != 0) return file;
  NOETL_ASSIGN(const Json document, ReadYaml(file.path));
  file.current = document["current_context"].ToString();
  for (const JsonMember& member : document["contexts"].members())
    file.contexts.emplace(member.key(), member.value);
  file.other = document.Without("current_context").Without("contexts");
  return file;
}

Status ContextFile::Save() const {
  if (path.empty()) return Fail("config", "contexts are kept below $HOME, and HOME is not set");
  const std::string directory = path.substr(0, path.rfind('/'));
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return FileError(directory, errno);
  Json::Members members;
  for (const auto& [name, context] : contexts) members.emplace_back(name, context);
  const Json document = Json::Object({{"current_context", current.empty() ? Json() : Json(current)},
                                      {"contexts", Json::Object(std::move(members))}})
                            .Merge(other);
  return WritePrivate(path, WriteYaml(document));
}

Result<Json> ContextFile::Find(const std::string& name) const {
  const auto found = contexts.find(name);
  if (found != contexts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, context] : contexts) names.push_back(known);
  return Fail("config",
              fmt::format("there is no context '{}'; {}", name,
                          names.empty() ? "`noetl context add` makes one"
                                        : fmt::format("there are: {}", fmt::join(names, ", "))));
}

// ---- the server

void AddServerOptions(Parser& parser, ServerOptions* options) {
  const std::string group = "Server";
  parser
      .Add("--server-url", &options->server_url,
           "the server, else the address of the context, else http://localhost:8082")
      .Type("URL")
      .Group(group);
  parser.Add("--host", &options->host, "the same in two parts: http://HOST:PORT").Group(group);
  parser.Add("-p,--port", &options->port, "the other part").Group(group);
  parser.Add("--context", &options->context, "a context, else the current one")
      .Type("NAME")
      .Group(group);
  parser
      .Add("--session-token", &options->session_token,
           "a token, else NOETL_SESSION_TOKEN, else that of the context")
      .Type("TOKEN")
      .Group(group);
  parser.Flag("--gateway", &options->gateway, "the address is that of a gateway").Group(group);
}

Result<Server> FindServer(const ServerOptions& options, Console& console) {
  return Find(options, false, console);
}

Result<Server> FindServerForCare(const ServerOptions& options, Console& console) {
  return Find(options, true, console);
}

Result<std::optional<Server>> FindServerInsteadOf(const std::string& data,
                                                  const ServerOptions& options, Console& console) {
  if (!data.empty() && options.named())
    return Fail("usage", "--data means runs of this machine: give it, or a server, not both");
  if (!data.empty()) return std::nullopt;
  if (!options.named()) {
    NOETL_ASSIGN(const ContextFile file, ContextFile::Load());
    if (file.current.empty()) return std::nullopt;
  }
  NOETL_ASSIGN(Server server, Find(options, false, console));
  if (!options.named() && server.runtime == "local") return std::nullopt;
  return server;
}

Result<std::string> CheckUrl(std::string_view url) {
  const std::string_view text = Trim(url);
  const std::size_t scheme = text.find("://");
  const bool known = text.starts_with("http://") || text.starts_with("https://");
  if (!known || text.size() == scheme + 3 || HasControl(text) ||
      text.find(' ') != std::string_view::npos)
    return Fail("usage",
                fmt::format("'{}' is not the address of a server; write {}", url, kDefaultServer));
  return std::string(text);
}

Result<std::string> CheckRuntime(std::string_view runtime) {
  if (std::ranges::find(kRuntimes, runtime) != kRuntimes.end()) return std::string(runtime);
  return Fail("usage", fmt::format("'{}' is not one of {}", runtime, fmt::join(kRuntimes, ", ")));
}

}  // namespace noetl::cli
