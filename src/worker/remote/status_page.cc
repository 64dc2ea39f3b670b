#include "worker/remote/status_page.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kSetting = "WORKER_METRICS_BIND";

enum class Page : std::uint8_t { kMetrics, kHealth, kReady };

struct Place {
  std::string_view path;
  Page page;
};
// With the names that clusters and older workers use.
constexpr std::array kPlaces = {
    Place{"/metrics", Page::kMetrics}, Place{"/health", Page::kHealth},
    Place{"/healthz", Page::kHealth},  Place{"/livez", Page::kHealth},
    Place{"/ready", Page::kReady},     Place{"/readyz", Page::kReady},
};

StatusAnswer Word(int status, std::string_view word) {
  return {.status = status, .body = fmt::format("{{\"status\":\"{}\"}}\n", word)};
}

}  // namespace

StatusAnswer AnswerOfWorker(RemoteLink& link, std::string_view path) {
  const auto place = std::ranges::find(kPlaces, path, &Place::path);
  if (place == kPlaces.end()) return {.status = 404};
  switch (place->page) {
    case Page::kMetrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = link.ExposeMetrics()};
    case Page::kHealth: return Word(200, "ok");
    case Page::kReady: break;
  }
  return Word(link.ready() ? 200 : 503, link.stage_name());
}

Result<std::unique_ptr<StatusListener>> OpenStatusPage(EventLoop* loop, RemoteLink* link,
                                                       const Settings& settings) {
  const std::string& address = settings.Text(kSetting);
  if (address.empty() || ToLower(address) == "off") return nullptr;
  auto page = StatusListener::Open(
      loop, address, [link](std::string_view path) { return AnswerOfWorker(*link, path); });
  if (page) {
    LogInfo("metrics and health", {{"address", (*page)->address()}});
    return page;
  }
  if (settings.IsSet(kSetting))
    return Fail("settings", fmt::format("{}: {}", kSetting, page.error().message));
  LogWarn("no metrics and health of this worker; give WORKER_METRICS_BIND another port, or off",
          {{"error", page.error().message}});
  return nullptr;
}

}  // namespace noetl::worker
