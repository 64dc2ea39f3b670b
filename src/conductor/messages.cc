#include "conductor/messages.h"

#include <fmt/format.h>

#include "base/json_io.h"

namespace noetl::conductor {

using store::MessageRow;

namespace {

MessageRow Make(std::int64_t id, std::int64_t target, MessageRow::Kind kind, const Json& payload) {
  MessageRow message;
  message.message_id = id;
  message.target_execution_id = target;
  message.kind = kind;
  // What a unit refers to was written in a storable form before; a message repeats parts of it.
  message.payload = WriteJson(ReplaceNul(payload));
  return message;
}

Result<Json> Read(const MessageRow& message) {
  Result<Json> payload = ParseJson(message.payload);
  if (payload && payload->is_object()) return payload;
  return Fail("corrupt", fmt::format("message {} for run {} cannot be read", message.message_id,
                                     message.target_execution_id));
}

}  // namespace

MessageRow MakeMessage(std::int64_t id, const engine::ChildStart& child) {
  JsonObjectBuilder payload;
  payload.Add("path", child.path)
      .Add("catalog_id", child.catalog_id)
      .AddSome("version", child.version)
      .AddSome("payload", child.payload)
      .Add("parent_execution_id", child.parent_execution_id)
      .Add("parent_command_id", child.parent_command_id)
      .Add("parent_step", child.parent_step)
      .Add("return_step", child.return_step)
      .Add("depth", child.depth)
      .Add("pool", child.pool)
      .AddSome("trace", child.trace);
  MessageRow message = Make(id, child.execution_id, MessageRow::Kind::kStartChild, payload.Build());
  message.not_before_us = child.start_at_us;
  return message;
}

MessageRow MakeMessage(std::int64_t id, const engine::ChildEnd& end) {
  JsonObjectBuilder payload;
  payload.Add("command_id", end.command_id)
      .Add("child_execution_id", end.child_execution_id)
      .Add("path", end.path)
      .Add("status", end.status)
      .AddSome("data", end.data)
      .AddSome("reference", end.reference)
      .Add("error", end.error)
      .Add("step_missing", end.step_missing);
  return Make(id, end.parent_execution_id, MessageRow::Kind::kChildEnded, payload.Build());
}

MessageRow MakeCancelMessage(std::int64_t id, std::int64_t execution_id, std::string_view reason) {
  return Make(id, execution_id, MessageRow::Kind::kCancel, Json::Object({{"reason", reason}}));
}

Result<engine::ChildStart> ReadChildStart(const MessageRow& message) {
  NOETL_ASSIGN(const Json payload, Read(message));
  return engine::ChildStart{.execution_id = message.target_execution_id,
                            .path = payload["path"].ToString(),
                            .catalog_id = payload["catalog_id"].AsInt(),
                            .version = payload["version"],
                            .payload = payload["payload"],
                            .parent_execution_id = payload["parent_execution_id"].AsInt(),
                            .parent_command_id = payload["parent_command_id"].ToString(),
                            .parent_step = payload["parent_step"].ToString(),
                            .return_step = payload["return_step"].ToString(),
                            .depth = payload["depth"].AsInt(),
                            .pool = payload["pool"].ToString(),
                            .trace = payload["trace"],
                            .start_at_us = message.not_before_us};
}

Result<engine::ChildEnd> ReadChildEnd(const MessageRow& message) {
  NOETL_ASSIGN(const Json payload, Read(message));
  return engine::ChildEnd{.command_id = payload["command_id"].ToString(),
                          .parent_execution_id = message.target_execution_id,
                          .child_execution_id = payload["child_execution_id"].AsInt(),
                          .path = payload["path"].ToString(),
                          .status = payload["status"].ToString(),
                          .data = payload["data"],
                          .reference = payload["reference"],
                          .error = payload["error"].ToString(),
                          .step_missing = payload["step_missing"].AsBool()};
}

Result<std::string> ReadCancelReason(const MessageRow& message) {
  NOETL_ASSIGN(const Json payload, Read(message));
  return payload["reason"].ToString();
}

}  // namespace noetl::conductor
