#include "store/directory.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_directory.h"
#include "store/testing.h"

namespace noetl::store {
namespace {

TEST(DirectoryLock, MakesAPrivateDirectory) {
  TemporaryDirectory parent;
  const std::string path = parent.path() + "/a/b";
  const auto lock = DirectoryLock::Acquire(path);
  ASSERT_TRUE(lock.has_value()) << lock.error().message;
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(DirectoryLock, OneOwnerInAProcess) {
  TemporaryDirectory directory;
  auto first = DirectoryLock::Acquire(directory.path());
  ASSERT_TRUE(first.has_value());
  const auto second = DirectoryLock::Acquire(directory.path());
  EXPECT_EQ(CodeOf(second), "locked");
  EXPECT_NE(second.error().message.find(std::to_string(getpid())), std::string::npos);
  first->reset();
  EXPECT_EQ(CodeOf(DirectoryLock::Acquire(directory.path())), "ok");
}

TEST(DirectoryLock, ARunningProcessKeepsOthersOutUntilItDies) {
  TemporaryDirectory directory;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = DirectoryLock::Acquire(directory.path());
    const char answer = lock ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const auto refused = DirectoryLock::Acquire(directory.path());
  EXPECT_EQ(CodeOf(refused), "locked");
  EXPECT_NE(refused.error().message.find(std::to_string(child)), std::string::npos);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(CodeOf(DirectoryLock::Acquire(directory.path())), "ok");
  close(ready[0]);
  close(ready[1]);
}

TEST(DirectoryLock, SaysWhyADirectoryCannotBeUsed) {
  TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_EQ(CodeOf(DirectoryLock::Acquire(file)), "io");
  EXPECT_EQ(CodeOf(DirectoryLock::Acquire(file + "/below")), "io");
}

}  // namespace
}  // namespace noetl::store
