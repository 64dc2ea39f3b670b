#include "engine/command.h"

#include <algorithm>

#include "expr/tree.h"

namespace noetl::engine {

Json NamesOfIteration(const Json& iteration) {
  if (!iteration.is_object()) return Json();
  Json names = IterationNames(iteration["iterator"].AsString(), iteration["item"],
                              iteration["index"].AsInt(), iteration["total"].AsInt());
  if (iteration["frame"].AsBool()) {
    names = names.With("iter",
                       names["iter"].With("frame", Json::Object({{"rows", iteration["item"]}})));
  }
  return names;
}

Result<std::unique_ptr<CommandScope>> CommandScope::Create(const Json& context, const Json& meta,
                                                           const Bodies* bodies) {
  Json base = context["render_context"];
  if (const Json* ref = base.Find("__context_ref__")) {
    if (!bodies) return Fail("needs_reference", ref->ToString());
    NOETL_ASSIGN(const Json* body, bodies->Find(ref->AsString()));
    if (!body) return Fail("needs_reference", ref->ToString());
    base = *body;
  }
  std::unique_ptr<CommandScope> made(new CommandScope());
  for (const JsonMember& member : base["steps"].members()) {
    made->steps_.emplace(std::string(member.key()),
                         std::make_shared<const StepResult>(StepResult::FromJson(member.value)));
  }
  const auto map_or_empty = [&](std::string_view key) {
    return base[key].is_object() ? base[key] : Json::Object();
  };
  made->scope_ = std::make_unique<Scope>(Scope::Sources{.workload = map_or_empty("workload"),
                                                        .ctx = map_or_empty("ctx"),
                                                        .identity = map_or_empty("identity"),
                                                        .steps = made.get(),
                                                        .bodies = bodies});
  made->scope_->SetRetypesText(context["retype"].AsBool());
  made->scope_->Bind("fence", Json(meta["attempt"].AsInt(1)));
  made->scope_->Bind("idempotency_key", context["idempotency_key"]);
  made->scope_->BindAll(context["args"]);
  made->scope_->BindAll(NamesOfIteration(context["iteration"]));
  return made;
}

std::shared_ptr<const StepResult> CommandScope::Find(std::string_view step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : found->second;
}

std::vector<std::string> CommandScope::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, result] : steps_) names.push_back(name);
  return names;
}

Result<Json> RenderDeferred(const Json& context, const Scope& scope) {
  const Json& config = context["tool_config"];
  const Json& deferred = context["deferred"];
  if (deferred.empty()) return config;
  const auto is_deferred = [&](std::string_view path) {
    return std::any_of(deferred.items().begin(), deferred.items().end(),
                       [&](const Json& item) { return item.AsString() == path; });
  };
  std::vector<expr::Tree::Problem> problems;
  const expr::Tree tree = expr::Tree::Compile(config, {}, &problems, is_deferred);
  if (!problems.empty()) return std::unexpected(problems[0].error.error);
  return tree.Render(scope, expr::Output::kText);
}

}  // namespace noetl::engine
