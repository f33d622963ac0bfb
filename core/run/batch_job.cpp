// Batch job: see batch_job.h. The JSON library calls back for each piece of the line, so that a
// repeated field is seen, and no tree of the whole line is ever built.
#include "core/run/batch_job.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using profile::Override;

enum class Kind : std::uint8_t {
  kText,    ///< a string
  kNumber,  ///< a string, or a number as it stands
  kSwitch,  ///< true or false
  kTexts,   ///< a string, or an array of them
  kWords,   ///< an array of strings
  kPairs,   ///< an object, or an array of "NAME=VALUE"
};

struct Field {
  std::string_view name;
  Kind kind;
};

constexpr std::array<Field, 15> kFields = {{
    {"id", Kind::kNumber},
    {"profile", Kind::kText},
    {"code", Kind::kText},
    {"file", Kind::kText},
    {"command", Kind::kWords},
    {"args", Kind::kWords},
    {"stdin", Kind::kText},
    {"in", Kind::kTexts},
    {"out", Kind::kText},
    {"require", Kind::kTexts},
    {"mount", Kind::kTexts},
    {"package", Kind::kTexts},
    {"env", Kind::kPairs},
    {"set", Kind::kPairs},
    {"allow-outside", Kind::kSwitch},
}};

std::string_view wanted(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "a string";
    case Kind::kNumber:
      return "a string or a number";
    case Kind::kSwitch:
      return "true or false";
    case Kind::kTexts:
      return "a string or an array of strings";
    case Kind::kWords:
      return "an array of strings";
    case Kind::kPairs:
      return "an object of strings or an array of \"NAME=VALUE\"";
  }
  return "";
}

Error usage(std::string message, std::string hint = {}) {
  Error error(Errc::kUsage, std::move(message));
  return hint.empty() ? error : std::move(error).with_hint(std::move(hint));
}

/// Everything the fields may say, before it is put in order.
struct Raw {
  std::optional<std::string> id, profile, code, file, input, out;
  std::optional<std::vector<std::string>> command, args;
  std::vector<std::string> inputs, require, packages, mounts, env_pass;
  std::vector<std::pair<std::string, std::string>> env, set;
  std::vector<Override> keys;
  bool allow_outside = false;
};

