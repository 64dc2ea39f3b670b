#include "vault/keychain_sources.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"
#include "base/url.h"
#include "vault/stats.h"

namespace noetl::vault {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSecondUs = 1'000'000;
// Secrets in files are keys and certificates.
constexpr std::size_t kFileBytesMax = 64u << 10;
constexpr std::string_view kDefaultMount = "secret";
constexpr std::array<std::string_view, 4> kMethods = {"GET", "POST", "PUT", "PATCH"};
// A secret without a named field is the one of these that it has.
constexpr std::array<std::string_view, 2> kPlainFields = {"value", "secret"};

std::string FormText(const Json& map) {
  std::string out;
  for (const JsonMember& member : map.members()) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", PercentEncode(member.key()),
                       PercentEncode(TextOf(member.value)));
  }
  return out;
}

// "https://host:port" for messages: the rest of an address can hold secrets.
std::string OriginOf(std::string_view url) {
  const std::size_t host = url.find("://");
  if (host == std::string_view::npos) return "the endpoint";
  std::string_view authority = url.substr(host + 3);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    authority.remove_prefix(at + 1);
  }
  return fmt::format("{}://{}", url.substr(0, host), authority);
}

bool IsTransient(int status) { return status == 408 || status == 429 || status >= 500; }

// The answer of another side as JSON, or why not. The body is never told: it can hold anything.
Result<Json> JsonOf(const std::string& entry, const std::string& origin, Result<FetchReply> reply) {
  if (!reply) {
    return EntryError("unavailable", entry,
                      fmt::format("{} does not answer: {}", origin, reply.error().message));
  }
  const crypto::WipeAtEnd wipe(reply->body);
  if (reply->status < 200 || reply->status > 299) {
    return EntryError(IsTransient(reply->status) ? "unavailable" : "fetch", entry,
                      fmt::format("{} answered {}", origin, reply->status));
  }
  Result<Json> parsed = ParseJson(reply->body);
  if (!parsed) return EntryError("fetch", entry, fmt::format("{} answered no JSON", origin));
  return parsed;
}

// --- bearer, static, credential

Result<MadeValue> Bearer(const EntryRenderer& entry) {
  NOETL_ASSIGN(const std::string token, entry.Text("token"));
  std::string type = "Bearer";
  if (entry.Has("token_type")) {
    NOETL_ASSIGN(type, entry.Text("token_type"));
  }
  return MadeValue{.value = Json::Object({{"access_token", token}, {"token_type", type}})};
}

Result<MadeValue> Static(const EntryRenderer& entry) {
  NOETL_ASSIGN(Json map, entry.Map("map"));
  return MadeValue{.value = std::move(map)};
}

// The data of a stored credential that a field names.
Result<Json> Stored(const Sources& sources, const EntryRenderer& entry, std::string_view field,
                    const Reader& reader) {
  NOETL_ASSIGN(const std::string name, entry.Text(field));
  Reader own = reader;
  own.operation = "resolve_keychain";
  Result<Credential> found = sources.vault->Find(Trim(name), true, own);
  if (found) return std::move(found->data);
  if (found.error().code != "not_found") return std::unexpected(std::move(found).error());
  // As the playbook writes it: the rendered name could be a secret by mistake.
  return EntryError("not_found", entry.entry().name,
                    fmt::format("credential '{}' not found", TextOf(entry.entry().fields[field])));
}

Result<MadeValue> StoredCredential(const Sources& sources, const EntryRenderer& entry,
                                   const Reader& reader) {
  std::string_view field = "name";
  for (const std::string_view candidate : {"ref", "credential"}) {
    if (entry.Has(candidate)) {
      field = candidate;
      break;
    }
  }
  NOETL_ASSIGN(Json data, Stored(sources, entry, field, reader));
  return MadeValue{.value = std::move(data)};
}

// --- environment and files

Result<std::string> ReadVariable(const Sources& sources, const std::string& name) {
  const auto found = sources.options.environment.find(name);
  if (found != sources.options.environment.end()) return found->second;
  return Fail("refused", "the variable is not set, or NOETL_KEYCHAIN_ENV_VARS does not offer it");
}

