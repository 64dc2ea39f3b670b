// The body, the path and the query of every route, changed at random: whatever a client sends, it
// gets an answer, and never a 500.
//
// The first bytes choose a route; the others are spent on changes of its example: values of other
// types, missing and doubled members, large and odd texts, or raw bytes instead of JSON. The server
// is the real one over the memory store, on a reactor that is driven by hand.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/streams.h"
#include "api/testing.h"
#include "base/log.h"
#include "base/url.h"
#include "conductor/testing.h"
#include "vault/keys.h"

namespace noetl::api {
namespace {

constexpr std::string_view kPlaybook = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: one, path: demo/hello}
workload: {who: world}
workflow:
  - step: start
    tool: {kind: noop}
)";
// What one server gets before it is replaced: its memory stays small and old runs do not pile up.
constexpr int kRequestsPerServer = 500;
constexpr int kDepthMax = 6;

// Spends the input byte by byte; zeros when it is used up.
class Source {
 public:
  Source(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  unsigned Byte() { return at_ < size_ ? data_[at_++] : 0; }
  unsigned Below(unsigned count) { return (Byte() << 8 | Byte()) % count; }
  bool empty() const { return at_ >= size_; }
  std::string Text(std::size_t length) {
    std::string text;
    while (text.size() < length && !empty()) text += static_cast<char>(Byte());
    return text;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

struct Fixture {
  Fixture() {
    machine.Register("demo/hello", kPlaybook);
    run_id = machine.Start("demo/hello").value();
    for (const store::CommandRow& command : machine.store->CommandsOf(run_id, 0, 1).value())
      command_id = command.command_id;
    api.services.store = machine.store.get();
    api.services.conductor = machine.conductor.get();
    api.services.vault = &vault;
    api.services.streams = &streams;
    api.run = [this] { machine.Run(); };
  }

  conductor::Machine machine{{.worker = false}};
  vault::Vault vault{machine.store.get(),
                     vault::Keys::FromText("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").value(),
                     &machine.clock, &machine.ids};
  Streams streams{machine.store.get(), &machine.clock};
  TestApi api{{.router = {.internal_token = "inner", .sql = true}}};
  std::int64_t run_id = 0;
  std::int64_t command_id = 0;
  int requests = 0;
};

// A value of any type, small.
Json AnyValue(Source& source, const Fixture& fixture, int depth = 0) {
  switch (source.Below(depth < kDepthMax ? 15 : 12)) {
    case 0: return Json();
    case 1: return Json(true);
    case 2: return Json(static_cast<std::int64_t>(source.Byte()));
    case 3: return Json(INT64_MIN);
    case 4: return Json(INT64_MAX);
    case 5: return Json(-1.5e300);
    case 6: return Json(fixture.run_id);
    case 7: return Json(std::to_string(fixture.command_id));
    case 8: return Json("demo/hello");
    case 9: return Json(ReplaceNul(Json(source.Text(source.Byte() % 16))));
    case 10: return Json(std::string(source.Byte() * 64, 'x'));
    case 11: return Json("2026-06-18T12:00:00Z");
    case 12: return Json::Array({AnyValue(source, fixture, depth + 1)});
    case 13: return Json::Object({{"name", AnyValue(source, fixture, depth + 1)}});
    default: return Json::Object();
  }
}

Json Changed(const Json& value, Source& source, const Fixture& fixture, int depth = 0) {
  if (source.Below(8) == 0) return AnyValue(source, fixture);
  if (depth >= kDepthMax) return value;
  if (value.is_object()) {
    Json out = value;
    for (const JsonMember& member : value.members()) {
      const unsigned what = source.Below(6);
      if (what == 0) out = out.Without(member.key());
      else if (what < 3)
        out = out.With(member.key(), Changed(member.value, source, fixture, depth + 1));
    }
    if (source.Below(10) == 0) out = out.With("event_id", AnyValue(source, fixture));
    return out;
  }
  if (value.is_array() && value.size() > 0) {
    std::vector<Json> items;
    const unsigned count = source.Below(4);
    for (unsigned i = 0; i < count; ++i)
      items.push_back(Changed(value.items()[0], source, fixture, depth + 1));
    return Json::Array(std::move(items));
  }
  return value;
}

std::string PathOf(const Route& route, Source& source, const Fixture& fixture) {
  std::string path;
  for (std::size_t at = 0; at < route.path.size();) {
    const std::size_t open = std::min(route.path.find('{', at), route.path.size());
    path += route.path.substr(at, open - at);
    if (open == route.path.size()) break;
    const std::size_t close = route.path.find('}', open);
    const std::string_view name = route.path.substr(open + 1, close - open - 1);
    const bool command = name == "event_id";
    switch (source.Below(6)) {
      case 0: path += "0"; break;
      case 1: path += PercentEncode(source.Text(4)) + "x"; break;
      case 2: path += "99999999999999999999"; break;
      default:
        path += name.ends_with("_id")
                    ? std::to_string(command ? fixture.command_id : fixture.run_id)
                    : "demo";
    }
    at = close + 1;
  }
  std::string separator = "?";
  for (const Parameter& parameter : route.query) {
    if (source.Below(3) != 0) continue;
    // Nobody waits in here.
    if (parameter.name == "follow" || parameter.name == "timeout_ms") continue;
    path += separator + std::string(parameter.name) + "=";
    path += source.Below(2) == 0 ? std::to_string(source.Byte()) : PercentEncode(source.Text(6));
    separator = "&";
  }
  return path;
}

void Try(Fixture& fixture, Source& source) {
  const auto routes = fixture.api.router->routes();
  const Route& route = *routes[source.Below(static_cast<unsigned>(routes.size()))];
  if (route.path.ends_with("/wait")) return;
  const std::string target = PathOf(route, source, fixture);
  std::string body;
  if (route.body == BodyKind::kRaw) {
    body = source.Text(64);
  } else if (route.body != BodyKind::kNone) {
    const Result<Json> example = ParseJson(route.request.empty() ? "{}" : route.request);
    Json changed = Changed(example.value_or(Json::Object()), source, fixture);
    // A question for work is answered at once.
    if (changed.Has("wait_ms")) changed = changed.With("wait_ms", 0);
    body = source.Below(16) == 0 ? source.Text(64) : WriteJson(changed);
  }
  Request request = MakeRequest(route.method, target, body, {{"Authorization", "Bearer inner"}});
  const auto exchange = fixture.api.Begin(std::move(request));
  const Response answer = exchange->Wait();
  exchange->Leave();
  if (answer.status != 0 && answer.status != 500) return;
  std::fprintf(stderr, "%.*s %s\n%s\nanswered %d %s\n", static_cast<int>(route.method.size()),
               route.method.data(), target.c_str(), body.c_str(), answer.status,
               answer.body.c_str());
  std::abort();
}

}  // namespace
}  // namespace noetl::api

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace noetl;
  static std::unique_ptr<api::Fixture> fixture;
  if (!fixture || ++fixture->requests > api::kRequestsPerServer) {
    ConfigureLog({.level = LogLevel::kOff});
    fixture = std::make_unique<api::Fixture>();
  }
  api::Source source(data, size);
  while (!source.empty()) api::Try(*fixture, source);
  return 0;
}
