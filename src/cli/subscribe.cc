// `noetl subscribe`: messages of a source become runs, for as long as it runs.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "api/subscription_spec.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/parser.h"
#include "cli/run_watch.h"
#include "cli/subscribe_local.h"
#include "cli/subscribe_server.h"
#include "playbook/yaml.h"
#include "worker/subscription/buffer.h"
#include "worker/subscription/listener.h"
#include "worker/subscription/nats_source.h"
#include "worker/subscription/probe.h"
#include "worker/subscription/pubsub_source.h"
#include "worker/subscription/spec.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

// A server that takes longer does not answer: the message comes again.
constexpr std::int64_t kAnswerMs = 20'000;

struct Options {
  std::string spec;
  std::string dispatch = "server";
  std::string data;
  std::string events;
  std::int64_t messages_max = 0;
  std::string idle;
  ServerOptions server;
};

// ---- the document

struct Document {
  std::string file;  // as it is called in messages
  std::string text;
  bool from_catalog = false;
};

bool IsFileName(const std::string& spec) {
  std::error_code error;
  return spec == "-" || spec.ends_with(".yaml") || spec.ends_with(".yml") ||
         fs::exists(spec, error);
}

Result<Document> FindDocument(const Options& options, HttpClient* client) {
  if (IsFileName(options.spec)) {
    NOETL_ASSIGN(std::string text, ReadInput(options.spec));
    return Document{.file = options.spec, .text = std::move(text)};
  }
  if (!client) {
    return Fail("usage", fmt::format("there is no file '{}'; paths of a catalog need --dispatch "
                                     "server",
                                     options.spec));
  }
  const Json request = Json::Object({{"path", options.spec}, {"version", "latest"}});
  auto entry = client->Post("/catalog/resource", request);
  if (!entry && entry.error().code == "http_404") {
    return Fail("usage", fmt::format("there is no file and no document '{}' in the catalog of {}",
                                     options.spec, client->base_url()));
  }
  if (!entry) return std::unexpected(entry.error());
  return Document{
      .file = options.spec, .text = (*entry)["content"].ToString(), .from_catalog = true};
}

// The node at "spec.headers.directives[2].map", or the last one on the way to it.
const playbook::Node& NodeAt(const playbook::Node& root, std::string_view path) {
  const playbook::Node* node = &root;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    const playbook::Node* next = nullptr;
    if (path.front() == '[') {
      const std::size_t close = std::min(path.find(']'), path.size() - 1);
      std::size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + close, index);
      if (node->is_list() && index < node->items.size()) next = &node->items[index];
      path.remove_prefix(close + 1);
    } else {
      if (node->is_map()) next = node->Find(path.substr(0, end));
      path.remove_prefix(end);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
    if (!next) break;
    node = next;
  }
  return *node;
}

std::vector<playbook::Diagnostic> CheckDocument(const playbook::Node& root,
                                                worker::SubscriptionSpec* spec) {
  std::vector<playbook::Diagnostic> problems;
  const playbook::Node* kind = root.is_map() ? root.Find("kind") : nullptr;
  if (!kind || ToLower(kind->text) != "subscription") {
    problems.push_back(
        {.code = "E001",
         .path = "kind",
         .position = (kind ? *kind : root).position,
         .message = kind ? fmt::format("this is a '{}', not a Subscription", kind->text)
                         : "this is no document with `kind: Subscription`"});
    return problems;
  }
  problems = api::CheckSubscription(root);
  for (const worker::SpecProblem& problem :
       worker::ReadSubscription(playbook::NodeToJson(root), spec)) {
    const auto told = std::ranges::find(problems, problem.path, &playbook::Diagnostic::path);
    if (told != problems.end()) continue;
    problems.push_back({.code = "E090",
                        .path = problem.path,
                        .position = NodeAt(root, problem.path).position,
                        .message = problem.message});
  }
  return problems;
}

// False: its problems have been told.
bool ReadDocument(const Document& document, worker::SubscriptionSpec* spec, Console& console) {
  playbook::Node root;
  playbook::Diagnostics found;
  std::vector<playbook::Diagnostic> problems;
  if (playbook::ParseYaml(document.text, &root, &found)) problems = CheckDocument(root, spec);
  else problems = found.Take();
  for (const playbook::Diagnostic& problem : problems)
    console.Err(ShowDiagnostic(problem, document.file, document.text, console));
  return problems.empty();
}

// ---- events

