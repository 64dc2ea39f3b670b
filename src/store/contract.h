// One suite of tests for every implementation of the store; its tests are in contract*_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing.h"

namespace noetl::store {

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Store>(const std::string& directory, bool outbox)> open;
  bool durable = false;
};

inline const Implementation kMemoryStore{"Memory",
                                         [](const std::string&, bool outbox) {
                                           MemoryStoreOptions options;
                                           options.outbox = outbox;
                                           return MakeMemoryStore(std::move(options));
                                         },
                                         false};
inline const Implementation kSqliteStore{"Sqlite",
                                         [](const std::string& directory, bool outbox) {
                                           Result<std::unique_ptr<Store>> store = OpenSqliteStore(
                                               {.directory = directory, .outbox = outbox});
                                           EXPECT_TRUE(store.has_value()) << store.error().message;
                                           return store ? std::move(*store) : nullptr;
                                         },
                                         true};

class StoreContract : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override { Reopen(); }

  // A process that ends and starts again; memory has nothing to start from.
  void Reopen(bool outbox = false) {
    if (store_ && !GetParam().durable && !outbox) return;
    store_.reset();
    store_ = GetParam().open(directory_.path(), outbox);
    ASSERT_NE(store_, nullptr);
  }

  void Must(const UnitRows& unit) {
    const Status status = CommitOne(*store_, unit);
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  void ExpectHealthy() {
    const auto findings = store_->Check();
    ASSERT_TRUE(findings.has_value());
    EXPECT_EQ(*findings, std::vector<std::string>());
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
};

}  // namespace noetl::store
