// Reading a playbook of realistic size: 56 steps, some 1,900 lines.
#include <algorithm>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <simdjson.h>

#include "base/json_io.h"
#include "playbook/model.h"

namespace noetl {
namespace {

std::string StepText(int i, int steps) {
  std::string text = fmt::format("  - step: {}\n    desc: Step number {} of the pipeline\n",
                                 i == 0 ? "start" : fmt::format("step_{}", i), i);
  if (i % 4 == 3) {
    text +=
        "    loop:\n      in: \"{{ workload.regions }}\"\n      iterator: region\n      spec:\n"
        "        mode: parallel\n        max_in_flight: 4\n";
  }
  text += "    tool:\n";
  for (int task = 0; task < (i % 4 == 0 ? 2 : 1); ++task) {
    text += fmt::format(
        "      - name: task_{0}_{1}\n        kind: http\n        method: GET\n"
        "        url: \"https://example.com/{{{{ workload.name }}}}/{0}?page={{{{ ctx.page | "
        "default(1) }}}}\"\n"
        "        headers:\n          accept: application/json\n"
        "        params:\n          limit: \"{{{{ workload.limit }}}}\"\n"
        "        spec:\n          policy:\n            rules:\n"
        "              - when: \"{{{{ output.status == 'ok' }}}}\"\n                then:\n        "
        "          do: continue\n"
        "              - else:\n                  then:\n                    do: fail\n",
        i, task);
  }
  text += fmt::format("    set:\n      ctx.done_{}: \"{{{{ output.status }}}}\"\n", i);
  if (i + 1 < steps) {
    text += fmt::format(
        "    next:\n      spec:\n        mode: exclusive\n      arcs:\n        - step: step_{}\n"
        "          when: \"{{{{ output.status == 'ok' }}}}\"\n",
        i + 1);
    if (i + 2 < steps) text += fmt::format("        - step: step_{}\n", i + 2);
  }
  return text;
}

std::string LargePlaybook() {
  constexpr int kSteps = 56;
  std::string text =
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: large\n  path: bench/large\n"
      "workload:\n  name: orders\n  limit: 100\n  since: 2026-01-01\n  regions: [a, b, "
      "c]\nworkflow:\n";
  for (int i = 0; i < kSteps; ++i) text += StepText(i, kSteps);
  return text;
}

void BM_LoadPlaybook(benchmark::State& state) {
  const std::string text = LargePlaybook();
  const playbook::Loaded once = playbook::Load(text);
  if (!once.ok()) state.SkipWithError("the playbook does not load");
  for (auto _ : state) benchmark::DoNotOptimize(playbook::Load(text));
  state.counters["lines"] = static_cast<double>(std::count(text.begin(), text.end(), '\n'));
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(BM_LoadPlaybook)->Unit(benchmark::kMillisecond);

// The same document as JSON through the bare parser: what reading alone costs at least.
void BM_FloorParseJson(benchmark::State& state) {
  const playbook::Loaded loaded = playbook::Load(LargePlaybook());
  if (!loaded.ok()) return state.SkipWithError("the playbook does not load");
  const simdjson::padded_string text(WriteJson(loaded.playbook->canonical));
  simdjson::dom::parser parser;
  for (auto _ : state) benchmark::DoNotOptimize(parser.parse(text).error());
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(BM_FloorParseJson)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace noetl
