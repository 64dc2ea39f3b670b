// A PostgreSQL server of their own for the tests that need one.
//
// `TestServer::Shared()` is started at first use, one a test program, in a temporary directory with
// a free TCP port of 127.0.0.1, and ends with the program, however that ends. Over TCP it asks for
// passwords (scram-sha-256), over its socket it asks nothing. PostgreSQL refuses to run as root, so
// then it runs as the user `postgres`. No other cluster of the machine is touched.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/event_loop.h"
#include "base/temporary_directory.h"
#include "pg/connection.h"
#include "pg/sql_split.h"

namespace noetl::pg {

class TestServer {
 public:
  // With everything that breaks an address which is glued together.
  static constexpr const char* kPassword = "p@ss:w/o rd%#?";

  static TestServer& Shared() {
    static TestServer server;
    return server;
  }

  TestServer() : port_(FreePort()) {
    namespace fs = std::filesystem;
    if (geteuid() == 0) {
      const passwd* const user = getpwnam("postgres");
      NOETL_CHECK(user != nullptr, "tests as root need a user called postgres");
      uid_ = user->pw_uid;
      gid_ = user->pw_gid;
      NOETL_CHECK(chown(folder_.path().c_str(), uid_, gid_) == 0, "chown");
    }
    data_ = folder_.path() + "/data";
    const std::string secret = folder_.path() + "/secret";
    std::ofstream(secret) << kPassword;
    NOETL_CHECK(Run({Program("initdb"), "-D", data_, "-U", "postgres", "-A", "scram-sha-256",
                     "--pwfile", secret, "-E", "UTF8", "--locale=C", "-N"}) == 0,
                "initdb failed");
    fs::remove(secret);
    std::ofstream(data_ + "/pg_hba.conf") << "local all all trust\n"
                                             "host all all 127.0.0.1/32 scram-sha-256\n"
                                             "host all all ::1/128 scram-sha-256\n";
    Start();
  }
  ~TestServer() { Stop(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  int port() const { return port_; }
  const std::string& folder() const { return folder_.path(); }
  // By TCP, with the password; by the socket without.
  Parameters parameters() const {
    return {{"host", "127.0.0.1"},
            {"port", std::to_string(port_)},
            {"dbname", "postgres"},
            {"user", "postgres"},
            {"password", kPassword}};
  }

  void Start() {
    NOETL_CHECK(pid_ == 0, "started already");
    pid_ = Spawn({Program("postgres"), "-D", data_, "-p", std::to_string(port_), "-k",
                  folder_.path(), "-h", "127.0.0.1", "-c", "fsync=off", "-c", "max_connections=60",
                  "-c", "shared_buffers=16MB", "-c", "deadlock_timeout=50ms"});
    for (int tries = 0; Ask("SELECT 1") != "1"; ++tries) {
      NOETL_CHECK(tries < 1'000 && waitpid(pid_, nullptr, WNOHANG) == 0, "postgres does not start");
      poll(nullptr, 0, 20);
    }
  }
  void Stop() {
    if (pid_ == 0) return;
    kill(pid_, SIGINT);  // sessions are ended, the data is kept
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void Restart() {
    Stop();
    Start();
  }

  // Runs statements on a connection of their own; gives the first cell of the last result, or
  // nullopt when something failed.
  std::optional<std::string> Ask(std::string sql) const {
    EventLoop loop;
    Connection connection(&loop);
    std::optional<std::string> cell;
    Query query{.sql = std::move(sql)};
    query.on_result = [&](const ResultView& result) {
      const bool some = result.kind() == ResultView::Kind::kRows && result.rows() > 0;
      cell = some ? std::string(result.Text(0, 0)) : "";
    };
    query.on_done = [&](std::optional<Failure> failure) {
      if (failure) cell.reset();
      loop.Stop();
    };
    connection.Connect({{"host", folder_.path()},
                        {"port", std::to_string(port_)},
                        {"dbname", "postgres"},
                        {"user", "postgres"}},
                       60'000, [&](std::optional<Failure> failure) {
                         if (failure) loop.Stop();
                         else connection.Send(std::move(query));
                       });
    loop.Run();
    return cell;
  }
  // Asks until the answer is the expected one.
  void WaitFor(const std::string& sql, const std::string& expected) const {
    for (int tries = 0; Ask(sql) != expected; ++tries) {
      ASSERT_LT(tries, 1'000) << sql;
      poll(nullptr, 0, 10);
    }
  }

 private:
  static std::string Program(const std::string& name) {
    return "/usr/lib/postgresql/15/bin/" + name;
  }

  static int FreePort() {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    NOETL_CHECK(bind(descriptor, raw, length) == 0, "no free port");
    NOETL_CHECK(getsockname(descriptor, raw, &length) == 0, "no free port");
    close(descriptor);
    return ntohs(address.sin_port);
  }

  // The child dies with the thread that made it.
  pid_t Spawn(const std::vector<std::string>& command) const {
    std::vector<char*> argv;
    for (const std::string& part : command) argv.push_back(const_cast<char*>(part.c_str()));
    argv.push_back(nullptr);
    const std::string log = folder_.path() + "/log";
    const pid_t pid = fork();
    NOETL_CHECK(pid >= 0, "fork");
    if (pid > 0) return pid;
    const bool user = gid_ == 0 || (setgid(gid_) == 0 && setuid(uid_) == 0);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (!user || chdir("/") != 0 || freopen(log.c_str(), "a", stdout) == nullptr ||
        dup2(fileno(stdout), fileno(stderr)) < 0) {
      _exit(126);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  int Run(const std::vector<std::string>& command) const {
    int status = -1;
    waitpid(Spawn(command), &status, 0);
    return status;
  }

  TemporaryDirectory folder_;
  int port_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  std::string data_;
  pid_t pid_ = 0;
};

}  // namespace noetl::pg
