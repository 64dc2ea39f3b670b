#include "engine/result.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/testing.h"
#include "engine/scope.h"
#include "expr/template.h"

namespace noetl::engine {
namespace {

class MapBodies : public Bodies {
 public:
  Result<const Json*> Find(std::string_view ref) const override {
    if (gone.contains(ref)) return Fail("REFERENCE_NOT_AVAILABLE", "stored result is gone");
    const auto found = bodies.find(ref);
    return found == bodies.end() ? nullptr : &found->second;
  }
  std::map<std::string, Json, std::less<>> bodies;
  std::set<std::string, std::less<>> gone;
};

// Evaluates an expression with S (the view) and output (the envelope) of one result.
class ViewTest : public testing::Test {
 protected:
  Result<Json> Eval(std::string_view expression) {
    Scope scope({});
    auto shared = std::make_shared<const StepResult>(result_);
    scope.Bind("S", StepView(shared, &bodies_));
    scope.Bind("output", StepOutputView(shared, &bodies_));
    auto compiled = expr::Template::Compile("{{ " + std::string(expression) + " }}");
    if (!compiled) return std::unexpected(compiled.error().error);
    return compiled->Render(scope, expr::Output::kText);
  }
  void Expect(std::string_view expression, std::string_view json) {
    const Result<Json> value = Eval(expression);
    ASSERT_TRUE(value.has_value()) << expression << ": " << value.error().message;
    EXPECT_EQ(WriteJson(*value), json) << expression;
  }
  void ExpectError(std::string_view expression, std::string_view code, std::string_view message) {
    const Result<Json> value = Eval(expression);
    ASSERT_FALSE(value.has_value()) << expression << " gave " << WriteJson(*value);
    EXPECT_EQ(value.error().code, code) << expression;
    EXPECT_NE(value.error().message.find(message), std::string::npos) << value.error().message;
  }
  void ExpectNeeds(std::string_view expression, std::string_view ref) {
    ExpectError(expression, "needs_reference", ref);
  }

