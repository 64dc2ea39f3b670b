#include "store/sqlite/fault_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"

namespace noetl::store {

namespace {

// One change of a file since its last sync: enough to take it back and to do it again.
struct Change {
  std::int64_t offset = 0;
  std::string before;  // bytes that were there; shorter at the end of the file
  std::string after;
  std::int64_t size_before = 0;
  bool truncates = false;
};

struct FaultFile {
  sqlite3_file base;
  FaultVfs::Shared* shared;
  sqlite3_file* real;  // behind this struct, in the same memory
  bool tracked;        // a database or its log
  bool is_log;
};

}  // namespace

struct FaultVfs::Shared {
  enum class Verdict { kGoOn, kFails, kTears };

  // Counts an operation and says what becomes of it.
  Verdict Count() {
    ++operations;
    if (kind == Kind::kNone || operations < from) return Verdict::kGoOn;
    if ((kind == Kind::kPowerLoss || kind == Kind::kTornWrite) && !dark) {
      dark = true;
      return kind == Kind::kTornWrite ? Verdict::kTears : Verdict::kFails;
    }
    return Verdict::kFails;
  }

  // Brings every open file to what a disk without power holds.
  void LosePower() {
    for (auto& [file, list] : changes) {
      for (auto change = list.rbegin(); change != list.rend(); ++change) {
        if (!change->before.empty()) {
          file->pMethods->xWrite(file, change->before.data(),
                                 static_cast<int>(change->before.size()), change->offset);
        }
        file->pMethods->xTruncate(file, change->size_before);
      }
      if (kind == Kind::kTornWrite) {
        for (std::size_t i = 0; i < list.size(); i += 2) {
          if (list[i].truncates) continue;
          file->pMethods->xWrite(file, list[i].after.data(), static_cast<int>(list[i].after.size()),
                                 list[i].offset);
        }
      }
      list.clear();
    }
  }

  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
  sqlite3_io_methods methods{};
  std::mutex mutex;
  std::int64_t operations = 0;
  std::int64_t from = 0;
  std::int64_t log_syncs = 0;
  Kind kind = Kind::kNone;
  bool dark = false;  // the power is gone
  // By connection: a sync of one does not vouch for what another wrote, which is the harder case.
  std::map<sqlite3_file*, std::vector<Change>> changes;
};

namespace {

using Shared = FaultVfs::Shared;
using Verdict = Shared::Verdict;

FaultFile* AsFault(sqlite3_file* file) { return reinterpret_cast<FaultFile*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return AsFault(file)->real; }
const sqlite3_io_methods* RealMethods(sqlite3_file* file) { return Real(file)->pMethods; }

void Remember(FaultFile& file, const void* data, int count, std::int64_t offset) {
  Change change{.offset = offset};
  file.real->pMethods->xFileSize(file.real, reinterpret_cast<sqlite3_int64*>(&change.size_before));
  const std::int64_t old = std::clamp<std::int64_t>(change.size_before - offset, 0, count);
  change.before.resize(static_cast<std::size_t>(old));
  if (old > 0) {
    file.real->pMethods->xRead(file.real, change.before.data(), static_cast<int>(old), offset);
  }
  change.after.assign(static_cast<const char*>(data), static_cast<std::size_t>(count));
  file.shared->changes[file.real].push_back(std::move(change));
}

int Write(sqlite3_file* base, const void* data, int count, sqlite3_int64 offset) {
  FaultFile& file = *AsFault(base);
  if (!file.tracked) return RealMethods(base)->xWrite(file.real, data, count, offset);
  const std::lock_guard lock(file.shared->mutex);
  const Verdict verdict = file.shared->Count();
  if (verdict == Verdict::kGoOn) {
    Remember(file, data, count, offset);
    return RealMethods(base)->xWrite(file.real, data, count, offset);
  }
  if (file.shared->dark) {
    file.shared->LosePower();
    if (verdict == Verdict::kTears) RealMethods(base)->xWrite(file.real, data, count / 2, offset);
  }
  return file.shared->kind == FaultVfs::Kind::kFull ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

int Truncate(sqlite3_file* base, sqlite3_int64 size) {
  FaultFile& file = *AsFault(base);
  if (!file.tracked) return RealMethods(base)->xTruncate(file.real, size);
  const std::lock_guard lock(file.shared->mutex);
  if (file.shared->Count() != Verdict::kGoOn) {
    if (file.shared->dark) file.shared->LosePower();
    return SQLITE_IOERR_TRUNCATE;
  }
  std::int64_t old_size = 0;
  RealMethods(base)->xFileSize(file.real, reinterpret_cast<sqlite3_int64*>(&old_size));
  if (old_size > size) {
    Change change{.offset = size, .size_before = old_size, .truncates = true};
    change.before.resize(static_cast<std::size_t>(old_size - size));
    RealMethods(base)->xRead(file.real, change.before.data(), static_cast<int>(old_size - size),
                             size);
    file.shared->changes[file.real].push_back(std::move(change));
  }
  return RealMethods(base)->xTruncate(file.real, size);
}

int Sync(sqlite3_file* base, int flags) {
  FaultFile& file = *AsFault(base);
  if (!file.tracked) return RealMethods(base)->xSync(file.real, flags);
  const std::lock_guard lock(file.shared->mutex);
  // A full disk is found when writing, not when syncing.
  if (file.shared->Count() != Verdict::kGoOn && file.shared->kind != FaultVfs::Kind::kFull) {
    if (file.shared->dark) file.shared->LosePower();
    return SQLITE_IOERR_FSYNC;
  }
  if (file.is_log) ++file.shared->log_syncs;
  file.shared->changes[file.real].clear();
  return SQLITE_OK;
}

int Close(sqlite3_file* base) {
  FaultFile& file = *AsFault(base);
  if (file.tracked) {
    const std::lock_guard lock(file.shared->mutex);
    file.shared->changes.erase(file.real);
  }
  return RealMethods(base) ? RealMethods(base)->xClose(file.real) : SQLITE_OK;
}

sqlite3_io_methods MakeMethods() {
  sqlite3_io_methods methods{};
  methods.iVersion = 2;  // without mapped memory: every write is seen
  methods.xClose = Close;
  methods.xRead = [](sqlite3_file* file, void* data, int count, sqlite3_int64 offset) {
    return RealMethods(file)->xRead(Real(file), data, count, offset);
  };
  methods.xWrite = Write;
  methods.xTruncate = Truncate;
  methods.xSync = Sync;
  methods.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
    return RealMethods(file)->xFileSize(Real(file), size);
  };
  methods.xLock = [](sqlite3_file* file, int level) {
    return RealMethods(file)->xLock(Real(file), level);
  };
  methods.xUnlock = [](sqlite3_file* file, int level) {
    return RealMethods(file)->xUnlock(Real(file), level);
  };
  methods.xCheckReservedLock = [](sqlite3_file* file, int* held) {
    return RealMethods(file)->xCheckReservedLock(Real(file), held);
  };
  methods.xFileControl = [](sqlite3_file* file, int operation, void* argument) {
    return RealMethods(file)->xFileControl(Real(file), operation, argument);
  };
  methods.xSectorSize = [](sqlite3_file* file) {
    return RealMethods(file)->xSectorSize(Real(file));
  };
  methods.xDeviceCharacteristics = [](sqlite3_file* file) {
    return RealMethods(file)->xDeviceCharacteristics(Real(file));
  };
  methods.xShmMap = [](sqlite3_file* file, int region, int size, int extend,
                       void volatile** memory) {
    return RealMethods(file)->xShmMap(Real(file), region, size, extend, memory);
  };
  methods.xShmLock = [](sqlite3_file* file, int offset, int count, int flags) {
    return RealMethods(file)->xShmLock(Real(file), offset, count, flags);
  };
  methods.xShmBarrier = [](sqlite3_file* file) { RealMethods(file)->xShmBarrier(Real(file)); };
  methods.xShmUnmap = [](sqlite3_file* file, int remove) {
    return RealMethods(file)->xShmUnmap(Real(file), remove);
  };
  return methods;
}

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* base, int flags, int* out_flags) {
  auto* shared = static_cast<Shared*>(vfs->pAppData);
  auto* file = new (base) FaultFile{};
  file->shared = shared;
  file->real = reinterpret_cast<sqlite3_file*>(file + 1);
  file->is_log = (flags & SQLITE_OPEN_WAL) != 0;
  file->tracked = file->is_log || (flags & SQLITE_OPEN_MAIN_DB) != 0;
  std::memset(static_cast<void*>(file->real), 0, static_cast<std::size_t>(shared->real->szOsFile));
  const int code = shared->real->xOpen(shared->real, name, file->real, flags, out_flags);
  file->base.pMethods = file->real->pMethods ? &shared->methods : nullptr;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int) {
  auto* shared = static_cast<Shared*>(vfs->pAppData);
  {
    const std::lock_guard lock(shared->mutex);
    if (shared->Count() != Verdict::kGoOn) {
      if (shared->dark) shared->LosePower();
      return SQLITE_IOERR_DELETE;
    }
  }
  return shared->real->xDelete(shared->real, name, 0);
}

}  // namespace

