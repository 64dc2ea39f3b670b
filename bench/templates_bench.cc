// Templates: evaluations per second, beside a bare look-up in the same map.
#include <benchmark/benchmark.h>

#include "allocations.h"
#include "base/json_io.h"
#include "expr/tree.h"

namespace noetl {
namespace {

Json Names() {
  return *ParseJson(
      R"({"output":{"status":"ok","data":{"x":7,"rows":[{"id":1,"v":3},{"id":2,"v":5},{"id":3,"v":8}]}},
                        "event":{"name":"call.done"},"workload":{"limit":5,"name":"orders"},"ctx":{"page":3}})");
}

void BM_FloorMapLookup(benchmark::State& state) {
  const Json names = Names();
  for (auto _ : state) benchmark::DoNotOptimize(names["output"]["data"]["x"].AsInt());
}
BENCHMARK(BM_FloorMapLookup);

void BM_Condition(benchmark::State& state) {
  const expr::JsonScope scope(Names());
  const auto condition = expr::Condition::Compile(
      Json("{{ event.name == 'call.done' and output.data.x > workload.limit }}"), {});
  const std::int64_t before = bench::Allocations();
  for (auto _ : state) benchmark::DoNotOptimize(condition->Evaluate(scope));
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(bench::Allocations() - before), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_Condition);

void RenderBench(benchmark::State& state, std::string_view text, expr::Output output) {
  const expr::JsonScope scope(Names());
  std::vector<expr::Tree::Problem> problems;
  const expr::Tree tree = expr::Tree::Compile(Json(text), {}, &problems);
  if (!problems.empty() || !tree.Render(scope, output))
    state.SkipWithError("the template does not work");
  const std::int64_t before = bench::Allocations();
  for (auto _ : state) benchmark::DoNotOptimize(tree.Render(scope, output));
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(bench::Allocations() - before), benchmark::Counter::kAvgIterations);
}
void BM_Text(benchmark::State& state) {
  RenderBench(
      state,
      "https://example.com/{{ workload.name }}?page={{ ctx.page + 1 }}&limit={{ workload.limit }}",
      expr::Output::kText);
}
BENCHMARK(BM_Text);
void BM_FilterChain(benchmark::State& state) {
  RenderBench(state,
              "{{ output.data.rows | selectattr('v', '>', 4) | map(attribute='id') | join(',') }}",
              expr::Output::kStructured);
}
BENCHMARK(BM_FilterChain);

}  // namespace
}  // namespace noetl
