#include "expr/runtime.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_io.h"
#include "expr/utf8.h"

namespace noetl::expr {

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Status Namespace::Set(std::string_view name, Value value) {
  if (value.space() != nullptr) {
    NOETL_ASSIGN(Json snapshot, value.Plain());
    value = Value(std::move(snapshot));
  }
  for (auto& [key, held] : attributes) {
    if (key != name) continue;
    held = std::move(value);
    return {};
  }
  attributes.emplace_back(std::string(name), std::move(value));
  return {};
}

Result<Json> Namespace::Plain() const {
  JsonObjectBuilder builder;
  for (const auto& [key, value] : attributes) {
    NOETL_ASSIGN(Json plain, value.Plain());
    builder.Add(key, std::move(plain));
  }
  return builder.Build();
}

std::unexpected<Error> Runtime::OverBudget() {
  return Fail("E420", fmt::format("the template needs more than {} operations", kOperationsMax));
}

// Walks a value as it would be written, up to the bounds.
Status Runtime::Measure(const Json& value, int depth, std::size_t* nodes,
                        std::size_t* bytes) const {
  if (depth > static_cast<int>(kJsonDepthMax)) {
    return Fail("E420", fmt::format("a value is nested deeper than {} levels", kJsonDepthMax));
  }
  *bytes += value.is_string() ? value.AsString().size() + 2 : 4;
  if (++*nodes > kMadeNodesMax || *bytes > kOutputBytesMax) {
    return Fail("E420", "a value built by the template is too large");
  }
  for (const Json& item : value.items()) NOETL_TRY(Measure(item, depth + 1, nodes, bytes));
  for (const JsonMember& member : value.members()) {
    *bytes += member.key().size() + 4;
    NOETL_TRY(Measure(member.value, depth + 1, nodes, bytes));
  }
  return {};
}

Result<Value> Runtime::Made(Json container) {
  made_any_ = true;
  NOETL_TRY(Charge(static_cast<std::int64_t>(container.size() / 8)));
  std::size_t containers = 0;
  for (const Json& item : container.items()) containers += item.is_container() ? 1 : 0;
  for (const JsonMember& member : container.members()) {
    containers += member.value.is_container() ? 1 : 0;
  }
  if (containers > 0) {
    growth_ = std::min(growth_ * (containers + 1), kMadeNodesMax);
    ++made_depth_;
    if (growth_ > kUnmeasuredGrowth || made_depth_ > kUnmeasuredDepth) {
      std::size_t nodes = 0;
      std::size_t bytes = 0;
      NOETL_TRY(Measure(container, 0, &nodes, &bytes));
      NOETL_TRY(Charge(static_cast<std::int64_t>(nodes / 64)));
    }
  }
  return Value(std::move(container));
}

Status Runtime::CheckWritable(const Json& value) {
  if (!made_any_ || !value.is_container()) return {};
  std::size_t nodes = 0;
  std::size_t bytes = 0;
  NOETL_TRY(Measure(value, 0, &nodes, &bytes));
  return Charge(static_cast<std::int64_t>(nodes / 64));
}

Result<Value> Runtime::MadeText(std::string_view text) {
  if (text.size() > kOutputBytesMax) {
    return Fail("E420", fmt::format("a text is longer than {} bytes", kOutputBytesMax));
  }
  NOETL_TRY(ChargeBytes(text.size()));
  return Value(Json(text));
}

Status Runtime::AppendText(std::string& out, const Value& value) {
  const std::size_t before = out.size();
  if (value.is_json()) {
    const Json& json = value.json();
    if (json.is_string()) {
      out += json.AsString();
    } else if (json.is_container()) {
      NOETL_TRY(CheckWritable(json));
      AppendJson(out, json);
    } else if (!json.is_null()) {
      out += TextForm(json);
    }
  } else if (const AliasString* alias = value.alias()) {
    out += alias->names.empty() ? std::string() : alias->names[0];
  } else if (!value.is_undefined()) {
    NOETL_ASSIGN(const Json plain, value.Plain());
    return AppendText(out, Value(plain));
  }
  if (out.size() > kOutputBytesMax) {
    return Fail("E420", fmt::format("the text is longer than {} bytes", kOutputBytesMax));
  }
  return ChargeBytes(out.size() - before);
}

Status Runtime::AppendLiteral(std::string& out, std::string_view text) {
  out += text;
  if (out.size() > kOutputBytesMax) {
    return Fail("E420", fmt::format("the text is longer than {} bytes", kOutputBytesMax));
  }
  return ChargeBytes(text.size());
}

Result<std::string> Runtime::Text(const Value& value) {
  std::string out;
  NOETL_TRY(AppendText(out, value));
  return out;
}

Result<std::vector<std::string_view>> Runtime::Letters(std::string_view text) {
  NOETL_TRY(Charge(static_cast<std::int64_t>(text.size() / 8)));
  return SplitCodePoints(text);
}

const Value* Runtime::FindLocal(std::string_view name) const {
  for (auto local = locals_.rbegin(); local != locals_.rend(); ++local) {
    if (local->name == name) return &local->value;
  }
  return nullptr;
}

std::size_t Runtime::PushFrame() { return std::exchange(frame_, locals_.size()); }

void Runtime::PopFrame(std::size_t frame) {
  locals_.resize(frame_);
  frame_ = frame;
}

void Runtime::SetLocal(std::string_view name, Value value) {
  for (std::size_t i = frame_; i < locals_.size(); ++i) {
    if (locals_[i].name != name) continue;
    locals_[i].value = std::move(value);
    return;
  }
  locals_.push_back({name, std::move(value)});
}

}  // namespace noetl::expr
