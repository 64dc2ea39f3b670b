#include "worker/tools/http_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "base/json_io.h"
#include "base/text.h"
#include "base/url.h"
#include "engine/pipeline_retry.h"
#include "worker/tools/http_auth.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kMethods = {"GET",    "POST", "PUT",    "PATCH",
                                                      "DELETE", "HEAD", "OPTIONS"};
// Set by the client from what it sends.
constexpr std::array<std::string_view, 2> kOwnHeaders = {"content-length", "transfer-encoding"};
// Headers of the user that carry secrets, whatever `auth` says.
constexpr std::array<std::string_view, 3> kSecretHeaders = {"authorization", "cookie",
                                                            "proxy-authorization"};
constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kFormType = "application/x-www-form-urlencoded";
constexpr std::string_view kMultipartType = "multipart/form-data";

struct ResponseTypeName {
  std::string_view name;
  HttpResponseType type;
};
constexpr std::array kResponseTypes = {ResponseTypeName{"json", HttpResponseType::kJson},
                                       ResponseTypeName{"text", HttpResponseType::kText},
                                       ResponseTypeName{"binary", HttpResponseType::kBinary}};

std::unexpected<Error> Bad(std::string message) { return Fail("config", std::move(message)); }

// The first of the names that is there and not null.
const Json& Field(const Json& config, std::initializer_list<std::string_view> names) {
  static const Json kNothing;
  for (const std::string_view name : names) {
    if (const Json& value = config[name]; !value.is_null()) return value;
  }
  return kNothing;
}

// A value as one text: a string is itself, anything else its JSON.
std::string TextOf(const Json& value) {
  return value.is_string() ? value.ToString() : WriteJson(value);
}

// An address for a message: queries and passwords are nobody's business.
std::string Shown(std::string_view url) {
  if (url.find('@') != std::string_view::npos) return "";
  return fmt::format("'{}'", url.substr(0, url.find('?')));
}

Result<bool> Flag(const Json& config, std::initializer_list<std::string_view> names,
                  bool fallback) {
  const Json& value = Field(config, names);
  if (value.is_null()) return fallback;
  const std::string text = ToLower(Trim(TextOf(value)));
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return Bad(fmt::format("{} must be true or false, not '{}'", *names.begin(), text));
}

// "a=b&c=d"; lists repeat their key, null leaves it out.
std::string FormText(const Json& map) {
  std::string out;
  const auto add = [&out](std::string_view key, const Json& value) {
    if (value.is_null()) return;
    if (!out.empty()) out += '&';
    out += PercentEncode(key) + "=" + PercentEncode(TextOf(value));
  };
  for (const JsonMember& member : map.members()) {
    if (member.value.is_array()) {
      for (const Json& item : member.value.items()) add(member.key(), item);
    } else {
      add(member.key(), member.value);
    }
  }
  return out;
}

class Planner {
 public:
  Planner(const ToolCall& call, const HttpPolicy& policy)
      : call_(call), config_(call.config), policy_(policy) {}

  Result<HttpPlan> Plan();

 private:
  Status Method();
  Status Headers();
  Status Address();
  Status Auth();
  Status Data();
  Status Body();
  Status Mapped(const Json& body);
  Status Files();
  Status File(std::string_view name, const Json& file);
  Status Limits();

  HttpRequest& request() { return plan_.request; }
  Status SetHeader(HttpHeader header);
  std::string ContentType() const;
  void DefaultType(std::string_view type);
  void AddParts(const Json& map);

  const ToolCall& call_;
  const Json& config_;
  const HttpPolicy& policy_;
  HttpPlan plan_;
  // What `data` means, once it is taken apart.
  Json data_query_;
  Json data_body_;
};

Result<HttpPlan> Planner::Plan() {
  if (!config_.is_object()) return Bad("url is missing");
  NOETL_TRY(policy_.status());
  if (!Field(config_, {"save_to"}).is_null()) return Bad("save_to is not supported");
  NOETL_TRY(Method());
  NOETL_TRY(Headers());
  NOETL_TRY(Data());
  NOETL_TRY(Address());
  NOETL_TRY(Auth());
  NOETL_TRY(Body());
  NOETL_TRY(Files());
  NOETL_TRY(Limits());
  return std::move(plan_);
}

Status Planner::Method() {
  const Json& method = Field(config_, {"method"});
  if (method.is_null()) return {};
  std::string name(Trim(TextOf(method)));
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  if (std::ranges::find(kMethods, name) == kMethods.end()) {
    return Bad(fmt::format("method '{}' is not one of {}", name, fmt::join(kMethods, ", ")));
  }
  request().method = std::move(name);
  return {};
}

