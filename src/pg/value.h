// A column's text, as the server prints it, into a Json value that loses nothing.
//
// | type | value |
// |---|---|
// | int2, int4, int8, oid | integer |
// | float4, float8 | number; NaN and infinities as text |
// | numeric | text as printed, or a number on request |
// | bool | boolean |
// | json, jsonb | the document |
// | timestamptz | 2024-01-01T10:00:00+00:00, in UTC |
// | timestamp | 2024-01-01T10:00:00 |
// | bytea | base64 |
// | arrays | lists, nested as they are, each element by its type |
// | all others | text as printed |
//
// Expects the ISO date style, which the server has by default; text of another shape stays as it
// is. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"

namespace noetl::pg {

using TypeId = std::uint32_t;  // an OID of pg_type

struct ValueOptions {
  bool numeric_as_number = false;
};

// How an array type is made; `element` is 0 for a type that is no array.
struct TypeShape {
  TypeId element = 0;
  char delimiter = ',';
};

// Whether the type is one of those built in that are known here. Of others the catalog tells the
// shape.
bool IsKnownType(TypeId type);
// The shape of a known type.
TypeShape ShapeOf(TypeId type);

Json ToJson(TypeId type, std::string_view text, const ValueOptions& options = {});
// The elements of an array's text; the text itself when it is no array.
Json ArrayToJson(const TypeShape& shape, std::string_view text, const ValueOptions& options = {});

}  // namespace noetl::pg
