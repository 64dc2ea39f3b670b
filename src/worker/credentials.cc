#include "worker/credentials.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/redact.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

// A field of a tool and what credentials and steps call it, the tool's own name first.
using Spellings = std::span<const std::string_view>;
constexpr std::string_view kHost[] = {"host", "db_host"};
constexpr std::string_view kPort[] = {"port", "db_port"};
constexpr std::string_view kUser[] = {"user", "db_user", "username"};
constexpr std::string_view kPassword[] = {"password", "db_password"};
constexpr std::string_view kDatabase[] = {"database", "db_name", "dbname"};
constexpr std::string_view kSslMode[] = {"sslmode"};
constexpr std::string_view kSslRoot[] = {"sslrootcert"};
constexpr Spellings kPostgres[] = {kHost, kPort, kUser, kPassword, kDatabase, kSslMode, kSslRoot};

constexpr std::string_view kNatsUrl[] = {"url", "nats_url"};
constexpr std::string_view kNatsUser[] = {"user", "nats_user", "nats_username", "username"};
constexpr std::string_view kNatsPassword[] = {"password", "nats_password"};
constexpr std::string_view kNatsToken[] = {"token", "nats_token"};
constexpr Spellings kNats[] = {kNatsUrl, kNatsUser, kNatsPassword, kNatsToken};

constexpr std::string_view kSfAccount[] = {"account", "sf_account"};
constexpr std::string_view kSfUser[] = {"user", "sf_user", "username"};
constexpr std::string_view kSfPassword[] = {"password", "sf_password"};
constexpr std::string_view kSfPrivateKey[] = {"private_key", "sf_private_key"};
constexpr std::string_view kSfPublicKey[] = {"public_key", "sf_public_key"};
constexpr std::string_view kSfPassphrase[] = {"private_key_passphrase",
                                              "sf_private_key_passphrase"};
constexpr std::string_view kSfWarehouse[] = {"warehouse", "sf_warehouse"};
constexpr std::string_view kSfDatabase[] = {"database", "sf_database"};
constexpr std::string_view kSfSchema[] = {"schema", "sf_schema"};
constexpr std::string_view kSfRole[] = {"role", "sf_role"};
constexpr Spellings kSnowflake[] = {kSfAccount,   kSfUser,       kSfPassword,  kSfPrivateKey,
                                    kSfPublicKey, kSfPassphrase, kSfWarehouse, kSfDatabase,
                                    kSfSchema,    kSfRole};

constexpr std::string_view kAwsKeyId[] = {"access_key_id", "aws_access_key_id"};
constexpr std::string_view kAwsSecret[] = {"secret_access_key", "aws_secret_access_key",
                                           "secret_key"};
constexpr std::string_view kAwsRegion[] = {"region", "aws_region", "aws_default_region"};
constexpr std::string_view kAwsEndpoint[] = {"endpoint", "endpoint_url", "aws_endpoint_url"};
constexpr std::string_view kAwsSession[] = {"session_token", "aws_session_token"};
constexpr Spellings kAws[] = {kAwsKeyId, kAwsSecret, kAwsRegion, kAwsEndpoint, kAwsSession};

constexpr std::string_view kHmacKeyId[] = {"key_id"};
constexpr std::string_view kHmacSecret[] = {"secret_key"};
constexpr Spellings kGcsHmac[] = {kHmacKeyId, kHmacSecret};

// What programs know these as.
constexpr std::pair<std::string_view, std::string_view> kAwsVariables[] = {
    {"access_key_id", "AWS_ACCESS_KEY_ID"},
    {"secret_access_key", "AWS_SECRET_ACCESS_KEY"},
    {"region", "AWS_DEFAULT_REGION"},
    {"endpoint", "AWS_ENDPOINT_URL"},
    {"session_token", "AWS_SESSION_TOKEN"}};

enum class Form : std::uint8_t { kFields, kBearer, kApiKey, kBasic, kSecret, kToken, kShape };

struct CredentialType {
  std::string_view name;
  Form form;
  std::span<const Spellings> fields = {};
  bool takes_all = false;  // further fields are copied as they are
};

constexpr std::array kTypes = {
    CredentialType{"postgres", Form::kFields, kPostgres},
    CredentialType{"bearer", Form::kBearer},
    CredentialType{"bearer_token", Form::kBearer},
    CredentialType{"api_key", Form::kApiKey},
    CredentialType{"basic", Form::kBasic},
    CredentialType{"nats", Form::kFields, kNats, true},
    CredentialType{"pubsub", Form::kFields, {}, true},
    CredentialType{"kafka", Form::kFields, {}, true},
    CredentialType{"snowflake", Form::kFields, kSnowflake},
    CredentialType{"secret", Form::kSecret},
    CredentialType{"aws", Form::kFields, kAws},
    CredentialType{"gcs_hmac", Form::kFields, kGcsHmac},
    // Usable when they hold a token already.
    CredentialType{"oauth2", Form::kToken},
    CredentialType{"oauth2_client_credentials", Form::kToken},
    CredentialType{"google_oauth", Form::kToken},
    CredentialType{"google_service_account", Form::kToken},
    CredentialType{"gcp", Form::kToken},
    CredentialType{"keychain", Form::kShape},
};

