#include "worker/tools/http_url.h"

#include <curl/curl.h>

#include <memory>

#include "base/text.h"

namespace noetl::worker {
namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string Part(const Handle& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

Result<HttpUrl> Take(const Handle& url) {
  const std::string scheme = Part(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    return Fail("config", "the scheme '" + scheme + "' is not http or https");
  }
  HttpUrl parsed;
  parsed.user = Part(url, CURLUPART_USER, CURLU_URLDECODE);
  parsed.password = Part(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_FRAGMENT}) {
    curl_url_set(url.get(), part, nullptr, 0);
  }
  parsed.text = Part(url, CURLUPART_URL);
  parsed.host = Part(url, CURLUPART_HOST);
  parsed.origin =
      scheme + "://" + ToLower(parsed.host) + ":" + Part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (parsed.host.starts_with('[')) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  return parsed;
}

Result<HttpUrl> Parse(const Handle& url, const std::string& text) {
  if (text.find('\0') != std::string::npos) return Fail("config", "it holds a NUL character");
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_URLENCODE);
  if (code == CURLUE_UNSUPPORTED_SCHEME) return Fail("config", "the scheme is not http or https");
  if (code == CURLUE_BAD_SCHEME)
    return Fail("config", "it does not start with http:// or https://");
  if (code != CURLUE_OK) return Fail("config", curl_url_strerror(code));
  return Take(url);
}

}  // namespace

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  const Handle url(curl_url(), &curl_url_cleanup);
  return Parse(url, std::string(text));
}

Result<HttpUrl> JoinHttpUrl(const std::string& base, const std::string& location) {
  const Handle url(curl_url(), &curl_url_cleanup);
  NOETL_TRY(Parse(url, base));
  return Parse(url, location);
}

std::string WithQuery(std::string_view url, std::string_view query) {
  if (query.empty()) return std::string(url);
  const std::string_view bare = url.substr(0, url.find('#'));
  std::string out(bare);
  const std::size_t mark = bare.find('?');
  if (mark == std::string_view::npos) {
    out += '?';
  } else if (mark + 1 < bare.size() && !bare.ends_with('&')) {
    out += '&';
  }
  return out.append(query);
}

}  // namespace noetl::worker
