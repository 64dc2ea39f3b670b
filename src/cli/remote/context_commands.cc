// `noetl context` and `noetl auth`: which servers there are, and being logged in at them.

#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/crypto.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace noetl::cli {
namespace {

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
  std::array<CLI::Option*, kLoginFields.size()> login_given{};
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
    const bool given = options.login_given[i]->count() > 0;
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

CLI::Option* AddName(CLI::App& app, ContextOptions& options) {
  return app.add_option("NAME", options.name, "the name of the context")->required();
}

// `add` and `update`.
Action DeclareSave(CLI::App& app, bool is_new) {
  auto options = std::make_shared<ContextOptions>();
  AddName(app, *options);
  app.add_option("--server-url", options->server_url, "the address of the server")
      ->type_name("URL")
      ->required(is_new);
  app.add_option("--runtime", options->runtime, "where `run` runs: local, distributed or auto")
      ->type_name("WHERE");
  for (std::size_t i = 0; i < kLoginFields.size(); ++i) {
    options->login_given[i] =
        app.add_option(kLoginFields[i].option, options->login[i], kLoginFields[i].meaning);
  }
  app.add_flag("--set-current", options->set_current, "and make it the current one");
  return Doing(options, is_new ? Do([](const ContextOptions& given, Console& console) {
                 return SaveContext(given, false, console);
               })
                               : Do([](const ContextOptions& given, Console& console) {
                                   return SaveContext(given, true, console);
                                 }));
}

Action DeclareNamed(CLI::App& app, Do what) {
  auto options = std::make_shared<ContextOptions>();
  AddName(app, *options);
  return Doing(std::move(options), what);
}

Action DeclareShown(CLI::App& app, Do what) {
  auto options = std::make_shared<ContextOptions>();
  AddOutputOptions(app, &options->output);
  return Doing(std::move(options), what);
}

Action DeclareRuntime(CLI::App& app) {
  auto options = std::make_shared<ContextOptions>();
  app.add_option("WHERE", options->runtime, "local, distributed or auto")->required();
  return Doing(std::move(options), SetRuntime);
}

// ---- auth

struct LoginOptions {
  std::string token;
  std::shared_ptr<ServerOptions> server;
  bool no_save = false;
  Output output = Output::kTable;
};

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

Status Login(const LoginOptions& options, Console& console) {
  NOETL_ASSIGN(std::string token, TokenOf(options));
  const crypto::WipeAtEnd wipe(token);
  if (token.empty())
    return Fail("usage", "--token: there is no token; --token - reads it from the input");
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  NOETL_ASSIGN(const Json answer,
               server.client->PostAbsolute(
                   "/api/auth/login", Json::Object({{"token", token}, {"auth0_token", token}})));
  const std::string session = answer["session_token"].ToString();
  if (session.empty()) {
    const std::string reason = answer["data"]["message"].ToString();
    return Fail("session_expired", reason.empty() ? "login refused" : reason);
  }
  std::string saved;
  // An address that is not that of the context would put the token into the wrong one.
  const bool elsewhere = !options.server->server_url.empty() || !options.server->host.empty();
  if (!options.no_save && !elsewhere) {
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

Action DeclareLogin(CLI::App& app, const std::shared_ptr<ServerOptions>& server) {
  auto options = std::make_shared<LoginOptions>();
  options->server = server;
  app.add_option("--token,--auth0-token,--auth0", options->token,
                 "the API token of the server, or that of its login provider; - reads it from the "
                 "input")
      ->type_name("TOKEN")
      ->required();
  app.add_flag("--no-save", options->no_save, "print the session token, do not keep it");
  AddOutputOptions(app, &options->output);
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

Action DeclareContext(CLI::App& app) {
  return Verbs(app)
      .Add("add", "make a context, or change one",
           [](CLI::App& verb) { return DeclareSave(verb, true); })
      .Add("update", "change a context", [](CLI::App& verb) { return DeclareSave(verb, false); })
      .Add("list", "show all", [](CLI::App& verb) { return DeclareShown(verb, ListContexts); })
      .Add("use", "make one the current one",
           [](CLI::App& verb) { return DeclareNamed(verb, UseContext); })
      .Add("current", "show the current one",
           [](CLI::App& verb) { return DeclareShown(verb, ShowCurrent); })
      .Add("set-runtime", "where `run` runs under the current one", DeclareRuntime)
      .Add("delete", "remove one", [](CLI::App& verb) { return DeclareNamed(verb, DeleteContext); })
      .Done();
}

Action DeclareAuth(CLI::App& app) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(app, server.get());
  return Verbs(app)
      .Add("login", "open a session and keep its token in the context",
           [&](CLI::App& verb) { return DeclareLogin(verb, server); })
      .Add("logout", "forget the token of a context",
           [&](CLI::App&) { return DeclareLogout(server); })
      .Done();
}

}  // namespace noetl::cli
