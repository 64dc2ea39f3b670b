// `noetl context` and `noetl auth`: which servers there are, and being logged in at them.

#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

// A year; a longer session is a mistake.
constexpr std::int64_t kSessionHoursMax = 365 * 24;

// Members of a context that are kept for logins elsewhere.
struct LoginField {
  const char* option;
  std::string_view member;
  const char* meaning;
};
constexpr std::array<LoginField, 5> kLoginFields = {{
    {"--auth0-domain", kContextDomain, "domain of the login provider"},
    {"--auth0-client-id", "gateway_auth0_client_id", "client id at the provider"},
    {"--auth0-redirect-uri", "gateway_auth0_redirect_uri", "where the provider sends the user"},
    {"--auth0-audience", "gateway_auth0_audience", "audience; an empty text removes it"},
    {"--auth0-client-secret", "gateway_auth0_client_secret", "secret; an empty text removes it"},
}};

struct ContextOptions {
  std::string name;
  std::string server_url;
  std::string runtime;
  std::array<std::string, kLoginFields.size()> login;
  std::array<Option, kLoginFields.size()> login_given{};
  bool set_current = false;
  Output output = Output::kTable;
};

// ---- context

// What was given replaces what is there; the rest stays, the token too.
Json Updated(const ContextOptions& options, Json context) {
  if (!options.server_url.empty()) context = context.With(kContextUrl, options.server_url);
  if (!options.runtime.empty()) context = context.With(kContextRuntime, options.runtime);
  if (!context.Has(kContextRuntime)) context = context.With(kContextRuntime, "auto");
  if (!context.Has(kContextToken)) context = context.With(kContextToken, Json());
  for (std::size_t i = 0; i < kLoginFields.size(); ++i) {
    const bool given = options.login_given[i].given();
    const std::string_view member = kLoginFields[i].member;
    if (given)
      context = context.With(member, options.login[i].empty() ? Json() : Json(options.login[i]));
    else if (!context.Has(member)) context = context.With(member, Json());
  }
  return context;
}

Status SaveContext(const ContextOptions& options, bool must_exist, Console& console) {
  if (Trim(options.name).empty()) return Fail("usage", "a context needs a name");
  if (!options.server_url.empty()) NOETL_TRY(CheckUrl(options.server_url));
  if (!options.runtime.empty()) NOETL_TRY(CheckRuntime(options.runtime));
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  const auto known = file.contexts.find(options.name);
  if (must_exist && known == file.contexts.end()) NOETL_TRY(file.Find(options.name));
  Json context = Updated(options, known == file.contexts.end() ? Json::Object() : known->second);
  const bool is_new = known == file.contexts.end();
  const std::string url = context[kContextUrl].ToString();
  file.contexts[options.name] = std::move(context);
  if (options.set_current || file.current.empty()) file.current = options.name;
  NOETL_TRY(file.Save());
  console.Out(fmt::format("{} context '{}': {}{}\n", is_new ? "added" : "changed", options.name,
                          url, file.current == options.name ? " (current)" : ""));
  return {};
}

// What a gateway tells of its login, in one of the shapes that there are: {"auth": {"auth0_domain"}},
// {"auth": {"domain"}}, {"auth": {"auth0": {"domain"}}}.
Json LoginOf(const Json& contract, std::string_view member) {
  constexpr std::string_view kPrefix = "gateway_";
  const std::string_view with_provider = member.substr(kPrefix.size());  // auth0_domain
  const std::string_view alone = with_provider.substr(with_provider.find('_') + 1);
  const Json& login = contract["auth"];
  for (const Json* value : {&login[with_provider], &login["auth0"][alone], &login[alone]}) {
    if (value->is_string() && !value->AsString().empty()) return *value;
  }
  return Json();
}