Result<std::string> ReadFile(const Sources& sources, const std::string& name) {
  if (sources.options.files_root.empty()) {
    return Fail("refused", "this server offers no files to the keychain");
  }
  std::error_code error;
  const fs::path root = fs::canonical(sources.options.files_root, error);
  if (error) return Fail("refused", "the folder of secrets does not exist");
  // Links are followed first, so that none leads out.
  const fs::path real = fs::canonical(root / name, error);
  if (error || !fs::is_regular_file(real, error)) return Fail("not_found", "there is no such file");
  if (std::ranges::mismatch(root, real).in1 != root.end()) {
    return Fail("refused", "the file is outside the folder of secrets");
  }
  std::ifstream file(real, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file && !file.eof())) return Fail("unavailable", "the file cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) return Fail("invalid", "the file is too large for a secret");
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (FirstInvalidUtf8(text)) return Fail("invalid", "the file is not a text");
  return text;
}

using ReadLocal = Result<std::string> (*)(const Sources& sources, const std::string& name);

Result<MadeValue> Local(const Sources& sources, const EntryRenderer& entry, ReadLocal read) {
  const std::string& name = entry.entry().name;
  if (!entry.Has("map")) {
    Result<std::string> value = read(sources, name);
    if (!value) return EntryError(value.error().code, name, value.error().message);
    return MadeValue{.value = *value};
  }
  NOETL_ASSIGN(const Json map, entry.Map("map"));
  JsonObjectBuilder out;
  for (const JsonMember& member : map.members()) {
    Result<std::string> value = read(sources, TextOf(member.value));
    if (!value) {
      return EntryError(value.error().code, name,
                        fmt::format("map.{}: {}", member.key(), value.error().message));
    }
    out.Add(member.key(), *value);
  }
  return MadeValue{.value = out.Build()};
}

// --- HashiCorp Vault and Kubernetes

struct SecretPath {
  std::string place;
  std::string field;  // empty: the only one
};

SecretPath SplitPath(std::string_view text) {
  const std::size_t hash = text.find('#');
  if (hash == std::string_view::npos) return {.place = std::string(text)};
  return {.place = std::string(text.substr(0, hash)), .field = std::string(text.substr(hash + 1))};
}

// Each part encoded. nullopt: a part is empty or leads elsewhere.
std::optional<std::vector<std::string>> Parts(std::string_view path) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return std::nullopt;
    out.push_back(PercentEncode(part));
    if (end == path.size()) return out;
    path.remove_prefix(end + 1);
  }
}

// How one provider is asked.
struct Provider {
  // The request for a place; what it needs was looked up before.
  std::function<Result<FetchRequest>(const std::string& place)> request;
  // The fields in an answer.
  std::function<Result<Json>(const Json& answer)> fields;
};

Result<Provider> HashiCorp(const Sources& sources, const EntryRenderer& entry,
                           const Reader& reader) {
  std::string address = sources.options.vault_address;
  std::string token = sources.options.vault_token;
  if (entry.Has("auth")) {
    NOETL_ASSIGN(const Json data, Stored(sources, entry, "auth", reader));
    for (const char* name : {"address", "url", "addr", "vault_addr"}) {
      if (data[name].is_string()) address = data[name].ToString();
    }
    for (const char* name : {"token", "vault_token"}) {
      if (data[name].is_string()) token = data[name].ToString();
    }
  }
  if (address.empty() || token.empty()) {
    return EntryError(
        "refused", entry.entry().name,
        "provider 'vault' needs VAULT_ADDR and VAULT_TOKEN, or auth with a credential "
        "that has address and token");
  }
  while (address.ends_with('/')) address.pop_back();
  const auto request = [address, token](const std::string& place) -> Result<FetchRequest> {
    std::optional<std::vector<std::string>> parts = Parts(place);
    if (!parts) return Fail("invalid", "the path is not mount/path#field");
    if (parts->size() == 1) parts->insert(parts->begin(), std::string(kDefaultMount));
    if ((*parts)[1] != "data" || parts->size() == 2) parts->insert(parts->begin() + 1, "data");
    return FetchRequest{.url = fmt::format("{}/v1/{}", address, fmt::join(*parts, "/")),
                        .headers = {{"X-Vault-Token", token}, {"X-Vault-Request", "true"}}};
  };
  const auto fields = [](const Json& answer) -> Result<Json> { return answer["data"]["data"]; };
  return Provider{request, fields};
}

