#include "worker/remote/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

using testing::HasSubstr;

TEST(WorkerMetricsTest, CountsByKind) {
  WorkerMetrics metrics("1.2.3", {"shell", "http"});
  metrics.Ended("shell", 40'000, false);
  metrics.Ended("shell", 2'000'000, true);
  metrics.Ended("task_sequence", 1'000, false);
  // What this worker does not have makes no series of its own.
  metrics.Ended("made up", 1'000, true);
  metrics.EventsSent(7);
  metrics.Pulled(0);
  metrics.Pulled(3);
  metrics.PullFailed();
  metrics.Confines(2);
  const std::string text = metrics.Expose({.ready = true,
                                           .slots = 4,
                                           .running = 2,
                                           .waiting = 1,
                                           .undelivered = 3,
                                           .spool_records = 5,
                                           .spool_bytes = 900});
  for (const char* line : {
           "noetl_worker_ready 1\n",
           "noetl_worker_slots 4\n",
           "noetl_worker_concurrent_dispatches 2\n",
           "noetl_worker_waiting_commands 1\n",
           "noetl_worker_undelivered_reports 3\n",
           "noetl_worker_spool_records 5\n",
           "noetl_worker_spool_bytes 900\n",
           "noetl_worker_sandbox_level 2\n",
           "noetl_worker_events_sent_total 7\n",
           "noetl_worker_event_emit_retries_total 0\n",
           "noetl_worker_leases_lost_total 0\n",
           "noetl_worker_pulls_total{outcome=\"claimed\"} 1\n",
           "noetl_worker_pulls_total{outcome=\"none\"} 1\n",
           "noetl_worker_pulls_total{outcome=\"error\"} 1\n",
           "noetl_worker_build_info{version=\"1.2.3\"} 1\n",
           "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"shell\"} 2\n",
           "noetl_worker_dispatch_duration_seconds_bucket{tool_kind=\"shell\",le=\"0.05\"} 1\n",
           "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"http\"} 0\n",
           "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"task_sequence\"} 1\n",
           "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"other\"} 1\n",
           "noetl_worker_dispatch_errors_total{tool_kind=\"shell\"} 1\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("made up")));
}

}  // namespace
}  // namespace noetl::worker
