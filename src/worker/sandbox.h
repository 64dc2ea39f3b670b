// What a process of a tool is kept from, besides its limits.
//
// `basic` is what every process has: a group, an environment and a directory of its own, no way to
// gain privileges, and limits. `off` is the same without limits that a step did not ask for.
// `strict` adds namespaces: the process sees the programs and libraries of the system, which it
// cannot change, its own directory, which it can, an empty /tmp, and no process but its own; it has
// no privileges, and a filter refuses the system calls that would lead out. `deny_network` goes
// with every level: a network of its own that holds nothing but its loopback device.
//
// What a host refuses is an error, never a process that is less confined than asked for.
//
// A worker that may (root) makes the namespaces itself and runs strict processes as another user;
// elsewhere they come with a user namespace, in which the user stays the same. Immutable, any
// thread, except that Prepare gives the directory to the user of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "worker/sandbox_steps.h"

namespace noetl::worker {

enum class SandboxLevel : std::uint8_t { kOff, kBasic, kStrict };

// Of strict processes of a root worker when NOETL_SANDBOX_UID is not set: `nobody`.
inline constexpr std::uint32_t kSandboxUser = 65'534;

// How all processes of a worker are confined at least.
struct SandboxPolicy {
  SandboxLevel level = SandboxLevel::kBasic;
  std::uint32_t user = kSandboxUser;

  // NOETL_SANDBOX and NOETL_SANDBOX_UID; without settings the above. `auto` is basic: a strict
  // process cannot come from a warm Python, which makes the call of a small step many times
  // slower.
  static SandboxPolicy Of(const Settings* settings);
  // Whether this host can do what the policy asks for: tries it, in a directory for a process. The
  // error names the setting.
  Status Check(const std::string& scratch) const;
};

// The level of that name; "auto" is basic. Error: "config".
Result<SandboxLevel> SandboxLevelOf(std::string_view name);

// One process.
struct Confinement {
  SandboxLevel level = SandboxLevel::kBasic;
  bool deny_network = false;
  // Strict only.
  std::uint32_t user = kSandboxUser;
  std::string scratch;                // can be written
  std::vector<std::string> readable;  // folders, besides those of the system

  bool strict() const { return level == SandboxLevel::kStrict; }
};

// The namespaces (CLONE_NEW...) that keep a process of this worker from the network.
unsigned long NetworkNamespaces();

class Sandbox {
 public:
  // Error: "sandbox".
  static Result<Sandbox> Prepare(const Confinement& confinement);
  // Steps point into it.
  Sandbox(Sandbox&&) = default;
  Sandbox& operator=(Sandbox&&) = default;

  // CLONE_NEW... that the process starts with; 0: there is nothing to do.
  unsigned long namespaces() const { return namespaces_; }
  const std::vector<SandboxStep>& steps() const { return steps_; }
  // The user of the process is another than ours.
  bool changes_user() const { return changes_user_; }
  // A program with a namespace of processes needs a first process there that waits for orphans and
  // lets signals end the others. It exits as the program does: 128 + signal when it was killed.
  std::vector<std::string> Argv(const std::string& program, std::vector<std::string> argv) const;
  // Why a process could not be started: so many steps were taken.
  Error Refusal(std::size_t taken, int error) const;

 private:
  Sandbox() = default;
  void Add(SandboxAct act, std::string target, std::string source = {});
  void AddMount(std::string source, std::string target, const char* type, unsigned long flags,
                const char* data = nullptr);
  void AddFolders(const std::string& path);
  void AddBind(const std::string& path, bool writable);
  void AddSystem(const std::string& path);
  void AddUserMaps();
  void AddRoot(const Confinement& confinement);
  const char* Keep(std::string text);

  std::string asked_;  // for people
  unsigned long namespaces_ = 0;
  bool changes_user_ = false;
  std::deque<std::string> texts_;  // stay where they are
  std::vector<SandboxStep> steps_;
};

}  // namespace noetl::worker
