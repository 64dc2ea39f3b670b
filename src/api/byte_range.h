// The Range header of a request for stored bytes, and the entity tag that goes with it. Pure, any
// thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace noetl::api {

struct ByteRange {
  enum class Kind {
    kWhole,  // no range, several ranges, or one that nobody understands: the whole is sent
    kPart,
    kOutside,  // 416
  };
  Kind kind = Kind::kWhole;
  std::size_t first = 0;
  std::size_t count = 0;
};

// "bytes=0-99", "bytes=100-" or "bytes=-20" of something that has `size` bytes.
ByteRange ReadRange(std::string_view header, std::size_t size);

// Whether a list of entity tags (If-None-Match, If-Range) names this digest; "*" names all. Weak tags
// count as their strong ones.
bool NamesTag(std::string_view header, std::string_view digest);

}  // namespace noetl::api