// One line of JSON for each.
class EventLines {
 public:
  EventLines(std::string subscription, Console* console)
      : subscription_(std::move(subscription)), console_(console) {}
  ~EventLines() {
    if (file_ >= 0) close(file_);
  }
  EventLines(const EventLines&) = delete;
  EventLines& operator=(const EventLines&) = delete;

  Status OpenFile(const std::string& path) {
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file_ < 0) return Fail("usage", fmt::format("cannot write {}: {}", path, strerror(errno)));
    return {};
  }

  void Write(std::string_view type, const Json& fields) {
    const Json line = Json::Object({{"ts", FormatTime(clock_.NowMicros())},
                                    {"event_type", type},
                                    {"subscription", subscription_}})
                          .Merge(fields);
    const std::string text = WriteJson(line) + "\n";
    if (file_ < 0) return console_->Out(text);
    if (write(file_, text.data(), text.size()) != std::ssize(text) && !std::exchange(lost_, true))
      console_->Err(fmt::format("noetl subscribe: events are lost: {}\n", strerror(errno)));
  }

 private:
  std::string subscription_;
  Console* console_;
  SystemClock clock_;
  int file_ = -1;
  bool lost_ = false;
};

// ---- the source

// The secret of the credential that spec.auth names; null: it names none.
Result<Json> FindCredential(const worker::SubscriptionSpec& spec, HttpClient* client) {
  if (spec.auth.empty()) return Json();
  if (!client) {
    return Fail("usage",
                "spec.auth names a credential of a server; with --dispatch local give spec.url and "
                "the like, or NATS_URL, NATS_USER, NATS_PASSWORD, NATS_TOKEN");
  }
  NOETL_ASSIGN(const Json answer,
               client->Get(fmt::format("/credentials/{}?include_data=true", spec.auth)));
  return answer["data"];
}

std::string FirstText(const Json& data, std::string_view name, std::string_view other) {
  return data[name].is_string() ? data[name].ToString() : data[other].ToString();
}

// From the credential, else the fields of the document, else the environment.
Status FillNats(const Json& credential, const Settings& settings, worker::NatsPlace* place) {
  if (credential.is_object()) {
    const std::string url = FirstText(credential, "url", "nats_url");
    if (!url.empty()) place->url = url;
    place->user = FirstText(credential, "user", "username");
    place->password = credential["password"].ToString();
    place->token = credential["token"].ToString();
  }
  if (place->url.empty()) place->url = settings.Text("NATS_URL");
  if (place->url.empty())
    return Fail("usage", "where is NATS? Give spec.url (nats://10.0.0.5:4222), or NATS_URL");
  if (place->user.empty() && place->token.empty() && !place->url.contains('@')) {
    place->user = settings.Text("NATS_USER");
    place->password = settings.Text("NATS_PASSWORD");
    if (place->user.empty()) place->token = settings.Text("NATS_TOKEN");
  }
  return {};
}

Status FillPubSub(const Json& credential, worker::PubSubPlace* place) {
  if (credential.is_object()) {
    const std::string endpoint = credential["endpoint"].ToString();
    if (!endpoint.empty()) place->endpoint = endpoint;
    place->token = FirstText(credential, "access_token", "token");
  }
  NOETL_TRY(CheckUrl(place->endpoint));
  if (place->endpoint.starts_with("http://")) {
    place->token.clear();  // it would be there for everybody to read
  } else if (place->token.empty()) {
    return Fail("usage", fmt::format("{} needs a token: give spec.auth a credential with "
                                     "access_token, or spec.endpoint an emulator (http://)",
                                     place->endpoint));
  }
  return {};
}

// ---- playbooks of this machine

// Playbooks beside the document are there to be started; one may be named by its file.
Status RegisterNeighbours(const Document& document, Backend& backend,
                          worker::SubscriptionSpec* spec) {
  for (const Neighbour& neighbour : Neighbours(document.file)) {
    NOETL_TRY(backend.Register(neighbour.playbook->path, neighbour.content));
    const std::string name = fs::path(neighbour.file).filename().string();
    if (name == spec->playbook) spec->playbook = neighbour.playbook->path;
  }
  NOETL_ASSIGN(const auto entry, backend.store().FindEntry(spec->playbook, 0));
  if (entry) return {};
  return Fail("usage",
              fmt::format("spec.dispatch.playbook: there is no playbook '{}' in the catalog "
                          "of the data directory, and none beside {}",
                          spec->playbook, document.file));
}

// ---- the command

std::string FolderOf(const std::string& data, const std::string& subscription) {
  std::string name = subscription;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-'; }, '_');
  return fmt::format("{}/subscriptions/{}", data, name);
}