// Replaces a header of the same name.
Status Planner::SetHeader(HttpHeader header) {
  const auto token = [](char c) {
    return c > ' ' && c < '\x7f' &&
           std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
  };
  if (header.name.empty() || !std::ranges::all_of(header.name, token)) {
    return Bad(fmt::format("headers: '{}' is not a header name", header.name));
  }
  // A line break would let a value add headers of its own.
  const auto breaks = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  if (std::ranges::any_of(header.value, breaks)) {
    return Bad(fmt::format("headers: the value of '{}' has a line break", header.name));
  }
  const std::string name = ToLower(header.name);
  std::erase_if(request().headers,
                [&](const HttpHeader& other) { return ToLower(other.name) == name; });
  request().headers.push_back(std::move(header));
  return {};
}

Status Planner::Headers() {
  const Json& headers = Field(config_, {"headers"});
  if (!headers.is_null() && !headers.is_object()) {
    return Bad(fmt::format("headers must be a map, not a {}", headers.TypeName()));
  }
  for (const JsonMember& member : headers.members()) {
    const std::string name = ToLower(member.key());
    if (member.value.is_null() || std::ranges::find(kOwnHeaders, name) != kOwnHeaders.end()) {
      continue;
    }
    const bool secret = std::ranges::find(kSecretHeaders, name) != kSecretHeaders.end();
    NOETL_TRY(SetHeader({std::string(member.key()), TextOf(member.value), secret}));
  }
  return {};
}

std::string Planner::ContentType() const {
  for (const HttpHeader& header : plan_.request.headers) {
    if (ToLower(header.name) == "content-type") return ToLower(header.value);
  }
  return "";
}

void Planner::DefaultType(std::string_view type) {
  if (ContentType().empty()) request().headers.push_back({"Content-Type", std::string(type)});
}

// `data` is the query of methods without a body and the body of the others, unless it says which
// part is which.
Status Planner::Data() {
  const Json& data = Field(config_, {"data"});
  if (data.is_null()) return {};
  if (data.is_object() && (data.Has("query") || data.Has("body"))) {
    data_query_ = data["query"];
    data_body_ = data["body"];
    return {};
  }
  const std::string& method = request().method;
  const bool bodyless = method == "GET" || method == "DELETE" || method == "HEAD";
  (bodyless && data.is_object() ? data_query_ : data_body_) = data;
  return {};
}

Status Planner::Address() {
  const Json& url = Field(config_, {"url", "endpoint"});
  if (!url.is_string() || Trim(url.AsString()).empty()) return Bad("url is missing");
  std::string address(Trim(url.AsString()));
  const Json& params = Field(config_, {"params", "query"});
  for (const Json* query : std::array<const Json*, 2>{&data_query_, &params}) {
    if (query->is_null()) continue;
    if (!query->is_object()) {
      return Bad(fmt::format("params must be a map, not a {}", query->TypeName()));
    }
    address = WithQuery(address, FormText(*query));
  }
  Result<HttpUrl> parsed = ParseHttpUrl(address);
  if (!parsed) return Bad(fmt::format("url {}: {}", Shown(address), parsed.error().message));
  request().url = parsed->text;
  if (!parsed->user.empty() || !parsed->password.empty()) {
    NOETL_TRY(SetHeader(BasicAuthorization(parsed->user, parsed->password)));
  }
  return {};
}

Status Planner::Auth() {
  NOETL_ASSIGN(HttpAuth auth, ReadHttpAuth(Field(config_, {"auth", "credential"}), policy_));
  request().secret_query = std::move(auth.query);
  for (HttpHeader& header : auth.headers) NOETL_TRY(SetHeader(std::move(header)));
  return {};
}

// json before form before body before data.
Status Planner::Body() {
  if (const Json& json = Field(config_, {"json"}); !json.is_null()) {
    request().body = WriteJson(json);
    DefaultType(kJsonType);
    return {};
  }
  if (const Json& form = Field(config_, {"form"}); !form.is_null()) {
    if (!form.is_object()) {
      return Bad(fmt::format("form must be a map, not a {}", form.TypeName()));
    }
    if (ContentType().starts_with(kMultipartType)) return Mapped(form);
    request().body = FormText(form);
    DefaultType(kFormType);
    return {};
  }
  const Json& given = Field(config_, {"body", "payload"});
  const Json& body = given.is_null() ? data_body_ : given;
  if (body.is_null()) return {};
  if (body.is_object()) return Mapped(body);
  request().body = TextOf(body);
  if (!body.is_string()) DefaultType(kJsonType);
  return {};
}

