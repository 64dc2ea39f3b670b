// How the places of the document language (keys.h) hang together.
//
// The formatter and the schema walk documents by it. Constant data; any thread.
#pragma once

#include <span>
#include <string_view>

namespace noetl::playbook {

struct PlaceBelow {
  enum class Form {
    kMap,        // the value is a map of that place
    kList,       // a list of such maps
    kMapOrList,  // one, or several
  };
  std::string_view place;
  std::string_view key;
  std::string_view child;
  Form form = Form::kMap;
};

std::span<const PlaceBelow> AllPlacesBelow();
// What the value of `key` in a map of `place` is; nullptr when it is the author's own data.
const PlaceBelow* FindPlaceBelow(std::string_view place, std::string_view key);

}  // namespace noetl::playbook
