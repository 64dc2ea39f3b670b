// From a path to its route, by segments.
//
// Literal segments win over parameters, parameters over a rest; among rests the longest literal tail
// wins. A path that a better match does not have this method for may still be found by a worse one.
// Immutable after it was made, any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/route.h"

namespace noetl::api {

struct RouteMatch {
  const Route* route = nullptr;
  std::map<std::string, std::string, std::less<>> path;  // parameters, decoded
};

class RouteTable {
 public:
  RouteTable();
  ~RouteTable();

  // The route stays the caller's. Two routes for one method and shape are a bug.
  void Add(const Route* route);

  struct Found {
    std::optional<RouteMatch> match;
    std::vector<std::string_view> methods;  // of this path, when there is no match
    bool broken = false;                    // a parameter cannot be decoded
  };
  Found Find(std::string_view method, std::string_view path) const;

  // The known path that this one most likely was meant to be, with its own values for parameters.
  std::optional<std::string> Nearest(std::string_view path) const;

  std::span<const Route* const> routes() const { return routes_; }

 private:
  struct Node;
  struct Search;

  std::unique_ptr<Node> root_;
  std::vector<const Route*> routes_;
};

// "/a/{b}" -> {"a", "{b}"}.
std::vector<std::string_view> PathSegments(std::string_view path);
// The name inside "{name}" or "{name...}"; empty: a literal.
std::string_view ParameterName(std::string_view segment);
bool IsRest(std::string_view segment);

}  // namespace noetl::api