class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(std::span<const KeyField> keys) : keys_(keys) {}

  Raw& raw() { return raw_; }
  const std::optional<Error>& error() const { return error_; }

  bool null() override { return wrong_type("null"); }
  bool boolean(bool value) override {
    if (where_ == Where::kPairs && field_ == "set") return add_text(value ? "true" : "false");
    if (where_ != Where::kField || kind_ != Kind::kSwitch) return wrong_type("true or false");
    raw_.allow_outside = value;
    return true;
  }
  bool number_integer(std::int64_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override { return number(std::to_string(value)); }
  bool number_float(double /*value*/, const std::string& text) override { return number(text); }
  bool string(std::string& value) override { return add_text(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return wrong_type("binary data"); }
  bool start_object(std::size_t /*size*/) override;
  bool key(std::string& name) override;
  bool end_object() override {
    where_ = where_ == Where::kPairs ? Where::kField : Where::kEnd;
    return true;
  }
  bool start_array(std::size_t /*size*/) override;
  bool end_array() override {
    where_ = Where::kField;
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& what) override;

 private:
  enum class Where : std::uint8_t { kStart, kField, kArray, kPairs, kEnd };

  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool wrong_type(std::string_view found);
  bool number(std::string text);
  bool add_text(std::string value);
  bool add_pair(std::string name, std::string value);
  bool add_item(std::string value);
  bool set_text(std::string value);
  bool start_field(const std::string& name);
  std::optional<std::string>& text_of(std::string_view name);

  std::span<const KeyField> keys_;
  Raw raw_;
  std::optional<Error> error_;
  Where where_ = Where::kStart;
  std::string field_;
  std::string_view key_;  // of the profile; empty for other fields
  Kind kind_ = Kind::kText;
  std::string pair_;
  std::set<std::string, std::less<>> seen_;
  std::set<std::string, std::less<>> pairs_seen_;
};

bool Reader::wrong_type(std::string_view found) {
  if (where_ == Where::kStart) {
    return fail(usage(text::cat("a job is an object, not ", found),
                      R"json(one line is one job: {"id": "a", "code": "print(1)"})json"));
  }
  return fail(usage(text::cat("field \"",
                              text::escape(field_),
                              "\" is ",
                              wanted(kind_),
                              ", not ",
                              where_ == Where::kField ? "" : "with ",
                              found)));
}

bool Reader::start_object(std::size_t /*size*/) {
  if (where_ == Where::kStart) {
    where_ = Where::kField;
    return true;
  }
  if (where_ != Where::kField || kind_ != Kind::kPairs) return wrong_type("an object");
  where_ = Where::kPairs;
  pairs_seen_.clear();
  return true;
}

bool Reader::start_array(std::size_t /*size*/) {
  const bool may = kind_ == Kind::kTexts || kind_ == Kind::kWords || kind_ == Kind::kPairs;
  if (where_ != Where::kField || !may) return wrong_type("an array");
  where_ = Where::kArray;
  if (field_ == "command") raw_.command.emplace();
  if (field_ == "args") raw_.args.emplace();
  return true;
}

bool Reader::key(std::string& name) {
  if (where_ != Where::kPairs) return start_field(name);
  if (!pairs_seen_.insert(name).second) {
    return fail(usage(text::cat("field \"", field_, "\" has \"", text::escape(name), "\" twice")));
  }
  pair_ = name;
  return true;
}

bool Reader::start_field(const std::string& name) {
  if (!seen_.insert(name).second) {
    return fail(usage(text::cat("field \"", text::escape(name), "\" is given twice")));
  }
  field_ = name;
  key_ = {};
  std::vector<std::string_view> known;
  for (const Field& field : kFields) {
    if (field.name == name) {
      kind_ = field.kind;
      return true;
    }
    known.push_back(field.name);
  }
  for (const KeyField& field : keys_) {
    if (field.name == name) {
      kind_ = Kind::kNumber;
      key_ = field.key;
      return true;
    }
    known.push_back(field.name);
  }
  const auto near = text::closest(name, known);
  return fail(usage(text::cat("unknown field \"", text::escape(name), "\""),
                    near ? text::cat("did you mean \"", *near, "\"?")
                         : text::cat("fields are named as the flags of sbx run; see sbx batch "
                                     "--help")));
}

bool Reader::number(std::string text) {
  if (where_ == Where::kPairs && field_ == "set") return add_text(std::move(text));
  if (where_ != Where::kField || kind_ != Kind::kNumber) return wrong_type("a number");
  return set_text(std::move(text));
}

bool Reader::add_text(std::string value) {
  const bool may_have_nul = field_ == "code" || field_ == "stdin";
  if (where_ != Where::kStart && !may_have_nul && value.find('\0') != std::string::npos) {
    return fail(usage(text::cat("field \"", text::escape(field_), "\" has a NUL character")));
  }
  switch (where_) {
    case Where::kPairs:
      return add_pair(std::move(pair_), std::move(value));
    case Where::kArray:
      return add_item(std::move(value));
    case Where::kField:
      if (kind_ == Kind::kTexts) return add_item(std::move(value));
      if (kind_ == Kind::kText || kind_ == Kind::kNumber) return set_text(std::move(value));
      return wrong_type("a string");
    case Where::kStart:
    case Where::kEnd:
      break;
  }
  return wrong_type("a string");
}

bool Reader::add_pair(std::string name, std::string value) {
  const bool is_name = !name.empty() && name.find('\0') == std::string::npos &&
                       (field_ != "env" || name.find('=') == std::string::npos);
  if (!is_name) {
    return fail(
        usage(text::cat("field \"", field_, "\": \"", text::escape(name), "\" cannot be a name")));
  }
  (field_ == "env" ? raw_.env : raw_.set).emplace_back(std::move(name), std::move(value));
  return true;
}

bool Reader::add_item(std::string value) {
  if (kind_ == Kind::kPairs) {
    const std::size_t equals = value.find('=');
    if (field_ == "env" && equals == std::string::npos && !value.empty()) {
      raw_.env_pass.push_back(std::move(value));  // as -e NAME: ours is passed on
      return true;
    }
    if (equals == std::string::npos || equals == 0) {
      return fail(usage(
          text::cat("field \"", field_, "\": \"", text::escape(value), "\" is not NAME=VALUE")));
    }
    return add_pair(value.substr(0, equals), value.substr(equals + 1));
  }
  if (field_ == "command") {
    raw_.command->push_back(std::move(value));
  } else if (field_ == "args") {
    raw_.args->push_back(std::move(value));
  } else if (field_ == "in") {
    raw_.inputs.push_back(std::move(value));
  } else if (field_ == "require") {
    raw_.require.push_back(std::move(value));
  } else if (field_ == "package") {
    raw_.packages.push_back(std::move(value));
  } else {
    raw_.mounts.push_back(std::move(value));
  }
  return true;
}

std::optional<std::string>& Reader::text_of(std::string_view name) {
  if (name == "id") return raw_.id;
  if (name == "profile") return raw_.profile;
  if (name == "code") return raw_.code;
  if (name == "file") return raw_.file;
  if (name == "stdin") return raw_.input;
  return raw_.out;
}

bool Reader::set_text(std::string value) {
  if (!key_.empty()) {
    raw_.keys.push_back({std::string(key_), std::move(value), text::cat("field \"", field_, "\"")});
    return true;
  }
  text_of(field_) = std::move(value);
  return true;
}

bool Reader::parse_error(std::size_t position,
                         const std::string& /*token*/,
                         const nlohmann::detail::exception& what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error ...".
  const std::string_view all = what.what();
  const std::size_t column = all.find(", column ");
  const std::size_t colon = column == std::string_view::npos ? column : all.find(": ", column);
  const std::string_view reason = colon == std::string_view::npos ? all : all.substr(colon + 2);
  return fail(usage(text::cat("column ", position, ": no valid JSON: ", reason),
                    "one line is one JSON object; check it with: jq -c . JOBS.jsonl"));
}

Result<Program> program_of(Raw& raw) {
  const int given =
      int{raw.code.has_value()} + int{raw.file.has_value()} + int{raw.command.has_value()};
  if (given != 1) {
    return usage(given == 0 ? R"(nothing to run: no "code", "file" or "command")"
                            : R"(more than one of "code", "file" and "command")",
                 R"json(one job runs one program: {"code": "print(1)"})json");
  }
  if (raw.command) {
    if (raw.args) {
      return usage(R"("args" and "command" do not go together)",
                   R"(a command holds its arguments: ["ls", "-l"])");
    }
    if (raw.command->empty() || raw.command->front().empty()) {
      return usage(R"(field "command" names no program)");
    }
    return Program{ProgramKind::kCommand, {}, std::move(*raw.command)};
  }
  std::vector<std::string> args = std::move(raw.args).value_or(std::vector<std::string>());
  if (raw.code) return Program{ProgramKind::kCode, std::move(*raw.code), std::move(args)};
  if (raw.file->empty()) return usage(R"(field "file" is an empty name)");
  return Program{ProgramKind::kFile, std::move(*raw.file), std::move(args)};
}

std::vector<Override> overrides_of(Raw& raw) {
  std::vector<Override> all;
  for (auto& [key, value] : raw.set) {
    std::string where = text::cat("field \"set\": ", key);
    all.push_back({std::move(key), std::move(value), std::move(where)});
  }
  std::move(raw.keys.begin(), raw.keys.end(), std::back_inserter(all));
  for (std::string& name : raw.env_pass) {
    std::string where = text::cat("field \"env\": ", name);
    all.push_back({"env_pass", std::move(name), std::move(where), Override::Mode::kAdd});
  }
  for (auto& [name, value] : raw.env) {
    std::string where = text::cat("field \"env\": ", name);
    all.push_back({text::cat("env.", name), std::move(value), std::move(where)});
  }
  for (std::string& mount : raw.mounts) {
    all.push_back({"mounts", std::move(mount), "field \"mount\"", Override::Mode::kAdd});
  }
  return all;
}

}  // namespace