// Tools that connect with fields of their own, and the type that has these.
constexpr std::pair<std::string_view, std::string_view> kConnecting[] = {
    {"postgres", "postgres"}, {"ducklake", "postgres"}, {"nats", "nats"},
    {"pubsub", "pubsub"},     {"kafka", "kafka"},       {"snowflake", "snowflake"}};
// Tools that send requests: fields of a connection would be left unused there, and the request go
// out without its credential.
constexpr std::string_view kRequesting[] = {"http", "mcp"};

const CredentialType* FindType(std::string_view name) {
  const auto* const found = std::ranges::find(kTypes, name, &CredentialType::name);
  return found == kTypes.end() ? nullptr : found;
}

// The type that a connecting tool takes its fields from; empty for other tools.
std::string_view ConnectionOf(std::string_view tool_kind) {
  for (const auto& [tool, type] : kConnecting) {
    if (tool == tool_kind) return type;
  }
  return "";
}

// The first of the names with a value.
const Json& First(const Json& data, Spellings names) {
  static const Json kNothing;
  for (const std::string_view name : names) {
    const Json& value = data[name];
    if (!value.is_null() && !(value.is_string() && value.AsString().empty())) return value;
  }
  return kNothing;
}
const Json& First(const Json& data, std::initializer_list<std::string_view> names) {
  return First(data, Spellings(names.begin(), names.size()));
}

std::string TextOf(const Json& value) {
  if (value.is_string()) return value.ToString();
  return value.is_number() ? WriteJson(value) : "";
}

class Applier {
 public:
  Applier(std::string_view tool_kind, const Json& config, std::string_view alias,
          std::string_view type, const Json& data)
      : tool_kind_(tool_kind), alias_(alias), type_(ToLower(Trim(type))), data_(data) {
    given_ = config["auth"].is_object() ? config["auth"] : Json();
    config_ = config.is_object() ? config.Without("auth").Without("credential") : Json::Object();
  }

  Result<Json> Apply() {
    const CredentialType* type = FindType(type_);
    if (type == nullptr) return Unsupported();
    if (type->form != Form::kShape && type->form != Form::kSecret && !data_.is_object()) {
      return Bad(fmt::format("holds a {}, not fields", data_.TypeName()));
    }
    return By(*type);
  }

 private:
  Result<Json> By(const CredentialType& type) {
    switch (type.form) {
      case Form::kFields: return Fields(type);
      case Form::kBearer: return Bearer();
      case Form::kApiKey: return ApiKey();
      case Form::kBasic: return Basic();
      case Form::kSecret: return Secret();
      case Form::kToken: return Token();
      case Form::kShape: return Shape();
    }
    return Unsupported();
  }

  std::unexpected<Error> Bad(std::string_view what) const {
    return Fail("auth", fmt::format("credential '{}' of type '{}' {}", alias_, type_, what));
  }

