// A subscription for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_io.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

// The document of a subscription with these members of `spec` over the usual ones.
inline Json TestDocument(std::string_view more = "{}") {
  const Json spec = *ParseJson(R"({"source":"nats","mode":"pull","stream":"orders",)"
                               R"("consumer":"noetl","dispatch":{"playbook":"demo/order"}})");
  return Json::Object({{"kind", "Subscription"},
                       {"metadata", Json::Object({{"path", "subs/orders"}})},
                       {"spec", spec.Merge(*ParseJson(more))}});
}

inline std::vector<std::string> ProblemsOf(std::string_view more) {
  SubscriptionSpec spec;
  std::vector<std::string> texts;
  for (const SpecProblem& problem : ReadSubscription(TestDocument(more), &spec))
    texts.push_back(problem.message);
  return texts;
}

inline SubscriptionSpec TestSpec(std::string_view more = "{}") {
  SubscriptionSpec spec;
  ReadSubscription(TestDocument(more), &spec);
  return spec;
}

}  // namespace noetl::worker
