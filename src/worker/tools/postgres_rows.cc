#include "worker/tools/postgres_rows.h"

#include <algorithm>

#include "worker/bounded_text.h"

namespace noetl::worker {
namespace {

// A cell costs this much whatever it holds.
constexpr std::size_t kCellBytes = 16;

bool Counted(std::string_view command) {
  return command != "SELECT" && command != "SHOW" && command != "EXPLAIN" && !command.empty();
}

}  // namespace

void PostgresRows::Add(const pg::ResultView& result) {
  using Kind = pg::ResultView::Kind;
  Statement& statement = statements_.back();
  if (result.kind() == Kind::kRows) {
    if (!statement.has_rows) {
      statement.has_rows = true;
      for (int column = 0; column < result.columns(); ++column) {
        statement.names.emplace_back(CleanText(result.ColumnName(column)));
        statement.types.push_back(result.ColumnType(column));
      }
    }
    for (int row = 0; row < result.rows() && !excess_; ++row) AddRow(statement, result, row);
  }
  if ((result.kind() == Kind::kRows && result.complete()) || result.kind() == Kind::kCommand) {
    statement.command = result.tag();
    statement.affected = result.affected();
  }
}

bool PostgresRows::Counts(std::size_t bytes) {
  bytes_ += static_cast<std::int64_t>(bytes);
  ++row_count_;
  if (options_.rows_max > 0 && row_count_ > options_.rows_max) {
    excess_ = fmt::format("the result has more than {} rows; add LIMIT or raise max_rows",
                          options_.rows_max);
  } else if (bytes_ > options_.bytes_max) {
    excess_ =
        fmt::format("the result is larger than {} MiB; select less", options_.bytes_max >> 20);
  }
  return !excess_;
}

void PostgresRows::AddRow(Statement& statement, const pg::ResultView& result, int row) {
  std::vector<Json> cells;
  const int columns = result.columns();
  cells.reserve(static_cast<std::size_t>(columns));
  std::size_t bytes = 0;
  for (int column = 0; column < columns; ++column) {
    bytes += kCellBytes + result.Text(row, column).size();
  }
  if (!Counts(bytes)) return;
  for (int column = 0; column < columns; ++column) {
    if (result.IsNull(row, column)) {
      cells.emplace_back();
      continue;
    }
    const pg::TypeId type = statement.types[static_cast<std::size_t>(column)];
    const std::string_view text = result.Text(row, column);
    cells.push_back(options_.clean ? pg::ToJson(type, CleanText(text), options_.values)
                                   : pg::ToJson(type, text, options_.values));
  }
  statement.rows.push_back(std::move(cells));
}

std::vector<pg::TypeId> PostgresRows::UnknownTypes(
    const std::map<pg::TypeId, pg::TypeShape>& known) const {
  std::vector<pg::TypeId> unknown;
  for (const Statement& statement : statements_) {
    if (statement.rows.empty()) continue;
    for (const pg::TypeId type : statement.types) {
      if (!pg::IsKnownType(type) && !known.contains(type)) unknown.push_back(type);
    }
  }
  std::ranges::sort(unknown);
  const auto same = std::ranges::unique(unknown);
  unknown.erase(same.begin(), same.end());
  return unknown;
}

Json PostgresRows::Rows(Statement& statement,
                        const std::map<pg::TypeId, pg::TypeShape>& shapes) const {
  for (std::size_t column = 0; column < statement.types.size(); ++column) {
    const auto shape = shapes.find(statement.types[column]);
    if (shape == shapes.end() || shape->second.element == 0) continue;
    for (std::vector<Json>& row : statement.rows) {
      Json& cell = row[column];
      if (cell.is_string()) {
        cell = pg::ArrayToJson(shape->second, cell.AsString(), options_.values);
      }
    }
  }
  std::vector<Json> rows;
  rows.reserve(statement.rows.size());
  for (std::vector<Json>& row : statement.rows) {
    if (!options_.as_objects) {
      rows.push_back(Json::Array(std::move(row)));
      continue;
    }
    Json::Members members;
    members.reserve(row.size());
    for (std::size_t column = 0; column < row.size(); ++column) {
      members.emplace_back(statement.names[column], std::move(row[column]));
    }
    rows.push_back(Json::Object(std::move(members)));
  }
  statement.rows.clear();
  return Json::Array(std::move(rows));
}

Json PostgresRows::Own(Statement& statement,
                       const std::map<pg::TypeId, pg::TypeShape>& shapes) const {
  JsonObjectBuilder own;
  const bool counted = Counted(statement.command);
  if (statement.has_rows) {
    Json rows = Rows(statement, shapes);
    const std::size_t count = rows.size();
    own.Add("columns", Json::Array(statement.names)).Add("rows", std::move(rows));
    own.Add("row_count", count);
  } else {
    own.Add("row_count", statement.affected);
  }
  if (counted || !statement.has_rows) {
    own.Add("affected_rows", statement.affected).Add("command", statement.command);
  }
  return own.Build();
}

Json PostgresRows::Payload(const std::map<pg::TypeId, pg::TypeShape>& shapes) {
  std::vector<Json> each;
  for (Statement& statement : statements_) each.push_back(Own(statement, shapes));
  Json payload = each.empty() ? Json::Object() : each.back();
  if (!payload.Has("rows")) {
    const auto rows =
        std::find_if(each.rbegin(), each.rend(), [](const Json& one) { return one.Has("rows"); });
    if (rows != each.rend()) {
      for (const std::string_view key : {"columns", "rows", "row_count"}) {
        payload = payload.With(key, (*rows)[key]);
      }
    }
  }
  payload = payload.With("statement_count", each.size());
  for (std::size_t i = 0; each.size() > 1 && i < each.size(); ++i) {
    payload = payload.With(fmt::format("command_{}", i), each[i]);
  }
  return payload;
}

}  // namespace noetl::worker
