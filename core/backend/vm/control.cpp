// Control: see control.h.
#include "core/backend/vm/control.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/text.h"

namespace sbx::vm::control {

namespace {

using ipc::Fields;
using List = Fields::List;

/// A list that is full of commands is cut there: the answer must fit into a frame.
constexpr std::size_t kMostCommands = kLongestAnswer / 2;
constexpr std::size_t kLongestName = 15;
constexpr std::uint64_t kMostNumber = std::numeric_limits<std::int64_t>::max();

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("malformed ", what, " in a control frame"));
}

std::int64_t as_number(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min(value, kMostNumber));
}

Result<std::uint64_t> number(const Fields& fields, std::string_view key) {
  const std::int64_t value = fields.number(key, -1);
  if (value < 0) return malformed(key);
  return static_cast<std::uint64_t>(value);
}

void put(Fields& fields, std::string_view key, const std::optional<std::uint64_t>& value) {
  if (value.has_value()) fields.set(key, as_number(*value));
}

Result<std::optional<std::uint64_t>> optional_number(const Fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::optional<std::uint64_t>();
  SBX_ASSIGN(const std::uint64_t value, number(fields, key));
  return std::optional(value);
}

Result<std::uint32_t> parse_id(std::string_view word) {
  SBX_ASSIGN(const std::uint64_t value, parse_count(word));
  if (value > std::numeric_limits<std::uint32_t>::max()) return malformed("id");
  return static_cast<std::uint32_t>(value);
}

/// The list `key`, which holds `stride` texts for each of its records.
Result<List> records(const Fields& fields, std::string_view key, std::size_t stride) {
  List list = fields.list(key);
  if (list.size() % stride != 0) return malformed(key);
  return list;
}

bool is_flag(const std::string& word) {
  return word == "1";
}

std::string flag_word(bool is_on) {
  return is_on ? "1" : "0";
}

/// pid host_pid parent session uid state exec|- memory cpu_ns started_ns NUL name NUL command
std::string process_line(const backend::ProcessInfo& info, std::size_t& commands_left) {
  const std::string_view command =
      std::string_view(info.command).substr(0, std::min(commands_left, backend::kMaxCommand));
  commands_left -= command.size();
  const std::string exec = info.exec_id.has_value() ? text::cat(*info.exec_id) : "-";
  std::string out = text::cat(info.pid,
                              ' ',
                              info.host_pid,
                              ' ',
                              info.parent,
                              ' ',
                              info.session,
                              ' ',
                              info.uid,
                              ' ',
                              info.state,
                              ' ',
                              exec,
                              ' ',
                              info.memory,
                              ' ',
                              info.cpu_ns,
                              ' ',
                              info.started_ns);
  out += '\0';
  out += std::string_view(info.name).substr(0, kLongestName);
  out += '\0';
  out += command;
  return out;
}

Result<std::int32_t> parse_pid(std::string_view word) {
  SBX_ASSIGN(const std::uint64_t value, parse_count(word));
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    return malformed("pid");
  }
  return static_cast<std::int32_t>(value);
}

Result<backend::ProcessInfo> parse_process(std::string_view line) {
  constexpr std::size_t kNumbers = 10;
  const std::size_t name_at = line.find('\0');
  if (name_at == std::string_view::npos) return malformed("process");
  const std::size_t command_at = line.find('\0', name_at + 1);
  if (command_at == std::string_view::npos) return malformed("process");
  const auto words = text::split(line.substr(0, name_at), ' ');
  if (words.size() != kNumbers || words[5].size() != 1) return malformed("process");
  backend::ProcessInfo info;
  SBX_ASSIGN(info.pid, parse_pid(words[0]));
  SBX_ASSIGN(info.host_pid, parse_pid(words[1]));
  SBX_ASSIGN(info.parent, parse_pid(words[2]));
  SBX_ASSIGN(info.session, parse_pid(words[3]));
  SBX_ASSIGN(info.uid, parse_id(words[4]));
  info.state = words[5].front();
  if (info.state < 'A' || info.state > 'z') return malformed("process state");
  if (words[6] != "-") {
    SBX_ASSIGN(info.exec_id, parse_id(words[6]));
  }
  SBX_ASSIGN(info.memory, parse_count(words[7]));
  SBX_ASSIGN(info.cpu_ns, parse_count(words[8]));
  SBX_ASSIGN(info.started_ns, parse_count(words[9]));
  info.name = line.substr(name_at + 1, command_at - name_at - 1);
  info.command = line.substr(command_at + 1);
  if (info.name.size() > kLongestName || info.command.size() > backend::kMaxCommand ||
      info.command.find('\0') != std::string::npos) {
    return malformed("process name");
  }
  return info;
}

}  // namespace

