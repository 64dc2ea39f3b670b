#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "playbook/build.h"

namespace noetl::playbook {
namespace {

void BuildFrame(BuildContext* context, const Node& node, const Step& step, Loop* loop) {
  Reporter& report = context->report;
  if (!report.CheckKeys(node, "loop.spec.frame",
                        fmt::format("loop.spec.frame of step '{}'", step.name)))
    return;
  for (const auto& [key, value] : node.entries) {
    if (value.is_scalar() && value.scalar.is_number() && value.scalar.AsDouble() <= 0) {
      report.Add("E265", value,
                 fmt::format("Step '{}': frame.{} must be above 0, got {}", step.name, key.text,
                             value.text),
                 "write a positive number");
    }
  }
  loop->frame.raw = NodeToJson(node);
  loop->frame.max_rows = loop->frame.raw["max_rows"].AsInt(1);
  loop->frame.row_concurrency = loop->frame.raw["row_concurrency"].AsInt(1);
  loop->frame.whole_frame = loop->frame.raw["process"].AsString() == "frame";
}

void BuildMaxInFlight(BuildContext* context, const Node& node, const Step& step, Loop* loop) {
  const bool number = node.is_scalar() && node.scalar.is_int() && node.scalar.AsInt() >= 1;
  const bool computed = node.is_string() && expr::Template::LooksLikeTemplate(node.text);
  if (!number && !computed) {
    context->report.Add(
        "E265", node,
        fmt::format("Step '{}': loop.spec.max_in_flight must be an integer of at least 1 or "
                    "a template, got {} ({})",
                    step.name, node.TypeName(), ShowValue(node)),
        "write max_in_flight: 10");
    return;
  }
  loop->max_in_flight = CompileTree(context, node);
}

void BuildLoopSpec(BuildContext* context, const Node& spec, const Step& step, Loop* loop) {
  Reporter& report = context->report;
  if (!report.CheckKeys(spec, "loop.spec", fmt::format("loop.spec of step '{}'", step.name)))
    return;
  const std::string mode = TextOf(spec.Find("mode"));
  if (mode == "parallel") loop->mode = Loop::Mode::kParallel;
  if (mode == "cursor") loop->mode = Loop::Mode::kCursor;
  if (const Node* cap = spec.Find("max_in_flight"); cap != nullptr && !cap->is_null()) {
    BuildMaxInFlight(context, *cap, step, loop);
  }
  if (const Node* policy = spec.Find("policy"); policy != nullptr && !policy->is_null()) {
    report.CheckKeys(*policy, "loop.spec.policy",
                     fmt::format("loop.spec.policy of step '{}'", step.name));
    if (policy->is_map()) {
      loop->continue_on_error = TextOf(policy->Find("on_error")) == "continue";
      loop->retain_results = BoolOf(FindPath(*policy, {"results", "retain"}), false);
    }
  }
  if (const Node* frame = spec.Find("frame"); frame != nullptr && !frame->is_null()) {
    BuildFrame(context, *frame, step, loop);
  }
}

void BuildCursor(BuildContext* context, const Node& cursor, const Step& step, Loop* loop) {
  Reporter& report = context->report;
  if (!report.CheckKeys(cursor, "loop.cursor", fmt::format("loop.cursor of step '{}'", step.name)))
    return;
  if (const std::string kind = TextOf(cursor.Find("kind")); !kind.empty()) loop->cursor.kind = kind;
  if (const Node* auth = cursor.Find("auth")) loop->cursor.auth = CompileTree(context, *auth);
  if (const Node* options = cursor.Find("options")) loop->cursor.options = NodeToJson(*options);
  const Node* claim = cursor.Find("claim");
  if (Trim(TextOf(claim)).empty()) {
    report.Add("E260", cursor, fmt::format("Step '{}': loop.cursor needs 'claim'", step.name),
               "add a statement that leases rows and returns them");
    return;
  }
  loop->cursor.claim = CompileTree(context, *claim);
}

void CheckIterator(BuildContext* context, const Node& node, const Step& step, Loop* loop) {
  const Node* iterator = node.Find("iterator");
  loop->iterator = TextOf(iterator);
  if (loop->iterator.empty()) {
    context->report.Add("E264", iterator == nullptr ? node : *iterator,
                        fmt::format("Step '{}': loop.iterator is empty", step.name),
                        "add iterator: item");
  } else if (!IsIdentifier(loop->iterator)) {
    context->report.Add("E264", *iterator,
                        fmt::format("Step '{}': loop.iterator '{}' is not an identifier", step.name,
                                    loop->iterator),
                        "use letters, digits and '_' only");
  } else {
    CheckReserved(context, *iterator, loop->iterator, "iterator");
  }
}

void CheckSource(BuildContext* context, const Node& node, const Step& step, Loop* loop) {
  Reporter& report = context->report;
  const Node* in = node.Find("in");
  const Node* cursor = node.Find("cursor");
  if (in != nullptr && in->is_null()) in = nullptr;
  if (cursor != nullptr && cursor->is_null()) cursor = nullptr;
  const bool cursor_mode = loop->mode == Loop::Mode::kCursor;
  if (cursor != nullptr) BuildCursor(context, *cursor, step, loop);
  if (in != nullptr) {
    loop->in = CompileTree(context, *in);
    loop->in_source = in->is_scalar() ? in->text : WriteJson(NodeToJson(*in));
  }
  if (in != nullptr && cursor != nullptr) {
    report.Add("E261", *in,
               fmt::format("Step '{}': a loop takes 'in' or 'cursor', not both", step.name),
               "remove one of them");
  } else if (in != nullptr && cursor_mode) {
    report.Add("E262", *in,
               fmt::format("Step '{}': mode cursor needs 'cursor', not 'in'", step.name),
               "write loop.cursor, or another mode");
  } else if (cursor != nullptr && !cursor_mode) {
    report.Add("E262", *cursor,
               fmt::format("Step '{}': loop.cursor needs spec.mode: cursor", step.name),
               "add spec: {mode: cursor}");
  } else if (in == nullptr && cursor == nullptr) {
    report.Add("E263", node,
               fmt::format("Step '{}': loop needs 'in' (or 'cursor' with mode cursor)", step.name),
               "add in: \"{{ collection }}\"");
  }
}

}  // namespace

void BuildLoop(BuildContext* context, const Node& node, Step* step) {
  Reporter& report = context->report;
  if (!report.CheckKeys(node, "loop", fmt::format("loop of step '{}'", step->name))) return;
  Loop loop;
  if (const Node* spec = node.Find("spec"); spec != nullptr && !spec->is_null()) {
    BuildLoopSpec(context, *spec, *step, &loop);
  }
  CheckIterator(context, node, *step, &loop);
  CheckSource(context, node, *step, &loop);
  // On a loop step best_effort says the same as on_error: continue.
  if (step->best_effort && !report.strict()) loop.continue_on_error = true;
  step->loop = std::move(loop);
}

}  // namespace noetl::playbook
