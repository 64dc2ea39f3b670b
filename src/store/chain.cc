#include "store/chain.h"

#include <charconv>

#include "base/json_io.h"

namespace noetl::store {

namespace {

void AppendInt(std::string& out, std::int64_t number) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

// Names and status words hardly ever need an escape.
bool IsPlain(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') return false;
  }
  return true;
}

void AppendText(std::string& out, std::string_view text) {
  if (!IsPlain(text)) return AppendJson(out, Json(text));
  out.push_back('"');
  out.append(text);
  out.push_back('"');
}

// Writes the members of one object by hand. Callers name them in sorted order.
class RowWriter {
 public:
  explicit RowWriter(std::string& out) : out_(out) {}

  void Int(std::string_view key, std::int64_t number) {
    if (number == 0) return;
    Key(key);
    AppendInt(out_, number);
  }
  void Text(std::string_view key, std::string_view text) {
    if (text.empty()) return;
    Key(key);
    AppendText(out_, text);
  }
  void Value(std::string_view key, const Json& value) {
    if (value.is_null()) return;
    Key(key);
    AppendCanonicalJson(out_, value);
  }
  void End() { out_.append(separator_ == '{' ? "{}" : "}"); }

 private:
  void Key(std::string_view key) {
    out_.push_back(separator_);
    separator_ = ',';
    out_.push_back('"');
    out_.append(key);
    out_.append("\":");
  }

  std::string& out_;
  char separator_ = '{';
};

void AppendCanonicalRow(std::string& out, const EventRow& row) {
  const engine::Event& event = row.event;
  RowWriter writer(out);
  writer.Int("catalog_id", event.catalog_id);
  writer.Int("command_id", row.command_id);
  writer.Value("context", event.context);
  writer.Int("created_at", event.created_at_us);
  writer.Text("error", event.error);
  writer.Int("event_id", event.event_id);
  writer.Text("event_type", event.type_name);
  writer.Int("execution_id", event.execution_id);
  writer.Text("idempotency_key", row.idempotency_key);
  writer.Int("ingest_time", event.ingest_us);
  writer.Value("meta", event.meta);
  writer.Text("node_name", event.node_name);
  writer.Text("node_type", event.node_type);
  writer.Int("parent_event_id", event.parent_event_id);
  writer.Int("parent_execution_id", event.parent_execution_id);
  writer.Int("prev_event_id", event.prev_event_id);
  writer.Value("result", event.result);
  writer.Text("status", event.status);
  writer.Int("stream_version", event.seq);
  writer.Text("worker_id", event.worker_id);
  writer.End();
}

bool ChangesWhenStored(const Json& value) {
  switch (value.type()) {
    case Json::Type::kDouble: {
      const double number = value.AsDouble();
      return number - number != 0 || (number == 0 && 1 / number < 0);
    }
    case Json::Type::kBigInt: return true;
    case Json::Type::kArray:
      for (const Json& item : value.items()) {
        if (ChangesWhenStored(item)) return true;
      }
      return false;
    case Json::Type::kObject:
      for (const JsonMember& member : value.members()) {
        if (ChangesWhenStored(member.value)) return true;
      }
      return false;
    default: return false;
  }
}

// The text to store, and the value that reading it gives back: -0.0 becomes 0.0, an infinity null,
// an integer that fits no machine word a double. What is hashed and folded is what is stored.
Result<std::string> StoreValue(Json& value) {
  if (value.is_null()) return std::string();
  NOETL_ASSIGN(std::string text, WriteStoredJson(value));
  if (!ChangesWhenStored(value)) return text;
  NOETL_ASSIGN(value, ParseJson(text));
  return value.is_null() ? std::string() : text;
}

}  // namespace

Sha256Digest ChainStart(std::int64_t execution_id) {
  std::string text = "noetl.log.chain.v2\n{\"execution_id\":";
  AppendInt(text, execution_id);
  text.push_back('}');
  return Sha256(text);
}

std::string CanonicalRow(const EventRow& row) {
  std::string text;
  text.reserve(512 + row.context.size() + row.result.size() + row.meta.size());
  AppendCanonicalRow(text, row);
  return text;
}

Sha256Digest ChainNext(const Sha256Digest& before, const EventRow& row) {
  thread_local std::string text;  // keeps its memory from row to row
  text.assign(reinterpret_cast<const char*>(before.data()), before.size());
  AppendCanonicalRow(text, row);
  const Sha256Digest next = Sha256(text);
  constexpr std::size_t kKeptBytesMax = 1u << 20;  // one huge row must not stay in memory
  if (text.capacity() > kKeptBytesMax) std::string().swap(text);
  return next;
}

Result<EventRow> MakeEventRow(engine::Event event, const Sha256Digest& before) {
  EventRow row;
  row.event = std::move(event);
  if (row.event.type_name.empty()) row.event.type_name = engine::EventName(row.event.type);
  NOETL_ASSIGN(row.context, StoreValue(row.event.context));
  NOETL_ASSIGN(row.result, StoreValue(row.event.result));
  NOETL_ASSIGN(row.meta, StoreValue(row.event.meta));
  row.command_id = engine::CommandNumber(engine::CommandIdOf(row.event));
  row.chain = ChainNext(before, row);
  return row;
}

}  // namespace noetl::store