// `init`: a context for a gateway, with what it tells of its login.
Status InitContext(const ContextOptions& options, Console& console) {
  if (Trim(options.name).empty()) return Fail("usage", "a context needs a name");
  NOETL_ASSIGN(const std::string url, CheckUrl(options.server_url));
  if (!options.runtime.empty()) NOETL_TRY(CheckRuntime(options.runtime));
  NOETL_ASSIGN(const Server server, FindServer({.server_url = url, .logs_in = true}, console));
  auto contract = server.client->GetAbsolute("/api/runtime/contract");
  const bool silent = !contract && contract.error().code == "http_404";
  if (!contract && !silent) return std::unexpected(std::move(contract).error());
  Json context =
      Json::Object({{kContextUrl, url},
                    {kContextRuntime, options.runtime.empty() ? "distributed" : options.runtime},
                    {kContextToken, Json()}});
  for (const LoginField& field : kLoginFields)
    context = context.With(field.member, silent ? Json() : LoginOf(*contract, field.member));
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  const std::string domain = context[kContextDomain].ToString();
  file.contexts[options.name] = std::move(context);
  if (options.set_current || file.current.empty()) file.current = options.name;
  NOETL_TRY(file.Save());
  console.Out(fmt::format("added context '{}': {}{}\n", options.name, url,
                          file.current == options.name ? " (current)" : ""));
  console.Out(domain.empty()
                  ? "it tells of no login; `noetl auth login --token -` takes its token\n"
                  : fmt::format("login at {}: noetl auth login --auth0 TOKEN --context {}\n",
                                domain, options.name));
  return {};
}

Json ContextJson(const std::string& name, const Json& context, bool current) {
  return Json::Object({{"name", name},
                       {"server_url", context[kContextUrl]},
                       {"runtime", context[kContextRuntime]},
                       {"auth0_domain", context[kContextDomain]},
                       {"token", context[kContextToken].is_string() ? Json("cached") : Json()},
                       {"current", current}});
}

Status ListContexts(const ContextOptions& options, Console& console) {
  NOETL_ASSIGN(const ContextFile file, ContextFile::Load());
  if (options.output != Output::kTable) {
    std::vector<Json> list;
    for (const auto& [name, context] : file.contexts)
      list.push_back(ContextJson(name, context, name == file.current));
    PrintDocument(Json::Array(std::move(list)), options.output, console);
    return {};
  }
  if (file.contexts.empty()) {
    console.Err("no contexts; `noetl context add NAME --server-url URL` makes one\n");
    return {};
  }
  Table table(
      {{""}, {"NAME"}, {"SERVER URL", false, true}, {"RUNTIME"}, {"AUTH0 DOMAIN"}, {"TOKEN"}});
  for (const auto& [name, context] : file.contexts) {
    const std::string domain = context[kContextDomain].ToString();
    table.Add({name == file.current ? "*" : " ", name, context[kContextUrl].ToString(),
               context[kContextRuntime].ToString(), domain.empty() ? "-" : domain,
               context[kContextToken].is_string() ? "cached" : "-"});
  }
  console.Out(table.Text(console, TerminalWidth(console)));
  return {};
}

Status UseContext(const ContextOptions& options, Console& console) {
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  NOETL_ASSIGN(const Json context, file.Find(options.name));
  file.current = options.name;
  NOETL_TRY(file.Save());
  console.Out(fmt::format("the current context is '{}': {}\n", options.name,
                          context[kContextUrl].AsString()));
  return {};
}

Status ShowCurrent(const ContextOptions& options, Console& console) {
  NOETL_ASSIGN(const ContextFile file, ContextFile::Load());
  if (file.current.empty())
    return Fail("config", "there is no current context; `noetl context use NAME` chooses one");
  NOETL_ASSIGN(const Json context, file.Find(file.current));
  if (options.output != Output::kTable) {
    PrintDocument(ContextJson(file.current, context, true), options.output, console);
    return {};
  }
  console.Out(fmt::format("{}: {}, runtime {}\n", file.current, context[kContextUrl].AsString(),
                          context[kContextRuntime].AsString()));
  return {};
}

Status SetRuntime(const ContextOptions& options, Console& console) {
  NOETL_TRY(CheckRuntime(options.runtime));
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  if (file.current.empty())
    return Fail("config", "there is no current context; `noetl context use NAME` chooses one");
  NOETL_ASSIGN(const Json context, file.Find(file.current));
  file.contexts[file.current] = context.With(kContextRuntime, options.runtime);
  NOETL_TRY(file.Save());
  console.Out(fmt::format("context '{}' has runtime {}\n", file.current, options.runtime));
  return {};
}

Status DeleteContext(const ContextOptions& options, Console& console) {
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  NOETL_TRY(file.Find(options.name));
  file.contexts.erase(options.name);
  if (file.current == options.name) file.current.clear();
  NOETL_TRY(file.Save());
  console.Out(fmt::format("removed context '{}'\n", options.name));
  return {};
}

using Do = Status (*)(const ContextOptions&, Console&);