Result<BatchJob> parse_batch_job(std::string_view line, std::span<const KeyField> keys) {
  if (const std::size_t nul = line.find('\0'); nul != std::string_view::npos) {
    return usage(text::cat("column ", nul + 1, ": a NUL byte"), "a job list is a text file");
  }
  Reader reader(keys);
  const bool is_read = nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
  if (reader.error()) return *reader.error();
  if (!is_read) return usage("no valid JSON");
  Raw& raw = reader.raw();
  BatchJob job;
  if (raw.id) {
    if (raw.id->empty() || raw.id->size() > kLongestJobId) {
      return usage(text::cat("field \"id\" has ", raw.id->size(), " bytes"),
                   text::cat("an id has 1 to ", kLongestJobId, " bytes"));
    }
    job.id = std::move(*raw.id);
  }
  SBX_ASSIGN(job.program, program_of(raw));
  job.overrides = overrides_of(raw);
  job.input = std::move(raw.input);
  job.profile = std::move(raw.profile);
  job.out = std::move(raw.out);
  job.allow_outside = raw.allow_outside;
  job.inputs = std::move(raw.inputs);
  job.require = std::move(raw.require);
  job.packages = std::move(raw.packages);
  return job;
}

Options batch_options(const Options& defaults, BatchJob job) {
  const auto add = [](auto& list, auto& more) {
    list.insert(
        list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  Options options = defaults;
  options.program = std::move(job.program);
  if (job.profile) options.profile = std::move(job.profile);
  if (job.out) options.out = std::move(job.out);
  options.allow_outside = defaults.allow_outside || job.allow_outside;
  add(options.overrides, job.overrides);
  add(options.inputs, job.inputs);
  add(options.require, job.require);
  add(options.packages, job.packages);
  options.capture = true;
  return options;
}

}  // namespace sbx::run
