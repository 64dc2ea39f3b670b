#include "store/reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

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

}  // namespace noetl::store