// A map is sent as the content type says.
Status Planner::Mapped(const Json& body) {
  const std::string type = ContentType();
  if (type.starts_with(kMultipartType)) {
    AddParts(body);
  } else if (type.starts_with(kFormType)) {
    request().body = FormText(body);
  } else {
    request().body = WriteJson(body);
    DefaultType(kJsonType);
  }
  return {};
}

void Planner::AddParts(const Json& map) {
  for (const JsonMember& member : map.members()) {
    if (member.value.is_null()) continue;
    request().parts.push_back({.name = std::string(member.key()), .data = TextOf(member.value)});
  }
  // The client writes the header, with the boundary in it.
  std::erase_if(request().headers,
                [](const HttpHeader& header) { return ToLower(header.name) == "content-type"; });
}

Status Planner::Files() {
  const Json& files = Field(config_, {"files"});
  if (files.is_null() || files.empty()) return {};
  if (!files.is_object()) return Bad("files must be a map of names to paths");
  if (policy_.files_root().empty()) {
    return Bad("files: this worker uploads no files; NOETL_HTTP_FILES_ROOT names the folder");
  }
  if (request().parts.empty()) {
    const Json& given = Field(config_, {"json", "form", "body", "payload"});
    const Json& fields = given.is_null() ? data_body_ : given;
    if (!Field(config_, {"json"}).is_null() || (!fields.is_null() && !fields.is_object())) {
      return Bad("files go with form, body or data that are a map of further fields");
    }
    request().body.reset();
    AddParts(fields);
  }
  for (const JsonMember& member : files.members()) NOETL_TRY(File(member.key(), member.value));
  return {};
}

Status Planner::File(std::string_view name, const Json& file) {
  const Json& path = file.is_object() ? file["path"] : file;
  if (!path.is_string()) return Bad(fmt::format("files: '{}' has no path", name));
  std::error_code error;
  const fs::path root = fs::canonical(policy_.files_root(), error);
  if (error) return Bad("files: the folder of NOETL_HTTP_FILES_ROOT does not exist");
  // Links are followed first, so that none leads out.
  const fs::path real = fs::canonical(root / path.ToString(), error);
  if (error || !fs::is_regular_file(real, error)) {
    return Bad(fmt::format("files: '{}': there is no file '{}'", name, path.AsString()));
  }
  if (std::ranges::mismatch(root, real).in1 != root.end()) {
    return Bad(
        fmt::format("files: '{}': '{}' is outside NOETL_HTTP_FILES_ROOT", name, path.AsString()));
  }
  const Json& filename = file["filename"];
  request().parts.push_back(
      {.name = std::string(name),
       .path = real.string(),
       .filename = filename.is_string() ? filename.ToString() : real.filename().string(),
       .content_type = file["content_type"].ToString()});
  return {};
}

Status Planner::Limits() {
  const Json declared = config_.With("spec", call_.spec["timeout"]);
  const std::optional<std::int64_t> total =
      call_.timeout_ms ? call_.timeout_ms : engine::TimeoutMs(declared);
  request().timeout_ms = total.value_or(policy_.timeout_ms());
  for (const Json* limits : {&call_.spec["timeout"], &config_["timeout"]}) {
    if (!limits->is_object()) continue;
    request().connect_timeout_ms = engine::SecondsToMs((*limits)["connect"]).value_or(0);
    request().read_timeout_ms = engine::SecondsToMs((*limits)["read"]).value_or(0);
  }
  NOETL_ASSIGN(request().follow_redirects, Flag(config_, {"follow_redirects"}, true));
  NOETL_ASSIGN(request().verify_tls, Flag(config_, {"verify_ssl", "verify"}, true));
  if (const Json& max = Field(config_, {"max_response_bytes"}); !max.is_null()) {
    const std::optional<std::int64_t> bytes = engine::WholeNumber(max);
    if (!bytes || *bytes <= 0) return Bad("max_response_bytes must be a number above 0");
    request().response_bytes_max = *bytes;
  }
  const Json& type = Field(config_, {"response_type"});
  if (type.is_null()) return {};
  const auto* const found =
      std::ranges::find(kResponseTypes, ToLower(type.AsString()), &ResponseTypeName::name);
  if (found == kResponseTypes.end()) return Bad("response_type must be json, text or binary");
  plan_.response_type = found->type;
  return {};
}

}  // namespace

Result<HttpPlan> PlanHttp(const ToolCall& call, const HttpPolicy& policy) {
  return Planner(call, policy).Plan();
}

}  // namespace noetl::worker
