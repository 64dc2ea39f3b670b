// Runs for the messages of a subscription, on a server. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/http_client.h"
#include "worker/subscription/dispatcher.h"

namespace noetl::cli {

// What an answer to a start means for the message.
worker::DispatchOutcome::Kind KindOfStatus(int status);

class ServerDispatcher final : public worker::Dispatcher {
 public:
  // The client outlives it. `path` is that of the subscription.
  ServerDispatcher(HttpClient* client, std::string path)
      : client_(client), path_(std::move(path)) {}

  // Registers and activates the subscription. One that was deactivated comes back under its id, so
  // that messages that come again still meet the keys of their first delivery; one that somebody
  // paused stays so. Tells the events.
  Status Begin(const worker::EventSink& events);
  // Deactivates it.
  Status End(const worker::EventSink& events);

  std::vector<worker::DispatchOutcome> Dispatch(
      std::span<const worker::DispatchRequest> requests) override;
  Result<std::string> State() override;
  Result<std::int64_t> InFlight(std::int64_t enough) override;

 private:
  Result<Json> Act(std::string_view action);
  // The newest subscription of the path; null: there is none.
  Result<Json> Newest();
  Json BodyOf(const worker::DispatchRequest& request) const;
  worker::DispatchOutcome One(const worker::DispatchRequest& request);
  std::vector<worker::DispatchOutcome> Many(std::span<const worker::DispatchRequest> requests);
  void Audit(const worker::DispatchRequest& request, const worker::DispatchOutcome& outcome);

  HttpClient* client_;
  std::string path_;
  std::string id_;
};

}  // namespace noetl::cli
