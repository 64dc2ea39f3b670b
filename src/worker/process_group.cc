#include "worker/process_group.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/process_tree.h"

namespace noetl::worker {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "noetl-";
// Attempts of a destructor to see the killed end, a millisecond each.
constexpr int kRemoveWaits = 2'000;

bool WriteFile(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

// Of a file of lines "<name> <count>".
std::int64_t CountOf(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  for (std::int64_t count = 0; file >> name >> count;) {
    if (name == wanted) return count;
  }
  return 0;
}

// Number of the worker in noetl-<worker>-<n>; 0: not a name of ours.
int OwnerOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  int owner = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), owner);
  return error == std::errc() && *end == '-' ? owner : 0;
}

// Groups of one process are numbered across all its workers.
std::string NextFolder(const std::string& root) {
  static std::atomic<std::uint64_t> last = 0;
  return fmt::format("{}/{}{}-{}", root, kPrefix, getpid(), ++last);
}

// Whether a process can be put into a group under `root`: tries it.
bool Holds(const std::string& root) {
  const std::string folder = NextFolder(root);
  if (mkdir(folder.c_str(), 0700) < 0) return false;
  ProcessGroup group(folder);
  if (!WriteFile(folder + "/pids.max", "1")) return false;
  ChildTable& children = ChildTable::OfThisProcess();
  const Result<Spawned> probe = children.Start({.argv = {"true"}, .group = group.Entry()});
  if (!probe) return false;
  ChildTable::End end;
  for (int i = 0; i < kRemoveWaits && !children.Reap(probe->pid, &end); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  close(probe->pidfd);
  return true;
}

bool Works(const std::string& root) {
  // Under version 2 a cgroup hands its controllers down only when told to.
  const std::string control = root + "/cgroup.subtree_control";
  std::ifstream file(control);
  const std::string given((std::istreambuf_iterator<char>(file)), {});
  const bool told = !given.contains("pids") && WriteFile(control, "+pids");
  // Good to have where it is.
  if (!given.contains("memory")) WriteFile(control, "+memory");
  if (Holds(root)) return true;
  if (told) WriteFile(control, "-pids");
  return false;
}

// Our own cgroup first; inside a container its name may be one of the host's, and under version 2
// one that holds processes cannot be divided, but its parent can.
std::vector<std::string> Candidates() {
  std::vector<std::string> roots;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // number:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == "pids") {
      roots.insert(roots.end(), {"/sys/fs/cgroup/pids" + path, "/sys/fs/cgroup/pids"});
    } else if (controllers.empty()) {
      const std::string own = "/sys/fs/cgroup" + path;
      roots.push_back(own);
      if (!path.empty()) roots.push_back(fs::path(own).parent_path());
    }
  }
  return roots;
}

void RemoveLeftovers(const std::string& root) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const int owner = OwnerOf(entry.path().filename().string());
    if (owner == 0 || kill(owner, 0) == 0 || errno != ESRCH) continue;
    const ProcessGroup leftover(entry.path());
  }
}

}  // namespace

ProcessGroup::~ProcessGroup() {
  if (!contained()) return;
  for (int i = 0; i < kRemoveWaits && !Remove(); ++i) {
    Kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (contained()) LogWarn("processes of a call do not end", {{"cgroup", folder_}});
}

std::vector<int> ProcessGroup::Members() const {
  std::vector<int> pids;
  if (leader_ > 0) pids.push_back(leader_);
  if (!contained()) {
    const std::vector<int> rest = leader_ > 0 ? DescendantsOf(leader_) : std::vector<int>();
    pids.insert(pids.end(), rest.begin(), rest.end());
  } else {
    std::ifstream file(Entry());
    // Those of another pid namespace show as 0.
    for (int pid = 0; file >> pid;) {
      if (pid > 0 && pid != leader_) pids.push_back(pid);
    }
  }
  return pids;
}

void ProcessGroup::Limit(std::int64_t processes_max, std::int64_t memory_mb) const {
  if (!contained()) return;
  WriteFile(folder_ + "/pids.max", std::to_string(processes_max));
  // Only under version 2, and only where the controller is handed down.
  WriteFile(folder_ + "/memory.max", std::to_string(memory_mb << 20));
}

bool ProcessGroup::RefusedForks() const {
  if (!contained()) return false;
  return CountOf(folder_ + "/pids.events", "max") > 0;
}

bool ProcessGroup::KilledForMemory() const {
  if (!contained()) return false;
  return CountOf(folder_ + "/memory.events", "oom_kill") > 0;
}

void ProcessGroup::Signal(int signal) const {
  for (const int pid : Members()) kill(pid, signal);
}

void ProcessGroup::Kill() const {
  if (!contained()) {
    if (leader_ > 0) KillTrees({leader_});
    return;
  }
  // First of all, so that it does not end by itself for want of a process.
  if (leader_ > 0) kill(leader_, SIGKILL);
  // From here on nobody in it can fork: those that are there now are all there will be.
  WriteFile(folder_ + "/pids.max", "0");
  Signal(SIGKILL);
}

bool ProcessGroup::Remove() {
  if (!contained()) return true;
  if (rmdir(folder_.c_str()) < 0 && errno != ENOENT) return false;
  folder_.clear();
  return true;
}

GroupSource GroupSource::Find(const std::string& preferred) {
  GroupSource source;
  std::vector<std::string> roots = Candidates();
  if (!preferred.empty()) roots.insert(roots.begin(), preferred);
  for (const std::string& root : roots) {
    if (!Works(root)) {
      if (root == preferred) LogWarn("NOETL_CGROUP_ROOT cannot be divided", {{"path", root}});
      continue;
    }
    source.root_ = root;
    RemoveLeftovers(root);
    break;
  }
  return source;
}

std::string GroupSource::Describe() const {
  if (contains()) return fmt::format("a cgroup for each call, under {}", root_);
  if (geteuid() != 0) return "process limits of the user, and a watch on /proc";
  return "a watch on /proc (no writable pids cgroup)";
}

std::unique_ptr<ProcessGroup> GroupSource::Make(std::int64_t processes_max,
                                                std::int64_t memory_mb) const {
  if (!contains()) return std::make_unique<ProcessGroup>("");
  const std::string folder = NextFolder(root_);
  if (mkdir(folder.c_str(), 0700) < 0) return std::make_unique<ProcessGroup>("");
  auto group = std::make_unique<ProcessGroup>(folder);
  group->Limit(processes_max, memory_mb);
  return group;
}

}  // namespace noetl::worker
