#include "api/http.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "api/gzip.h"
#include "api/http_wire.h"
#include "base/random.h"
#include "base/url.h"

namespace noetl::api {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

TEST(Headers, FindsNamesInAnyCaseAndKeepsTheOrder) {
  Headers headers;
  headers.Add("Accept", "a");
  headers.Add("X-Two", "b");
  headers.Add("accept", "c");
  EXPECT_EQ(headers.Find("ACCEPT"), "a");
  EXPECT_EQ(headers.Find("Accep"), "");
  EXPECT_TRUE(headers.Has("x-two"));
  EXPECT_FALSE(headers.Has("x-three"));
  headers.Set("ACCEPT", "d");
  const std::vector<Headers::Entry> expected{{"X-Two", "b"}, {"ACCEPT", "d"}};
  EXPECT_EQ(headers.entries(), expected);
}

TEST(Url, Decodes) {
  EXPECT_EQ(DecodeUrl("", false), "");
  EXPECT_EQ(DecodeUrl("a%20b", false), "a b");
  EXPECT_EQ(DecodeUrl("a+b", false), "a+b");
  EXPECT_EQ(DecodeUrl("a+b%2B", true), "a b+");
  EXPECT_EQ(DecodeUrl("%c3%A4", false), "ä");
  EXPECT_EQ(DecodeUrl("%2f..%2F", false), "/../");
  for (const std::string_view broken : {"%", "%1", "%zz", "a%2", "%+1", "%ff", "%c3", "\xff"}) {
    EXPECT_EQ(DecodeUrl(broken, false), std::nullopt) << broken;
  }
}

TEST(Url, WhatIsEncodedDecodesToTheSame) {
  EXPECT_TRUE(rc::check("round trip", [](const std::vector<std::uint32_t>& points, bool query) {
    std::string text;
    for (const std::uint32_t point : points) {  // any of the first two planes of UTF-8
      const std::uint32_t code = point % 0x800;
      if (code < 0x80) {
        text += static_cast<char>(code);
      } else {
        text += static_cast<char>(0xc0 | (code >> 6));
        text += static_cast<char>(0x80 | (code & 63));
      }
    }
    const std::string encoded = PercentEncode(text);
    RC_ASSERT(DecodeUrl(encoded, query) == text);
    RC_ASSERT(std::all_of(encoded.begin(), encoded.end(), [](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
             std::string_view("-._~%").find(letter) != std::string_view::npos;
    }));
    const Members expected{{text, text}};
    if (!text.empty()) RC_ASSERT(ParseQuery(encoded + "=" + encoded) == expected);
  }));
}

TEST(Url, ParsesQueries) {
  EXPECT_EQ(ParseQuery(""), Members{});
  EXPECT_EQ(ParseQuery("a=1&b=2&a=3"), (Members{{"a", "1"}, {"b", "2"}, {"a", "3"}}));
  EXPECT_EQ(ParseQuery("flag&=x&&y="), (Members{{"flag", ""}, {"", "x"}, {"y", ""}}));
  EXPECT_EQ(ParseQuery("q=a%26b+c&d=e=f"), (Members{{"q", "a&b c"}, {"d", "e=f"}}));
  EXPECT_EQ(ParseQuery("broken=%zz"), (Members{{"broken", "%zz"}}));
}

TEST(Target, IsSplit) {
  struct Case {
    std::string_view method, target;
    bool fine;
    std::string_view path = "", query = "";
  };
  const Case cases[] = {
      {"GET", "/", true, "/"},
      {"GET", "/a/b?c=d?e", true, "/a/b", "c=d?e"},
      {"GET", "/a%20b?", true, "/a%20b"},
      {"GET", "http://host:80/a?b", true, "/a", "b"},
      {"GET", "HTTPS://host", true, "/"},
      {"GET", "http://host?q=1", true, "/", "q=1"},
      {"OPTIONS", "*", true, "*"},
      {"GET", "*", false},
      {"GET", "a/b", false},
      {"CONNECT", "host:443", false},
      {"GET", "ftp://host/a", false},
      {"GET", "http:///a", false},
      {"GET", "/a#b", false},
      {"GET", "/\xc3\xa4", false},
      {"GET", "", false},
  };
  for (const Case& test : cases) {
    Request request;
    request.method = test.method;
    request.target = test.target;
    EXPECT_EQ(SplitTarget(&request), test.fine) << test.target;
    if (!test.fine) continue;
    EXPECT_EQ(request.path, test.path) << test.target;
    EXPECT_EQ(request.query, test.query) << test.target;
  }
}

TEST(Wire, RequestIds) {
  EXPECT_TRUE(IsRequestId("a"));
  EXPECT_TRUE(IsRequestId("A-z_0.9"));
  EXPECT_TRUE(IsRequestId(std::string(128, 'x')));
  for (const std::string& bad : {std::string(), std::string(129, 'x'), std::string("a b"),
                                 std::string("a\"b"), std::string("ä")}) {
    EXPECT_FALSE(IsRequestId(bad)) << bad;
  }
}

TEST(Wire, AcceptedEncodings) {
  for (const std::string_view yes :
       {"gzip", "deflate, gzip", "GZIP;q=0.5", "*", "br, *;q=0.1", "x-gzip", "gzip ; q=1.0"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const std::string_view no : {"", "identity", "gzip;q=0", "*, gzip; q=0.0", "*;q=0", "br"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
}

TEST(Wire, TextIsKnownByItsType) {
  for (const std::string_view text :
       {"application/json", "text/html; charset=utf-8", "application/problem+JSON", "image/svg+xml",
        "text/event-stream"}) {
    EXPECT_TRUE(IsText(text)) << text;
  }
  for (const std::string_view other : {"", "image/png", "application/octet-stream"}) {
    EXPECT_FALSE(IsText(other)) << other;
  }
}

TEST(Wire, DatesAndStatus) {
  EXPECT_EQ(HttpDate(784'111'777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(HttpDate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(StatusText(404), "Not Found");
  EXPECT_EQ(StatusText(299), "Status");
}

TEST(Wire, AnAnswerHasTheServersHeadersAndNoOthersOfThem) {
  Response response{.status = 201, .body = "{}"};
  response.headers.Add("Location", "/x\r\nSet-Cookie: stolen");
  response.headers.Add("Content-Length", "99");
  response.headers.Add("transfer-encoding", "chunked");
  const WireAnswer answer = MakeAnswer(std::move(response), {.request_id = "id-1"});
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 201 Created\r\n")) << answer.head;
  EXPECT_TRUE(answer.head.ends_with("Content-Length: 2\r\n\r\n")) << answer.head;
  EXPECT_NE(answer.head.find("\r\nLocation: /x  Set-Cookie: stolen\r\n"), std::string::npos);
  EXPECT_NE(answer.head.find("\r\nX-Request-Id: id-1\r\n"), std::string::npos);
  EXPECT_NE(answer.head.find("\r\nDate: "), std::string::npos);
  EXPECT_EQ(answer.head.find("chunked"), std::string::npos);
  EXPECT_EQ(answer.head.find("99"), std::string::npos);
  EXPECT_EQ(answer.body, "{}");
  EXPECT_FALSE(answer.close);
}

TEST(Wire, AHandlerMayCloseTheConnection) {
  Response response;
  response.headers.Add("Connection", "Close");
  const WireAnswer answer = MakeAnswer(std::move(response), {});
  EXPECT_TRUE(answer.close);
  EXPECT_NE(answer.head.find("\r\nConnection: close\r\n"), std::string::npos);
}

TEST(Wire, NoContentHasNoLength) {
  const WireAnswer answer = MakeAnswer({.status = 204, .body = "ignored"}, {});
  EXPECT_EQ(answer.head.find("Content-"), std::string::npos) << answer.head;
  EXPECT_EQ(answer.body, "");
}

TEST(Wire, Chunks) {
  std::string out;
  AppendChunk("hello", &out);
  AppendChunk(std::string(26, 'x'), &out);
  EXPECT_EQ(out, "5\r\nhello\r\n1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(GzipBody, RoundTripInAnyPieces) {
  EXPECT_TRUE(rc::check("round trip", [](const std::string& seed) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += seed + "the same again ";
    const auto compressed = Gzip(text);
    RC_ASSERT(compressed.has_value());
    const std::size_t step = *rc::gen::inRange<std::size_t>(1, 50);
    Inflater inflater(text.size());
    std::string inflated;
    for (std::size_t at = 0; at < compressed->size(); at += step) {
      RC_ASSERT(!inflater.complete());
      RC_ASSERT(inflater.Write(std::string_view(*compressed).substr(at, step), &inflated) ==
                Inflater::Outcome::kFine);
    }
    RC_ASSERT(inflater.complete());
    RC_ASSERT(inflated == text);
  }));
}

TEST(GzipBody, SeveralMembersAreOneBody) {
  const std::string one = *Gzip(std::string(5'000, 'a'));
  const std::string two = *Gzip(std::string(5'000, 'b'));
  Inflater inflater(10'000);
  std::string inflated;
  EXPECT_EQ(inflater.Write(one + two, &inflated), Inflater::Outcome::kFine);
  EXPECT_TRUE(inflater.complete());
  EXPECT_EQ(inflated, std::string(5'000, 'a') + std::string(5'000, 'b'));
}

TEST(GzipBody, ABombStopsAtTheLimit) {
  const std::string bomb = *Gzip(std::string(64u << 20, '0'));
  ASSERT_LT(bomb.size(), 512u << 10);
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
    Inflater inflater(limit);
    std::string inflated;
    EXPECT_EQ(inflater.Write(bomb, &inflated), Inflater::Outcome::kTooLarge);
    EXPECT_EQ(inflated.size(), limit + 1);
    EXPECT_LT(inflated.capacity(), 300'000u);
  }
}

TEST(GzipBody, BrokenDataIsFound) {
  const std::string good = *Gzip(std::string(5'000, 'a'));
  std::string flipped = good;
  flipped[flipped.size() - 6] ^= 1;  // in the checksum
  for (const std::string& bad : {std::string("not gzip at all"), flipped, good + "garbage"}) {
    Inflater inflater(10'000);
    std::string inflated;
    EXPECT_EQ(inflater.Write(bad, &inflated), Inflater::Outcome::kBroken);
  }
  Inflater cut(10'000);
  std::string inflated;
  EXPECT_EQ(cut.Write(good.substr(0, good.size() - 1), &inflated), Inflater::Outcome::kFine);
  EXPECT_FALSE(cut.complete());
}

TEST(GzipBody, WhatDoesNotShrinkIsNotCompressed) {
  SeededRandom random(1);
  std::string noise(4'096, '\0');
  for (char& byte : noise) byte = static_cast<char>(random.Next());
  EXPECT_EQ(Gzip(noise), std::nullopt);
}

}  // namespace
}  // namespace noetl::api
