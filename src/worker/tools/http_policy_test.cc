#include "worker/tools/http_policy.h"
#include "base/url.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "worker/tools/http_auth.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

bool Denies(const HttpPolicy& policy, const std::string& text) {
  sockaddr_in v4{.sin_family = AF_INET};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    return policy.Denies(reinterpret_cast<const sockaddr*>(&v4));
  }
  sockaddr_in6 v6{.sin6_family = AF_INET6};
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
  return policy.Denies(reinterpret_cast<const sockaddr*>(&v6));
}

HttpPolicy With(const std::string& name, const std::string& value) {
  const Settings settings = *Settings::Load({{name, value}});
  return HttpPolicy(&settings);
}

TEST(HttpPolicy, TheDefaultKeepsRequestsAwayFromMetadataServers) {
  const HttpPolicy policy(nullptr);
  ASSERT_TRUE(policy.status().has_value());
  for (const char* address : {"169.254.169.254", "169.254.0.1", "fe80::1", "febf::1",
                              "::ffff:169.254.169.254", "64:ff9b::169.254.169.254"}) {
    EXPECT_TRUE(Denies(policy, address)) << address;
  }
  for (const char* address : {"127.0.0.1", "169.253.255.255", "169.255.0.0", "10.0.0.1", "::1",
                              "fec0::1", "2001:db8::1"}) {
    EXPECT_FALSE(Denies(policy, address)) << address;
  }
  EXPECT_EQ(policy.timeout_ms(), 60'000);
  EXPECT_TRUE(policy.AllowsHost("any.host"));
}

TEST(HttpPolicy, NetworksOfAnyLength) {
  const HttpPolicy policy = With("NOETL_HTTP_DENY_CIDRS", "10.128.0.0/9,192.168.1.7,2001:db8::/33");
  ASSERT_TRUE(policy.status().has_value());
  EXPECT_TRUE(Denies(policy, "10.255.1.1"));
  EXPECT_FALSE(Denies(policy, "10.127.255.255"));
  EXPECT_TRUE(Denies(policy, "192.168.1.7"));
  EXPECT_FALSE(Denies(policy, "192.168.1.6"));
  EXPECT_TRUE(Denies(policy, "2001:db8:7fff::1"));
  EXPECT_FALSE(Denies(policy, "2001:db8:8000::1"));
  EXPECT_FALSE(Denies(policy, "169.254.169.254"));
  const HttpPolicy all = With("NOETL_HTTP_DENY_CIDRS", "0.0.0.0/0");
  EXPECT_TRUE(Denies(all, "8.8.8.8"));
  EXPECT_FALSE(Denies(all, "2001:db8::1"));
}

TEST(HttpPolicy, WrongSettingsAreNamed) {
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129", "x", "10.0.0.0/"}) {
    const HttpPolicy policy = With("NOETL_HTTP_DENY_CIDRS", text);
    ASSERT_FALSE(policy.status().has_value()) << text;
    EXPECT_TRUE(policy.status().error().message.starts_with("NOETL_HTTP_DENY_CIDRS")) << text;
  }
  for (const char* text : {"host", "=1.2.3.4:80", "host=", "host=1.2.3.4", "host=1.2.3.4:x"}) {
    EXPECT_FALSE(With("NOETL_HTTP_HOST_MAP", text).status().has_value()) << text;
  }
  const HttpPolicy mapped = With("NOETL_HTTP_HOST_MAP", "a=1.2.3.4:80,b=[::1]:81");
  EXPECT_EQ(mapped.connect_to(), (std::vector<std::string>{"a::1.2.3.4:80", "b::[::1]:81"}));
}

TEST(HttpUrl, PartsOfAnAddress) {
  const Result<HttpUrl> url = ParseHttpUrl("HTTPS://me:p%40ss@Example.com/a b?c=d#e");
  ASSERT_TRUE(url.has_value()) << url.error().message;
  EXPECT_EQ(url->user, "me");
  EXPECT_EQ(url->password, "p@ss");
  EXPECT_EQ(url->origin, "https://example.com:443");
  EXPECT_EQ(url->text, "https://Example.com/a%20b?c=d");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:81/")->host, "::1");
  for (const std::string text :
       {"", "example.com", "//x", "gopher://x/", "http://a b/", "http://x:0x1/"}) {
    EXPECT_FALSE(ParseHttpUrl(text).has_value()) << text;
  }
}

TEST(HttpUrl, RedirectTargets) {
  const auto join = [](const std::string& location) {
    const Result<HttpUrl> url = JoinHttpUrl("http://a:8/b/c?d", location);
    return url ? url->text : "error";
  };
  EXPECT_EQ(join("e"), "http://a:8/b/e");
  EXPECT_EQ(join("/e?f"), "http://a:8/e?f");
  EXPECT_EQ(join("?x=1"), "http://a:8/b/c?x=1");
  EXPECT_EQ(join("//other/x"), "http://other/x");
  EXPECT_EQ(join("https://other/x"), "https://other/x");
  EXPECT_EQ(join("ftp://other/x"), "error");
}

TEST(HttpUrl, Queries) {
  EXPECT_EQ(WithQuery("http://a/", "x=1"), "http://a/?x=1");
  EXPECT_EQ(WithQuery("http://a/?", "x=1"), "http://a/?x=1");
  EXPECT_EQ(WithQuery("http://a/?b=2#c", "x=1"), "http://a/?b=2&x=1");
  EXPECT_EQ(WithQuery("http://a/#c", ""), "http://a/#c");
  EXPECT_EQ(PercentEncode("aZ09-._~ /é"), "aZ09-._~%20%2F%C3%A9");
}

TEST(HttpAuth, Base64OfAnyLength) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("a"), "YQ==");
  EXPECT_EQ(Base64("ab"), "YWI=");
  EXPECT_EQ(Base64("abc"), "YWJj");
  const std::string large = Base64(std::string((3 << 20) + 1, 'a'));  // more than one piece
  EXPECT_EQ(large.size(), (4U << 20) + 4);
  EXPECT_TRUE(large.ends_with("YWFhYQ=="));
}

}  // namespace
}  // namespace noetl::worker
