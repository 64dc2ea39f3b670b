// TLS of the HTTP server, with certificates made for the test and OpenSSL's own client.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "api/http_server.h"
#include "api/http_testing.h"
#include "base/temporary_directory.h"

namespace noetl::api {
namespace {

// A key with a certificate for localhost: its own, or signed with `issuer`.
struct Identity {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();

  explicit Identity(const char* name, const Identity* issuer = nullptr) {
    static int serial = 1;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_set_version(certificate, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3'600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3'600);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    if (issuer == nullptr) {
      X509_EXTENSION* extension =
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
      X509_add_ext(certificate, extension, -1);
      X509_EXTENSION_free(extension);
    }
    const Identity& signer = issuer != nullptr ? *issuer : *this;
    X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate));
    X509_sign(certificate, signer.key, EVP_sha256());
  }
  ~Identity() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  void Write(const std::string& cert_file, const std::string& key_file) const {
    FILE* file = std::fopen(cert_file.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key_file.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }
};

class TlsClient {
 public:
  struct Options {
    const Identity* identity = nullptr;
    int version_max = 0;
    std::string_view protocol = "http/1.1";
  };

  TlsClient(int port, const Options& options) : context_(SSL_CTX_new(TLS_client_method())) {
    if (options.version_max != 0) SSL_CTX_set_max_proto_version(context_, options.version_max);
    SSL_CTX_set_security_level(context_, 0);
    if (options.identity != nullptr) {
      SSL_CTX_use_certificate(context_, options.identity->certificate);
      SSL_CTX_use_PrivateKey(context_, options.identity->key);
    }
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ssl_ = SSL_new(context_);
    const std::string protocols =
        static_cast<char>(options.protocol.size()) + std::string(options.protocol);
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
    SSL_set_fd(ssl_, socket_);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(socket_);
    ERR_clear_error();
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  bool Send(std::string_view text) {
    return SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0;
  }
  // All that comes until `mark`; empty: the connection ended before.
  std::string Until(std::string_view mark) {
    while (buffered_.find(mark) == std::string::npos) {
      char bytes[16 << 10];
      const int came = SSL_read(ssl_, bytes, sizeof(bytes));
      if (came <= 0) return {};
      buffered_.append(bytes, static_cast<std::size_t>(came));
    }
    const std::size_t end = buffered_.find(mark) + mark.size();
    std::string text = buffered_.substr(0, end);
    buffered_.erase(0, end);
    return text;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  int socket_ = -1;
  bool connected_ = false;
  std::string buffered_;
};

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() : authority_("test authority"), identity_("localhost", &authority_) {
    options_.threads = 2;
    options_.tls_cert = directory_.path() + "/server.pem";
    options_.tls_key = directory_.path() + "/server.key";
    identity_.Write(options_.tls_cert, options_.tls_key);
    handler_.handle = [](const std::shared_ptr<Exchange>& exchange) {
      const Request& request = exchange->request();
      exchange->Send({.content_type = "image/png",
                      .body = request.path + (request.tls ? " over TLS " : " plain ") +
                              request.body + "<end>"});
    };
  }

  void Start() {
    auto server = HttpServer::Start(options_, &handler_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  Error StartError() {
    auto server = HttpServer::Start(options_, &handler_);
    EXPECT_FALSE(server);
    return server ? Error{} : server.error();
  }

  TemporaryDirectory directory_;
  Identity authority_;
  Identity identity_;
  HttpServerOptions options_;
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_F(HttpTlsTest, AnswersOverTls) {
  Start();
  TlsClient client(server_->port(), {});
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.protocol(), "http/1.1");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(kGet));
    EXPECT_TRUE(client.Until("<end>").ends_with("/a over TLS <end>"));
  }
  // Larger than a record, both ways.
  const std::string body(300'000, 'x');
  client.Send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + body);
  EXPECT_TRUE(client.Until("<end>").ends_with("\r\n\r\n/b over TLS " + body + "<end>"));
  // Pipelined within one record.
  std::string many;
  for (int i = 0; i < 50; ++i) many += kGet;
  client.Send(many);
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(client.Until("<end>").empty());
}

TEST_F(HttpTlsTest, StreamsAndStopsOverTls) {
  std::shared_ptr<BodyStream> stream;
  std::atomic<bool> made = false;
  std::atomic<int> closed = 0;
  handler_.handle = [&](const std::shared_ptr<Exchange>& exchange) {
    stream = exchange->Stream({}, [&] { ++closed; });
    made = true;
  };
  Start();
  TlsClient client(server_->port(), {});
  client.Send(kGet);
  ASSERT_TRUE(Eventually([&] { return made.load(); }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream->Write("event " + std::to_string(i) + ";"));
    ASSERT_FALSE(client.Until("event " + std::to_string(i) + ";").empty());
  }
  // Stop waits for the client's end of TLS at most as long as it lingers.
  server_->Stop();
  EXPECT_EQ(client.Until("\r\n0\r\n\r\n"), "\r\n0\r\n\r\n");
  EXPECT_EQ(closed, 1);
}

TEST_F(HttpTlsTest, OldVersionsOtherProtocolsAndPlainTextAreRefused) {
  options_.header_timeout_ms = 200;
  Start();
  EXPECT_FALSE(TlsClient(server_->port(), {.version_max = TLS1_1_VERSION}).connected());
  EXPECT_TRUE(TlsClient(server_->port(), {.version_max = TLS1_2_VERSION}).connected());
  EXPECT_FALSE(TlsClient(server_->port(), {.protocol = "h2"}).connected());
  TestClient plain(server_->port());
  EXPECT_FALSE(plain.Get("/"));
  TestClient silent(server_->port());
  EXPECT_TRUE(silent.Ended());
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpTlsTest, ClientsNeedACertificateWhenAnAuthorityIsGiven) {
  options_.tls_client_ca = directory_.path() + "/ca.pem";
  authority_.Write(options_.tls_client_ca, directory_.path() + "/ca.key");
  Start();
  const Identity friendly("client", &authority_);
  TlsClient known(server_->port(), {.identity = &friendly});
  ASSERT_TRUE(known.connected());
  known.Send(kGet);
  EXPECT_FALSE(known.Until("<end>").empty());
  // With TLS 1.3 a client learns of its refusal when it reads.
  const Identity stranger("stranger");
  TlsClient unknown(server_->port(), {.identity = &stranger});
  EXPECT_TRUE(!unknown.connected() || !unknown.Send(kGet) || unknown.Until("<end>").empty());
  TlsClient without(server_->port(), {});
  EXPECT_TRUE(!without.connected() || !without.Send(kGet) || without.Until("<end>").empty());
}

TEST_F(HttpTlsTest, WrongFilesAreNamed) {
  const HttpServerOptions good = options_;
  options_.tls_cert = directory_.path() + "/missing.pem";
  EXPECT_EQ(StartError().code, "tls");
  EXPECT_NE(StartError().message.find("missing.pem"), std::string::npos);

  options_ = good;
  options_.tls_key.clear();
  EXPECT_NE(StartError().message.find("server.pem"), std::string::npos);

  options_ = good;
  options_.tls_key = directory_.path() + "/other.key";
  Identity("other").Write(directory_.path() + "/other.pem", options_.tls_key);
  EXPECT_NE(StartError().message.find("other.key"), std::string::npos);

  options_ = good;
  options_.tls_client_ca = directory_.path() + "/text.pem";
  std::ofstream(options_.tls_client_ca) << "no certificate";
  EXPECT_EQ(StartError().code, "tls");
  EXPECT_NE(StartError().message.find("text.pem"), std::string::npos);

  options_.tls_cert.clear();
  options_.tls_key.clear();
  EXPECT_NE(StartError().message.find("needs TLS"), std::string::npos);
}

}  // namespace
}  // namespace noetl::api
