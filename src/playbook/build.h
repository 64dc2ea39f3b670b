// Private to the playbook module: from the canonical tree to the model.
//
// Every function reports all it finds and gives back the best model it can, so that one mistake
// does not hide the next.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "playbook/model.h"
#include "playbook/report.h"

namespace noetl::playbook {

// Root names that a worker must be sent for the templates it renders.
class RootCollector {
 public:
  // Collect every template, or only those the server leaves to the worker.
  enum class Mode { kAll, kDeferred };
  RootCollector(Mode mode, const std::set<std::string, std::less<>>* secrets)
      : mode_(mode), secrets_(secrets) {}

  void Add(const expr::Analysis& analysis);
  void NeedAll() { all_ = true; }
  void MoveTo(Step* step);

 private:
  bool Deferred(const expr::Analysis& analysis) const;

  Mode mode_;
  const std::set<std::string, std::less<>>* secrets_;
  std::set<std::string> roots_;
  bool all_ = false;
  bool defers_ = false;
};

struct BuildContext {
  Reporter report;
  Playbook* playbook = nullptr;
  LoadOptions options;
  expr::Dialect dialect;
  std::vector<std::string> step_names;
  // Step names that are not identifiers, for W220.
  std::vector<std::string> odd_names;
  std::set<std::string, std::less<>> secrets;  // workload keys marked # ui:secret
  std::set<std::string> env_names;
  std::optional<std::int64_t> default_timeout_ms;
  // Set while the templates of a worker's task are compiled.
  RootCollector* roots = nullptr;
};

// How problems in a field's templates count.
enum class FieldRule {
  kTemplate,  // errors
  kCode,      // v2: not rendered, W413; v10: never compiled
  kCommand,   // v2: syntax errors leave it unrendered, W413
};
expr::Tree CompileTree(BuildContext* context, const Node& node,
                       FieldRule rule = FieldRule::kTemplate);
// Absent, or null, is an absent condition only when `node` is null.
expr::Condition CompileWhen(BuildContext* context, const Node* node);

// Targets: what a bare name means.
std::vector<Assignment> BuildSet(BuildContext* context, const Node* set, Assignment::Scope bare);

// Milliseconds of a number of seconds or a duration text; nullopt for templates and (with E013)
// others.
std::optional<std::int64_t> ReadDuration(BuildContext* context, const Node* node);
// The scalar's text; empty when the node is absent or no scalar.
std::string TextOf(const Node* node);
bool BoolOf(const Node* node, bool fallback);
// The value at a path of keys; nullptr when something is missing or no map.
const Node* FindPath(const Node& node, std::initializer_list<std::string_view> keys);
// W221/E221 for names that templates use for themselves.
void CheckReserved(BuildContext* context, const Node& at, std::string_view name,
                   std::string_view what);

void BuildHeader(BuildContext* context, const Node& root);
void BuildWorkload(BuildContext* context, const Node& root);
void BuildKeychain(BuildContext* context, const Node& root);
void CheckWorkbook(BuildContext* context, const Node& root);
void BuildSteps(BuildContext* context, const Node& root);
void BuildLoop(BuildContext* context, const Node& node, Step* step);
void BuildNext(BuildContext* context, const Node* next, Step* step);
void BuildAdmit(BuildContext* context, const Node& admit, Step* step);
void BuildTools(BuildContext* context, const Node& node, Step* step);
// {store, select: [{path, as}], ...}, or null.
Json BuildOutput(BuildContext* context, const Node* output);
// Checks and compiles a task's policy; labels are those of the whole pipeline.
void CheckPolicy(BuildContext* context, const Node& policy, const Step& step, std::size_t task,
                 const std::vector<std::string>& labels);
// Entry, final step, `end`, graph.
void ResolveFlow(BuildContext* context, const Node& root);

}  // namespace noetl::playbook