Action Doing(std::shared_ptr<ContextOptions> options, Do what) {
  return [options = std::move(options), what](Console& console) {
    const Status done = what(*options, console);
    return done ? kExitOk : Complain("context", done.error(), console);
  };
}

Option AddName(Parser& parser, ContextOptions& options) {
  return parser.Add("NAME", &options.name, "the name of the context").Required();
}

// `add` and `update`.
Action DeclareSave(Parser& parser, bool is_new) {
  auto options = std::make_shared<ContextOptions>();
  AddName(parser, *options);
  parser.Add("--server-url", &options->server_url, "the address of the server")
      .Type("URL")
      .Required(is_new);
  parser.Add("--runtime", &options->runtime, "where `run` runs: local, distributed or auto")
      .Type("WHERE");
  for (std::size_t i = 0; i < kLoginFields.size(); ++i) {
    options->login_given[i] =
        parser.Add(kLoginFields[i].option, &options->login[i], kLoginFields[i].meaning);
  }
  parser.Flag("--set-current", &options->set_current, "and make it the current one");
  return Doing(options, is_new ? Do([](const ContextOptions& given, Console& console) {
                 return SaveContext(given, false, console);
               })
                               : Do([](const ContextOptions& given, Console& console) {
                                   return SaveContext(given, true, console);
                                 }));
}

Action DeclareInit(Parser& parser) {
  auto options = std::make_shared<ContextOptions>();
  AddName(parser, *options);
  parser.Add("--from-gateway", &options->server_url, "the address of the gateway, or of a server")
      .Type("URL")
      .Required();
  parser.Add("--runtime", &options->runtime, "where `run` runs; else distributed").Type("WHERE");
  parser.Flag("--set-current", &options->set_current, "and make it the current one");
  return Doing(std::move(options), InitContext);
}

Action DeclareNamed(Parser& parser, Do what) {
  auto options = std::make_shared<ContextOptions>();
  AddName(parser, *options);
  return Doing(std::move(options), what);
}

Action DeclareShown(Parser& parser, Do what) {
  auto options = std::make_shared<ContextOptions>();
  AddOutputOptions(parser, &options->output);
  return Doing(std::move(options), what);
}

Action DeclareRuntime(Parser& parser) {
  auto options = std::make_shared<ContextOptions>();
  parser.Add("WHERE", &options->runtime, "local, distributed or auto").Required();
  return Doing(std::move(options), SetRuntime);
}

// ---- auth

struct LoginOptions {
  std::string token;
  std::shared_ptr<ServerOptions> server;
  std::string domain;      // of the login provider; empty: that of the context
  std::int64_t hours = 0;  // that the session lasts; 0: as the server likes
  bool no_save = false;
  Output output = Output::kTable;
};

// An address that is not that of the context: the token would get into the wrong one.
bool ElsewhereThanContext(const ServerOptions& server) {
  return !server.server_url.empty() || !server.host.empty();
}

// Enough to recognise it, too little to use it.
std::string Masked(const std::string& token) {
  constexpr std::size_t kHead = 6;
  constexpr std::size_t kTail = 4;
  if (token.size() <= 2 * (kHead + kTail)) return "***";
  return fmt::format("{}...{}", token.substr(0, kHead), token.substr(token.size() - kTail));
}

Result<std::string> TokenOf(const LoginOptions& options) {
  if (options.token != "-") return options.token;
  NOETL_ASSIGN(const std::string text, ReadInput("-"));
  return std::string(Trim(text));
}

// The name of the context that got the token; empty: there is none.
Result<std::string> SaveToken(const LoginOptions& options, const Json& token) {
  NOETL_ASSIGN(ContextFile file, ContextFile::Load());
  const std::string name = options.server->context.empty() ? file.current : options.server->context;
  if (name.empty()) return name;
  NOETL_ASSIGN(const Json context, file.Find(name));
  file.contexts[name] = context.With(kContextToken, token);
  NOETL_TRY(file.Save());
  return name;
}

// What is sent: a server looks at the token, a gateway also at the domain of its provider.
Result<Json> LoginRequest(const LoginOptions& options, const std::string& token,
                          const std::string& context_name) {
  Json request = Json::Object({{"token", token}, {"auth0_token", token}});
  if (options.hours > 0) request = request.With("session_duration_hours", options.hours);
  std::string domain = options.domain;
  if (domain.empty() && !context_name.empty() && !ElsewhereThanContext(*options.server)) {
    NOETL_ASSIGN(const ContextFile file, ContextFile::Load());
    NOETL_ASSIGN(const Json context, file.Find(context_name));
    domain = context[kContextDomain].ToString();
  }
  return domain.empty() ? request : request.With("auth0_domain", domain);
}