std::string image_layer(std::size_t index) {
  return text::cat("/run/sbx/image/", index);
}

Fields flag_request(std::string_view op, bool is_on) {
  Fields fields(op);
  fields.set("on", is_on);
  return fields;
}

Fields value_request(std::string_view op, std::uint64_t value) {
  Fields fields(op);
  fields.set("value", as_number(value));
  return fields;
}

Result<std::uint64_t> decode_value(const Fields& answer) {
  return number(answer, "value");
}

Result<bool> decode_flag(const Fields& answer) {
  if (!answer.has("value")) return malformed("value");
  return answer.flag("value");
}

Fields encode(const Wake& wake) {
  Fields fields(op::kWake);
  fields.set("seed", wake.seed);
  fields.set("realtime_ns", wake.realtime_ns);
  fields.set("hostname", wake.hostname);
  fields.set("machine_id", wake.machine_id);
  return fields;
}

Result<Wake> decode_wake(const Fields& request) {
  Wake wake;
  wake.seed = request.text("seed");
  wake.realtime_ns = request.number("realtime_ns");
  wake.hostname = request.text("hostname");
  wake.machine_id = request.text("machine_id");
  if (wake.seed.size() != kSeedSize) return malformed("seed");
  if (wake.realtime_ns <= 0) return malformed("realtime_ns");
  const bool is_hex = wake.machine_id.find_first_not_of("0123456789abcdef") == std::string::npos &&
                      (wake.machine_id.empty() || wake.machine_id.size() == kSeedSize);
  if (!is_hex) return malformed("machine_id");
  return wake;
}

Fields encode(const Root& root) {
  Fields fields(op::kRoot);
  List shares;
  for (const Share& share : root.shares) {
    shares.insert(shares.end(), {share.tag, share.path, flag_word(share.is_read_only)});
  }
  List links;
  for (const RootLink& link : root.links) {
    links.insert(links.end(), {link.path, link.target});
  }
  List images;
  for (const ImageDisk& image : root.images) {
    images.insert(images.end(), {image.device, image.type});
  }
  fields.set("shares", std::move(shares));
  fields.set("links", std::move(links));
  List files;
  for (const RootFile& file : root.files) {
    files.insert(files.end(), {file.path, file.content});
  }
  fields.set("files", std::move(files));
  List binds;
  for (const RootBind& bind : root.binds) {
    binds.insert(binds.end(), {bind.source, bind.path, flag_word(bind.is_dir)});
  }
  fields.set("binds", std::move(binds));
  fields.set("images", std::move(images));
  fields.set("state_device", root.state_device);
  fields.set("is_state_kept", root.is_state_kept);
  return fields;
}

Result<Root> decode_root(const Fields& request) {
  Root root;
  SBX_ASSIGN(const List shares, records(request, "shares", 3));
  for (std::size_t i = 0; i < shares.size(); i += 3) {
    root.shares.push_back({shares[i], shares[i + 1], is_flag(shares[i + 2])});
  }
  SBX_ASSIGN(const List links, records(request, "links", 2));
  for (std::size_t i = 0; i < links.size(); i += 2) {
    root.links.push_back({links[i], links[i + 1]});
  }
  SBX_ASSIGN(const List files, records(request, "files", 2));
  for (std::size_t i = 0; i < files.size(); i += 2) {
    root.files.push_back({files[i], files[i + 1]});
  }
  SBX_ASSIGN(const List binds, records(request, "binds", 3));
  for (std::size_t i = 0; i < binds.size(); i += 3) {
    root.binds.push_back({binds[i], binds[i + 1], is_flag(binds[i + 2])});
  }
  SBX_ASSIGN(const List images, records(request, "images", 2));
  for (std::size_t i = 0; i < images.size(); i += 2) {
    root.images.push_back({images[i], images[i + 1]});
  }
  root.state_device = request.text("state_device");
  root.is_state_kept = request.flag("is_state_kept");
  return root;
}

