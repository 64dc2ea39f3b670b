// Reads requests from bytes into our own types. For the inside of the HTTP server: brings Boost along.
//
// Beast's parser finds the parts and frames chunks; this class keeps them. One for each request.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/gzip.h"
#include "api/http.h"

namespace noetl::api::inside {

class RequestParser final : public boost::beast::http::basic_parser<true> {
 public:
  using error_code = boost::beast::error_code;
  using string_view = boost::beast::string_view;

  explicit RequestParser(Request* request) : request_(request) {
    body_limit(boost::none);  // counted by ourselves, after inflating
  }

  bool http10() const { return http10_; }
  bool in_body() const { return in_body_; }
  std::size_t header_bytes = 0;

  // Where chunks go, before the first of them.
  void ReadBodyInto(std::string* body, std::size_t body_max, Inflater* inflater) {
    in_body_ = true;
    body_ = body;
    body_max_ = body_max;
    inflater_ = inflater;
    eager(true);
  }
  bool too_large() const { return too_large_; }
  bool not_gzip() const { return not_gzip_; }

 private:
  static std::string Text(string_view text) { return {text.data(), text.size()}; }

  void on_request_impl(boost::beast::http::verb, string_view method, string_view target,
                       int version, error_code&) override {
    request_->method = Text(method);
    request_->target = Text(target);
    http10_ = version < 11;
  }

  void on_field_impl(boost::beast::http::field, string_view name, string_view value,
                     error_code&) override {
    // Behind the body stand trailers, which nobody asked for.
    if (!in_body_) request_->headers.Add(Text(name), Text(value));
  }

  std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, error_code& error) override {
    const std::string_view text(piece.data(), piece.size());
    if (inflater_ != nullptr) {
      const Inflater::Outcome outcome = inflater_->Write(text, body_);
      too_large_ = outcome == Inflater::Outcome::kTooLarge;
      not_gzip_ = outcome == Inflater::Outcome::kBroken;
    } else if (text.size() > body_max_ - body_->size()) {
      too_large_ = true;
    } else {
      body_->append(text);
    }
    if (too_large_ || not_gzip_) error = boost::beast::http::error::body_limit;
    return piece.size();
  }

  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view piece, error_code&) override { return piece.size(); }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  Request* const request_;
  bool http10_ = false;
  bool in_body_ = false;
  bool too_large_ = false;
  bool not_gzip_ = false;
  std::string* body_ = nullptr;
  std::size_t body_max_ = 0;
  Inflater* inflater_ = nullptr;
};

}  // namespace noetl::api::inside
