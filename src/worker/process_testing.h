// Shared by the tests of processes: a loop, a supervisor on a folder of its own, and the check that
// nothing is left behind.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/event_loop.h"
#include "base/temporary_directory.h"
#include "worker/process.h"
#include "worker/process_tree.h"
#include "worker/tool.h"

namespace noetl::worker {

// How often each attack is made.
inline constexpr int kAttacks = 10;

class ProcessTest : public testing::Test {
 public:
  ProcessTest() {
    auto created = Supervisor::Create(&loop_, folder_);
    EXPECT_TRUE(created.has_value());
    supervisor_ = std::move(*created);
  }

  // Serves the loop until the condition holds. It is a bound for a test that hangs, not a measure.
  template <typename Condition>
  void WaitUntil(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing happens any more";
      const auto timer = loop_.After(1'000, [this] { loop_.Stop(); });
      loop_.Run();
      loop_.CancelTimer(timer);
    }
  }

  // Processes of this one, without what other tests keep for themselves, such as a database.
  std::vector<int> Children() const {
    std::vector<int> children = ChildrenOf(getpid());
    std::erase_if(children,
                  [&](int pid) { return std::ranges::find(others_, pid) != others_.end(); });
    return children;
  }
  std::vector<int> Descendants() const {
    std::vector<int> all;
    for (const int child : Children()) {
      const std::vector<int> below = DescendantsOf(child);
      all.push_back(child);
      all.insert(all.end(), below.begin(), below.end());
    }
    return all;
  }

  // Processes anywhere on the machine that were started with our folder in their environment.
  std::vector<std::string> ProcessesOfFolder() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "environ", std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.contains(folder_)) found.push_back(entry.path().filename());
    }
    return found;
  }

  // Files and directories in the scratch folder, besides the supervisor's own.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& run : std::filesystem::directory_iterator(folder_)) {
      for (const auto& entry : std::filesystem::directory_iterator(run)) {
        if (entry.path().filename() != "lock") files.push_back(entry.path());
      }
    }
    return files;
  }

  // Where the cgroups of calls are; empty: there are none here.
  std::string GroupRoot() const {
    const std::string text = supervisor_->Containment();
    const std::size_t root = text.find("under /");
    return root == std::string::npos ? std::string() : text.substr(root + 6);
  }
  std::vector<std::string> Groups() const {
    std::vector<std::string> groups;
    const std::string prefix = "noetl-" + std::to_string(getpid()) + "-";
    if (GroupRoot().empty()) return groups;
    for (const auto& entry : std::filesystem::directory_iterator(GroupRoot())) {
      const std::string name = entry.path().filename();
      if (name.starts_with(prefix)) groups.push_back(name);
    }
    return groups;
  }
  // Python code that forks, each child in a session of its own. Only in a cgroup is it safe to let
  // the children fork as well, without end; elsewhere they sleep, and there are 300 at most.
  std::string Bomb() const {
    const std::string fork = "    if os.fork() == 0:\n      os.setsid()\n";
    if (GroupRoot().empty()) {
      return "import os, time\nfor i in range(300):\n  try:\n" + fork +
             "      time.sleep(20)\n      os._exit(0)\n  except OSError: pass\ntime.sleep(20)\n";
    }
    return "import os\nwhile True:\n  try:\n" + fork + "  except OSError: pass\n";
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(supervisor_->running(), 0U);
    EXPECT_EQ(Groups(), std::vector<std::string>());
    EXPECT_EQ(Descendants(), std::vector<int>());
    EXPECT_EQ(ProcessesOfFolder(), std::vector<std::string>());
    EXPECT_EQ(Files(), std::vector<std::string>());
  }

  const std::vector<int> others_ = ChildrenOf(getpid());
  EventLoop loop_;
  const TemporaryDirectory temporary_;
  const std::string& folder_ = temporary_.path();
  std::unique_ptr<Supervisor> supervisor_;
};

inline ProcessSpec ShellSpec(std::string program) {
  ProcessSpec spec;
  spec.argv = {"sh", "-c", std::move(program)};
  spec.limits.timeout_ms = 20'000;
  return spec;
}

inline ProcessSpec PythonSpec(std::string program) {
  ProcessSpec spec = ShellSpec("");
  spec.argv = {"python3", "-I", "-c", std::move(program)};
  return spec;
}

// Runs processes one by one, or beside each other.
class ProcessRunTest : public ProcessTest {
 public:
  struct State {
    std::unique_ptr<Process> process;
    std::optional<ProcessExit> exit;
  };

  std::shared_ptr<State> Begin(ProcessSpec spec) {
    auto state = std::make_shared<State>();
    auto started =
        supervisor_->Start(std::move(spec), [this, state = state.get()](ProcessExit exit) {
          state->exit = std::move(exit);
          loop_.Stop();
        });
    EXPECT_TRUE(started.has_value()) << started.error().message;
    if (started) state->process = std::move(*started);
    return state;
  }

  ProcessExit Finish(const std::shared_ptr<State>& state) {
    WaitUntil([&] { return state->exit.has_value(); });
    return state->exit.value_or(ProcessExit());
  }

  ProcessExit Run(ProcessSpec spec) { return Finish(Begin(std::move(spec))); }

  // Attacks one after the other; ordinary processes before, beside and after each are not harmed.
  template <typename Check>
  void Attack(const ProcessSpec& spec, Check check) {
    for (int i = 0; i < kAttacks; ++i) {
      const auto beside = Begin(
          ShellSpec("trap 'echo lived; exit 0' TERM; touch up; while :; do sleep 0.01; done"));
      WaitUntil([&] { return std::filesystem::exists(Files().at(0) + "/up"); });
      const auto attack = Begin(spec);
      EXPECT_EQ(Run(ShellSpec("echo during")).stdout_text, "during\n");
      check(Finish(attack));
      beside->process->Stop();
      EXPECT_EQ(Finish(beside).stdout_text, "lived\n");
      EXPECT_EQ(Run(ShellSpec("echo after")).stdout_text, "after\n");
      ExpectNothingLeft();
    }
  }
};

// A call of a tool and its answer.
struct TestCall {
  std::unique_ptr<Running> running;
  std::optional<ToolAnswer> answer;
};

inline std::shared_ptr<TestCall> StartCall(Tool& tool, ToolCall call) {
  auto state = std::make_shared<TestCall>();
  state->running = tool.Start(std::move(call), [state = state.get()](ToolAnswer answer) {
    EXPECT_FALSE(state->answer.has_value()) << "answered twice";
    state->answer = std::move(answer);
  });
  return state;
}

}  // namespace noetl::worker
