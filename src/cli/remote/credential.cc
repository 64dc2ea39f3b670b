// `noetl credential` and the older `noetl get credential`: secrets that a server keeps.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/json_io.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/remote/register.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace noetl::cli {
namespace {

constexpr std::int64_t kListed = 1'000;

struct Options {
  std::shared_ptr<ServerOptions> server;
  std::string name;
  std::string type;
  std::string text;  // to look for
  std::string file;
  PayloadOptions data;
  std::string description;
  std::vector<std::string> tags;
  bool no_data = false;
  bool include_data = true;
  Output output = Output::kTable;
};

std::string TimeOf(const Json& time) { return TimeText(ParseTime(time.AsString()).value_or(0)); }

Status List(const Options& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  std::string path = fmt::format("/credentials?limit={}", kListed);
  if (!options.type.empty()) path += "&type=" + UrlPart(options.type);
  if (!options.text.empty()) path += "&q=" + UrlPart(options.text);
  NOETL_ASSIGN(const Json answer, server.client->Get(path));
  if (options.output != Output::kTable) {
    PrintDocument(answer, options.output, console);
    return {};
  }
  if (answer["items"].empty()) {
    console.Err("no credentials\n");
    return {};
  }
  Table table(
      {{"NAME"}, {"TYPE"}, {"UPDATED"}, {"TAGS", false, true}, {"DESCRIPTION", false, true}});
  for (const Json& item : answer["items"].items()) {
    std::vector<std::string> tags;
    for (const Json& tag : item["tags"].items()) tags.push_back(tag.ToString());
    table.Add({item["name"].ToString(), item["type"].ToString(), TimeOf(item["updated_at"]),
               fmt::format("{}", fmt::join(tags, ", ")), item["description"].ToString()});
  }
  console.Out(table.Text(console, TerminalWidth(console)));
  return {};
}

Status Get(const Options& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  const bool with_data = options.include_data && !options.no_data;
  NOETL_ASSIGN(const Json credential,
               server.client->Get(fmt::format("/credentials/{}?include_data={}",
                                              UrlPart(options.name), with_data)));
  if (options.output == Output::kTable) console.Out(WriteJsonPretty(credential) + "\n");
  else PrintDocument(credential, options.output, console);
  return {};
}

// From a file as it is, or from options.
Result<Json> CredentialOf(const Options& options) {
  const bool parts = !options.data.set.empty() || !options.data.json.empty();
  if (!options.file.empty()) {
    if (parts) return Fail("usage", "--file has the data: leave --set and --data out");
    NOETL_ASSIGN(const std::string text, ReadInput(options.file));
    auto credential = ReadCredential(text, options.file);
    if (!credential || options.name.empty()) return credential;
    return credential->With("name", options.name);
  }
  if (options.name.empty() || options.type.empty())
    return Fail("usage", "give NAME and --type, or a file with --file");
  PayloadOptions given = options.data;
  if (given.json == "-") {
    given.json.clear();
    given.input = "-";
  }
  NOETL_ASSIGN(const Json data, ReadPayload(given));
  if (data.empty())
    return Fail("usage", "there is no data: --set NAME=VALUE or --data JSON give it");
  return Json::Object({{"name", options.name}, {"type", options.type}, {"data", data}});
}

Status Create(const Options& options, Console& console) {
  NOETL_ASSIGN(Json credential, CredentialOf(options));
  if (!options.description.empty())
    credential = credential.With("description", options.description);
  if (!options.tags.empty()) {
    credential = credential.With(
        "tags", Json::Array(std::vector<Json>(options.tags.begin(), options.tags.end())));
  }
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  NOETL_ASSIGN(const Json answer, server.client->Post("/credentials", credential));
  if (options.output != Output::kTable) PrintDocument(answer, options.output, console);
  else
    console.Out(fmt::format("stored credential {} ({})\n", answer["name"].AsString(),
                            answer["type"].AsString()));
  return {};
}

Status Delete(const Options& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  NOETL_ASSIGN(const Json answer, server.client->Delete("/credentials/" + UrlPart(options.name)));
  if (options.output != Output::kTable) PrintDocument(answer, options.output, console);
  else console.Out(fmt::format("deleted credential {}\n", options.name));
  return {};
}

using Do = Status (*)(const Options&, Console&);

std::shared_ptr<Options> NewOptions(CLI::App& app, const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<Options>();
  options->server = server;
  AddOutputOptions(app, &options->output);
  return options;
}

Action Doing(std::shared_ptr<Options> options, std::string_view name, Do what) {
  return [options = std::move(options), name, what](Console& console) {
    const Status done = what(*options, console);
    return done ? kExitOk : Complain(name, done.error(), console);
  };
}

void AddName(CLI::App& app, Options& options) {
  app.add_option("NAME", options.name, "its name, or its id")->required();
}

Action DeclareGetOne(CLI::App& app, const std::shared_ptr<ServerOptions>& server,
                     std::string_view name) {
  auto options = NewOptions(app, server);
  AddName(app, *options);
  app.add_flag("--no-data", options->no_data, "without the secret itself");
  app.add_option("--include-data", options->include_data, "true or false; the same the other way")
      ->type_name("BOOL");
  return Doing(std::move(options), name, Get);
}

Action DeclareCreate(CLI::App& app, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(app, server);
  app.add_option("NAME", options->name, "its name; one that exists is replaced");
  app.add_option("--type", options->type, "postgres, http, generic ...")->type_name("TYPE");
  app.add_option("--set", options->data.set, "one value of the data; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  app.add_option(
         "--data", options->data.json,
         "the data, a JSON map; - reads it from the input, where no list of processes shows "
         "it")
      ->type_name("JSON");
  app.add_option("-f,--file", options->file, "all of it: JSON or YAML with name, type and data")
      ->type_name("FILE");
  app.add_option("--description", options->description, "what it is for")->type_name("TEXT");
  app.add_option("--tag", options->tags, "may be repeated")
      ->type_name("TAG")
      ->expected(1)
      ->take_all();
  return Doing(std::move(options), "credential create", Create);
}

Action DeclareListing(CLI::App& app, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(app, server);
  app.add_option("--type", options->type, "only this type")->type_name("TYPE");
  app.add_option("--search", options->text, "only with this in the name or description")
      ->type_name("TEXT");
  return Doing(std::move(options), "credential list", List);
}

Action DeclareDelete(CLI::App& app, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(app, server);
  AddName(app, *options);
  return Doing(std::move(options), "credential delete", Delete);
}

}  // namespace

Action DeclareCredential(CLI::App& app) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(app, server.get());
  return Verbs(app)
      .Add("list", "show what there is, without secrets",
           [&](CLI::App& verb) { return DeclareListing(verb, server); })
      .Add("get", "print one with its secret",
           [&](CLI::App& verb) { return DeclareGetOne(verb, server, "credential get"); })
      .Add("create", "store one, or replace it",
           [&](CLI::App& verb) { return DeclareCreate(verb, server); })
      .Add("delete", "remove one", [&](CLI::App& verb) { return DeclareDelete(verb, server); })
      .Done();
}

Action DeclareGet(CLI::App& app) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(app, server.get());
  return Verbs(app)
      .Add("credential", "print a credential with its secret",
           [&](CLI::App& verb) { return DeclareGetOne(verb, server, "get credential"); })
      .Done();
}

}  // namespace noetl::cli
