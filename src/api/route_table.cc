#include "api/route_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace noetl::api {

namespace {

// A longer path is no typo of ours; comparing it would be work for nothing.
constexpr std::size_t kHintPathMax = 200;

}  // namespace

struct RouteTable::Node {
  std::map<std::string_view, std::unique_ptr<Node>> literals;
  std::unique_ptr<Node> parameter;
  std::vector<const Route*> here;
  // Routes whose rest begins here, with their literal tails; longest tail first.
  struct Rest {
    const Route* route;
    std::vector<std::string_view> tail;
  };
  std::vector<Rest> rests;
};

// One walk for one request.
struct RouteTable::Search {
  std::string_view method;
  std::vector<std::string_view> segments;
  const Route* route = nullptr;
  std::vector<std::string_view> methods;

  bool Take(const Route* candidate) {
    if (candidate->method == method) {
      route = candidate;
      return true;
    }
    if (std::ranges::find(methods, candidate->method) == methods.end()) {
      methods.push_back(candidate->method);
    }
    return false;
  }

  bool TakeRest(const Node& node, std::size_t depth) {
    for (const Node::Rest& rest : node.rests) {
      // The rest itself has at least one segment, and it is not empty.
      const std::size_t left = segments.size() - depth;
      if (left < rest.tail.size() + 1 || segments[depth].empty()) continue;
      if (!std::equal(rest.tail.rbegin(), rest.tail.rend(), segments.rbegin())) continue;
      if (Take(rest.route)) return true;
    }
    return false;
  }

  bool Walk(const Node& node, std::size_t depth) {
    if (depth == segments.size()) {
      return std::ranges::any_of(node.here, [&](const Route* found) { return Take(found); });
    }
    const auto literal = node.literals.find(segments[depth]);
    if (literal != node.literals.end() && Walk(*literal->second, depth + 1)) return true;
    if (node.parameter && !segments[depth].empty() && Walk(*node.parameter, depth + 1)) return true;
    return TakeRest(node, depth);
  }
};

std::vector<std::string_view> PathSegments(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool IsRest(std::string_view segment) {
  return segment.starts_with('{') && segment.ends_with("...}");
}

std::string_view ParameterName(std::string_view segment) {
  if (!segment.starts_with('{')) return "";
  return segment.substr(1, segment.size() - (IsRest(segment) ? 5 : 2));
}

RouteTable::RouteTable() : root_(std::make_unique<Node>()) {}
RouteTable::~RouteTable() = default;

void RouteTable::Add(const Route* route) {
  const std::vector<std::string_view> segments = PathSegments(route->path);
  routes_.push_back(route);
  Node* node = root_.get();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (IsRest(segments[i])) {
      const auto tail = segments.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      node->rests.push_back({route, {tail, segments.end()}});
      std::ranges::stable_sort(node->rests, std::ranges::greater(),
                               [](const Node::Rest& rest) { return rest.tail.size(); });
      return;
    }
    std::unique_ptr<Node>& next =
        ParameterName(segments[i]).empty() ? node->literals[segments[i]] : node->parameter;
    if (!next) next = std::make_unique<Node>();
    node = next.get();
  }
  const bool taken = std::ranges::any_of(
      node->here, [&](const Route* other) { return other->method == route->method; });
  NOETL_CHECK(!taken, "two routes have the same method and path");
  node->here.push_back(route);
}

RouteTable::Found RouteTable::Find(std::string_view method, std::string_view path) const {
  Found found;
  Search search{.method = method, .segments = PathSegments(path)};
  if (!path.starts_with('/')) return found;
  if (!search.Walk(*root_, 0)) {
    found.methods = std::move(search.methods);
    return found;
  }
  RouteMatch match{.route = search.route};
  const std::vector<std::string_view> shape = PathSegments(search.route->path);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::string_view name = ParameterName(shape[i]);
    if (name.empty()) continue;
    std::string_view raw = search.segments[i];
    if (IsRest(shape[i])) {
      // From here to the first segment of the tail, slashes included.
      const std::size_t last = search.segments.size() - (shape.size() - i - 1) - 1;
      const char* end = search.segments[last].data() + search.segments[last].size();
      raw = std::string_view(raw.data(), static_cast<std::size_t>(end - raw.data()));
    }
    std::optional<std::string> value = DecodeUrl(raw, false);
    if (!value) {
      found.broken = true;
      return found;
    }
    match.path.emplace(name, std::move(*value));
    if (IsRest(shape[i])) break;
  }
  found.match = std::move(match);
  return found;
}

std::optional<std::string> RouteTable::Nearest(std::string_view path) const {
  if (path.size() > kHintPathMax) return std::nullopt;
  const std::vector<std::string_view> given = PathSegments(path);
  std::vector<std::string> candidates;
  for (const Route* route : routes_) {
    const std::vector<std::string_view> shape = PathSegments(route->path);
    std::string candidate;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool fill = shape.size() == given.size() && !ParameterName(shape[i]).empty();
      (candidate += '/') += fill ? given[i] : shape[i];
    }
    if (candidate != path) candidates.push_back(std::move(candidate));
  }
  return NearestName(path, candidates);
}

}  // namespace noetl::api
