#include "worker/tool.h"

#include <utility>

namespace noetl::worker {

namespace {

ToolAnswer ErrorAnswer(std::string_view source, std::string_view kind, std::string_view code,
                       bool retryable, std::string message) {
  ToolAnswer answer;
  answer.outcome.ok = false;
  answer.outcome.error_info = JsonObjectBuilder()
                                  .Add("kind", kind)
                                  .Add("retryable", retryable)
                                  .Add("code", code)
                                  .Add("message", message)
                                  .AddSome("source", source.empty() ? Json() : Json(source))
                                  .Build();
  answer.outcome.error = std::move(message);
  return answer;
}

}  // namespace

ToolAnswer Refuse(std::string_view kind, std::string_view code, std::string message) {
  ToolAnswer answer = ErrorAnswer("", kind, code, false, std::move(message));
  answer.hard = true;
  return answer;
}

ToolAnswer Failed(std::string_view source, std::string_view kind, std::string_view code,
                  bool retryable, std::string message, Json payload) {
  ToolAnswer answer = ErrorAnswer(source, kind, code, retryable, std::move(message));
  answer.outcome.payload = std::move(payload);
  return answer;
}

}  // namespace noetl::worker
