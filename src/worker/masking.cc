#include "worker/masking.h"

#include <algorithm>
#include <utility>

namespace noetl::worker {

void Masking::Add(std::string secret) {
  if (secret.empty() || std::ranges::find(secrets_, secret) != secrets_.end()) return;
  const auto place = std::ranges::find_if(
      secrets_, [&](const std::string& other) { return other.size() < secret.size(); });
  secrets_.insert(place, std::move(secret));
}

std::string Masking::Text(std::string_view text) const {
  std::string out(text);
  for (const std::string& secret : secrets_) {
    if (secret.size() < kTextMin) break;
    for (std::size_t at = out.find(secret); at != std::string::npos;
         at = out.find(secret, at + kMask.size()))
      out.replace(at, secret.size(), kMask);
  }
  return out;
}

Json Masking::Result(const Json& value) const {
  if (secrets_.empty()) return value;
  if (value.is_string()) {
    const std::string_view text = value.AsString();
    for (const std::string& secret : secrets_) {
      if (text == secret && secret.size() >= kTextMin) return Json(kMask);
    }
    std::string out(text);
    bool changed = false;
    for (const std::string& secret : secrets_) {
      if (secret.size() < kInsideMin) break;
      for (std::size_t at = out.find(secret); at != std::string::npos;
           at = out.find(secret, at + kMask.size())) {
        out.replace(at, secret.size(), kMask);
        changed = true;
      }
    }
    return changed ? Json(std::move(out)) : value;
  }
  if (value.is_array()) {
    std::vector<Json> items;
    bool changed = false;
    for (const Json& item : value.items()) {
      items.push_back(Result(item));
      changed = changed || !(items.back() == item);
    }
    return changed ? Json::Array(std::move(items)) : value;
  }
  if (value.is_object()) {
    Json out = value;
    for (const JsonMember& member : value.members()) {
      Json masked = Result(member.value);
      if (!(masked == member.value)) out = out.With(member.key(), std::move(masked));
    }
    return out;
  }
  return value;
}

std::string Masking::Piece(std::size_t stream, std::string_view text) {
  if (secrets_.empty()) return std::string(text);
  std::string& kept = kept_[stream];
  std::string all = Text(std::exchange(kept, {}) + std::string(text));
  // The longest end of the text that is the beginning of a secret.
  std::size_t back = 0;
  for (const std::string& secret : secrets_) {
    if (secret.size() < kTextMin) break;
    for (std::size_t n = std::min(secret.size() - 1, all.size()); n > back; --n) {
      if (std::string_view(all).ends_with(std::string_view(secret).substr(0, n))) {
        back = n;
        break;
      }
    }
  }
  kept = all.substr(all.size() - back);
  all.resize(all.size() - back);
  return all;
}

std::string Masking::Rest(std::size_t stream) { return Text(std::exchange(kept_[stream], {})); }

}  // namespace noetl::worker
