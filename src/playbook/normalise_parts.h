// Private to the normaliser: its parts.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "playbook/report.h"

namespace noetl::playbook {

// What a step needs from the rest of the document.
struct NormaliseContext {
  Reporter* report = nullptr;
  struct Entry {
    const Node* tool = nullptr;  // canonical
    const Node* assert = nullptr;
  };
  std::map<std::string, Entry, std::less<>> workbook;
};

// W211/E211: an old spelling that still works in noetl.io/v2.
void ReportLegacy(Reporter* report, const Node& at, std::string message, std::string hint);
// Makes `from` an alias of `to`: moved when `to` is absent, dropped with W240 otherwise.
void MoveAlias(Reporter* report, Node* map, std::string_view from, std::string_view to);

void NormaliseStep(Node* step, int index, const NormaliseContext& context);
void NormaliseNext(Node* step, Reporter* report);
// `tool:` of a step: one map or a list of tasks.
void NormaliseTools(Node* step, std::string_view step_name, const NormaliseContext& context);
// One tool map, without workbook references.
void NormaliseTool(Node* tool, Reporter* report);
// Rules become {when, then} or {else: {then}}; used for task policies and admission.
void NormaliseRules(Node* rules, Reporter* report);
// tool.eval to spec.policy.rules.
void NormaliseEval(Node* tool, Reporter* report);
// output_select becomes output.select or output.inline_max_bytes.
void NormaliseOutput(Node* owner, Reporter* report);

}  // namespace noetl::playbook
