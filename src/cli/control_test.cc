#include "cli/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/temporary_directory.h"

namespace noetl::cli {
namespace {

namespace fs = std::filesystem;

class ControlTest : public testing::Test {
 protected:
  std::unique_ptr<ControlServer> Serve(ControlServer::Handler handler,
                                       std::int64_t idle_ms = kControlIdleMs) {
    auto server = ControlServer::Serve(directory_, std::move(handler), idle_ms);
    EXPECT_TRUE(server.has_value());
    return *std::move(server);
  }
  static Result<Json> Echo(const Json& request) {
    if (request["op"].AsString() == "fail") return Fail("not_found", "no such thing");
    return Json::Object({{"got", request}});
  }
  int Connect() {
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX};
    const std::string path = directory_ + "/control";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return connection;
  }
  // Everything until the other side closes.
  static std::string ReadAll(int connection) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = recv(connection, buffer, sizeof(buffer), 0)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    close(connection);
    return text;
  }

  const TemporaryDirectory temporary_;
  std::string directory_ = temporary_.path();
};

TEST_F(ControlTest, AnswersRequestsAndErrors) {
  const auto server = Serve(Echo);
  const auto answer = CallOwner(directory_, Json::Object({{"op", "x"}, {"text", "a\nb"}}));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ((*answer)["got"]["text"].AsString(), "a\nb");
  const auto refused = CallOwner(directory_, Json::Object({{"op", "fail"}}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error(), (Error{"not_found", "no such thing"}));
}

TEST_F(ControlTest, TheSocketIsForItsUserOnlyAndGoesWithTheServer) {
  auto server = Serve(Echo);
  struct stat info{};
  ASSERT_EQ(stat((directory_ + "/control").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  server.reset();
  EXPECT_FALSE(fs::exists(directory_ + "/control"));
  const auto answer = CallOwner(directory_, Json::Object({{"op", "ping"}}));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, "unreachable");
}

TEST_F(ControlTest, ASocketThatADeadProcessLeftIsReplaced) {
  const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  (directory_ + "/control").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(left);
  EXPECT_FALSE(CallOwner(directory_, Json::Object()).has_value());
  const auto server = Serve(Echo);
  EXPECT_TRUE(CallOwner(directory_, Json::Object()).has_value());
}

TEST_F(ControlTest, LongPathsOfDirectories) {
  const std::string home = directory_;
  directory_ += "/" + std::string(150, 'd');
  fs::create_directory(directory_);
  {
    const auto server = Serve(Echo);
    EXPECT_TRUE(CallOwner(directory_, Json::Object()).has_value());
  }
  directory_ = home;
}

TEST_F(ControlTest, GarbageAndLinesThatNeverEndAreRefused) {
  const auto server = Serve(Echo);
  for (const std::string_view garbage : {"nonsense\n", "[1]\n", "\n", "\xff\xfe\n"}) {
    const int connection = Connect();
    ASSERT_EQ(send(connection, garbage.data(), garbage.size(), 0), std::ssize(garbage));
    const auto answer = ParseJson(ReadAll(connection));
    ASSERT_TRUE(answer.has_value());
    EXPECT_FALSE((*answer)["ok"].AsBool(true));
  }
  const int connection = Connect();
  const std::string part(1 << 20, 'x');
  std::size_t sent = 0;
  for (; sent <= kControlBytesMax; sent += part.size()) {
    if (send(connection, part.data(), part.size(), MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_NE(ReadAll(connection).find("too_large"), std::string::npos);
  EXPECT_EQ(CallOwner(directory_, Json(std::string(kControlBytesMax, 'x'))).error().code,
            "too_large");
}

TEST_F(ControlTest, LargeRequestsAndAnswersArrive) {
  const auto server = Serve(Echo);
  const std::string text(4 << 20, 'y');
  const auto answer = CallOwner(directory_, Json::Object({{"text", text}}));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ((*answer)["got"]["text"].AsString(), text);
}

TEST_F(ControlTest, IdleConnectionsAreClosedAndDoNotBlockOthers) {
  const auto server = Serve(Echo, 50);
  const int idle = Connect();
  EXPECT_TRUE(CallOwner(directory_, Json::Object()).has_value());
  EXPECT_EQ(ReadAll(idle), "");  // closed by the server
}

TEST_F(ControlTest, ManyClientsAtOnce) {
  const auto server = Serve(Echo);
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int n = 0; n < 20; ++n) answered += CallOwner(directory_, Json::Object()).has_value();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 160);
}

TEST_F(ControlTest, AnOwnerThatDoesNotAnswer) {
  const int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  (directory_ + "/control").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(silent, 4), 0);
  EXPECT_EQ(CallOwner(directory_, Json::Object(), 20).error().code, "unreachable");
  close(silent);
}

TEST(ControlIds, AreTextsOrNumbers) {
  EXPECT_EQ(IdOf(Json("653912087445667840")), 653912087445667840);
  EXPECT_EQ(IdOf(Json(7)), 7);
  EXPECT_EQ(IdOf(Json("7x")), 0);
  EXPECT_EQ(IdOf(Json()), 0);
}

}  // namespace
}  // namespace noetl::cli
