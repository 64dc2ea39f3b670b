#include <fmt/format.h>

#include "base/json_io.h"
#include "store/reference.h"
#include "store/sqlite/reader.h"

namespace noetl::store {

namespace {

std::unexpected<Error> Missing(std::string_view ref) {
  return Fail("not_found", fmt::format("nothing is stored as '{}'", ref));
}

std::unexpected<Error> TooLarge(std::string_view ref, std::int64_t bytes) {
  return Fail("too_large", fmt::format("'{}' has {} bytes, more than the {} that are loaded", ref,
                                       bytes, kLoadedBodyBytesMax));
}

bool IsTooLarge(std::int64_t bytes) {
  return bytes > static_cast<std::int64_t>(kLoadedBodyBytesMax);
}

Result<Json> ParseStored(std::string_view ref, std::string_view text) {
  Result<Json> parsed = ParseJson(text);
  if (parsed) return parsed;
  return Fail("corrupt", fmt::format("'{}': {}", ref, parsed.error().message));
}

}  // namespace

Result<Json> Reader::Load(std::string_view text) const {
  const std::optional<Reference> ref = ParseReference(text);
  if (!ref) return Missing(text);
  switch (ref->kind) {
    case Reference::Kind::kResult: return LoadResult(text, ref->execution_id, ref->name, ref->id);
    case Reference::Kind::kLoop: return LoadLoop(text, ref->execution_id, ref->name, ref->id);
    case Reference::Kind::kCommand: break;
  }
  NOETL_ASSIGN(std::optional<engine::Event> event, FindEvent(ref->execution_id, ref->id));
  if (!event || event->type != engine::EventType::kCommandIssued) return Missing(text);
  return event->context;
}

Result<Json> Reader::LoadResult(std::string_view ref, std::int64_t execution_id,
                                std::string_view name, std::int64_t id) const {
  static constexpr const char* kSql = R"sql(
SELECT bytes, object_key, data, sha256, name
FROM result_store WHERE result_id = ?1 AND execution_id = ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, id).Int(2, execution_id);
  if (!query.Next()) {
    NOETL_TRY(connection->Finished(query));
    return Missing(ref);
  }
  if (!IsNamed(name, query.GetText(4))) return Missing(ref);
  const std::int64_t bytes = query.GetInt(0);
  if (IsTooLarge(bytes)) return TooLarge(ref, bytes);
  if (query.IsNull(1)) {
    const std::string_view data = query.GetText(2);
    if (Sha256(data) == query.GetDigest(3)) return ParseStored(ref, data);
    return Fail("corrupt", fmt::format("{}: its content is not what was stored as '{}'",
                                       connection->path(), ref));
  }
  NOETL_ASSIGN(const std::string data, objects_->Read(query.GetString(1)));
  if (Sha256(data) != query.GetDigest(3)) {
    return Fail("corrupt", fmt::format("{}/{}: its content is not what was stored as '{}'",
                                       objects_->root(), query.GetText(1), ref));
  }
  return ParseStored(ref, data);
}

Result<Json> Reader::LoadLoop(std::string_view ref, std::int64_t execution_id,
                              std::string_view step, std::int64_t run) const {
  static constexpr const char* kSize = R"sql(
SELECT count(*), ifnull(sum(length(data)), 0), max(iter_index)
FROM loop_result WHERE execution_id = ?1 AND step = ?2 AND run = ?3)sql";
  static constexpr const char* kSql = R"sql(
SELECT iter_index, data
FROM loop_result WHERE execution_id = ?1 AND step = ?2 AND run = ?3 ORDER BY iter_index)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  {
    NOETL_ASSIGN(Query query, connection->Get(kSize));
    query.Int(1, execution_id).Text(2, step).Int(3, run);
    const bool found = query.Next() && query.GetInt(0) > 0;
    NOETL_TRY(connection->Finished(query));
    if (!found) return Missing(ref);
    // Holes cost as much as values.
    const std::int64_t bytes =
        query.GetInt(1) + query.GetInt(2) * static_cast<std::int64_t>(sizeof(Json));
    if (IsTooLarge(bytes)) return TooLarge(ref, bytes);
  }
  std::vector<Json> items;
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id).Text(2, step).Int(3, run);
  while (query.Next()) {
    items.resize(static_cast<std::size_t>(query.GetInt(0)));
    NOETL_ASSIGN(Json item, ParseStored(ref, query.GetText(1)));
    items.push_back(std::move(item));
  }
  NOETL_TRY(connection->Finished(query));
  return Json::Array(std::move(items));
}

Result<std::vector<LoopRow>> Reader::LoopRows(std::int64_t execution_id, std::string_view step,
                                              std::int64_t run, std::int64_t from,
                                              std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT iter_index, data
FROM loop_result WHERE execution_id = ?1 AND step = ?2 AND run = ?3 AND iter_index >= ?4
ORDER BY iter_index LIMIT ?5)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id)
      .Text(2, step)
      .Int(3, run)
      .Int(4, from)
      .Int(5, std::max<std::int64_t>(limit, 0));
  std::vector<LoopRow> rows;
  while (query.Next()) {
    rows.push_back({std::string(step), run, query.GetInt(0), query.GetString(1)});
  }
  NOETL_TRY(connection->Finished(query));
  return rows;
}

// A snapshot that is damaged counts as absent: the log can replace it.
Result<std::optional<SnapshotRow>> Reader::LoadSnapshot(std::int64_t execution_id) const {
  static constexpr const char* kSql = R"sql(
SELECT stream_version, version, checksum, snapshot
FROM projection_snapshot WHERE execution_id = ?1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id);
  if (!query.Next()) {
    NOETL_TRY(connection->Finished(query));
    return std::nullopt;
  }
  SnapshotRow row{.execution_id = execution_id,
                  .seq = query.GetInt(0),
                  .version = query.GetInt(1),
                  .text = query.GetString(3)};
  if (Sha256(row.text) != query.GetDigest(2)) return std::nullopt;
  return row;
}

}  // namespace noetl::store
