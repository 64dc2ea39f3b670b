#include "engine/replay_seal.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/sha256.h"

namespace noetl::engine::replay {

namespace {

// Takes text in pieces; a full buffer goes into the hash, so a large state is never written whole.
class HashSink {
 public:
  std::string& text() { return text_; }
  void Rest() {
    if (text_.size() >= kBufferBytes) Flush();
  }
  std::string Digest() {
    Flush();
    return hasher_.FinishHex();
  }

 private:
  static constexpr std::size_t kBufferBytes = 64u << 10;
  void Flush() {
    hasher_.Update(text_);
    text_.clear();
  }

  std::string text_;
  Sha256Hasher hasher_;
};

class TextSink {
 public:
  std::string& text() { return text_; }
  void Rest() {}

 private:
  std::string text_;
};

enum class Form { kShown, kTyped, kFlat };

template <typename Sink, Form kForm>
class Writer {
 public:
  explicit Writer(Sink& sink) : sink_(sink) {}

  void Value(const Json& value, std::size_t depth = 0) {
    if (value.is_container()) {
      NOETL_CHECK(depth < kStateDepthMax, "a state is not deeper than its log allows");
      value.is_array() ? Array(value, depth + 1) : Object(value, depth + 1);
    } else {
      Scalar(value);
    }
    sink_.Rest();
  }

 private:
  void Scalar(const Json& value) {
    if constexpr (kForm == Form::kFlat) {
      sink_.text() += CanonicalJsonFlat(value);
    } else {
      AppendCanonicalJson(sink_.text(), value);
    }
  }

  void Array(const Json& array, std::size_t depth) {
    sink_.text() += '[';
    bool first = true;
    for (const Json& item : array.items()) {
      if (!std::exchange(first, false)) sink_.text() += ',';
      Value(item, depth);
    }
    sink_.text() += ']';
  }

  void Object(const Json& object, std::size_t depth) {
    // The members of all open maps share one stack.
    const std::size_t base = order_.size();
    for (const JsonMember& member : object.members()) order_.push_back(&member);
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(base);
    const auto key = [](const JsonMember* member) { return member->key(); };
    if (kForm != Form::kShown && !std::ranges::is_sorted(begin, order_.end(), {}, key))
      std::ranges::sort(begin, order_.end(), {}, key);
    sink_.text() += '{';
    const std::size_t end = order_.size();
    for (std::size_t i = base; i < end; ++i) {
      if (i > base) sink_.text() += ',';
      Scalar(order_[i]->key_json());
      sink_.text() += ':';
      Value(order_[i]->value, depth);
    }
    sink_.text() += '}';
    order_.resize(base);
  }

  Sink& sink_;
  std::vector<const JsonMember*> order_;
};

Json ChecksumOf(const Json& value) {
  return Json::Object({{"type", "sha256"}, {"value", CanonicalDigest(value)}});
}

}  // namespace

std::string CanonicalDigest(const Json& value) {
  HashSink sink;
  Writer<HashSink, Form::kTyped>(sink).Value(value);
  return sink.Digest();
}

std::string FlatDigest(const Json& value) {
  HashSink sink;
  Writer<HashSink, Form::kFlat>(sink).Value(value);
  return sink.Digest();
}

std::string CanonicalState(const Json& value) {
  TextSink sink;
  Writer<TextSink, Form::kTyped>(sink).Value(value);
  return std::move(sink.text());
}

std::string WriteState(const Json& value) {
  TextSink sink;
  Writer<TextSink, Form::kShown>(sink).Value(value);
  return std::move(sink.text());
}

Json Seal(const State& state) {
  Json body = ToJson(state);
  Json::Members seals;
  for (const Projection& projection : kProjections)
    seals.emplace_back(projection.name, ChecksumOf(body[projection.member]));
  std::ranges::sort(seals, {}, &JsonMember::key);
  const Json projections = Json::Object(std::move(seals));
  Json top = ChecksumOf(body.With("projection_checksums", projections));
  return body.With("checksum", std::move(top)).With("projection_checksums", projections);
}

bool IsSealed(const Json& body) { return body["checksum"] == ChecksumOf(body.Without("checksum")); }

}  // namespace noetl::engine::replay
