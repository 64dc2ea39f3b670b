#include "api/replay_log.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/replay_flat.h"
#include "engine/replay_seal.h"

namespace noetl::api {

namespace {

// Rows between two wanted ones that are read along: cheaper than asking the store once more.
constexpr std::int64_t kGapMax = 32;

// Where a row lies in the order of ids and in the store.
struct Place {
  std::int64_t event_id = 0;
  std::int64_t seq = 0;

  auto operator<=>(const Place&) const = default;
};

class LogFold {
 public:
  LogFold(const store::Store& store, const ReplayRequest& request, ReplayFolder& folder,
          const std::function<bool()>& gone)
      : store_(store), request_(request), folder_(folder), gone_(gone) {}

  Result<ReplayedLog> Run() {
    NOETL_ASSIGN(const auto execution, store_.Find(request_.execution_id));
    if (execution) {
      NOETL_TRY(Scan(std::min(execution->head, request_.cutoff.seq.value_or(execution->head))));
      if (!ordered_) NOETL_TRY(FoldByPlaces());
    }
    return ReplayedLog{.folded = std::min(admitted_, request_.limit),
                       .truncated = admitted_ > request_.limit};
  }

 private:
  // The events after this seq.
  Result<std::vector<engine::Event>> Read(std::int64_t after_seq, std::int64_t count) const {
    if (gone_()) return Fail("gone", "the client has gone");
    const std::int64_t id = request_.execution_id;
    if (request_.numbers == JsonNumbers::kTyped) return store_.ReadEvents(id, after_seq, count);
    NOETL_ASSIGN(std::vector<store::EventRow> rows, store_.ReadRows(id, after_seq, count));
    std::vector<engine::Event> events;
    events.reserve(rows.size());
    for (store::EventRow& row : rows) {
      NOETL_TRY(ReadAnew(row.meta, row.event.meta));
      NOETL_TRY(ReadAnew(row.result, row.event.result));
      events.push_back(std::move(row.event));
    }
    return events;
  }

  Status ReadAnew(const std::string& text, Json& value) const {
    if (text.empty()) return {};
    NOETL_ASSIGN(value, ParseJson(text, request_.numbers));
    return {};
  }

  bool Admits(const engine::Event& event) const {
    const ReplayCutoff& cutoff = request_.cutoff;
    if (cutoff.event_id && event.event_id > *cutoff.event_id) return false;
    return !cutoff.time_us || (event.created_at_us != 0 && event.created_at_us <= *cutoff.time_us);
  }

  // Notes all places, and folds on the way while the ids ascend.
  Status Scan(std::int64_t head) {
    for (std::int64_t seq = 0; seq < head;) {
      NOETL_ASSIGN(const auto events, Read(seq, std::min(request_.page, head - seq)));
      if (events.empty()) return Removed();
      seq = events.back().seq;
      for (const engine::Event& event : events) {
        if (Admits(event)) NOETL_TRY(Note(event));
      }
    }
    return {};
  }

  Status Note(const engine::Event& event) {
    ++admitted_;
    places_.push_back({event.event_id, event.seq});
    if (ordered_ && event.event_id < last_id_) {
      // A late one: what was folded after its place is wrong.
      ordered_ = false;
      folder_.Restart();
    }
    last_id_ = event.event_id;
    if (std::ssize(places_) > 2 * request_.limit) KeepSmallest();
    if (ordered_ && admitted_ <= request_.limit) return folder_.Apply(event);
    return {};
  }

  void KeepSmallest() {
    const auto end = places_.begin() + request_.limit;
    if (end >= places_.end()) return;
    std::nth_element(places_.begin(), end, places_.end());
    places_.erase(end, places_.end());
  }

  Status FoldByPlaces() {
    KeepSmallest();
    std::ranges::sort(places_);
    for (auto from = places_.begin(); from != places_.end();) {
      const auto to = from + std::min<std::ptrdiff_t>(request_.page, places_.end() - from);
      NOETL_TRY(FoldWindow({from, to}));
      from = to;
    }
    return {};
  }

  // Reads the rows in the order in which they are stored, folds them in that of the window.
  Status FoldWindow(std::span<const Place> window) {
    std::vector<std::pair<std::int64_t, std::size_t>> wanted;  // seq, index in the window
    for (std::size_t i = 0; i < window.size(); ++i) wanted.emplace_back(window[i].seq, i);
    std::ranges::sort(wanted);
    std::vector<engine::Event> events(window.size());
    for (std::size_t begin = 0; begin < wanted.size();) {
      std::size_t end = begin + 1;
      const std::int64_t first = wanted[begin].first;
      while (end < wanted.size() && wanted[end].first - wanted[end - 1].first <= kGapMax &&
             wanted[end].first - first < request_.page)
        ++end;
      NOETL_ASSIGN(auto read, Read(first - 1, wanted[end - 1].first - first + 1));
      for (; begin < end; ++begin) {
        const auto index = static_cast<std::size_t>(wanted[begin].first - first);
        // Numbers of a run have no gaps.
        if (index >= read.size()) return Removed();
        events[wanted[begin].second] = std::move(read[index]);
      }
    }
    for (const engine::Event& event : events) NOETL_TRY(folder_.Apply(event));
    return {};
  }

  Status Removed() const {
    return Fail("conflict",
                fmt::format("run {} was removed while it was read", request_.execution_id));
  }

  const store::Store& store_;
  const ReplayRequest& request_;
  ReplayFolder& folder_;
  const std::function<bool()>& gone_;
  std::vector<Place> places_;
  std::int64_t admitted_ = 0;
  std::int64_t last_id_ = std::numeric_limits<std::int64_t>::min();
  bool ordered_ = true;
};

class TypedFolder final : public ReplayFolder {
 public:
  TypedFolder(engine::replay::Context context, bool strict)
      : context_(std::move(context)), strict_(strict), fold_(Make()) {}

  void Restart() override { fold_ = Make(); }
  Status Apply(const engine::Event& event) override {
    fold_.Apply(engine::replay::RowOf(event));
    return {};
  }
  Result<Json> Seal() const override { return engine::replay::Seal(fold_.state()); }

 private:
  engine::replay::Fold Make() const { return engine::replay::Fold(context_, {.strict = strict_}); }

  const engine::replay::Context context_;
  const bool strict_;
  engine::replay::Fold fold_;
};

class FlatFolder final : public ReplayFolder {
 public:
  explicit FlatFolder(engine::replay::Context context)
      : context_(std::move(context)), fold_(context_) {}

  void Restart() override { fold_ = engine::replay::FlatFold(context_); }
  Status Apply(const engine::Event& event) override {
    return fold_.Apply(engine::replay::FlatRowOf(event));
  }
  Result<Json> Seal() const override { return fold_.Seal(); }

 private:
  const engine::replay::Context context_;
  engine::replay::FlatFold fold_;
};

}  // namespace

std::unique_ptr<ReplayFolder> MakeTypedFolder(engine::replay::Context context, bool strict) {
  return std::make_unique<TypedFolder>(std::move(context), strict);
}

std::unique_ptr<ReplayFolder> MakeFlatFolder(engine::replay::Context context) {
  return std::make_unique<FlatFolder>(std::move(context));
}

Result<ReplayedLog> FoldLog(const store::Store& store, const ReplayRequest& request,
                            ReplayFolder& folder, const std::function<bool()>& gone) {
  return LogFold(store, request, folder, gone).Run();
}

}  // namespace noetl::api