// Files of the pod.
Result<std::string> AccountFile(const Sources& sources, const char* name) {
  std::ifstream file(fs::path(sources.options.service_account) / name);
  std::string text(kFileBytesMax, '\0');
  if (!file)
    return Fail("refused", "this server does not run in Kubernetes with a service account");
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return std::string(Trim(text));
}

Result<Json> KubernetesFields(const Json& answer) {
  JsonObjectBuilder out;
  for (const JsonMember& member : answer["data"].members()) {
    const std::optional<std::string> text = crypto::Base64Decode(member.value.AsString());
    // Binary secrets have no place in JSON; one of them must not spoil the others.
    if (text && !FirstInvalidUtf8(*text)) out.Add(member.key(), *text);
  }
  return out.Build();
}

Result<Provider> Kubernetes(const Sources& sources, const EntryRenderer& entry) {
  std::array<std::string, 2> files;
  const std::array<const char*, 2> names = {"token", "namespace"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    Result<std::string> text = AccountFile(sources, names[i]);
    if (!text) return EntryError(text.error().code, entry.entry().name, text.error().message);
    files[i] = *std::move(text);
  }
  const std::string authorities = (fs::path(sources.options.service_account) / "ca.crt").string();
  const auto request = [token = files[0], own = files[1], url = sources.options.kubernetes_url,
                        authorities](const std::string& place) -> Result<FetchRequest> {
    std::optional<std::vector<std::string>> parts = Parts(place);
    if (!parts || parts->size() > 2) return Fail("invalid", "the path is not [namespace/]name#key");
    if (parts->size() == 1) parts->insert(parts->begin(), PercentEncode(own));
    return FetchRequest{
        .url = fmt::format("{}/api/v1/namespaces/{}/secrets/{}", url, (*parts)[0], (*parts)[1]),
        .headers = {{"Authorization", "Bearer " + token}, {"Accept", "application/json"}},
        .authorities = authorities};
  };
  return Provider{request, KubernetesFields};
}

Result<Json> PickField(const Json& fields, const std::string& field) {
  if (!field.empty()) {
    const Json* found = fields.Find(field);
    if (found == nullptr) return Fail("not_found", "the secret does not have that field");
    return *found;
  }
  if (fields.size() == 1) return fields.members()[0].value;
  for (const std::string_view name : kPlainFields) {
    if (const Json* found = fields.Find(name)) return *found;
  }
  return Fail("invalid", "the secret has several fields; name one after '#'");
}

// Fetches the paths of a `map` one by one, each place once.
class ProviderRun : public std::enable_shared_from_this<ProviderRun> {
 public:
  ProviderRun(std::shared_ptr<const Sources> sources, std::shared_ptr<const EntryRenderer> entry,
              Provider provider, MadeDone done)
      : sources_(std::move(sources)),
        entry_(std::move(entry)),
        provider_(std::move(provider)),
        done_(std::move(done)) {}

  void Start() {
    if (!entry_->Has("map")) {
      map_ = Json::Object({{"", entry_->entry().name}});
      is_map_ = false;
      return Next();
    }
    Result<Json> map = entry_->Map("map");
    if (!map) return done_(std::unexpected(std::move(map).error()));
    map_ = *std::move(map);
    Next();
  }

 private:
  void Next() {
    while (position_ < map_.size()) {
      const JsonMember& member = map_.members()[position_];
      const SecretPath path = SplitPath(TextOf(member.value));
      const auto known = places_.find(path.place);
      if (known == places_.end()) return Ask(path.place);
      Result<Json> value = PickField(known->second, path.field);
      if (!value) return Refuse(value.error());
      out_.Add(member.key(), *std::move(value));
      ++position_;
    }
    const Json out = out_.Build();
    done_(MadeValue{.value = is_map_ ? out : out.members()[0].value});
  }

