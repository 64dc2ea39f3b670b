// A Fetcher over libcurl, with a few threads of its own.
//
// Certificates are checked, redirects not followed, answers bounded. A full queue refuses: "fetch".
// The destructor ends what is under way; every `done` has been called when it returns. Callbacks
// come from the threads of the fetcher and must not destroy it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "vault/fetcher.h"

namespace noetl::vault {

class CurlFetcher final : public Fetcher {
 public:
  // Secrets are fetched rarely and kept; two slow issuers must not hold up each other.
  static constexpr std::size_t kThreads = 2;
  // More waiting than this is an outage of the issuer, and better told at once.
  static constexpr std::size_t kQueueMax = 256;
  // Of everything: looking up, connecting, answering.
  static constexpr long kTimeoutMs = 10'000;
  // Tokens and secrets are small.
  static constexpr std::size_t kBodyBytesMax = 1u << 20;

  CurlFetcher();
  ~CurlFetcher() override;
  CurlFetcher(const CurlFetcher&) = delete;
  CurlFetcher& operator=(const CurlFetcher&) = delete;

  void Fetch(FetchRequest request, Done done) override;

 private:
  struct Job {
    FetchRequest request;
    Done done;
  };
  void Work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace noetl::vault
