// Copies of a data directory, made while it is in use and put back when it is not.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "cli/table.h"
#include "store/directory.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::string data;
  std::string file;
};

// Bodies that are too large for the database lie beside the copy.
std::string ObjectsOf(const std::string& backup) { return backup + ".objects"; }

Status IoFailure(const fs::path& path, const std::error_code& error) {
  return Fail("io", fmt::format("{}: {}", path.string(), error.message()));
}

Status Backup(const Options& options, Console& console) {
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  NOETL_TRY(data.store->Backup(options.file));
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(options.file, error));
  if (error) return IoFailure(options.file, error);
  console.Out(fmt::format("{}: {}\n", options.file, BytesText(bytes)));
  if (fs::exists(ObjectsOf(options.file), error))
    console.Out(fmt::format("{}: large results; keep it with the file\n", ObjectsOf(options.file)));
  return {};
}

// ---- restore

// Names that a process leaves in a directory without data.
bool IsLeftover(const fs::path& name) {
  return name == "lock" || name == "run" || name == "control";
}

Status CheckEmpty(const std::string& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) return {};
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (IsLeftover(entry->path().filename())) continue;
    return Fail("io",
                fmt::format("{} is not empty (it holds {}); name a new directory with --data, "
                            "or move the old one away",
                            directory, entry->path().filename().string()));
  }
  if (error) return IoFailure(directory, error);
  return {};
}

Status CheckSource(const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    return Fail("io", fmt::format("{}: no such file", file));
  if (!fs::is_regular_file(status))
    return Fail("io", fmt::format("{}: not a file that `noetl backup` wrote", file));
  return {};
}

Status Sync(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = descriptor >= 0 && fsync(descriptor) == 0;
  const std::error_code error(errno, std::generic_category());
  if (descriptor >= 0) close(descriptor);
  if (!done) return IoFailure(path, error);
  return {};
}

// A directory that goes away with what is left in it.
class Staging {
 public:
  explicit Staging(fs::path path) : path_(std::move(path)) {}
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Status CopyInto(const std::string& file, const fs::path& staging) {
  std::error_code error;
  fs::create_directory(staging, error);
  if (error) return IoFailure(staging, error);
  fs::permissions(staging, fs::perms::owner_all, error);
  fs::copy_file(file, staging / "noetl.db", error);
  if (error) return IoFailure(file, error);
  if (!fs::exists(ObjectsOf(file), error)) return {};
  fs::copy(ObjectsOf(file), staging / "objects", fs::copy_options::recursive, error);
  if (error) return IoFailure(ObjectsOf(file), error);
  return {};
}

// Opens the copy, which brings it to the newest schema, and looks for damage.
Result<store::StoreStats> CheckCopy(const std::string& file, const fs::path& staging) {
  NOETL_ASSIGN(const std::unique_ptr<store::Store> store,
               store::OpenSqliteStore({.directory = staging.string()}));
  NOETL_ASSIGN(const std::vector<std::string> findings, store->Check());
  if (!findings.empty())
    return Fail("corrupt", fmt::format("{} is damaged, nothing was restored: {}", file,
                                       fmt::join(findings, "; ")));
  return store->Stats();
}

Status Restore(const Options& options, Console& console) {
  const std::unique_ptr<Settings> settings = LoadSettings({}, console);
  if (!settings) return Fail("settings", "the settings above are wrong");
  const std::string directory = DataDirectory(*settings, options.data);
  NOETL_TRY(CheckSource(options.file));
  NOETL_TRY(CheckEmpty(directory));
  NOETL_ASSIGN(const std::unique_ptr<store::DirectoryLock> lock,
               store::DirectoryLock::Acquire(directory));
  const Staging staging(fs::path(directory) / "restore.tmp");
  NOETL_TRY(CopyInto(options.file, staging.path()));
  NOETL_ASSIGN(const store::StoreStats stats, CheckCopy(options.file, staging.path()));
  // The database comes last: with it the directory has data.
  std::error_code error;
  NOETL_TRY(Sync(staging.path() / "noetl.db"));
  if (fs::exists(staging.path() / "objects", error)) {
    fs::rename(staging.path() / "objects", fs::path(directory) / "objects", error);
    if (error) return IoFailure(directory, error);
  }
  fs::rename(staging.path() / "noetl.db", fs::path(directory) / "noetl.db", error);
  if (error) return IoFailure(directory, error);
  NOETL_TRY(Sync(directory));
  console.Out(fmt::format("{}: {}, {}\n", directory,
                          Count(static_cast<std::size_t>(stats.executions), "run"),
                          Count(static_cast<std::size_t>(stats.events), "event")));
  if (stats.open_executions > 0) {
    console.Out(fmt::format("{} had not ended; `noetl resume` continues\n",
                            Count(static_cast<std::size_t>(stats.open_executions), "run")));
  }
  return {};
}

}  // namespace

Action DeclareBackup(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("TARGET", &options->file, "the file to write; it must not exist").Required();
  AddDataOption(parser, &options->data);
  return [options](Console& console) {
    const Status done = Backup(*options, console);
    return done ? kExitOk : Complain("backup", done.error(), console);
  };
}

Action DeclareRestore(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("SOURCE", &options->file, "a file that `noetl backup` wrote").Required();
  AddDataOption(parser, &options->data);
  return [options](Console& console) {
    const Status done = Restore(*options, console);
    return done ? kExitOk : Complain("restore", done.error(), console);
  };
}

}  // namespace noetl::cli
