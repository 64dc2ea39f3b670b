// `noetl catalog`: the documents of a server and their versions.

#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/remote/register.h"
#include "cli/remote/remote_runs.h"
#include "cli/table.h"
#include "playbook/yaml.h"

namespace noetl::cli {
namespace {

constexpr std::int64_t kShown = 200;
constexpr std::int64_t kShownMax = 100'000;
// The server gives so many at once.
constexpr std::int64_t kPage = 500;

struct Options {
  std::shared_ptr<ServerOptions> server;
  std::string type;
  std::string path;  // may end with @VERSION
  std::int64_t version = 0;
  std::int64_t limit = kShown;
  bool all_versions = false;
  bool archived = false;
  std::vector<std::string> files;
  Output output = Output::kTable;
};

// ---- lists

// Newest first, all pages up to the limit.
Result<std::vector<Json>> ListEntries(HttpClient& client, Json request, std::int64_t limit) {
  std::vector<Json> entries;
  while (std::ssize(entries) < limit) {
    NOETL_ASSIGN(const Json page,
                 client.Post("/catalog/list", request.With("limit", std::min(kPage, limit))));
    for (const Json& entry : page["entries"].items()) {
      if (std::ssize(entries) < limit) entries.push_back(entry);
    }
    if (page["next_cursor"].is_null()) break;
    request = request.With("cursor", page["next_cursor"]);
  }
  return entries;
}

std::string Description(const Json& entry) {
  playbook::Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(entry["content"].AsString(), &root, &diagnostics)) return "";
  const playbook::Node* metadata = root.Find("metadata");
  const playbook::Node* text = metadata ? metadata->Find("description") : nullptr;
  return text && text->is_string() ? text->scalar.ToString() : "";
}

void PrintEntries(const std::vector<Json>& entries, Output output, Console& console) {
  if (output != Output::kTable) {
    PrintDocument(Json::Object({{"entries", Json::Array(entries)}}), output, console);
    return;
  }
  if (entries.empty()) {
    console.Err("no entries\n");
    return;
  }
  Table table({{"PATH", false, true},
               {"VERSION", true},
               {"KIND"},
               {"UPDATED"},
               {"DESCRIPTION", false, true}});
  for (const Json& entry : entries) {
    const bool archived = entry["archived_at"].is_string();
    table.Add({entry["path"].ToString(), std::to_string(entry["version"].AsInt()),
               entry["kind"].ToString(),
               TimeText(ParseTime(entry["created_at"].AsString()).value_or(0)),
               archived ? "(archived) " + Description(entry) : Description(entry)});
  }
  console.Out(table.Text(console, TerminalWidth(console)));
}

Status List(const Options& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  Json request = Json::Object(
      {{"latest_only", !options.all_versions}, {"include_archived", options.archived}});
  if (!options.type.empty()) request = request.With("resource_type", options.type);
  std::string path = options.path;
  const bool prefix = path.ends_with('*');
  while (path.ends_with('*')) path.pop_back();
  if (!path.empty()) request = request.With(prefix ? "path_prefix" : "path", path);
  NOETL_ASSIGN(const std::vector<Json> entries,
               ListEntries(*server.client, request, options.limit));
  PrintEntries(entries, options.output, console);
  if (std::ssize(entries) == options.limit)
    console.Err("... there may be more: --limit N shows them\n");
  return {};
}

Status Versions(const Options& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  const Json request =
      Json::Object({{"path", options.path}, {"include_archived", options.archived}});
  NOETL_ASSIGN(const std::vector<Json> entries, ListEntries(*server.client, request, kShownMax));
  if (entries.empty())
    return Fail("not_found", fmt::format("the catalog of {} has no '{}'", server.client->base_url(),
                                         options.path));
  PrintEntries(entries, options.output, console);
  return {};
}

// ---- one entry

struct Named {
  std::string path;
  std::int64_t version = 0;
};

// "demo/flow@3", or the version by its own option.
Result<Named> NameOf(const Options& options) {
  Named named{.path = options.path, .version = options.version};
  const std::size_t at = options.path.rfind('@');
  if (at == std::string::npos) return named;
  const std::string_view text = std::string_view(options.path).substr(at + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), named.version);
  if (error != std::errc() || end != text.data() + text.size() || named.version < 1)
    return Fail("usage",
                fmt::format("'{}' is not a version; write {}@3", text, options.path.substr(0, at)));
  named.path = options.path.substr(0, at);
  return named;
}