  StepResult result_;
  MapBodies bodies_;
};

TEST_F(ViewTest, PlainPayload) {
  result_.data = Parse(R"({"f": 1, "deep": {"g": [1, 2]}})");
  result_.meta = Parse(R"({"status": "ok", "run": 2})");
  Expect("S", R"({"f":1,"deep":{"g":[1,2]}})");
  Expect("S.f", "1");
  Expect("S.deep.g[1]", "2");
  Expect("S.data", R"({"f":1,"deep":{"g":[1,2]}})");
  Expect("S.data.f", "1");
  Expect("S.result.data.result.f", "1");
  Expect("S.output.context.f", "1");
  Expect("S.meta.run", "2");
  Expect("S.missing is defined", "false");
  Expect("S._ref is defined", "false");
  Expect("S.error is defined", "false");
  Expect("output.status == 'ok' and output.status == 'success'", "true");
  Expect("output.status ~ ''", R"("ok")");
  Expect("output.error is defined", "false");
  Expect("output.error.retryable | default(false)", "false");
  Expect("output.data.f", "1");
  Expect("output.f", "1");
  Expect("output.meta.run", "2");
  Expect("output.ref is defined", "false");
}

TEST_F(ViewTest, RealKeysComeFirst) {
  result_.data = Parse(R"({"data": {"x": 1, "result": {"y": 2}}, "result": 3, "meta": "mine"})");
  Expect("S.data.x", "1");
  Expect("S.data.data.x", "1");
  Expect("S.data.result.y", "2");
  Expect("S.data.result.data.y", "2");
  Expect("S.result", "3");
  Expect("S.meta", R"("mine")");
  Expect("output.data.x", "1");
}

TEST_F(ViewTest, EmptyPayloadIsTrueAndListsHaveRows) {
  result_.data = Json::Object();
  Expect("'yes' if S else 'no'", R"("yes")");
  result_.data = Parse(R"([{"id": 7}, {"id": 8}])");
  Expect("S.rows[1].id", "8");
  Expect("S.row_count", "2");
  Expect("S.data | length", "2");
  Expect("S | length", "2");
  Expect("S[0].id", "7");
}

TEST_F(ViewTest, HttpFallsThroughToTheBody) {
  result_.tool_kind = "http";
  result_.data = Parse(R"({"status_code": 200, "headers": {"a": "b"},
                           "data": {"paging": {"hasMore": true}},
                           "body": {"paging": {"hasMore": true}}})");
  Expect("S.paging.hasMore", "true");
  Expect("S.data.paging.hasMore", "true");
  Expect("S.data.data.paging.hasMore", "true");
  Expect("output.data.paging.hasMore", "true");
  Expect("output.data.data.paging.hasMore", "true");
  Expect("output.http.status", "200");
  Expect("output.http.headers.a", R"("b")");
  Expect("S.status_code", "200");
}

TEST_F(ViewTest, PipelineFlattens) {
  result_.tool_kind = "task_sequence";
  result_.data =
      Parse(R"({"a": {"x": 1, "b": 9, "only_a": true}, "b": {"x": 2, "items": [3]}, "c": [1]})");
  result_.order = Parse(R"(["b", "c", "a"])");
  Expect("S.x", "1");
  Expect("S.b.x", "2");  // the label wins over a's field b
  Expect("S.b['items']", "[3]");
  Expect("S['items']", "[3]");
  Expect("S.a.data.x", "1");
  Expect("S.results.b.x", "2");
  Expect("S.results.b.data.x", "2");
  Expect("S.results | length", "3");
  Expect("S._prev.x", "1");
  Expect("S.data.x", "1");
  Expect("S.never is defined", "false");
  Expect("S", R"({"a":{"x":1,"b":9,"only_a":true},"b":{"x":2,"items":[3]},"c":[1],)"
              R"("x":1,"items":[3],"only_a":true})");
}

TEST_F(ViewTest, UserMapsAreNotFlattened) {
  result_.data = Parse(R"({"a": {"x": 1}, "b": {"y": 2}})");
  Expect("S.x is defined", "false");
  Expect("S", R"({"a":{"x":1},"b":{"y":2}})");
}

TEST_F(ViewTest, Failures) {
  result_.failed = true;
  result_.error = "boom";
  result_.error_info = Parse(R"({"exception_type": "ValueError"})");
  result_.data = Parse(R"({"one": {"x": 1}, "failed_task": "two"})");
  Expect("S.error", R"("boom")");
  Expect("S.failed_task", R"("two")");
  Expect("S.failed_label", R"("two")");
  Expect("S.labeled_results", R"({"one":{"x":1}})");
  Expect("output.status == 'failed'", "true");
  Expect("output.error.message", R"("boom")");
  Expect("output.error.kind", R"("unknown")");
  Expect("output.py.exception_type", R"("ValueError")");
  result_.data = Parse(R"({"error": "own"})");
  Expect("S.error", R"("own")");
}

TEST_F(ViewTest, Loops) {
  result_.shape = StepResult::Shape::kLoop;
  result_.data =
      Parse(R"({"results": [{"q": 10}, {"q": 5}], "stats": {"total": 2, "success": 2, "failed": 0},
                           "count": 2})");
  Expect("S.results[-1].q", "5");
  Expect("S.data", R"([{"q":10},{"q":5}])");
  Expect("output.data | length", "2");
  Expect("S.stats.total", "2");
  Expect("S.count", "2");

  const std::string ref = "noetl://execution/1/loop/s/1";
  result_.data = result_.data.With("results", Json::Object({{"_ref", ref}}));
  Expect("S.count", "2");
  Expect("S.stats.failed", "0");
  Expect("S.results._ref", WriteJson(Json(ref)));
  Expect("S.results is defined", "true");
  ExpectNeeds("S.results | length", ref);
  ExpectNeeds("S.data", ref);
  ExpectNeeds("S.results[0].q", ref);
  ExpectNeeds("S", ref);
  bodies_.bodies[ref] = Parse(R"([{"q": 10}, {"q": 5}])");
  Expect("S.results[1].q", "5");
  Expect("S.data | length", "2");
  Expect("S.results", R"([{"q":10},{"q":5}])");
}