FaultVfs::FaultVfs() : shared_(std::make_unique<Shared>()) {
  static std::atomic<int> count{0};
  name_ = fmt::format("noetl-fault-{}", ++count);
  shared_->real = sqlite3_vfs_find(nullptr);
  NOETL_CHECK(shared_->real != nullptr, "SQLite has no file system");
  shared_->methods = MakeMethods();
  // Everything that does not concern us is done by the functions of the real one, which take the
  // structure they are called with only for its name.
  shared_->vfs = *shared_->real;
  shared_->vfs.pNext = nullptr;
  shared_->vfs.zName = name_.c_str();
  shared_->vfs.szOsFile = static_cast<int>(sizeof(FaultFile)) + shared_->real->szOsFile;
  shared_->vfs.pAppData = shared_.get();
  shared_->vfs.xOpen = Open;
  shared_->vfs.xDelete = Delete;
  NOETL_CHECK(sqlite3_vfs_register(&shared_->vfs, 0) == SQLITE_OK, "cannot register");
}

FaultVfs::~FaultVfs() { sqlite3_vfs_unregister(&shared_->vfs); }

void FaultVfs::FailFrom(std::int64_t operation, Kind kind) {
  const std::lock_guard lock(shared_->mutex);
  shared_->operations = 0;
  shared_->from = operation;
  shared_->kind = kind;
  shared_->dark = false;
}

void FaultVfs::Heal() {
  const std::lock_guard lock(shared_->mutex);
  shared_->kind = Kind::kNone;
  shared_->dark = false;
}

std::int64_t FaultVfs::operations() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->operations;
}

std::int64_t FaultVfs::log_syncs() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->log_syncs;
}

}  // namespace noetl::store