Status Get(const Options& options, Console& console) {
  NOETL_ASSIGN(const Named named, NameOf(options));
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  Json request = Json::Object({{"path", named.path}});
  request = request.With("version", named.version > 0 ? Json(named.version) : Json("latest"));
  NOETL_ASSIGN(const Json entry, server.client->Post("/catalog/resource", request));
  if (options.output != Output::kTable) {
    PrintDocument(entry, options.output, console);
    return {};
  }
  std::string text = entry["content"].ToString();
  if (!text.ends_with('\n')) text += '\n';
  console.Out(text);
  return {};
}

// `delete` and `restore`.
Status Change(const Options& options, const std::string& route, Console& console) {
  NOETL_ASSIGN(const Named named, NameOf(options));
  NOETL_ASSIGN(const Server server, FindServerForCare(*options.server, console));
  Json request = Json::Object({{"path", named.path}});
  if (named.version > 0) request = request.With("version", named.version);
  NOETL_ASSIGN(const Json answer, server.client->Post(route, request));
  if (answer["count"].AsInt() == 0)
    return Fail("not_found",
                fmt::format("nothing of '{}' was changed: it has no such version", named.path));
  if (options.output != Output::kTable) {
    PrintDocument(answer, options.output, console);
    return {};
  }
  for (const Json& entry : answer["deleted"].items()) {
    console.Out(fmt::format("{} {} version {}\n", answer["mode"].AsString(), named.path,
                            entry["version"].AsInt()));
  }
  return {};
}

Status Delete(const Options& options, Console& console) {
  return Change(options, "/catalog/delete", console);
}
Status Restore(const Options& options, Console& console) {
  return Change(options, "/catalog/restore", console);
}

// ---- declarations

using Do = Status (*)(const Options&, Console&);

Action Doing(std::shared_ptr<Options> options, std::string name, Do what) {
  return [options = std::move(options), name = std::move(name), what](Console& console) {
    const Status done = what(*options, console);
    return done ? kExitOk : Complain(name, done.error(), console);
  };
}

Action DeclareListing(Parser& parser, const std::shared_ptr<ServerOptions>& server,
                      const std::string& name) {
  auto options = std::make_shared<Options>();
  options->server = server;
  parser.Add("TYPE", &options->type, "only playbook, subscription, credential ...");
  parser.Add("--path", &options->path, "only this one; a * at its end: all that begin so")
      .Type("PATH");
  parser.Flag("--all-versions", &options->all_versions, "not only the newest of each");
  parser.Flag("--archived", &options->archived, "also what was deleted and can be restored");
  parser.Add("--limit", &options->limit, "so many at most")
      .Range(1, kShownMax)
      .Type("N")
      .ShowDefault();
  AddOutputOptions(parser, &options->output);
  return Doing(std::move(options), name, List);
}

Action DeclareNamed(Parser& parser, const std::shared_ptr<ServerOptions>& server,
                    const std::string& name, Do what) {
  auto options = std::make_shared<Options>();
  options->server = server;
  parser.Add("PATH", &options->path, what == Versions ? "the path" : "PATH or PATH@VERSION")
      .Required();
  if (what != Versions)
    parser.Add("-V,--version", &options->version, "a version").Positive().Type("N");
  else parser.Flag("--archived", &options->archived, "also versions that were deleted");
  AddOutputOptions(parser, &options->output);
  return Doing(std::move(options), name, what);
}

Action DeclareRegistering(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<Options>();
  options->server = server;
  parser.Add("PATH", &options->files, "files and directories").Required();
  AddOutputOptions(parser, &options->output);
  return [options](Console& console) {
    const auto found = FindServer(*options->server, console);
    if (!found) return Complain("catalog register", found.error(), console);
    return RegisterFiles(*found->client, {.paths = options->files, .output = options->output},
                         console);
  };
}

}  // namespace

Action DeclareCatalog(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(parser, server.get());
  const auto named = [&](const char* name, Do what) {
    return [server, name, what](Parser& verb) {
      return DeclareNamed(verb, server, fmt::format("catalog {}", name), what);
    };
  };
  return parser
      .Verb("list", "show the entries",
            [&](Parser& verb) { return DeclareListing(verb, server, "catalog list"); })
      .Verb("get", "print a document", named("get", Get))
      .Verb("versions", "show all versions of a path", named("versions", Versions))
      .Verb("register", "the same as `noetl register`",
            [&](Parser& verb) { return DeclareRegistering(verb, server); })
      .Verb("delete", "remove versions; with runs of theirs they are archived",
            named("delete", Delete))
      .Verb("restore", "bring archived versions back", named("restore", Restore))
      .VerbAction();
}

Action DeclareList(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(parser, server.get());
  return DeclareListing(parser, server, "list");
}

}  // namespace noetl::cli
