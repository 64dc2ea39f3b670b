#include "cli/remote/register.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "playbook/yaml.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

// One file that is to be registered.
struct Item {
  std::string file;
  bool credential = false;
};

struct Outcome {
  Json line;  // of the document
  int exit = kExitOk;
};

// A map from JSON or YAML; null: it is none.
Json ReadMap(std::string_view text) {
  if (auto parsed = ParseJson(text)) return parsed->is_object() ? *std::move(parsed) : Json();
  playbook::Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(text, &root, &diagnostics) || !root.is_map()) return Json();
  return playbook::NodeToJson(root);
}

bool SaysCredential(std::string_view text) {
  const Json map = ReadMap(text);
  if (ToLower(map["kind"].AsString()) == "credential") return true;
  return map["name"].is_string() && map["type"].is_string() && map.Has("data") &&
         !map.Has("workflow");
}

// Credentials of a directory: JSON files with a type.
Status AddCredentials(const std::string& directory, std::vector<Item>* items) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator i(directory, error), end; !error && i != end;
       i.increment(error)) {
    if (i->path().extension() != ".json" || !i->is_regular_file()) continue;
    NOETL_ASSIGN(const std::string text, ReadInput(i->path().string()));
    if (ReadMap(text)["type"].is_string()) found.push_back(i->path().string());
  }
  if (error) return Fail("file", fmt::format("{}: {}", directory, error.message()));
  if (found.empty())
    return Fail("file",
                fmt::format("{}: no credential (*.json with a type) is below it", directory));
  std::ranges::sort(found);
  for (std::string& file : found) items->push_back({std::move(file), true});
  return {};
}

Result<std::vector<Item>> FindItems(const RegisterOptions& options) {
  std::vector<Item> items;
  for (const std::string& path : options.paths) {
    std::error_code error;
    if (path != "-" && fs::is_directory(path, error)) {
      if (options.kind == Registered::kCredential) {
        NOETL_TRY(AddCredentials(path, &items));
        continue;
      }
      NOETL_ASSIGN(const std::vector<std::string> files, FindPlaybooks({path}));
      for (const std::string& file : files) items.push_back({file, false});
      continue;
    }
    items.push_back({path, options.kind == Registered::kCredential});
  }
  return items;
}

// What the server found wrong, in the form of our own diagnostics.
std::string ServerFindings(const HttpAnswer& answer, const std::string& file) {
  std::string text;
  for (const Json& finding : answer.body["details"].items()) {
    text +=
        fmt::format("{}:{}:{}: {} {}\n", file, finding["line"].AsInt(), finding["column"].AsInt(),
                    finding["code"].AsString(), finding["message"].AsString());
    if (const std::string hint = finding["hint"].ToString(); !hint.empty())
      text += fmt::format("  hint: {}\n", hint);
  }
  return text;
}

Json FailedLine(const std::string& file, const std::string& error) {
  return Json::Object({{"file", file}, {"status", "failed"}, {"error", error}});
}

// Our own check first: it shows the line with the place.
bool IsValidPlaybook(const std::string& file, const std::string& text, Console& console,
                     std::string* first_error) {
  const playbook::Loaded loaded = playbook::Load(text);
  if (loaded.ok()) return true;
  for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
    if (!diagnostic.is_error()) continue;
    console.Err(ShowDiagnostic(diagnostic, file, text, console));
    if (first_error->empty())
      *first_error = fmt::format("{}:{}:{}: {} {}", file, diagnostic.position.line,
                                 diagnostic.position.column, diagnostic.code, diagnostic.message);
  }
  return false;
}

// Errors here end the whole command: the server is gone, or wants a login.
Result<Outcome> Send(HttpClient& client, const std::string& file, const std::string& route,
                     const Json& body, Console& console) {
  NOETL_ASSIGN(const HttpAnswer answer, client.Call("POST", route, body));
  if (answer.ok()) return Outcome{.line = Json::Object({{"file", file}}).Merge(answer.body)};
  const Error error = client.Refusal(answer);
  if (error.code == "session_expired") return std::unexpected(error);
  const std::string findings = ServerFindings(answer, file);
  console.Err(findings.empty() ? fmt::format("{}: {}\n", file, error.message) : findings);
  return Outcome{FailedLine(file, error.message), findings.empty() ? kExitFailed : kExitInvalid};
}