  std::unexpected<Error> Unsupported() const {
    std::string names;
    for (const CredentialType& each : kTypes) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
    }
    return Bad(fmt::format("cannot be used by {}: the type is not supported; supported are {}",
                           tool_kind_, names));
  }

  bool IsRequest() const {
    return std::ranges::find(kRequesting, tool_kind_) != std::end(kRequesting);
  }
  bool IsConnection() const { return !ConnectionOf(tool_kind_).empty(); }

  void Put(std::string_view field, const Json& value) {
    if (config_[field].is_null()) config_ = config_.With(field, value);
  }

  Result<Json> Fields(const CredentialType& type) {
    if (IsRequest()) {
      return Bad(fmt::format("cannot be used by {}; use one of type bearer, basic or api_key",
                             tool_kind_));
    }
    if (type_ == "aws" && tool_kind_ == "python") return Environment(type);
    for (const Spellings names : type.fields) {
      if (!First(config_, names).is_null()) continue;
      Json value = First(data_, names);
      if (value.is_null()) continue;
      if (names[0] == "port") {
        NOETL_ASSIGN(value, Port(value));
      }
      Put(names[0], value);
    }
    if (!type.takes_all) return config_;
    for (const JsonMember& member : data_.members()) {
      if (!IsSpelling(type, member.key())) Put(member.key(), member.value);
    }
    return config_;
  }

  static bool IsSpelling(const CredentialType& type, std::string_view key) {
    return std::ranges::any_of(type.fields, [key](Spellings names) {
      return std::ranges::find(names, key) != names.end();
    });
  }

  Result<Json> Port(const Json& value) const {
    const std::string text(Trim(TextOf(value)));
    int port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65'535) {
      return Bad("has a port that is not a number from 1 to 65535");
    }
    return Json(port);
  }

  Result<Json> Environment(const CredentialType& type) {
    Json variables = config_["env"].is_object() ? config_["env"] : Json::Object();
    for (const Spellings names : type.fields) {
      const Json& value = First(data_, names);
      for (const auto& [field, variable] : kAwsVariables) {
        if (field != names[0] || value.is_null() || variables.Has(variable)) continue;
        variables = variables.With(variable, TextOf(value));
      }
    }
    return config_.With("env", variables);
  }

  // Whether the step has written the header itself.
  bool HasHeader(std::string_view name) const {
    const auto headers = config_["headers"].members();
    return std::ranges::any_of(headers, [&](const JsonMember& member) {
      return ToLower(member.key()) == ToLower(name) && !member.value.is_null();
    });
  }

  Result<Json> PutAuth(std::string_view header, Json auth) {
    if (!HasHeader(header)) config_ = config_.With("auth", std::move(auth));
    return config_;
  }

  Result<Json> BearerWith(const Json& token) {
    const std::string text = TextOf(token);
    if (text.empty()) return Bad("has no token, access_token or bearer_token");
    if (IsConnection()) {
      Put("token", text);
      return config_;
    }
    return PutAuth("Authorization", Json::Object({{"type", "bearer"}, {"token", text}}));
  }

  Result<Json> Bearer() {
    return BearerWith(First(data_, {"token", "access_token", "bearer_token"}));
  }

  Result<Json> Token() {
    const Json& token = First(data_, {"access_token", "token"});
    if (!token.is_null()) return BearerWith(token);
    return Bad(
        "holds no token; declare a keychain entry of kind oauth2 that asks for one, and name "
        "that in auth");
  }

  Result<Json> ApiKeyWith(const Json& key) {
    const std::string text = TextOf(key);
    if (text.empty()) return Bad("has no api_key, key or token");
    if (IsConnection()) {
      Put("api_key", text);
      return config_;
    }
    const Json fields = data_.is_object() ? data_.Merge(given_) : given_;
    JsonObjectBuilder auth;
    auth.Add("type", "api_key").Add("value", text);
    if (ToLower(fields["in"].AsString()) == "query") {
      auth.Add("in", "query").AddSome("param", First(fields, {"param", "name"}));
      return config_.With("auth", auth.Build());
    }
    const Json& header = First(fields, {"header", "header_name"});
    auth.AddSome("header", header);
    return PutAuth(header.is_null() ? "X-API-Key" : header.AsString(), auth.Build());
  }

  Result<Json> ApiKey() { return ApiKeyWith(First(data_, {"api_key", "key", "token"})); }

  Result<Json> Basic() {
    const std::string user = TextOf(First(data_, {"username", "user", "db_user"}));
    const std::string password = TextOf(First(data_, {"password", "db_password"}));
    if (user.empty() && password.empty()) return Bad("has no username and password");
    if (IsConnection()) {
      Put("user", user);
      Put("password", password);
      return config_;
    }
    return PutAuth("Authorization",
                   Json::Object({{"type", "basic"}, {"username", user}, {"password", password}}));
  }

  // A single secret is what the step says it is.
  Result<Json> Secret() {
    const Json& secret =
        data_.is_object() ? First(data_, {"secret", "token", "value", "key", "password"}) : data_;
    if (TextOf(secret).empty()) return Bad("has no secret");
    return ToLower(given_["type"].AsString()) == "api_key" ? ApiKeyWith(secret)
                                                           : BearerWith(secret);
  }

  // A resolved keychain entry: the tool knows what it needs; else the fields tell.
  Result<Json> Shape() {
    if (data_.is_string()) return Secret();
    if (!data_.is_object()) return Bad(fmt::format("holds a {}, not fields", data_.TypeName()));
    if (IsConnection()) return Fields(*FindType(ConnectionOf(tool_kind_)));
    const auto has = [this](std::initializer_list<std::string_view> names) {
      return !First(data_, names).is_null();
    };
    if (has({"access_token", "token"})) return BearerWith(First(data_, {"access_token", "token"}));
    if (has({"api_key"})) return ApiKey();
    if (has({"username"}) && has({"password"})) return Basic();
    if (has({"db_host", "host"}) && has({"db_user", "user"})) return Fields(*FindType("postgres"));
    if (IsRequest()) {
      return Bad(
          fmt::format("has nothing that {} could use: access_token, token, api_key, or "
                      "username and password",
                      tool_kind_));
    }
    for (const JsonMember& member : data_.members()) Put(member.key(), member.value);
    return config_;
  }

  const std::string tool_kind_;
  const std::string alias_;
  const std::string type_;
  const Json& data_;
  Json given_;   // `auth` as the step writes it, when it is a map
  Json config_;  // the result so far
};