int ExitCodeOf(const Error& error, Console& console) {
  const bool usage = error.code == "usage" || error.code == "invalid" || error.code == "file";
  const int code = Complain("subscribe", error, console);
  if (error.code == "source_unreachable") return kExitUnreachable;
  return usage ? kExitInvalid : code;
}

class Subscribe final {
 public:
  Subscribe(const Options& options, Console& console) : options_(options), console_(console) {}
  int Run();

 private:
  Status Prepare();
  Status OpenDispatch();
  Status OpenSource();
  Status Serve();
  Status End();
  void Summarise();

  const Options& options_;
  Console& console_;
  SystemClock clock_;
  std::unique_ptr<Settings> settings_;
  std::unique_ptr<HttpClient> client_;
  Document document_;
  worker::SubscriptionSpec spec_;
  std::int64_t idle_ms_ = 0;
  std::string folder_;
  std::unique_ptr<EventLines> lines_;
  worker::EventSink events_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<LocalDispatcher> local_;
  std::unique_ptr<ServerDispatcher> server_;
  std::unique_ptr<worker::Source> source_;
  std::string place_;  // of the source, for people
  std::unique_ptr<worker::Buffer> buffer_;
  std::unique_ptr<worker::Listener> listener_;
};

Status Subscribe::Prepare() {
  if (!options_.idle.empty()) {
    const auto idle = ParseDurationMs(options_.idle);
    if (!idle || *idle < 1)
      return Fail("usage",
                  fmt::format("--idle-exit: '{}' is not a duration; write 30s", options_.idle));
    idle_ms_ = *idle;
  }
  if (options_.dispatch == "server") {
    NOETL_ASSIGN(const Server server, FindServer(options_.server, console_));
    HttpOptions http = server.client->options();
    http.answer_ms = kAnswerMs;
    client_ = std::make_unique<HttpClient>(std::move(http));
  } else if (options_.server.named()) {
    return Fail("usage", "--dispatch local means this machine: leave the server away");
  }
  NOETL_ASSIGN(document_, FindDocument(options_, client_.get()));
  return {};
}

Status Subscribe::OpenDispatch() {
  if (!client_) {
    NOETL_ASSIGN(backend_,
                 Backend::Open(DataDirectory(*settings_, options_.data), settings_.get(), nullptr));
    NOETL_TRY(RegisterNeighbours(document_, *backend_, &spec_));
    NOETL_ASSIGN(local_, LocalDispatcher::Open(backend_.get(), folder_));
    return {};
  }
  if (!document_.from_catalog) {
    NOETL_ASSIGN(
        const Json answer,
        client_->Post("/catalog/register", Json::Object({{"content", document_.text},
                                                         {"resource_type", "Subscription"}})));
    if (answer["status"].AsString() != "unchanged") {
      console_.Err(fmt::format("registered {} version {} ({})\n", answer["path"].AsString(),
                               answer["version"].AsInt(), document_.file));
    }
  }
  server_ = std::make_unique<ServerDispatcher>(client_.get(), spec_.path);
  return {};
}

Status Subscribe::OpenSource() {
  NOETL_ASSIGN(const Json credential, FindCredential(spec_, client_.get()));
  if (spec_.source == "pubsub") {
    NOETL_TRY(FillPubSub(credential, &spec_.pubsub));
    NOETL_ASSIGN(source_, worker::PubSubSource::Open(spec_.pubsub, &clock_));
    place_ = fmt::format("{} of {}", spec_.pubsub.subscription, spec_.pubsub.endpoint);
  } else {
    NOETL_TRY(FillNats(credential, *settings_, &spec_.nats));
    NOETL_ASSIGN(auto nats, worker::NatsSource::Open({.place = spec_.nats, .clock = &clock_}));
    if (!nats->notice().empty())
      console_.Err(fmt::format("noetl subscribe: warning: {}\n", nats->notice()));
    source_ = std::move(nats);
    place_ =
        fmt::format("{} of {}", spec_.nats.stream, worker::NatsAddressForPeople(spec_.nats.url));
  }
  if (!spec_.spool.on()) return {};
  NOETL_ASSIGN(buffer_, worker::Buffer::Open(&spec_, &clock_, events_, worker::IsDownstreamThere));
  return {};
}

