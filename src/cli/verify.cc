#include <memory>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/command.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/table.h"
#include "store/chain.h"

namespace noetl::cli {
namespace {

constexpr std::int64_t kRunsPage = 500;

struct Options {
  std::string data;
  std::string id;
  Output output = Output::kTable;
};

class Verifier {
 public:
  Verifier(const store::Store& store, Console& console) : store_(store), console_(console) {}

  // Empty: the log is what was written. Else what is wrong with it.
  Result<std::string> Verify(const store::ExecutionRow& run) {
    Sha256Digest chain = store::ChainStart(run.execution_id);
    std::int64_t seq = 0;
    while (seq < run.head) {
      NOETL_ASSIGN(const std::vector<store::EventRow> rows,
                   store_.ReadRows(run.execution_id, seq, std::min(kPageEvents, run.head - seq)));
      if (rows.empty()) return fmt::format("its log ends after event {} of {}", seq, run.head);
      for (const store::EventRow& row : rows) {
        if (row.event.seq != seq + 1) return fmt::format("event {} is missing", seq + 1);
        chain = store::ChainNext(chain, row);
        if (chain != row.chain)
          return fmt::format("event {} or its place in the log was changed", row.event.seq);
        ++seq;
      }
      events_ += std::ssize(rows);
      console_.Progress(fmt::format("run {}: {} of {} events; {} in all", run.execution_id, seq,
                                    run.head, events_));
    }
    return chain == run.chain ? ""
                              : "its newest event is not the one that the run ended its log with";
  }
  std::int64_t events() const { return events_; }

 private:
  const store::Store& store_;
  Console& console_;
  std::int64_t events_ = 0;
};

// True: no run has a fault.
Result<bool> VerifyRuns(const Options& options, Console& console) {
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  Verifier verifier(*data.store, console);
  std::vector<Json> found;
  std::int64_t runs = 0;
  const auto verify = [&](const store::ExecutionRow& run) -> Status {
    NOETL_ASSIGN(const std::string fault, verifier.Verify(run));
    ++runs;
    if (fault.empty()) return {};
    found.push_back(
        Json::Object({{"execution_id", std::to_string(run.execution_id)}, {"fault", fault}}));
    return {};
  };
  if (!options.id.empty()) {
    NOETL_ASSIGN(const store::ExecutionRow run, FindRun(*data.store, options.id));
    NOETL_TRY(verify(run));
  } else {
    store::ExecutionFilter filter;
    filter.limit = kRunsPage;
    std::size_t count = kRunsPage;
    while (count == kRunsPage) {
      NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows, data.store->List(filter));
      for (const store::ExecutionRow& run : rows) NOETL_TRY(verify(run));
      count = rows.size();
      if (count > 0) filter.before_id = rows.back().execution_id;
    }
  }
  console.EndProgress();
  const bool good = found.empty();
  if (options.output != Output::kTable) {
    PrintDocument(Json::Object({{"runs", runs},
                                {"events", verifier.events()},
                                {"faults", Json::Array(std::move(found))},
                                {"ok", good}}),
                  options.output, console);
    return good;
  }
  for (const Json& fault : found) {
    console.Out(fmt::format("{} run {}: {}\n", console.Paint(Style::kRed, "fail"),
                            fault["execution_id"].AsString(), fault["fault"].AsString()));
  }
  console.Out(fmt::format("{}, {}: {}\n", Count(static_cast<std::size_t>(runs), "run"),
                          Count(static_cast<std::size_t>(verifier.events()), "event"),
                          good ? console.Paint(Style::kGreen, "all hashes match")
                               : console.Paint(Style::kRed, Count(found.size(), "fault"))));
  return good;
}

}  // namespace

Action DeclareVerify(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id)
      .Meaning("the run: its id, at least 4 digits of its end, or `last`; none: all runs");
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  return [options](Console& console) {
    const Result<bool> good = VerifyRuns(*options, console);
    if (!good) return Complain("verify", good.error(), console);
    return *good ? kExitOk : kExitFailed;
  };
}

}  // namespace noetl::cli
