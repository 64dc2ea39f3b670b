#include "vault/curl_fetcher.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/crypto.h"

namespace noetl::vault {
namespace {

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, FreeHandle>;
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

// Once a process, before the first handle; other parts may have done it already.
void StartCurl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  NOETL_CHECK(started == CURLE_OK, "libcurl does not start");
}

std::size_t Collect(const char* data, std::size_t size, std::size_t count, void* target) {
  auto& body = *static_cast<std::string*>(target);
  // A short count makes the transfer fail.
  if (body.size() + size * count > CurlFetcher::kBodyBytesMax) return 0;
  body.append(data, size * count);
  return size * count;
}

int StopAsked(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

bool HasBreak(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

// nullopt: a header that would break out of its line.
std::optional<HeaderList> Headers(const FetchRequest& request) {
  HeaderList list;
  const auto add = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    NOETL_CHECK(longer != nullptr, "no memory for a header");
    [[maybe_unused]] curl_slist* const old = list.release();
    list.reset(longer);
  };
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || HasBreak(name) || HasBreak(value)) return std::nullopt;
    // With a semicolon libcurl sends a header without a value.
    add(value.empty() ? name + ";" : name + ": " + value);
  }
  // Do not wait for a go-ahead before the body.
  add("Expect:");
  return list;
}

void Configure(CURL* handle, const FetchRequest& request, curl_slist* headers,
               const std::stop_token& stop, std::string* body) {
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  if (!request.body.empty()) {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
  if (!request.authorities.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, request.authorities.c_str());
    curl_easy_setopt(handle, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, CurlFetcher::kTimeoutMs);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Collect);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, body);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &StopAsked);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &stop);
}

Result<FetchReply> Perform(const FetchRequest& request, const std::stop_token& stop) {
  const Handle handle(curl_easy_init());
  NOETL_CHECK(handle != nullptr, "no memory for a request");
  const std::optional<HeaderList> headers = Headers(request);
  if (!headers || HasBreak(request.url) || HasBreak(request.method)) {
    return Fail("fetch", "the address or a header of the request has a line break");
  }
  FetchReply reply;
  Configure(handle.get(), request, headers->get(), stop, &reply.body);
  // The general text of the code: the particular one could quote the address.
  const CURLcode code = curl_easy_perform(handle.get());
  if (code == CURLE_WRITE_ERROR) return Fail("fetch", "the answer is too large");
  if (code != CURLE_OK) {
    crypto::Wipe(reply.body);
    return Fail("fetch",
                stop.stop_requested() ? "the server is stopping" : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  return reply;
}

}  // namespace

CurlFetcher::CurlFetcher() {
  StartCurl();
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

CurlFetcher::~CurlFetcher() {
  for (std::jthread& thread : threads_) thread.request_stop();
  for (std::jthread& thread : threads_) thread.join();
  // A callback may ask for more: each is refused in its turn.
  while (true) {
    std::deque<Job> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(jobs_);
    }
    if (left.empty()) return;
    for (Job& job : left) job.done(Fail("fetch", "the server is stopping"));
  }
}

void CurlFetcher::Fetch(FetchRequest request, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() < kQueueMax) {
      jobs_.push_back({std::move(request), std::move(done)});
      wake_.notify_one();
      return;
    }
  }
  done(Fail("fetch", "too many requests for secrets are waiting"));
}

void CurlFetcher::Work(const std::stop_token& stop) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
      if (stop.stop_requested()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Result<FetchReply> reply = Perform(job.request, stop);
    crypto::Wipe(job.request.body);
    job.done(std::move(reply));
  }
}

}  // namespace noetl::vault
