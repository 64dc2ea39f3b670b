// Tools and pipelines.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/text.h"
#include "playbook/build.h"

namespace noetl::playbook {
namespace {

// Text that looks like JSON becomes that value in these fields only.
constexpr std::string_view kStructured[] = {"input",  "payload", "json", "data",
                                            "params", "value",   "set",  "args"};
constexpr std::string_view kNotFields[] = {"kind", "name",   "input", "set",
                                           "spec", "output", "retry"};
constexpr std::string_view kSqlKinds[] = {"postgres", "duckdb", "ducklake", "snowflake"};

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

FieldRule RuleOf(std::string_view field) {
  if (field == "code" || field == "script") return FieldRule::kCode;
  if (field == "command" || field == "cmds" || field == "commands") return FieldRule::kCommand;
  return FieldRule::kTemplate;
}

// A limit that is known now; {connect, read} and templates stay fields of the tool.
bool IsFixedTimeout(const Node& timeout) {
  return timeout.is_scalar() &&
         !(timeout.is_string() && expr::Template::LooksLikeTemplate(timeout.text));
}

const ToolKind* FindKind(std::string_view name) {
  for (const ToolKind& kind : ToolKinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

bool MentionsWord(std::string_view text, std::string_view word) {
  const auto part = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

class ToolBuilder {
 public:
  ToolBuilder(BuildContext* context, Step* step)
      : context_(context), report_(context->report), step_(step) {}

  void CheckKind(const Node& tool) {
    const Node* kind = tool.Find("kind");
    const std::string name = TextOf(kind);
    if (name.empty()) {
      report_.Add("E233", tool, fmt::format("Step '{}': tool needs 'kind'", step_->name),
                  "add kind: http, postgres, python, shell ...");
      return;
    }
    const ToolKind* known = FindKind(name);
    if (known == nullptr) {
      std::vector<std::string_view> names;
      for (const ToolKind& candidate : ToolKinds()) {
        if (!candidate.internal) names.push_back(candidate.name);
      }
      const std::string lower = ToLower(name);
      const std::string near = FindKind(lower) != nullptr
                                   ? fmt::format("; did you mean '{}'?", lower)
                                   : DidYouMean(name, names);
      const bool computed = expr::Template::LooksLikeTemplate(name);
      report_.Add("E234", *kind,
                  fmt::format("Step '{}': unknown tool kind '{}'{}", step_->name, name, near),
                  computed ? "a kind cannot be a template"
                           : fmt::format("kinds are: {}", fmt::join(names, ", ")));
      return;
    }
    if (known->internal) {
      report_.Add(
          "E236", *kind, fmt::format("Step '{}': tool kind '{}' is internal", step_->name, name),
          name == "iterator" ? "use the step's 'loop'" : "write the tasks as a list under 'tool'");
      return;
    }
    if (known->known_only) {
      report_.Add("W235", *kind,
                  fmt::format("Step '{}': tool kind '{}' is not available on any worker of this "
                              "program",
                              step_->name, name),
                  "make sure a worker that has it serves the pool");
    }
    CheckRequired(tool, *known);
  }

  // `label_index` is the task's place among `labels`.
  Task Build(const Node& tool, std::size_t label_index, const std::vector<std::string>& labels,
             const Node& step_node) {
    Task task;
    task.name = labels[label_index];
    task.kind = TextOf(tool.Find("kind"));
    task.path = step_->single ? step_->path + ".tool"
                              : fmt::format("{}.tool[{}]", step_->path, label_index);
    report_.CheckKeys(tool, "tool", fmt::format("a tool of step '{}'", step_->name),
                      Reporter::Unknown::kAllow);
    if (const Node* input = tool.Find("input"); input != nullptr && !input->is_null()) {
      task.input = CompileTree(context_, *input);
    }
    BuildFields(tool, &task);
    const auto bare = step_->single ? Assignment::Scope::kCtx : Assignment::Scope::kLocal;
    task.set = BuildSet(context_, tool.Find("set"), bare);
    if (const Node* retry = tool.Find("retry"); retry != nullptr && retry->is_map()) {
      report_.CheckKeys(*retry, "retry", fmt::format("retry of step '{}'", step_->name));
      task.retry = NodeToJson(*retry);
    }
    task.timeout_ms = Timeout(tool, step_node);
    if (const Node* spec = tool.Find("spec"); spec != nullptr && spec->is_map()) {
      report_.CheckKeys(*spec, "tool.spec", fmt::format("a tool's spec of step '{}'", step_->name));
      const Node* policy = spec->Find("policy");
      if (policy != nullptr && !policy->is_null()) {
        CheckPolicy(context_, *policy, *step_, label_index, labels);
      }
      Json rest = NodeToJson(*spec).Without("policy");
      if (!rest.empty()) task.spec = std::move(rest);
    }
    CheckPassword(tool);
    NoteCode(tool);
    return task;
  }

  // The task as the worker gets it.
  Json Config(const Node& tool, const Task& task) const {
    JsonObjectBuilder config;
    config.Add("kind", task.kind).Add("name", task.name);
    for (const auto& [key, value] : tool.entries) {
      if (key.text == "kind" || key.text == "name" || value.is_null()) continue;
      if (key.text == "timeout" && IsFixedTimeout(value)) continue;
      if (key.text == "set" && step_->single) {
        config.Add("set", ContextSet(task));
      } else if (key.text == "output") {
        config.Add("output", BuildOutput(context_, &value));
      } else {
        config.Add(key.text, NodeToJson(value));
      }
    }
    if (task.timeout_ms) config.Add("timeout_ms", *task.timeout_ms);
    return Json::Object({{task.name, config.Build()}});
  }

 private:
  void CheckRequired(const Node& tool, const ToolKind& kind) {
    const auto present = [&](std::string_view field) {
      const Node* value = tool.Find(field);
      return value != nullptr && !value->is_null() &&
             !(value->is_string() && Trim(value->text).empty());
    };
    std::string_view groups = kind.required;
    while (!groups.empty()) {
      const std::size_t join = groups.find('&');
      std::string_view group = groups.substr(0, join);
      groups = join == std::string_view::npos ? std::string_view() : groups.substr(join + 1);
      std::string names;
      bool found = false;
      for (std::string_view rest = group; !rest.empty();) {
        const std::size_t bar = rest.find('|');
        const std::string_view field = rest.substr(0, bar);
        found = found || present(field);
        names += (names.empty() ? "'" : " or '") + std::string(field) + "'";
        rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
      }
      if (!found) ReportRequired(tool, kind, names);
    }
  }

  void ReportRequired(const Node& tool, const ToolKind& kind, const std::string& names) {
    if (Contains(kSqlKinds, kind.name)) {
      report_.Add("E237", tool,
                  fmt::format("Step '{}': {} tool: no sql command provided (command, query or "
                              "script required)",
                              step_->name, kind.name),
                  "add 'command' with the SQL text");
      return;
    }
    report_.Add(kind.name == "playbook" ? "E460" : "E237", tool,
                fmt::format("Step '{}': {} tool: {} is required", step_->name, kind.name, names),
                fmt::format("add {}", names));
  }

  void BuildFields(const Node& tool, Task* task) {
    for (const auto& [key, value] : tool.entries) {
      if (Contains(kNotFields, key.text) || value.is_null()) continue;
      if (key.text == "timeout" && IsFixedTimeout(value)) continue;
      Task::Field field;
      field.name = key.text;
      field.output =
          Contains(kStructured, key.text) ? expr::Output::kStructured : expr::Output::kText;
      field.value = CompileTree(context_, value, RuleOf(key.text));
      task->fields.push_back(std::move(field));
    }
  }

  std::optional<std::int64_t> Timeout(const Node& tool, const Node& step_node) {
    const Node* own = tool.Find("timeout");
    if (own != nullptr && !own->is_null()) {
      if (IsFixedTimeout(*own)) return ReadDuration(context_, own);
      if (own->is_string() || own->is_map()) return std::nullopt;
      report_.WrongType(*own, "a duration, or {connect, read}");
      return std::nullopt;
    }
    if (const Node* timeout = FindPath(step_node, {"spec", "timeout"}))
      return ReadDuration(context_, timeout);
    if (const Node* timeout = FindPath(step_node, {"spec", "policy", "lifecycle", "timeout_s"})) {
      return ReadDuration(context_, timeout);
    }
    return context_->default_timeout_ms;
  }

  // A password belongs into a credential: a warning in v2, an error in v10.
  void CheckPassword(const Node& map) {
    for (const auto& [key, value] : map.entries) {
      if (key.text == "auth" && value.is_map()) CheckPassword(value);
      const bool password = key.text == "password" || key.text == "db_password";
      if (!password || !value.is_scalar() || value.is_null() || value.text.empty()) continue;
      if (value.is_string() && expr::Template::LooksLikeTemplate(value.text)) continue;
      report_.ByProfile(
          "238", key, fmt::format("Step '{}': a literal password in the playbook", step_->name),
          "store a credential and name it in 'auth', or use {{ keychain.<name>.password }}");
    }
  }

  // Python code may read the whole context by name; code loaded from elsewhere may, too.
  void NoteCode(const Node& tool) {
    if (TextOf(tool.Find("kind")) != "python" || context_->roots == nullptr) return;
    if (tool.Find("script") != nullptr || MentionsWord(TextOf(tool.Find("code")), "context")) {
      context_->roots->NeedAll();
    }
  }

  // A single tool's bare targets are ctx keys, in a pipeline they would be local.
  static Json ContextSet(const Task& task) {
    JsonObjectBuilder set;
    for (const Assignment& assignment : task.set) {
      const bool bare =
          assignment.scope == Assignment::Scope::kCtx && !assignment.target.starts_with("ctx.");
      set.Add((bare ? "ctx." : "") + assignment.target, assignment.value.source());
    }
    return set.Build();
  }

  BuildContext* context_;
  Reporter& report_;
  Step* step_;
};

std::vector<std::string> Labels(BuildContext* context, const Node& tools, const Step& step) {
  std::vector<std::string> labels;
  for (const Node& tool : tools.items) {
    const Node* name = tool.Find("name");
    std::string label = TextOf(name);
    const Node& at = name == nullptr ? tool : *name;
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) {
      context->report.Add("E232", at,
                          fmt::format("Step '{}': duplicate task label '{}'", step.name, label),
                          "give each task its own name");
    }
    if (context->playbook->IndexOf(label) >= 0) {
      context->report.Add("W233", at,
                          fmt::format("Step '{}': task label '{}' is also a step; inside this step "
                                      "the task is meant",
                                      step.name, label),
                          "rename the task");
    }
    CheckReserved(context, at, label, "task label");
    labels.push_back(std::move(label));
  }
  return labels;
}

// The step's own output block wins, key by key, over its only tool's.
void MergeOutput(BuildContext* context, const Node& tool, Step* step) {
  const Json own = BuildOutput(context, tool.Find("output"));
  if (own.is_null()) return;
  step->output = step->output.is_null() ? own : own.Merge(step->output);
}

bool HasPolicy(const Node& tool) {
  const Node* policy = FindPath(tool, {"spec", "policy"});
  return policy != nullptr && policy->is_map() && policy->Find("rules") != nullptr;
}

}  // namespace

Json BuildOutput(BuildContext* context, const Node* output) {
  if (output == nullptr || output->is_null()) return {};
  if (!context->report.CheckKeys(*output, "output", "output")) return {};
  if (const Node* store = output->Find("store"); store != nullptr && !store->is_null()) {
    context->report.CheckKeys(*store, "output.store", "output.store");
  }
  Json json = NodeToJson(*output);
  const Json& select = json["select"];
  if (!select.is_array()) return json;
  std::vector<Json> fields;
  for (const Json& item : select.items()) {
    if (item.is_string()) {
      fields.push_back(Json::Object({{"path", "$." + item.ToString()}, {"as", item}}));
    } else {
      fields.push_back(item);
    }
  }
  return json.With("select", Json::Array(std::move(fields)));
}

void BuildTools(BuildContext* context, const Node& node, Step* step) {
  const Node* tool = node.Find("tool");
  if (tool == nullptr || tool->is_scalar()) return;
  if (tool->is_list() && tool->items.empty()) {
    context->report.Add("E231", *tool, fmt::format("Step '{}': tool list is empty", step->name),
                        "add a task, or remove 'tool'");
    return;
  }
  step->single = tool->is_map();
  step->pipeline = !step->single || HasPolicy(*tool);
  const std::vector<std::string> labels =
      step->single ? std::vector<std::string>{step->name + "_task"} : Labels(context, *tool, *step);
  RootCollector roots(step->pipeline ? RootCollector::Mode::kAll : RootCollector::Mode::kDeferred,
                      &context->secrets);
  context->roots = &roots;
  ToolBuilder builder(context, step);
  std::vector<Json> config;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Node& item = step->single ? *tool : tool->items[i];
    builder.CheckKind(item);
    Task task = builder.Build(item, i, labels, node);
    if (step->pipeline) config.push_back(builder.Config(item, task));
    step->tasks.push_back(std::move(task));
  }
  context->roots = nullptr;
  roots.MoveTo(step);
  step->tool_kind = step->pipeline ? "task_sequence" : step->tasks[0].kind;
  if (step->pipeline) step->pipeline_config = Json::Array(std::move(config));
  if (!step->single) return;
  MergeOutput(context, *tool, step);
  if (!step->pipeline) {
    for (const Assignment& assignment : step->tasks[0].set) step->set.push_back(assignment);
  }
}

}  // namespace noetl::playbook
