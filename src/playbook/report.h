// Private to the playbook module: saying what is wrong with a node, and small edits of trees.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "playbook/diagnostics.h"
#include "playbook/model.h"
#include "playbook/yaml.h"

namespace noetl::playbook {

class Reporter {
 public:
  Reporter(Diagnostics* diagnostics, Profile profile)
      : diagnostics_(diagnostics), profile_(profile) {}

  bool strict() const { return profile_ == Profile::kStrict; }
  Diagnostics* diagnostics() const { return diagnostics_; }

  void Add(std::string_view code, const Node& at, std::string message, std::string hint = {});
  // `number` "211": a warning W211 in noetl.io/v2, an error E211 in noetl.io/v10.
  void ByProfile(std::string_view number, const Node& at, std::string message,
                 std::string hint = {});
  // E013.
  void WrongType(const Node& at, std::string_view expected);

  // Unknown keys (W100/E100), types (E013) and allowed words of a map that stands at `place`. A
  // node that is not a map is reported; false then. `where` names the place for people. Values that
  // have their own codes (`do`) are left to the caller.
  enum class Unknown { kReport, kAllow };
  bool CheckKeys(const Node& map, std::string_view place, std::string_view where,
                 Unknown unknown = Unknown::kReport);

 private:
  Diagnostics* diagnostics_;
  Profile profile_;
};

// The value for a message, shortened.
std::string ShowValue(const Node& node);
// "; did you mean 'x'?" or nothing.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);
std::string JoinNames(std::span<const std::string> names);

// New nodes stand where `at` stands.
Node StringNode(std::string_view text, const Node& at);
Node MapNode(const Node& at);
Node ListNode(const Node& at);
// Replaces the value of `key` or adds it at the end.
Node& SetKey(Node* map, std::string_view key, Node value);
// Adds it in front of all others.
void SetFirst(Node* map, std::string_view key, Node value);
// Removes the entry and gives its value.
std::optional<Node> TakeKey(Node* map, std::string_view key);
// Renames the key in place, keeping its comments.
void RenameKey(Node* map, std::string_view from, std::string_view to);
// The map at `key`, made when absent or null; nullptr when something else is there.
Node* MapAt(Node* map, std::string_view key);
// The node that a key's own position and comments belong to.
const Node* FindKey(const Node& map, std::string_view key);

}  // namespace noetl::playbook