  void Ask(const std::string& place) {
    Result<FetchRequest> request = provider_.request(place);
    if (!request) return Refuse(request.error());
    const std::string origin = OriginOf(request->url);
    sources_->fetcher->Fetch(*std::move(request),
                             [self = shared_from_this(), place, origin](Result<FetchReply> reply) {
                               self->Answered(place, origin, std::move(reply));
                             });
  }

  void Answered(const std::string& place, const std::string& origin, Result<FetchReply> reply) {
    Result<Json> answer = JsonOf(entry_->entry().name, origin, std::move(reply));
    if (!answer) return done_(std::unexpected(std::move(answer).error()));
    Result<Json> fields = provider_.fields(*answer);
    if (!fields || !fields->is_object()) return Refuse({"fetch", "the answer holds no secret"});
    places_.emplace(place, *std::move(fields));
    Next();
  }

  // Paths are told by the field that has them: they were rendered.
  void Refuse(const Error& error) {
    const std::string_view field = map_.members()[position_].key();
    done_(EntryError(
        error.code, entry_->entry().name,
        field.empty() ? error.message : fmt::format("map.{}: {}", field, error.message)));
  }

  const std::shared_ptr<const Sources> sources_;
  const std::shared_ptr<const EntryRenderer> entry_;
  const Provider provider_;
  MadeDone done_;
  Json map_;
  bool is_map_ = true;
  std::size_t position_ = 0;
  std::map<std::string, Json> places_;
  JsonObjectBuilder out_;
};

void FromProvider(std::shared_ptr<const Sources> sources,
                  std::shared_ptr<const EntryRenderer> entry, Result<Provider> provider,
                  MadeDone done) {
  if (!provider) return done(std::unexpected(std::move(provider).error()));
  std::make_shared<ProviderRun>(std::move(sources), std::move(entry), *std::move(provider),
                                std::move(done))
      ->Start();
}

// --- oauth2 and http

// Seconds as a number or as text.
std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.AsDouble();
  const std::string_view text = Trim(value.AsString());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// `expires_in` from now, or `expires_at` as a time or as seconds since 1970.
std::int64_t ExpiryOf(const Json& answer, std::int64_t now_us) {
  constexpr double kSecondsMax = 1e11;  // the sum stays inside 64 bits
  if (const std::optional<double> seconds = NumberOf(answer["expires_in"])) {
    return now_us + static_cast<std::int64_t>(std::clamp(*seconds, 0.0, kSecondsMax)) * kSecondUs;
  }
  if (const std::optional<double> seconds = NumberOf(answer["expires_at"])) {
    return static_cast<std::int64_t>(std::clamp(*seconds, 1.0, kSecondsMax)) * kSecondUs;
  }
  return ParseTime(answer["expires_at"].AsString()).value_or(0);
}

std::string HeaderValue(const FetchRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (ToLower(key) == name) return value;
  }
  return "";
}

Status AddData(const EntryRenderer& entry, FetchRequest* request) {
  if (!entry.Has("data")) return {};
  NOETL_ASSIGN(const Json raw, entry.Value("data"));
  if (!raw.is_object()) {
    NOETL_ASSIGN(request->body, entry.Text("data"));
    return {};
  }
  NOETL_ASSIGN(const Json data, entry.Map("data"));
  if (request->method == "GET") {
    const char separator = request->url.find('?') == std::string::npos ? '?' : '&';
    request->url += separator + FormText(data);
    return {};
  }
  const std::string type = ToLower(HeaderValue(*request, "content-type"));
  if (type.find("json") != std::string::npos) {
    request->body = WriteJson(data);
    return {};
  }
  request->body = FormText(data);
  if (type.empty()) {
    request->headers.emplace_back("Content-Type", "application/x-www-form-urlencoded");
  }
  return {};
}

