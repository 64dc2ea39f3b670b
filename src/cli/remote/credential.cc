// `noetl credential` and the older `noetl get credential`: secrets that a server keeps.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/parser.h"
#include "cli/remote/register.h"
#include "cli/table.h"

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
  if (!options.type.empty()) path += "&type=" + PercentEncode(options.type);
  if (!options.text.empty()) path += "&q=" + PercentEncode(options.text);
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
                                              PercentEncode(options.name), with_data)));
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
  NOETL_ASSIGN(const Json answer,
               server.client->Delete("/credentials/" + PercentEncode(options.name)));
  if (options.output != Output::kTable) PrintDocument(answer, options.output, console);
  else console.Out(fmt::format("deleted credential {}\n", options.name));
  return {};
}

using Do = Status (*)(const Options&, Console&);

std::shared_ptr<Options> NewOptions(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<Options>();
  options->server = server;
  AddOutputOptions(parser, &options->output);
  return options;
}

Action Doing(std::shared_ptr<Options> options, std::string_view name, Do what) {
  return [options = std::move(options), name, what](Console& console) {
    const Status done = what(*options, console);
    return done ? kExitOk : Complain(name, done.error(), console);
  };
}

void AddName(Parser& parser, Options& options) {
  parser.Add("NAME", &options.name, "its name, or its id").Required();
}

Action DeclareGetOne(Parser& parser, const std::shared_ptr<ServerOptions>& server,
                     std::string_view name) {
  auto options = NewOptions(parser, server);
  AddName(parser, *options);
  parser.Flag("--no-data", &options->no_data, "without the secret itself");
  parser.Add("--include-data", &options->include_data, "true or false; the same the other way")
      .Type("BOOL");
  return Doing(std::move(options), name, Get);
}

Action DeclareCreate(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(parser, server);
  parser.Add("NAME", &options->name, "its name; one that exists is replaced");
  parser.Add("--type", &options->type, "postgres, http, generic ...").Type("TYPE");
  parser.Add("--set", &options->data.set, "one value of the data; may be repeated")
      .Type("NAME=VALUE")
      .Repeated();
  parser
      .Add("--data", &options->data.json,
           "the data, a JSON map; - reads it from the input, where no list of processes shows "
           "it")
      .Type("JSON");
  parser.Add("-f,--file", &options->file, "all of it: JSON or YAML with name, type and data")
      .Type("FILE");
  parser.Add("--description", &options->description, "what it is for").Type("TEXT");
  parser.Add("--tag", &options->tags, "may be repeated").Type("TAG").Repeated();
  return Doing(std::move(options), "credential create", Create);
}

Action DeclareListing(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(parser, server);
  parser.Add("--type", &options->type, "only this type").Type("TYPE");
  parser.Add("--search", &options->text, "only with this in the name or description").Type("TEXT");
  return Doing(std::move(options), "credential list", List);
}

Action DeclareDelete(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = NewOptions(parser, server);
  AddName(parser, *options);
  return Doing(std::move(options), "credential delete", Delete);
}

}  // namespace

Action DeclareCredential(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(parser, server.get());
  return parser
      .Verb("list", "show what there is, without secrets",
            [&](Parser& verb) { return DeclareListing(verb, server); })
      .Verb("get", "print one with its secret",
            [&](Parser& verb) { return DeclareGetOne(verb, server, "credential get"); })
      .Verb("create", "store one, or replace it",
            [&](Parser& verb) { return DeclareCreate(verb, server); })
      .Verb("delete", "remove one", [&](Parser& verb) { return DeclareDelete(verb, server); })
      .VerbAction();
}

Action DeclareGet(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(parser, server.get());
  return parser
      .Verb("credential", "print a credential with its secret",
            [&](Parser& verb) { return DeclareGetOne(verb, server, "get credential"); })
      .VerbAction();
}

}  // namespace noetl::cli