TEST_F(ViewTest, CursorsHaveResultsOnlyWhenRetained) {
  result_.shape = StepResult::Shape::kCursor;
  result_.data = Parse(R"({"cursor": "drained", "frames": 2, "count": 3})");
  Expect("S.data.frames", "2");
  Expect("S.results is defined", "false");
  result_.data = result_.data.With("results", Parse("[1]"));
  Expect("S.data", "[1]");
}

TEST_F(ViewTest, ChildAccessorsComeLast) {
  result_.shape = StepResult::Shape::kChild;
  result_.accessors =
      Parse(R"({"execution_id": "42", "child_status": "COMPLETED", "status": "COMPLETED"})");
  result_.data = Parse(R"({"status": "mine"})");
  Expect("S.status", R"("mine")");
  Expect("S.execution_id", R"("42")");
  Expect("S", R"({"status":"mine"})");
}

class ExternalTest : public ViewTest {
 protected:
  void SetUp() override {
    result_.reference = Parse(R"({"ref": "noetl://r/1", "uri": "s3://b/1", "store": "s3",
                                  "selected": {"picked": [1, 2, 3]}})");
    result_.data = Parse(
        R"({"status": "done", "rows": [{"id": 1}], "text": {"_len": 900}, "empty": {"_count": 0},
                             "info": {"n": 5, "list": [1], "inner": {"z": true}},
                             "cut": {"a": 1, "_truncated": true}})");
    body_ = Parse(R"({"status": "done", "rows": [{"id": 1}, {"id": 2}], "text": "long", "empty": [],
                      "info": {"n": 5, "list": [1, 2], "inner": {"z": true}}, "cut": {"a": 1,
                      "b": 2}})");
  }
  Json body_;
};

