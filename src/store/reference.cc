#include "store/reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/url.h"

namespace noetl::store {

namespace {

constexpr std::string_view kScheme = "noetl://execution/";

struct KindName {
  std::string_view name;
  Reference::Kind kind;
};
constexpr std::array<KindName, 3> kKinds = {{{"result", Reference::Kind::kResult},
                                             {"command", Reference::Kind::kCommand},
                                             {"loop", Reference::Kind::kLoop}}};

// Only digits, without sign or leading zeros that would give one thing two names.
std::optional<std::int64_t> ParseId(std::string_view text) {
  if (text.empty() || text.front() == '-' || (text.front() == '0' && text.size() > 1)) return {};
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

// The text before the next '/', which is taken off with it.
std::string_view TakePart(std::string_view& rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::exchange(rest, {});
  const std::string_view part = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  return part;
}

}  // namespace

std::optional<Reference> ParseReference(std::string_view ref) {
  if (!ref.starts_with(kScheme)) return std::nullopt;
  ref.remove_prefix(kScheme.size());
  const std::optional<std::int64_t> execution = ParseId(TakePart(ref));
  const std::string_view kind = TakePart(ref);
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KindName& known) { return known.name == kind; });
  if (!execution || found == kKinds.end()) return std::nullopt;

  Reference parsed{.kind = found->kind, .execution_id = *execution};
  if (parsed.kind != Reference::Kind::kCommand) {
    const std::size_t slash = ref.rfind('/');
    if (slash == std::string_view::npos || slash == 0) return std::nullopt;
    parsed.name = ref.substr(0, slash);
    ref.remove_prefix(slash + 1);
  }
  const std::optional<std::int64_t> id = ParseId(ref);
  if (!id) return std::nullopt;
  parsed.id = *id;
  return parsed;
}

namespace {

std::string EncodedName(std::string_view name) {
  std::string encoded;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t slash = std::min(name.find('/', from), name.size());
    if (from > 0) encoded += '/';
    encoded += PercentEncode(name.substr(from, slash - from));
    from = slash + 1;
  }
  return encoded;
}

}  // namespace

std::string ResultReference(std::int64_t execution_id, std::string_view name, std::int64_t id) {
  return fmt::format("noetl://execution/{}/result/{}/{}", execution_id, EncodedName(name), id);
}

bool IsNamed(std::string_view in_reference, std::string_view name) {
  return in_reference == name || in_reference == EncodedName(name);
}

bool ObjectReference::Fits(std::string_view key) const {
  while (!key.empty()) {
    const std::string_view part = TakePart(key);
    if (part.starts_with("tenant=") && part.substr(7) != tenant) return false;
    if (part.starts_with("project=") && part.substr(8) != project) return false;
  }
  return true;
}

std::optional<ObjectReference> ParseObjectReference(std::string_view ref) {
  constexpr std::string_view kAnyScheme = "noetl://";
  constexpr std::size_t kParts = 8;
  if (!ref.starts_with(kAnyScheme)) return std::nullopt;
  ref.remove_prefix(kAnyScheme.size());
  std::array<std::string_view, kParts> parts;
  if (std::ranges::count(ref, '/') != kParts - 1) return std::nullopt;
  for (std::string_view& part : parts) {
    part = TakePart(ref);
    if (part.empty() || part == "." || part == "..") return std::nullopt;
  }
  const auto& [tenant, project, word, run, step, frame, row, attempt] = parts;
  const bool numbers = ParseId(run) && ParseId(frame) && ParseId(row) && ParseId(attempt);
  if (word != "results" || !numbers || run == "0") return std::nullopt;
  return ObjectReference{
      .tenant = std::string(tenant),
      .project = std::string(project),
      .tail = fmt::format("execution={}/results/{}/{}/{}/{}.json", run, step, frame, row, attempt)};
}

std::string_view ObjectTail(std::string_view key) {
  constexpr std::string_view kPart = "execution=";
  constexpr std::string_view kInside = "/execution=";
  if (key.starts_with(kPart)) return key;
  const std::size_t slash = key.find(kInside);
  return slash == std::string_view::npos ? std::string_view() : key.substr(slash + 1);
}

}  // namespace noetl::store
