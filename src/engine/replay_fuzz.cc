// Any bytes as a log: each line that is a row is folded, in both readings and in the flat dialect.
// The fold must not crash, must give the same bytes again and in any order of the input, must go on
// from a state of its own, and its seal must hold for what was written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json_io.h"
#include "engine/replay.h"
#include "engine/replay_flat.h"
#include "engine/replay_seal.h"

namespace {

using namespace noetl;
using namespace noetl::engine::replay;

// More rows bring nothing new and only slow the fuzzer down.
constexpr std::size_t kRowsMax = 64;

// Rows with one id keep the order of the input: only distinct ids may be put in any order.
std::vector<Json> ReadLines(std::string_view text, JsonNumbers numbers) {
  std::vector<Json> rows;
  std::set<std::int64_t> ids;
  while (rows.size() < kRowsMax && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Result<Json> json = ParseJson(text.substr(0, end), numbers);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!json || !RowFromJson(*json)) continue;
    if (ids.insert((*json)["event_id"].AsInt()).second) rows.push_back(*json);
  }
  return rows;
}

std::vector<Row> ReadRows(std::string_view text, JsonNumbers numbers) {
  std::vector<Row> rows;
  for (const Json& json : ReadLines(text, numbers)) rows.push_back(*RowFromJson(json));
  return rows;
}

void Check(std::string_view text, bool strict) {
  const Context context = {.execution_id = 1};
  std::vector<Row> rows = ReadRows(text, strict ? JsonNumbers::kTypedStrict : JsonNumbers::kTyped);
  const Json sealed = Seal(FoldRows(rows, context, {.strict = strict}));
  const std::string body = WriteState(sealed);
  NOETL_CHECK(WriteState(Seal(FoldRows(rows, context, {.strict = strict}))) == body,
              "the same rows give the same bytes");
  NOETL_CHECK(IsSealed(sealed), "a state is sealed");
  // A state that is deeper than a document may be cannot be read back.
  if (const Result<Json> read = ParseJson(body))
    NOETL_CHECK(IsSealed(*read), "a body that was read is sealed");

  std::ranges::reverse(rows);
  NOETL_CHECK(WriteState(Seal(FoldRows(rows, context, {.strict = strict}))) == body,
              "the order of the rows does not matter");
  std::ranges::sort(rows, {}, &Row::event_id);
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
  const Json head = Seal(FoldRows({rows.begin(), middle}, context, {.strict = strict}));
  const Result<State> base = StateFromJson(head);
  NOETL_CHECK(base.has_value(), "a state reads back");
  const State whole =
      FoldRows({middle, rows.end()}, context, {.strict = strict, .base_state = *base});
  NOETL_CHECK(WriteState(Seal(whole)) == body, "a fold goes on from a state");
}

// A log with a counter that is no number has no state in this dialect.
void CheckFlat(std::string_view text) {
  const Context context = {.execution_id = 1};
  std::vector<Json> rows = ReadLines(text, JsonNumbers::kFlat);
  const Result<Json> sealed = FoldFlatRows(rows, context);
  std::ranges::reverse(rows);
  const Result<Json> turned = FoldFlatRows(rows, context);
  NOETL_CHECK(sealed.has_value() == turned.has_value(), "the order of the rows does not matter");
  if (!sealed) return;
  const std::string body = WriteState(*sealed);
  NOETL_CHECK(WriteState(*turned) == body, "the order of the rows does not matter");
  std::ranges::sort(rows, {}, [](const Json& row) { return row["event_id"].AsInt(); });
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
  const Result<Json> head = FoldFlatRows({rows.begin(), middle}, context);
  NOETL_CHECK(head.has_value(), "a part of a log has a state too");
  const Result<Json> whole = FoldFlatRows({middle, rows.end()}, context, {.base_state = *head});
  NOETL_CHECK(whole.has_value() && WriteState(*whole) == body, "a fold goes on from a state");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text, false);
  Check(text, true);
  CheckFlat(text);
  return 0;
}
