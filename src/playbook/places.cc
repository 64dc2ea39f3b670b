#include "playbook/places.h"

namespace noetl::playbook {
namespace {

using Form = PlaceBelow::Form;

constexpr PlaceBelow kPlacesBelow[] = {
    {"root", "metadata", "metadata"},
    {"root", "executor", "executor"},
    {"root", "keychain", "keychain", Form::kList},
    {"root", "workbook", "workbook", Form::kList},
    {"root", "workflow", "step", Form::kList},
    {"executor", "spec", "executor.spec"},
    {"workbook", "tool", "tool"},
    {"step", "spec", "step.spec"},
    {"step", "loop", "loop"},
    {"step", "tool", "tool", Form::kMapOrList},
    {"step", "output", "output"},
    {"step", "next", "next"},
    {"step.spec", "policy", "step.spec.policy"},
    {"step.spec.policy", "admit", "admit"},
    {"admit", "rules", "admit.rule", Form::kList},
    {"admit.rule", "then", "rule.then"},
    {"loop", "spec", "loop.spec"},
    {"loop", "cursor", "loop.cursor"},
    {"loop.spec", "policy", "loop.spec.policy"},
    {"loop.spec", "frame", "loop.spec.frame"},
    {"next", "spec", "next.spec"},
    {"next", "arcs", "arc", Form::kList},
    {"tool", "spec", "tool.spec"},
    {"tool", "output", "output"},
    {"tool", "retry", "retry"},
    {"tool.spec", "policy", "policy"},
    {"policy", "rules", "rule", Form::kList},
    {"rule", "then", "rule.then"},
    {"output", "store", "output.store"},
};

}  // namespace

std::span<const PlaceBelow> AllPlacesBelow() { return kPlacesBelow; }

const PlaceBelow* FindPlaceBelow(std::string_view place, std::string_view key) {
  for (const PlaceBelow& below : kPlacesBelow) {
    if (below.place == place && below.key == key) return &below;
  }
  return nullptr;
}

}  // namespace noetl::playbook
