#include "cli/inputs.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/files.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

Result<Json> ReadMap(std::string_view text, std::string_view source) {
  auto parsed = ParseJson(text);
  if (!parsed) return Fail("usage", fmt::format("{}: {}", source, parsed.error().message));
  if (!parsed->is_object())
    return Fail("usage", fmt::format("{}: the input of a run is a JSON map", source));
  return *std::move(parsed);
}

}  // namespace

void AddPayloadOptions(Parser& parser, PayloadOptions* options) {
  parser.Add("--set", &options->set, "one value of the payload, JSON or text; may be repeated")
      .Type("NAME=VALUE")
      .Repeated();
  parser.Add("-i,--input", &options->input, "the payload of the run, a JSON map").Type("FILE");
  parser.Add("--payload,--workload", &options->json, "the same as text, over --input").Type("JSON");
}

Result<Json> ReadPayload(const PayloadOptions& options) {
  Json payload = Json::Object();
  if (!options.input.empty()) {
    NOETL_ASSIGN(const std::string text, ReadInput(options.input));
    NOETL_ASSIGN(payload, ReadMap(text, options.input));
  }
  if (!options.json.empty()) {
    NOETL_ASSIGN(const Json map, ReadMap(options.json, "--payload"));
    payload = payload.Merge(map);
  }
  for (const std::string& pair : options.set) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail("usage", fmt::format("--set: '{}' is not NAME=VALUE", pair));
    }
    const std::string value = pair.substr(equals + 1);
    const auto parsed = ParseJson(value);
    payload =
        payload.With(std::string_view(pair).substr(0, equals), parsed ? *parsed : Json(value));
  }
  return payload;
}

std::vector<Neighbour> Neighbours(const std::string& file) {
  std::vector<Neighbour> neighbours;
  if (file == "-") return neighbours;
  std::error_code error;
  std::vector<fs::path> paths;
  const fs::path folder = fs::absolute(file, error).parent_path();
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const fs::path& path = i->path();
    if (path.extension() != ".yaml" && path.extension() != ".yml") continue;
    std::error_code ignored;
    if (i->is_regular_file(ignored) && !fs::equivalent(path, file, ignored)) paths.push_back(path);
  }
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    auto text = ReadInput(path.string());
    if (!text) continue;
    playbook::Loaded loaded = playbook::Load(*text);
    if (loaded.ok())
      neighbours.push_back({path.string(), *std::move(text), std::move(loaded.playbook)});
  }
  return neighbours;
}

}  // namespace noetl::cli
