// The rules of a `kind: Subscription` document, and what a gateway needs of it. Pure, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "playbook/diagnostics.h"
#include "playbook/yaml.h"

namespace noetl::api {

// Everything that is wrong with the document's `spec`, in the order of the rules; the code is "E090".
std::vector<playbook::Diagnostic> CheckSubscription(const playbook::Node& document);

// The name under which a gateway asks for the document: the last part of its gateway path. Empty
// unless messages are pushed to it.
std::string ListenerOf(std::string_view content);

// What is pushed, how it is verified and what it starts. Absent members are empty.
struct IngressSpec {
  std::string source;
  std::string verify_type;
  std::string header;
  std::string secret;  // the name of a credential
  std::string audience;
  std::string service_account;
  std::string playbook;
  std::string payload_from;
  std::string execution_pool;
  Json directives;
};

// "invalid": the document breaks its rules, or nothing is pushed to it.
Result<IngressSpec> ReadIngress(std::string_view content);

}  // namespace noetl::api