Result<Outcome> RegisterOne(HttpClient& client, const Item& item, Registered kind,
                            Console& console) {
  const auto text = ReadInput(item.file);
  if (!text) {
    console.Err(text.error().message + "\n");
    return Outcome{FailedLine(item.file, text.error().message), kExitInvalid};
  }
  if (item.credential || (kind == Registered::kAny && SaysCredential(*text))) {
    const auto credential = ReadCredential(*text, item.file);
    if (credential) return Send(client, item.file, "/credentials", *credential, console);
    console.Err(credential.error().message + "\n");
    return Outcome{FailedLine(item.file, credential.error().message), kExitInvalid};
  }
  std::string first_error;
  const std::string type = ReadMap(*text)["kind"].ToString();
  const bool other_kind = !type.empty() && ToLower(type) != "playbook";
  if (!other_kind && !IsValidPlaybook(item.file, *text, console, &first_error))
    return Outcome{FailedLine(item.file, first_error), kExitInvalid};
  return Send(client, item.file, "/catalog/register",
              Json::Object({{"content", *text}, {"resource_type", other_kind ? type : "Playbook"}}),
              console);
}

std::string LineOf(const Json& line, const Console& console) {
  const std::string file = line["file"].ToString();
  if (line["status"].AsString() == "failed")
    return fmt::format("{} {}\n", console.Paint(Style::kRed, "failed    "), file);
  const bool same = line["status"].AsString() == "unchanged";
  const std::string what = line.Has("path") ? fmt::format("{} version {}", line["path"].AsString(),
                                                          line["version"].AsInt())
                                            : fmt::format("credential {}", line["name"].AsString());
  return fmt::format("{} {} ({})\n",
                     same ? "unchanged " : console.Paint(Style::kGreen, "registered"), what, file);
}

}  // namespace

Result<Json> ReadCredential(std::string_view text, std::string_view source) {
  Json map = ReadMap(text);
  if (!map.is_object())
    return Fail("usage", fmt::format("{}: a credential is a JSON or YAML map", source));
  // The form of a document of the catalog: {kind, metadata: {name}, spec: {type, data}}.
  if (map["metadata"].is_object() && !map.Has("name"))
    map = map["metadata"].Merge(map["spec"].is_object() ? map["spec"] : map.Without("metadata"));
  for (const char* member : {"name", "type", "data"}) {
    if (!map.Has(member)) {
      return Fail("usage",
                  fmt::format("{}: a credential needs name, type and data; '{}' is missing", source,
                              member));
    }
  }
  return map;
}

int RegisterFiles(HttpClient& client, const RegisterOptions& options, Console& console) {
  const auto items = FindItems(options);
  if (!items) {
    console.Err(fmt::format("noetl register: {}\n", items.error().message));
    return kExitInvalid;
  }
  const bool many = items->size() != 1 || items->front().file != options.paths.front();
  const bool text = options.output == Output::kTable;
  if (many && text) console.Out(fmt::format("Found {} file(s)\n", items->size()));
  std::vector<Json> lines;
  std::size_t failed = 0;
  int code = kExitOk;
  for (const Item& item : *items) {
    const auto outcome = RegisterOne(client, item, options.kind, console);
    if (!outcome) return Complain("register", outcome.error(), console);
    if (outcome->exit != kExitOk) ++failed;
    // A refusal of the server tells more than a file that was wrong before.
    if (outcome->exit == kExitFailed || code == kExitOk) code = outcome->exit;
    if (text) console.Out(LineOf(outcome->line, console));
    lines.push_back(outcome->line);
  }
  const std::size_t good = lines.size() - failed;
  if (!text) {
    PrintDocument(
        Json::Object(
            {{"succeeded", good}, {"failed", failed}, {"results", Json::Array(std::move(lines))}}),
        options.output, console);
  } else if (many) {
    console.Out(fmt::format("Registration complete: {} succeeded, {} failed\n", good, failed));
  }
  return code;
}

Action DeclareRegister(Parser& parser) {
  struct Options {
    RegisterOptions what;
    std::vector<std::string> files;
    std::vector<std::string> directories;
    ServerOptions server;
  };
  auto options = std::make_shared<Options>();
  parser.Add("PATH", &options->what.paths,
             "playbooks, credentials (JSON with name, type, data), directories; `playbook` or "
             "`credential` before them says which");
  parser.Add("-f,--file", &options->files, "the same as PATH").Type("FILE");
  parser.Add("-d,--directory", &options->directories, "the same as PATH").Type("DIR");
  AddOutputOptions(parser, &options->what.output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    RegisterOptions what = options->what;
    if (!what.paths.empty() && (what.paths[0] == "playbook" || what.paths[0] == "credential")) {
      what.kind = what.paths[0] == "playbook" ? Registered::kPlaybook : Registered::kCredential;
      what.paths.erase(what.paths.begin());
    }
    for (const auto* more : {&options->files, &options->directories})
      what.paths.insert(what.paths.end(), more->begin(), more->end());
    if (what.paths.empty())
      return Complain("register", {"usage", "give a file or a directory"}, console);
    const auto server = FindServer(options->server, console);
    if (!server) return Complain("register", server.error(), console);
    return RegisterFiles(*server->client, what, console);
  };
}

}  // namespace noetl::cli
