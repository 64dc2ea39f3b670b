#include <utility>

#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

// Does nothing: answers with the `result` it was given, or says that all is well.
class Noop final : public Tool {
 public:
  std::unique_ptr<Running> Start(ToolCall call, Done done) override {
    ToolAnswer answer;
    if (const Json* result = call.config.Find("result")) {
      answer.outcome.payload = *result;
    } else {
      const Json& message = call.config["message"];
      answer.outcome.payload =
          Json::Object({{"status", "ok"}, {"message", message.is_null() ? Json("noop") : message}});
    }
    done(std::move(answer));
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Tool> MakeNoop(const ToolSetup& /*setup*/) { return std::make_unique<Noop>(); }

}  // namespace noetl::worker
