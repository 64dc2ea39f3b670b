#include "worker/subscription/probe.h"

#include <curl/curl.h>

#include <memory>
#include <string>

namespace noetl::worker {
namespace {

constexpr long kProbeMs = 3'000;

struct Cleanup {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

std::size_t Drop(const char*, std::size_t size, std::size_t count, void*) { return size * count; }

// "nats://host:1" and "host:1" as an address that the library can connect to.
std::string PlaceOf(const std::string& target) {
  const std::size_t scheme = target.find("://");
  return "http://" + (scheme == std::string::npos ? target : target.substr(scheme + 3));
}

}  // namespace

bool IsDownstreamThere(const DownstreamSpec& downstream) {
  const std::unique_ptr<CURL, Cleanup> handle(curl_easy_init());
  if (!handle) return false;
  const bool http = downstream.probe == DownstreamSpec::Probe::kHttp;
  const std::string url = http ? downstream.target : PlaceOf(downstream.target);
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT_MS, kProbeMs);
  curl_easy_setopt(handle.get(), CURLOPT_CONNECTTIMEOUT_MS, kProbeMs);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &Drop);
  if (!http) curl_easy_setopt(handle.get(), CURLOPT_CONNECT_ONLY, 1L);
  if (curl_easy_perform(handle.get()) != CURLE_OK) return false;
  if (!http) return true;
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  return status < 500;
}

}  // namespace noetl::worker