// --- secrets

// Names of secret fields besides those that are hidden everywhere.
constexpr std::string_view kSecretFields[] = {
    "bearer_token", "secret_access_key", "private_key_passphrase", "consumer_secret", "private_key",
    "dsn",          "connection_string"};
constexpr std::string_view kPrefixes[] = {"db_", "sf_", "nats_", "aws_"};
// Fields that are secret only in credentials of one type.
constexpr std::pair<std::string_view, std::string_view> kSecretInType[] = {
    {"api_key", "key"}, {"secret", "value"}, {"secret", "key"}, {"gcs_hmac", "secret_key"}};
// Fields that are never secret: masking them would eat ordinary words.
constexpr std::string_view kHarmless[] = {
    "host",    "port",    "user",       "username",   "database",   "db_host", "db_port",
    "db_user", "db_name", "dbname",     "sslmode",    "schema",     "role",    "warehouse",
    "account", "region",  "token_type", "scope",      "type",       "name",    "header",
    "in",      "param",   "expires_at", "expires_in", "grant_type", "audience"};

template <std::size_t N>
bool IsIn(const std::string_view (&names)[N], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool IsSecretField(std::string_view type, std::string_view key) {
  for (const auto& [owner, field] : kSecretInType) {
    if (owner == type && field == key) return true;
  }
  for (const std::string_view prefix : kPrefixes) {
    if (key.starts_with(prefix)) {
      key.remove_prefix(prefix.size());
      break;
    }
  }
  return IsSecretKey(key) || IsIn(kSecretFields, key);
}

// The password inside an address.
std::string_view PasswordIn(std::string_view text) {
  const std::size_t start = text.find("://");
  if (start == std::string_view::npos) return "";
  std::string_view authority = text.substr(start + 3);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  const std::size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return "";
  authority = authority.substr(0, at);
  const std::size_t colon = authority.find(':');
  return colon == std::string_view::npos ? "" : authority.substr(colon + 1);
}

class SecretCollector {
 public:
  explicit SecretCollector(std::string_view type) : type_(ToLower(Trim(type))) {
    const CredentialType* known = FindType(type_);
    is_known_ = known != nullptr && known->form != Form::kShape;
  }

  // `is_named`: the name says that it is a secret, so a number is one as well.
  void Collect(const Json& value, bool is_secret, bool is_named) {
    if (value.is_string()) {
      if (is_secret) Add(value.AsString());
      Add(PasswordIn(value.AsString()));
    }
    if (is_named && value.is_number()) Add(WriteJson(value));
    for (const Json& item : value.items()) Collect(item, is_secret, is_named);
    for (const JsonMember& member : value.members()) {
      const std::string name = ToLower(member.key());
      const bool named = is_named || IsSecretField(type_, name);
      Collect(member.value, named || (!is_known_ && !IsIn(kHarmless, name)), named);
    }
  }

  void Add(std::string_view secret) {
    if (!secret.empty()) secrets_.emplace_back(secret);
  }

  std::vector<std::string> Take() {
    std::ranges::sort(secrets_, [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    });
    const auto rest = std::ranges::unique(secrets_);
    secrets_.erase(rest.begin(), rest.end());
    return std::move(secrets_);
  }

 private:
  std::string type_;
  bool is_known_ = false;
  std::vector<std::string> secrets_;
};

}  // namespace

Result<Json> ApplyCredential(std::string_view tool_kind, const Json& config, std::string_view alias,
                             std::string_view type, const Json& data) {
  return Applier(tool_kind, config, alias, type, data).Apply();
}

std::vector<std::string> SecretsOf(std::string_view type, const Json& data) {
  SecretCollector collector(type);
  const bool all = type == "input";  // a secret input of a run, whatever it looks like
  collector.Collect(data, all || data.is_string(), all);
  // What a request makes of user and password.
  const std::string user = TextOf(First(data, {"username", "user"}));
  const std::string password = TextOf(First(data, {"password"}));
  if (!user.empty() && !password.empty()) {
    collector.Add(crypto::Base64Encode(user + ":" + password));
  }
  return collector.Take();
}

}  // namespace noetl::worker
