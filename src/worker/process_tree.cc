#include "worker/process_tree.h"

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace noetl::worker {

namespace {

// What lives through so many kills is blocked in the kernel.
constexpr int kKillPassesMax = 1'000;

// The text of a small file of /proc; empty when it is gone.
std::string ReadProcFile(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(file);
  return text;
}

// The numbers in a text of numbers and blanks.
template <typename Number>
std::vector<Number> Numbers(std::string_view text) {
  std::vector<Number> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    Number number{};
    const auto [next, error] = std::from_chars(at, end, number);
    if (error == std::errc()) numbers.push_back(number);
    at = error == std::errc() ? next : at + 1;
  }
  return numbers;
}

template <typename Visit>
void ForEachNumber(const char* folder, Visit visit) {
  DIR* directory = opendir(folder);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    int number = 0;
    const std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc()) {
      visit(number);
    }
  }
  closedir(directory);
}

// Whether the kernel lists children itself; it is an option of its build.
bool KernelListsChildren() {
  static const bool lists =
      access(fmt::format("/proc/self/task/{}/children", getpid()).c_str(), R_OK) == 0;
  return lists;
}

std::vector<int> ChildrenByScan(int pid) {
  std::vector<int> children;
  ForEachNumber("/proc", [&](int candidate) {
    const std::string stat = ReadProcFile(fmt::format("/proc/{}/stat", candidate).c_str());
    // The name in parentheses may hold anything; the parent is the second field after it.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) return;
    const auto fields = Numbers<int>(std::string_view(stat).substr(name_end + 3));
    if (!fields.empty() && fields[0] == pid) children.push_back(candidate);
  });
  return children;
}

std::int64_t StatusNumber(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(at + name.size());
  const auto numbers = Numbers<std::int64_t>(rest.substr(0, rest.find('\n')));
  return numbers.empty() ? 0 : numbers[0];
}

}  // namespace

std::vector<int> ChildrenOf(int pid) {
  if (!KernelListsChildren()) return ChildrenByScan(pid);
  std::vector<int> children;
  ForEachNumber(fmt::format("/proc/{}/task", pid).c_str(), [&](int thread) {
    const auto some =
        Numbers<int>(ReadProcFile(fmt::format("/proc/{}/task/{}/children", pid, thread).c_str()));
    children.insert(children.end(), some.begin(), some.end());
  });
  return children;
}

std::vector<int> DescendantsOf(int root, std::size_t most) {
  std::vector<int> all = ChildrenOf(root);
  for (std::size_t i = 0; i < all.size() && all.size() <= most; ++i) {
    const std::vector<int> next = ChildrenOf(all[i]);
    all.insert(all.end(), next.begin(), next.end());
  }
  return all;
}

void KillTrees(const std::vector<int>& roots) {
  // A process that has a SIGKILL pending forks no more: when a walk finds only such ones, all are
  // caught.
  std::set<int> caught;
  bool found = true;
  for (int pass = 0; found && pass < kKillPassesMax; ++pass) {
    found = false;
    std::vector<int> pids = roots;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      if (caught.insert(pids[i]).second) {
        found = true;
        // A group is signalled as a whole, also what it forks at this moment.
        if (getpgid(pids[i]) == pids[i]) kill(-pids[i], SIGKILL);
        kill(pids[i], SIGKILL);
      }
      const std::vector<int> children = ChildrenOf(pids[i]);
      pids.insert(pids.end(), children.begin(), children.end());
    }
  }
}

void KillByEnvironment(std::string_view text) {
  // Those that fork meanwhile are found in the next pass.
  bool found = true;
  for (int pass = 0; found && pass < kKillPassesMax; ++pass) {
    found = false;
    ForEachNumber("/proc", [&](int pid) {
      if (pid == getpid()) return;
      if (!ReadProcFile(fmt::format("/proc/{}/environ", pid).c_str()).contains(text)) return;
      found |= kill(pid, SIGKILL) == 0;
    });
  }
}

std::int64_t MemoryKbOf(const std::vector<int>& pids) {
  static const std::int64_t page_kb = sysconf(_SC_PAGESIZE) / 1024;
  std::int64_t memory_kb = 0;
  for (const int pid : pids) {
    const auto pages =
        Numbers<std::int64_t>(ReadProcFile(fmt::format("/proc/{}/statm", pid).c_str()));
    // Size, resident, shared with files.
    if (pages.size() >= 3) memory_kb += (pages[1] - pages[2]) * page_kb;
  }
  return memory_kb;
}

std::int64_t ExactMemoryKbOf(const std::vector<int>& pids) {
  std::int64_t memory_kb = 0;
  for (const int pid : pids) {
    const std::string text = ReadProcFile(fmt::format("/proc/{}/smaps_rollup", pid).c_str());
    memory_kb += StatusNumber(text, "Pss_Anon:") + StatusNumber(text, "Pss_Shmem:");
  }
  return memory_kb;
}

ChildTable& ChildTable::OfThisProcess() {
  static ChildTable table;
  return table;
}

ChildTable::ChildTable() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

Result<Spawned> ChildTable::Start(const SpawnPlan& plan) {
  // A sweep between the start and the entry would take it for a stray.
  const std::lock_guard lock(mutex_);
  Result<Spawned> spawned = Spawn(plan);
  if (spawned) started_.insert(spawned->pid);
  return spawned;
}

bool ChildTable::Reap(int pid, End* end) {
  // Once reaped, another thread may get the same number for a new process.
  const std::lock_guard lock(mutex_);
  if (wait4(pid, &end->status, WNOHANG, &end->use) == 0) return false;
  started_.erase(pid);
  return true;
}

void ChildTable::Bury(int pid) {
  // Killed processes end at once, unless the kernel is busy: two seconds.
  constexpr int kWaits = 2'000;
  End end;
  for (int i = 0; i < kWaits && !Reap(pid, &end); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < kWaits && Sweep() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::size_t ChildTable::Sweep() {
  const std::lock_guard lock(mutex_);
  std::vector<int> fresh;
  std::size_t alive = 0;
  const int our_session = getsid(0);
  for (const int pid : ChildrenOf(getpid())) {
    // What other code of this process started without us is in our session; a stray never is.
    if (started_.contains(pid) || getsid(pid) == our_session) continue;
    if (waitpid(pid, nullptr, WNOHANG) == pid) {
      condemned_.erase(pid);
      continue;
    }
    ++alive;
    // Looking again under those that only have to die would take the processor from them.
    if (condemned_.insert(pid).second) fresh.push_back(pid);
  }
  if (!fresh.empty()) KillTrees(fresh);
  return alive;
}

}  // namespace noetl::worker
