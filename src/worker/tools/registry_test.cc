#include "worker/tools/registry.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

namespace noetl::worker {
namespace {

TEST(ToolRegistry, HasEveryKindOnce) {
  const std::filesystem::path scratch =
      std::filesystem::path(::testing::TempDir()) / fmt::format("noetl_registry_{}", getpid());
  {
    EventLoop loop;
    const Settings settings = *Settings::Load({});
    Result<std::unique_ptr<Supervisor>> supervisor = Supervisor::Create(&loop, scratch.string());
    ASSERT_TRUE(supervisor.has_value()) << supervisor.error().message;
    ToolRegistry registry({.loop = &loop, .supervisor = supervisor->get(), .settings = &settings});
    std::set<Tool*> tools;
    for (const std::string_view kind : ToolRegistry::Kinds()) {
      ASSERT_NE(registry.Find(kind), nullptr) << kind;
      EXPECT_EQ(registry.Find(kind), registry.Find(kind));
      tools.insert(registry.Find(kind));
    }
    EXPECT_EQ(tools.size(), ToolRegistry::Kinds().size());
    for (const char* kind : {"noop", "python", "shell", "http"}) {
      EXPECT_NE(registry.Find(kind), nullptr) << kind;
    }
    EXPECT_EQ(registry.Find("nothing"), nullptr);
    EXPECT_EQ(registry.Find("HTTP"), nullptr);
  }
  std::filesystem::remove_all(scratch);
}

}  // namespace
}  // namespace noetl::worker
