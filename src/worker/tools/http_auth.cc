#include "worker/tools/http_auth.h"

#include <openssl/evp.h>

#include <array>

#include "base/json_io.h"
#include "base/text.h"
#include "base/url.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kApiKeyHeader = "X-API-Key";
// An object with one of these is an auth object, not a map of aliases.
constexpr std::array<std::string_view, 12> kOwnKeys = {
    "type",    "source",  "token", "credential", "username", "password",
    "api_key", "service", "tool",  "fields",     "header",   "header_name"};

// The first of the fields that has a text or a number.
std::string First(const Json& object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json& value = object[name];
    if (value.is_string() && !value.AsString().empty()) return value.ToString();
    if (value.is_number()) return WriteJson(value);
  }
  return "";
}

bool IsAliasMap(const Json& auth) {
  for (const std::string_view key : kOwnKeys) {
    if (auth.Has(key)) return false;
  }
  return !auth.empty();
}

std::string TypeOf(const Json& auth) {
  std::string type = ToLower(First(auth, {"type", "service", "tool"}));
  if (type == "bearer_token" || type == "oauth2" || type == "http") type = "bearer";
  if (!type.empty()) return type;
  if (auth.Has("username") || auth.Has("password")) return "basic";
  if (auth.Has("api_key") || auth.Has("header") || auth.Has("header_name")) return "api_key";
  return "bearer";
}

// Where a secret is not written out, the name of the variable that holds it.
std::string SecretName(const Json& auth) {
  const std::string source = ToLower(auth["source"].AsString());
  if (source.empty() || source == "inline") return First(auth, {"credential"});
  return First(auth, {"key", "name", "credential"});
}

Result<std::string> SecretOf(const Json& auth, std::initializer_list<std::string_view> fields,
                             const HttpPolicy& policy) {
  if (std::string name = SecretName(auth); !name.empty()) return policy.Secret(name);
  std::string value = First(auth, fields);
  if (value.empty()) {
    return Fail("auth", fmt::format("auth of type {} has no {}; it came empty, or was not given",
                                    TypeOf(auth), *fields.begin()));
  }
  return value;
}

Result<HttpAuth> Bearer(const Json& auth, const HttpPolicy& policy) {
  NOETL_ASSIGN(const std::string token,
               SecretOf(auth, {"token", "access_token", "bearer_token", "value"}, policy));
  return HttpAuth{.headers = {{"Authorization", "Bearer " + token, true}}};
}

Result<HttpAuth> Basic(const Json& auth, const HttpPolicy& policy) {
  NOETL_ASSIGN(const std::string password, SecretOf(auth, {"password"}, policy));
  return HttpAuth{.headers = {BasicAuthorization(First(auth, {"username", "user"}), password)}};
}

Result<HttpAuth> ApiKey(const Json& auth, const HttpPolicy& policy) {
  NOETL_ASSIGN(std::string key, SecretOf(auth, {"value", "api_key", "key", "token"}, policy));
  if (ToLower(auth["in"].AsString()) == "query") {
    std::string name = First(auth, {"param", "name"});
    if (name.empty()) name = "api_key";
    return HttpAuth{.query = PercentEncode(name) + "=" + PercentEncode(key)};
  }
  std::string header = First(auth, {"header", "header_name"});
  if (header.empty()) header = kApiKeyHeader;
  return HttpAuth{.headers = {{std::move(header), std::move(key), true}}};
}

Result<HttpAuth> None(const Json& /*auth*/, const HttpPolicy& /*policy*/) { return HttpAuth(); }

struct Form {
  std::string_view type;
  Result<HttpAuth> (*read)(const Json& auth, const HttpPolicy& policy);
};

constexpr std::array kForms = {Form{"bearer", Bearer}, Form{"basic", Basic},
                               Form{"api_key", ApiKey}, Form{"none", None}};

const Form* FormOf(const Json& auth) {
  const auto* const found = std::ranges::find(kForms, TypeOf(auth), &Form::type);
  return found == kForms.end() ? nullptr : found;
}

// The only entry of an alias map, or the first that an HTTP request can use.
Result<Json> Entry(const Json& map) {
  if (map.size() == 1 && map.members()[0].value.is_object()) return map.members()[0].value;
  for (const JsonMember& member : map.members()) {
    if (member.value.is_object() && FormOf(member.value) != nullptr) return member.value;
  }
  return Fail("auth", "auth is a map without an entry of type bearer, basic or api_key");
}

}  // namespace

std::string Base64(std::string_view bytes) {
  constexpr std::size_t kChunk = 3 << 20;  // whole groups, and a length that fits an int
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  std::string encoded;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kChunk, bytes.size()))) {
    const std::string_view chunk = bytes.substr(0, kChunk);
    encoded.resize((chunk.size() + 2) / 3 * 4 + 1);  // the encoder ends with a NUL
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                       reinterpret_cast<const unsigned char*>(chunk.data()),
                                       static_cast<int>(chunk.size()));
    out.append(encoded.data(), static_cast<std::size_t>(length));
  }
  return out;
}

HttpHeader BasicAuthorization(std::string_view user, std::string_view password) {
  return {"Authorization", "Basic " + Base64(fmt::format("{}:{}", user, password)), true};
}

Result<HttpAuth> ReadHttpAuth(const Json& auth, const HttpPolicy& policy) {
  if (auth.is_null() || (auth.is_object() && auth.empty())) return HttpAuth();
  if (auth.is_string()) {
    const std::string_view alias = Trim(auth.AsString());
    if (alias.empty() || ToLower(alias) == "none") return HttpAuth();
    return Fail("auth", fmt::format("the credential '{}' cannot be resolved on this worker; write "
                                    "auth as an object with its type, or check the name",
                                    alias));
  }
  if (!auth.is_object()) {
    return Fail("auth", fmt::format("auth must be a map or a name, not a {}", auth.TypeName()));
  }
  if (IsAliasMap(auth)) {
    NOETL_ASSIGN(const Json entry, Entry(auth));
    return ReadHttpAuth(IsAliasMap(entry) ? entry.With("type", "bearer") : entry, policy);
  }
  const Json merged = auth.Merge(auth["fields"]);
  const Form* form = FormOf(merged);
  if (form == nullptr || ToLower(merged["source"].AsString()) == "adc") {
    return Fail("auth", fmt::format("auth of type '{}' is not supported here; use bearer, basic, "
                                    "api_key or none",
                                    form == nullptr ? TypeOf(merged) : "adc"));
  }
  return form->read(merged, policy);
}

}  // namespace noetl::worker