Fields encode(const Launch& launch) {
  Fields fields(op::kLaunch);
  fields.set("id", launch.id);
  fields.set("profile", launch.profile);
  fields.set("is_lasting", launch.is_lasting);
  List files;
  for (const backend::InputFile& file : launch.files) {
    files.insert(files.end(), {file.path, file.content});
  }
  fields.set("files", std::move(files));
  if (launch.image.has_value()) {
    List ids{text::cat(launch.image->user.uid), text::cat(launch.image->user.gid)};
    for (const std::uint32_t group : launch.image->groups) {
      ids.push_back(text::cat(group));
    }
    fields.set("image_ids", std::move(ids));
    fields.set("image_volumes", launch.image->volumes);
  }
  if (launch.layers.has_value()) {
    fields.set("lowers", launch.layers->lowers);
    fields.set("upper", launch.layers->upper);
  }
  return fields;
}

Result<Launch> decode_launch(const Fields& request) {
  Launch launch;
  launch.id = request.text("id");
  launch.profile = request.text("profile");
  launch.is_lasting = request.flag("is_lasting");
  SBX_ASSIGN(const List files, records(request, "files", 2));
  for (std::size_t i = 0; i < files.size(); i += 2) {
    launch.files.push_back({files[i], files[i + 1]});
  }
  if (request.has("image_ids")) {
    const List ids = request.list("image_ids");
    if (ids.size() < 2) return malformed("image_ids");
    Launch::Image image;
    SBX_ASSIGN(image.user.uid, parse_id(ids[0]));
    SBX_ASSIGN(image.user.gid, parse_id(ids[1]));
    for (std::size_t i = 2; i < ids.size(); ++i) {
      image.groups.emplace_back();
      SBX_ASSIGN(image.groups.back(), parse_id(ids[i]));
    }
    image.volumes = request.list("image_volumes");
    launch.image = std::move(image);
  }
  if (request.has("upper")) launch.layers = {request.list("lowers"), request.text("upper")};
  return launch;
}

Fields encode(const Hello& hello) {
  Fields fields("ok");
  fields.set("version", hello.version);
  fields.set("kernel", hello.kernel);
  fields.set("features", hello.features);
  fields.set("init_us", as_number(hello.init_us));
  fields.set("ready_us", as_number(hello.ready_us));
  return fields;
}

Result<Hello> decode_hello(const Fields& answer) {
  Hello hello;
  hello.version = answer.number("version");
  hello.kernel = answer.text("kernel");
  hello.features = answer.list("features");
  SBX_ASSIGN(hello.init_us, number(answer, "init_us"));
  SBX_ASSIGN(hello.ready_us, number(answer, "ready_us"));
  return hello;
}

Fields encode(const Launched& launched) {
  Fields fields("ok");
  List limits;
  for (const confine::InForce& limit : launched.limits) {
    limits.insert(limits.end(),
                  {limit.limit, limit.value, limit.mechanism, flag_word(limit.approximate)});
  }
  fields.set("limits", std::move(limits));
  fields.set("warnings", launched.warnings);
  if (launched.cpu_time.has_value()) fields.set("cpu_time_ms", launched.cpu_time->v);
  fields.set("has_freezer", launched.has_freezer);
  List spent;
  for (const auto& [what, micros] : launched.spent) {
    spent.insert(spent.end(), {what, text::cat(micros)});
  }
  fields.set("spent", std::move(spent));
  return fields;
}

Result<Launched> decode_launched(const Fields& answer) {
  Launched launched;
  SBX_ASSIGN(const List limits, records(answer, "limits", 4));
  for (std::size_t i = 0; i < limits.size(); i += 4) {
    launched.limits.push_back({limits[i], limits[i + 1], limits[i + 2], is_flag(limits[i + 3])});
  }
  launched.warnings = answer.list("warnings");
  if (answer.has("cpu_time_ms")) {
    const std::int64_t millis = answer.number("cpu_time_ms", -1);
    if (millis < 0) return malformed("cpu_time_ms");
    launched.cpu_time = Millis{millis};
  }
  launched.has_freezer = answer.flag("has_freezer");
  SBX_ASSIGN(const List spent, records(answer, "spent", 2));
  for (std::size_t i = 0; i < spent.size(); i += 2) {
    SBX_ASSIGN(const std::uint64_t micros, parse_count(spent[i + 1]));
    launched.spent.emplace_back(spent[i], micros);
  }
  return launched;
}

