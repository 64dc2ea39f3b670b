#include "api/sessions.h"

#include <algorithm>

#include "base/crypto.h"

namespace noetl::api {

namespace {
// Longer texts are no tokens of ours; hashing them would be work for nothing.
constexpr std::size_t kTokenBytesMax = 256;
}  // namespace

Session Sessions::Open() {
  crypto::Key bytes;
  crypto::RandomBytes(bytes);
  Session session{HexText(crypto::AsText(bytes)), clock_->NowMicros() + kLifeUs};
  const std::lock_guard lock(mutex_);
  MakeRoom();
  ends_[Sha256(session.token)] = session.expires_at_us;
  return session;
}

void Sessions::MakeRoom() {
  if (ends_.size() < kCountMax) return;
  const std::int64_t now_us = clock_->NowMicros();
  std::erase_if(ends_, [&](const auto& entry) { return entry.second <= now_us; });
  if (ends_.size() < kCountMax) return;
  ends_.erase(std::ranges::min_element(ends_, {}, [](const auto& entry) { return entry.second; }));
}

std::optional<Session> Sessions::Find(std::string_view token) const {
  if (token.empty() || token.size() > kTokenBytesMax) return std::nullopt;
  const Sha256Digest digest = Sha256(token);
  const std::lock_guard lock(mutex_);
  const auto found = ends_.find(digest);
  if (found == ends_.end() || found->second <= clock_->NowMicros()) return std::nullopt;
  return Session{"", found->second};
}

void Sessions::Close(std::string_view token) {
  const Sha256Digest digest = Sha256(token);
  const std::lock_guard lock(mutex_);
  ends_.erase(digest);
}

std::size_t Sessions::size() const {
  const std::lock_guard lock(mutex_);
  return ends_.size();
}

}  // namespace noetl::api
