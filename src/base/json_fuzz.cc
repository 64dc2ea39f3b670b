// Whatever the bytes: reading never misbehaves, and what was read survives all written forms.
#include <cstdint>

#include "base/check.h"
#include "base/json_io.h"
#include "base/json_syntax.h"

namespace {

using noetl::Json;
using noetl::JsonNumbers;

void CheckForms(const Json& value, JsonNumbers numbers) {
  const std::string text = noetl::WriteJson(value);
  const auto again = noetl::ParseJson(text, numbers);
  NOETL_CHECK(again && *again == value, "the compact form reads back as another value");
  NOETL_CHECK(noetl::JsonSize(value) == text.size(), "JsonSize is wrong");
  const auto pretty = noetl::ParseJson(noetl::WriteJsonPretty(value), numbers);
  NOETL_CHECK(pretty && *pretty == value, "the pretty form reads back as another value");

  const Json clean = noetl::ReplaceNul(value);
  const auto stored = noetl::WriteStoredJson(clean);
  NOETL_CHECK(stored.has_value(), "a clean value cannot be stored");
  const auto restored = noetl::ParseJson(*stored, numbers);
  NOETL_CHECK(restored && *restored == clean, "the stored form reads back as another value");
}

void CheckCanonical(const Json& value, JsonNumbers numbers, std::string (*write)(const Json&)) {
  const std::string canonical = write(value);
  const auto again = noetl::ParseJson(canonical, numbers);
  NOETL_CHECK(again && write(*again) == canonical, "the canonical form is not stable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto numbers : {JsonNumbers::kTyped, JsonNumbers::kTypedStrict, JsonNumbers::kFlat}) {
    const auto parsed = noetl::ParseJson(text, numbers);
    const auto fault = noetl::ExplainJsonError(text, numbers);
    NOETL_CHECK(parsed.has_value() == !fault.has_value(), "the two readers disagree");
    if (!parsed) continue;
    // The strict conversion is not the inverse of writing; only reading is checked.
    if (numbers == JsonNumbers::kTypedStrict) continue;
    CheckForms(*parsed, numbers);
    if (numbers == JsonNumbers::kTyped) CheckCanonical(*parsed, numbers, &noetl::CanonicalJson);
    else CheckCanonical(*parsed, numbers, &noetl::CanonicalJsonFlat);
  }
  return 0;
}