Fields encode(const backend::LiveUsage& usage) {
  Fields fields("ok");
  put(fields, "cpu_ns", usage.cpu_ns);
  put(fields, "memory", usage.memory);
  put(fields, "memory_peak", usage.memory_peak);
  put(fields, "processes", usage.processes);
  put(fields, "read_bytes", usage.read_bytes);
  put(fields, "write_bytes", usage.write_bytes);
  fields.set("is_summed", usage.is_summed);
  fields.set("is_io_summed", usage.is_io_summed);
  return fields;
}

Result<backend::LiveUsage> decode_usage(const Fields& answer) {
  backend::LiveUsage usage;
  SBX_ASSIGN(usage.cpu_ns, optional_number(answer, "cpu_ns"));
  SBX_ASSIGN(usage.memory, optional_number(answer, "memory"));
  SBX_ASSIGN(usage.memory_peak, optional_number(answer, "memory_peak"));
  SBX_ASSIGN(usage.processes, optional_number(answer, "processes"));
  SBX_ASSIGN(usage.read_bytes, optional_number(answer, "read_bytes"));
  SBX_ASSIGN(usage.write_bytes, optional_number(answer, "write_bytes"));
  usage.is_summed = answer.flag("is_summed");
  usage.is_io_summed = answer.flag("is_io_summed");
  return usage;
}

Fields encode(const std::vector<backend::ProcessInfo>& processes) {
  List lines;
  std::size_t commands_left = kMostCommands;
  for (const backend::ProcessInfo& info : processes) {
    if (lines.size() == backend::kMaxProcesses) break;
    lines.push_back(process_line(info, commands_left));
  }
  Fields fields("ok");
  fields.set("processes", std::move(lines));
  return fields;
}

Result<std::vector<backend::ProcessInfo>> decode_processes(const Fields& answer) {
  const List lines = answer.list("processes");
  if (lines.size() > backend::kMaxProcesses) return malformed("processes");
  std::vector<backend::ProcessInfo> out;
  for (const std::string& line : lines) {
    Result<backend::ProcessInfo> info = parse_process(line);
    if (!info.ok()) return malformed("process");
    out.push_back(std::move(info).value());
  }
  return out;
}

Fields encode(const backend::FinalState& state) {
  Fields fields("ok");
  fields.set("oom_kills", as_number(state.oom_kills));
  fields.set("pids_denied", as_number(state.pids_denied));
  put(fields, "cpu_ns", state.usage.cpu_ns);
  put(fields, "max_memory", state.usage.max_memory);
  put(fields, "read_bytes", state.usage.read_bytes);
  put(fields, "write_bytes", state.usage.write_bytes);
  return fields;
}

Result<backend::FinalState> decode_final(const Fields& answer) {
  backend::FinalState state;
  SBX_ASSIGN(state.oom_kills, number(answer, "oom_kills"));
  SBX_ASSIGN(state.pids_denied, number(answer, "pids_denied"));
  SBX_ASSIGN(state.usage.cpu_ns, optional_number(answer, "cpu_ns"));
  SBX_ASSIGN(state.usage.max_memory, optional_number(answer, "max_memory"));
  SBX_ASSIGN(state.usage.read_bytes, optional_number(answer, "read_bytes"));
  SBX_ASSIGN(state.usage.write_bytes, optional_number(answer, "write_bytes"));
  return state;
}

Fields encode(const Disk& disk) {
  Fields fields("ok");
  fields.set("total", as_number(disk.total));
  fields.set("free", as_number(disk.free));
  fields.set("inodes_free", as_number(disk.inodes_free));
  return fields;
}

Result<Disk> decode_disk(const Fields& answer) {
  Disk disk;
  SBX_ASSIGN(disk.total, number(answer, "total"));
  SBX_ASSIGN(disk.free, number(answer, "free"));
  SBX_ASSIGN(disk.inodes_free, number(answer, "inodes_free"));
  return disk;
}

}  // namespace sbx::vm::control
