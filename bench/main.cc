// Prints a table and writes the same figures as JSON to build/bench.json (or --benchmark_out=...).
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string out = "--benchmark_out=build/bench.json";
  std::string format = "--benchmark_out_format=json";
  std::string tabular = "--benchmark_counters_tabular=false";
  bool has_out = false;
  for (int i = 1; i < argc; ++i)
    has_out = has_out || std::string_view(argv[i]).starts_with("--benchmark_out=");
  if (!has_out) {
    std::error_code ignored;
    std::filesystem::create_directories("build", ignored);
    arguments.push_back(out.data());
    arguments.push_back(format.data());
  }
  arguments.push_back(tabular.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