Status Subscribe::Serve() {
  if (server_) {
    NOETL_TRY(server_->Begin(events_));
  } else {
    events_("subscription.registered", Json::Object({{"state", "REGISTERED"}}));
    events_("subscription.activated", Json::Object({{"state", "ACTIVE"}}));
  }
  console_.Err(fmt::format("{}: listening to {}; Ctrl-C ends it\n", spec_.path, place_));
  worker::Dispatcher* dispatcher = local_.get();
  if (server_) dispatcher = server_.get();
  listener_ = std::make_unique<worker::Listener>(
      worker::ListenerOptions{.spec = &spec_,
                              .source = source_.get(),
                              .dispatcher = dispatcher,
                              .clock = &clock_,
                              .buffer = buffer_.get(),
                              .dead_letters = folder_ + "/dlq",
                              .events = events_,
                              .stop = [] { return StopSignals::Asked(); },
                              .complain =
                                  [this](const std::string& problem) {
                                    console_.Err(fmt::format("noetl subscribe: {}\n", problem));
                                  },
                              .messages_max = options_.messages_max,
                              .idle_ms_max = idle_ms_});
  const Status served = listener_->Run();
  const Status ended = End();
  NOETL_TRY(served);
  return ended;
}

Status Subscribe::End() {
  if (server_) return server_->End(events_);
  events_("subscription.draining", Json::Object({{"state", "DRAINING"}}));
  NOETL_ASSIGN(const std::int64_t open, local_->InFlight(1));
  if (open > 0) {
    console_.Err(fmt::format("waiting for {} (Ctrl-C leaves; `noetl resume` continues)\n",
                             Count(static_cast<std::size_t>(open), "run")));
    NOETL_TRY(local_->WaitForRuns());
  }
  events_("subscription.deactivated", Json::Object({{"state", "DEACTIVATED"}}));
  return {};
}

void Subscribe::Summarise() {
  const worker::Listener::Totals& totals = listener_->totals();
  std::string text = fmt::format("{}: {} received, {} started", spec_.path,
                                 Count(static_cast<std::size_t>(totals.received), "message"),
                                 Count(static_cast<std::size_t>(totals.started), "run"));
  struct Part {
    std::int64_t count;
    std::string_view words;
  };
  const Part parts[] = {{totals.duplicates, "had a run already"},
                        {totals.nacked, "sent back"},
                        {totals.spooled, "spooled"},
                        {totals.replayed, "replayed"},
                        {totals.dead_lettered, "given up"}};
  for (const Part& part : parts) {
    if (part.count > 0) text += fmt::format(", {} {}", part.count, part.words);
  }
  if (buffer_ && !buffer_->spool().entries().empty()) {
    text += fmt::format("; {} wait in {}", buffer_->spool().entries().size(),
                        buffer_->spool().directory());
  }
  console_.Err(text + "\n");
}

int Subscribe::Run() {
  settings_ = LoadSettings({}, console_);
  if (!settings_) return kExitInvalid;
  const StopSignals signals;
  if (const Status ready = Prepare(); !ready) return ExitCodeOf(ready.error(), console_);
  if (!ReadDocument(document_, &spec_, console_)) return kExitInvalid;
  folder_ = FolderOf(DataDirectory(*settings_, options_.data), spec_.path);
  lines_ = std::make_unique<EventLines>(spec_.path, &console_);
  events_ = [this](std::string_view type, const Json& fields) { lines_->Write(type, fields); };
  const auto open = [this]() -> Status {
    if (!options_.events.empty()) NOETL_TRY(lines_->OpenFile(options_.events));
    NOETL_TRY(OpenSource());
    return OpenDispatch();
  };
  if (const Status opened = open(); !opened) return ExitCodeOf(opened.error(), console_);
  const Status served = Serve();
  if (listener_) Summarise();
  return served ? kExitOk : ExitCodeOf(served.error(), console_);
}

}  // namespace

Action DeclareSubscribe(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser
      .Add("SPEC", &options->spec,
           "a file with `kind: Subscription`, or (with a server) a path of its catalog")
      .Required();
  parser
      .Add("--dispatch", &options->dispatch,
           "where runs are started: server, or local for the data directory of this machine")
      .OneOf({"server", "local"})
      .Type("WHERE")
      .ShowDefault();
  AddDataOption(parser, &options->data);
  parser.Add("--events", &options->events, "add the events to this file instead of printing them")
      .Type("FILE");
  parser.Add("--max-messages", &options->messages_max, "end after so many messages")
      .Positive()
      .Type("N");
  parser.Add("--idle-exit", &options->idle, "end when no message came for so long, such as 30s")
      .Type("TIME");
  AddServerOptions(parser, &options->server);
  return [options](Console& console) { return Subscribe(*options, console).Run(); };
}

}  // namespace noetl::cli
