#include "cli/pid_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "base/temporary_directory.h"

namespace noetl::cli {
namespace {

class PidFileTest : public testing::Test {
 protected:
  ~PidFileTest() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  // A process that holds the file until it is told to end.
  void Hold() {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    child_ = fork();
    if (child_ == 0) {
      const auto file = PidFile::Take(path_, "kid");
      [[maybe_unused]] const ssize_t said = write(ready[1], file ? "y" : "n", 1);
      while (true) pause();
    }
    char word = 0;
    ASSERT_EQ(read(ready[0], &word, 1), 1);
    ASSERT_EQ(word, 'y');
    close(ready[0]);
    close(ready[1]);
  }

  const TemporaryDirectory folder_;
  const std::string path_ = folder_.path() + "/server.pid";
  pid_t child_ = 0;
};

TEST_F(PidFileTest, NobodyHoldsAFileThatIsMissingOrLeftBehind) {
  auto found = FindService(path_);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  std::ofstream(path_) << getppid() << "\nold\n";
  found = FindService(path_);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
}

TEST_F(PidFileTest, TheHolderIsFoundWhateverTheFileSays) {
  Hold();
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto found = FindService(path_);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->pid, child_);
  EXPECT_EQ((*found)->name, "kid");
  std::ofstream(path_) << "1\nother\n";
  found = FindService(path_);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->pid, child_);
  const auto taken = PidFile::Take(path_, "me");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, "locked");
  EXPECT_NE(taken.error().message.find(fmt::format("process {}", child_)), std::string::npos);
}

TEST_F(PidFileTest, StoppingEndsTheHolderAndNobodyElse) {
  Hold();
  Console console;
  const Status wrong =
      StopService("server", path_, {.pid = getppid(), .name = ""}, {.timeout = "10s"}, console);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, "gone");
  EXPECT_EQ(kill(child_, 0), 0);
  const Status done =
      StopService("server", path_, {.pid = child_, .name = ""}, {.timeout = "60s"}, console);
  ASSERT_TRUE(done) << done.error().message;
  int status = 0;
  EXPECT_EQ(waitpid(child_, &status, 0), child_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  child_ = 0;
  const auto found = FindService(path_);
  EXPECT_TRUE(found && !*found);
  EXPECT_TRUE(PidFile::Take(path_, "next"));
}

}  // namespace
}  // namespace noetl::cli