Result<FetchRequest> HttpRequestOf(const EntryRenderer& entry) {
  FetchRequest request;
  NOETL_ASSIGN(request.url, entry.Text("endpoint"));
  request.url = Trim(request.url);
  if (!request.url.starts_with("https://") && !request.url.starts_with("http://")) {
    return EntryError("invalid", entry.entry().name, "endpoint is not an http or https address");
  }
  request.method = entry.entry().kind_name == "oauth2" || entry.Has("data") ? "POST" : "GET";
  if (entry.Has("method")) {
    NOETL_ASSIGN(const std::string method, entry.Text("method"));
    const auto* const known = std::ranges::find_if(
        kMethods, [&](std::string_view each) { return ToLower(each) == ToLower(Trim(method)); });
    if (known == kMethods.end()) {
      return EntryError("invalid", entry.entry().name,
                        fmt::format("method is not one of {}", fmt::join(kMethods, ", ")));
    }
    request.method = *known;
  }
  if (entry.Has("headers")) {
    NOETL_ASSIGN(const Json headers, entry.Map("headers"));
    for (const JsonMember& member : headers.members()) {
      request.headers.emplace_back(member.key(), TextOf(member.value));
    }
  }
  if (HeaderValue(request, "accept").empty()) {
    request.headers.emplace_back("Accept", "application/json");
  }
  NOETL_TRY(AddData(entry, &request));
  return request;
}

void FromEndpoint(std::shared_ptr<const Sources> sources,
                  std::shared_ptr<const EntryRenderer> entry, MadeDone done) {
  Result<FetchRequest> request = HttpRequestOf(*entry);
  if (!request) return done(std::unexpected(std::move(request).error()));
  const std::string origin = OriginOf(request->url);
  Fetcher* const fetcher = sources->fetcher;
  fetcher->Fetch(*std::move(request), [sources = std::move(sources), entry = std::move(entry),
                                       origin,
                                       done = std::move(done)](Result<FetchReply> reply) mutable {
    const std::string& name = entry->entry().name;
    Result<Json> answer = JsonOf(name, origin, std::move(reply));
    if (!answer) return done(std::unexpected(std::move(answer).error()));
    if (entry->entry().kind_name == "oauth2" && !answer->is_object()) {
      return done(EntryError("fetch", name, fmt::format("{} answered no token object", origin)));
    }
    const std::int64_t expiry = ExpiryOf(*answer, sources->clock->NowMicros());
    done(MadeValue{.value = *std::move(answer), .expires_at_us = expiry});
  });
}

// The word of the statistics for where a value comes from; empty: it is not fetched.
std::string_view ProviderOf(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kEnvironment: return "env";
    case EntryKind::kFile: return "file";
    case EntryKind::kVault: return "vault";
    case EntryKind::kKubernetes: return "k8s";
    case EntryKind::kHttp: return entry.kind_name == "oauth2" ? "oauth2" : "http";
    default: return "";
  }
}

// Counts the fetch when it is done.
MadeDone Counted(std::shared_ptr<const Sources> sources, std::string_view provider, MadeDone done) {
  const std::int64_t began_us = sources->clock->MonotonicMicros();
  return [sources = std::move(sources), provider, began_us,
          done = std::move(done)](Result<MadeValue> made) mutable {
    sources->vault->stats().Fetched(provider, made.has_value(),
                                    sources->clock->MonotonicMicros() - began_us);
    done(std::move(made));
  };
}

}  // namespace

void MakeValue(std::shared_ptr<const Sources> sources, std::shared_ptr<const EntryRenderer> entry,
               const Reader& reader, MadeDone done) {
  if (const std::string_view provider = ProviderOf(entry->entry()); !provider.empty())
    done = Counted(sources, provider, std::move(done));
  switch (entry->entry().kind) {
    case EntryKind::kCredential: return done(StoredCredential(*sources, *entry, reader));
    case EntryKind::kBearer: return done(Bearer(*entry));
    case EntryKind::kStatic: return done(Static(*entry));
    case EntryKind::kEnvironment: return done(Local(*sources, *entry, &ReadVariable));
    case EntryKind::kFile: return done(Local(*sources, *entry, &ReadFile));
    case EntryKind::kVault: {
      Result<Provider> provider = HashiCorp(*sources, *entry, reader);
      return FromProvider(std::move(sources), std::move(entry), std::move(provider),
                          std::move(done));
    }
    case EntryKind::kKubernetes: {
      Result<Provider> provider = Kubernetes(*sources, *entry);
      return FromProvider(std::move(sources), std::move(entry), std::move(provider),
                          std::move(done));
    }
    case EntryKind::kHttp:
      return FromEndpoint(std::move(sources), std::move(entry), std::move(done));
  }
}

}  // namespace noetl::vault