TEST_F(ExternalTest, SummaryAnswersWhatItCan) {
  Expect("S.status", R"("done")");
  Expect("S.info.n", "5");
  Expect("S.info.inner.z", "true");
  Expect("S.data.info.n", "5");
  Expect("S.result.info.n", "5");
  Expect("output.data.status", R"("done")");
  Expect("S.picked[2]", "3");
  Expect("S._ref", R"("noetl://r/1")");
  Expect("S._uri", R"("s3://b/1")");
  Expect("S._store", R"("s3")");
  Expect("S._preview.status", R"("done")");
  Expect("output.ref", R"("noetl://r/1")");
  Expect("S.cut.a", "1");
  Expect("'yes' if S else 'no'", R"("yes")");
  Expect("output.status == 'ok'", "true");
}

TEST_F(ExternalTest, BulkNeedsTheBody) {
  for (std::string_view expression :
       {"S", "S.data", "S.rows | length", "S.rows[1].id", "S.text", "S.empty | length", "S.info",
        "S.info.inner", "S.info.list", "S.unknown", "S.info.unknown", "S.cut.b", "S | tojson",
        "output.data", "output.unknown"}) {
    ExpectNeeds(expression, "noetl://r/1");
  }
  bodies_.bodies["noetl://r/1"] = body_;
  Expect("S.rows | length", "2");
  Expect("S.rows[1].id", "2");
  Expect("S.text", R"("long")");
  Expect("S.empty | length", "0");
  Expect("S.info.list", "[1,2]");
  Expect("S.cut.b", "2");
  Expect("S.unknown is defined", "false");
  Expect("S._ref", R"("noetl://r/1")");
  Expect("S", WriteJson(body_));
}

TEST_F(ExternalTest, GoneBodyIsReportedOnlyWhenNeeded) {
  bodies_.gone.insert("noetl://r/1");
  Expect("S.status", R"("done")");
  EXPECT_FALSE(PayloadOf(result_, &bodies_).has_value());
  EXPECT_EQ(PayloadOf(result_, &bodies_).error().code, "REFERENCE_NOT_AVAILABLE");
}

TEST_F(ExternalTest, Pipelines) {
  result_.order = Parse(R"(["a", "b"])");
  result_.data = Parse(R"({"a": {"x": 1, "y": 1}, "b": {"x": 2, "big": [1]}})");
  Expect("S.x", "2");
  Expect("S.y", "1");
  Expect("S.b.x", "2");
  Expect("S.results.a.x", "1");
  Expect("S._prev.x", "2");
  ExpectNeeds("S.big", "noetl://r/1");
  ExpectNeeds("S.z", "noetl://r/1");
  result_.data = Parse(R"({"a": {"x": 1, "y": 1}, "b": {"x": 2, "_truncated": true}})");
  ExpectNeeds("S.y", "noetl://r/1");  // the later task may have it
}

TEST(StepResultTest, JsonRoundTrip) {
  StepResult result;
  EXPECT_EQ(StepResult::FromJson(result.ToJson()), result);
  result.data = Parse(R"({"a": {"x": 1}})");
  result.order = Parse(R"(["a"])");
  result.reference = Parse(R"({"ref": "noetl://r"})");
  result.tool_kind = "task_sequence";
  result.shape = StepResult::Shape::kCursor;
  result.failed = true;
  result.error = "e";
  result.error_info = Parse(R"({"kind": "timeout"})");
  result.meta = Parse(R"({"run": 1})");
  result.accessors = Parse(R"({"execution_id": "1"})");
  EXPECT_EQ(StepResult::FromJson(result.ToJson()), result);
}

TEST(ErrorObjectTest, KindsAndCodes) {
  struct Row {
    std::string_view info;
    std::string_view kind;
    bool retryable;
    std::string_view code;
  };
  const Row rows[] = {
      {R"({"status_code": 429})", "rate_limit", true, "HTTP_429"},
      {R"({"status_code": 401})", "auth", false, "HTTP_401"},
      {R"({"http_status": 403})", "auth", false, "HTTP_403"},
      {R"({"status": 404})", "not_found", false, "HTTP_404"},
      {R"({"status_code": 422})", "client_error", false, "HTTP_422"},
      {R"({"status_code": 503})", "server_error", true, "HTTP_503"},
      {R"({"kind": "timeout"})", "timeout", true, "CONN_TIMEOUT"},
      {R"({"kind": "connection", "code": "DNS_ERROR"})", "connection", true, "DNS_ERROR"},
      {R"({"kind": "connection"})", "connection", true, "CONN_ERROR"},
      {R"({"pg_code": "40001"})", "db_deadlock", true, "PG_40001"},
      {R"({"sqlstate": "40P01"})", "db_deadlock", true, "PG_40P01"},
      {R"({"pg_code": "23505"})", "db_constraint", false, "PG_23505"},
      {R"({"pg_code": "08006"})", "db_connection", true, "PG_08006"},
      {R"({"pg_code": "57014"})", "db_timeout", true, "PG_57014"},
      {R"({"kind": "parse"})", "parse", false, "PARSE"},
      {R"({"code": "REFERENCE_NOT_AVAILABLE"})", "missing_reference", true,
       "REFERENCE_NOT_AVAILABLE"},
      {R"({"kind": "storage_quota"})", "storage_quota", false, "STORAGE_QUOTA"},
      {R"({"kind": "auth", "retryable": true})", "auth", true, "AUTH"},
      {"null", "unknown", false, "UNKNOWN"},
      {R"("text")", "unknown", false, "UNKNOWN"},
  };
  for (const Row& row : rows) {
    const Json error = ErrorObject("why", Parse(row.info));
    EXPECT_EQ(error["kind"].AsString(), row.kind) << row.info;
    EXPECT_EQ(error["retryable"].AsBool(), row.retryable) << row.info;
    EXPECT_EQ(error["code"].AsString(), row.code) << row.info;
    EXPECT_EQ(error["message"].AsString(), "why") << row.info;
  }
  const Json kept = ErrorObject(
      "t", Parse(R"({"status": 429, "message": "m", "retry_after": 5, "details": {"a": 1}})"));
  EXPECT_EQ(kept["message"].AsString(), "m");
  EXPECT_EQ(kept["retry_after"].AsInt(), 5);
  EXPECT_EQ(kept["http_status"].AsInt(), 429);
  EXPECT_EQ(kept["details"]["a"].AsInt(), 1);
}

}  // namespace
}  // namespace noetl::engine
