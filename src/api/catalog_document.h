// Documents of the catalog: what a client sends, and what it is shown of an entry.
//
// A document is YAML, or base64 of it. Its kind and path stand in it; the workflow, workload and
// labels of an entry are read from its text whenever it is shown. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "playbook/diagnostics.h"
#include "playbook/model.h"
#include "store/rows.h"

namespace noetl::api {

// More findings of one document help nobody.
inline constexpr std::size_t kFindingsMax = 200;

struct Document {
  std::string text;  // as it is kept
  std::string kind;  // lower case
  std::string path;
  // Errors first refuse the document; warnings do not.
  std::vector<playbook::Diagnostic> findings;

  bool ok() const;
  // Errors or warnings as {code, severity, path, line, column, message, hint}.
  Json Errors() const;
  Json Warnings() const;
};

// `resource_type` counts when the document names no kind. With `check` a playbook is compiled as it is
// for a run, with these options.
Document ReadDocument(std::string_view content, std::string_view resource_type, bool check,
                      const playbook::LoadOptions& options = {});

// As lists and `resource` show it. Without contents the parts that are read from them are null.
Json EntryJson(const store::CatalogEntry& entry, bool with_content);

// Whether the document says that it is an agent, and has all these capabilities.
bool IsAgent(const store::CatalogEntry& entry, const std::vector<std::string>& capabilities);

// "latest", a number, or a number as text; null and "latest" are 0. "invalid" otherwise.
Result<std::int64_t> ReadVersion(const Json& version);

}  // namespace noetl::api
