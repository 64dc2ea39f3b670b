// Any bytes through the whole loader: a playbook or diagnostics, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "playbook/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const noetl::playbook::Loaded loaded = noetl::playbook::Load(text);
  bool errors = false;
  for (const auto& diagnostic : loaded.diagnostics) errors = errors || diagnostic.is_error();
  NOETL_CHECK(loaded.ok() == !errors, "a document is refused exactly when it has errors");
  return 0;
}