Status Login(const LoginOptions& options, Console& console) {
  NOETL_ASSIGN(std::string token, TokenOf(options));
  const crypto::WipeAtEnd wipe(token);
  if (token.empty())
    return Fail("usage", "--token: there is no token; --token - reads it from the input");
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  NOETL_ASSIGN(const Json request, LoginRequest(options, token, server.context));
  NOETL_ASSIGN(const Json answer, server.client->PostAbsolute("/api/auth/login", request));
  const std::string session = answer["session_token"].ToString();
  if (session.empty()) {
    const std::string reason = answer["data"]["message"].ToString();
    return Fail("session_expired", reason.empty() ? "login refused" : reason);
  }
  std::string saved;
  if (!options.no_save && !ElsewhereThanContext(*options.server)) {
    NOETL_ASSIGN(saved, SaveToken(options, session));
  }
  if (options.output != Output::kTable) {
    PrintDocument(answer, options.output, console);
    return {};
  }
  console.Out(fmt::format("logged in at {} as {}, token {}\n", server.client->base_url(),
                          answer["user"]["email"].AsString(), Masked(session)));
  if (!saved.empty()) console.Out(fmt::format("saved in context '{}'\n", saved));
  else console.Out(fmt::format("export NOETL_SESSION_TOKEN={}\n", session));
  return {};
}

Status Logout(const LoginOptions& options, Console& console) {
  NOETL_ASSIGN(const std::string name, SaveToken(options, Json()));
  if (name.empty()) return Fail("config", "there is no current context: --context NAME names one");
  console.Out(fmt::format("the token of context '{}' is forgotten\n", name));
  return {};
}

Action DeclareLogin(Parser& parser, const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<LoginOptions>();
  options->server = server;
  parser
      .Add("--token,--auth0-token,--auth0", &options->token,
           "the API token of the server, or that of its login provider; - reads it from the "
           "input")
      .Type("TOKEN")
      .Required();
  parser.Add("--auth0-domain", &options->domain, "of the login provider; else that of the context")
      .Type("NAME");
  parser.Add("--session-duration-hours", &options->hours, "how long the session is to last")
      .Range(1, kSessionHoursMax)
      .Type("N");
  parser.Flag("--no-save", &options->no_save, "print the session token, do not keep it");
  AddOutputOptions(parser, &options->output);
  return [options](Console& console) {
    const Status done = Login(*options, console);
    return done ? kExitOk : Complain("auth login", done.error(), console);
  };
}

Action DeclareLogout(const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<LoginOptions>();
  options->server = server;
  return [options](Console& console) {
    const Status done = Logout(*options, console);
    return done ? kExitOk : Complain("auth logout", done.error(), console);
  };
}

}  // namespace

Action DeclareContext(Parser& parser) {
  return parser
      .Verb("add", "make a context, or change one",
            [](Parser& verb) { return DeclareSave(verb, true); })
      .Verb("init", "make a context with what a gateway tells of its login", DeclareInit)
      .Verb("bootstrap", "the same as init", DeclareInit)
      .Verb("update", "change a context", [](Parser& verb) { return DeclareSave(verb, false); })
      .Verb("list", "show all", [](Parser& verb) { return DeclareShown(verb, ListContexts); })
      .Verb("use", "make one the current one",
            [](Parser& verb) { return DeclareNamed(verb, UseContext); })
      .Verb("current", "show the current one",
            [](Parser& verb) { return DeclareShown(verb, ShowCurrent); })
      .Verb("set-runtime", "where `run` runs under the current one", DeclareRuntime)
      .Verb("delete", "remove one", [](Parser& verb) { return DeclareNamed(verb, DeleteContext); })
      .VerbAction();
}

Action DeclareAuth(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  server->logs_in = true;
  AddServerOptions(parser, server.get());
  return parser
      .Verb("login", "open a session and keep its token in the context",
            [&](Parser& verb) { return DeclareLogin(verb, server); })
      .Verb("logout", "forget the token of a context",
            [&](Parser&) { return DeclareLogout(server); })
      .VerbAction();
}

}  // namespace noetl::cli
