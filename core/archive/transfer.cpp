// Transfer: see transfer.h.
#include "core/archive/transfer.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/archive/tar_entry.h"
#include "core/archive/tar_format.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

struct Description {
  std::string_view text;
  bool is_missing;
};

/// Indexed by NoteKind.
constexpr std::array<Description, kNoteKinds> kDescriptions{{
    {"not copied, a FIFO, socket or device", true},
    {"not copied, it cannot be read", true},
    {"changed while it was copied", true},
    {"a user attribute is lost", false},
    {"an access control list is lost", false},
    {"file capabilities are never copied", false},
    {"setuid and setgid bits are never copied", false},
    {"not copied, a file system of the kernel", true},
    {"not copied, too deep", true},
    {"a hard link became a file of its own", false},
}};

constexpr std::string_view kMagic = "sbx-transfer-1";

void add(std::string& out, std::string_view field) {
  out += text::cat(field.size(), ':');
  out.append(field);
}

void add(std::string& out, std::uint64_t number) {
  add(out, std::string_view(std::to_string(number)));
}

/// Takes fields of the form "LENGTH:BYTES" from the front of a text.
class Fields {
 public:
  explicit Fields(std::string_view text) : text_(text) {}

  Result<std::string_view> bytes() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) return malformed();
    SBX_ASSIGN(const std::uint64_t size, tar::decimal(text_.substr(0, colon)));
    text_.remove_prefix(colon + 1);
    if (size > text_.size()) return malformed();
    const std::string_view field = text_.substr(0, static_cast<std::size_t>(size));
    text_.remove_prefix(field.size());
    return field;
  }
  Result<std::uint64_t> number() {
    SBX_ASSIGN(const std::string_view field, bytes());
    return tar::decimal(field);
  }
  static Error malformed() { return Error(Errc::kProtocol, "malformed report of a copy"); }
  bool is_empty() const { return text_.empty(); }

 private:
  std::string_view text_;
};

Status read_note(Fields& fields, Note& note) {
  SBX_ASSIGN(note.count, fields.number());
  SBX_ASSIGN(const std::uint64_t paths, fields.number());
  if (paths > kMaxNotePaths) return Fields::malformed();
  for (std::uint64_t i = 0; i < paths; ++i) {
    SBX_ASSIGN(const std::string_view path, fields.bytes());
    note.paths.emplace_back(path);
  }
  return {};
}

Status read_error(Fields& fields, TransferReport& report) {
  SBX_ASSIGN(const std::uint64_t has_error, fields.number());
  if (has_error == 0) return {};
  SBX_ASSIGN(const std::uint64_t code, fields.number());
  if (code > static_cast<std::uint64_t>(Errc::kInternal)) return Fields::malformed();
  SBX_ASSIGN(const std::uint64_t is_cut, fields.number());
  SBX_ASSIGN(const std::string_view message, fields.bytes());
  SBX_ASSIGN(const std::string_view hint, fields.bytes());
  report.is_cut = is_cut != 0;
  report.error = Error(static_cast<Errc>(code), std::string(message)).with_hint(std::string(hint));
  return {};
}

}  // namespace

std::string_view describe(NoteKind kind) {
  return kDescriptions[static_cast<std::size_t>(kind)].text;
}

bool is_missing(NoteKind kind) {
  return kDescriptions[static_cast<std::size_t>(kind)].is_missing;
}

void TransferReport::note(NoteKind kind, std::string_view path) {
  Note& note = notes[static_cast<std::size_t>(kind)];
  ++note.count;
  if (note.paths.size() < kMaxNotePaths) note.paths.emplace_back(path);
}

void TransferReport::fail(Error why) {
  is_cut = why.sys_errno() == EPIPE || why.message().ends_with(kStreamEndedEarly);
  error = std::move(why);
}

std::string encode(const TransferReport& report) {
  std::string out;
  add(out, kMagic);
  add(out, report.entries);
  add(out, report.bytes);
  add(out, report.skipped);
  for (const Note& note : report.notes) {
    add(out, note.count);
    add(out, std::uint64_t{note.paths.size()});
    for (const std::string& path : note.paths) {
      // Long paths are for people to recognise, not to open.
      add(out, std::string_view(path).substr(0, 4096));
    }
  }
  add(out, std::uint64_t{report.error.has_value() ? 1U : 0U});
  if (report.error.has_value()) {
    add(out, static_cast<std::uint64_t>(report.error->code()));
    add(out, std::uint64_t{report.is_cut ? 1U : 0U});
    add(out, std::string_view(report.error->message()).substr(0, kMaxTarPath));
    add(out, std::string_view(report.error->hint()).substr(0, kMaxTarPath));
  }
  return out;
}

Result<TransferReport> decode_report(std::string_view text) {
  if (text.size() > kMaxReport) return Fields::malformed();
  Fields fields(text);
  TransferReport report;
  SBX_ASSIGN(const std::string_view magic, fields.bytes());
  if (magic != kMagic) return Fields::malformed();
  SBX_ASSIGN(report.entries, fields.number());
  SBX_ASSIGN(report.bytes, fields.number());
  SBX_ASSIGN(report.skipped, fields.number());
  for (Note& note : report.notes) {
    SBX_TRY(read_note(fields, note));
  }
  SBX_TRY(read_error(fields, report));
  if (!fields.is_empty()) return Fields::malformed();
  return report;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sbx::archive
