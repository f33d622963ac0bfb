// QMP: see qmp.h.
#include "core/backend/vm/qmp.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::vm {

namespace {

using nlohmann::json;

constexpr size_t kMaxFields = 256;
constexpr size_t kMaxText = 4096;
constexpr int64_t kNsPerMs = 1'000'000;

Error gone() {
  return {Errc::kProtocol, "QEMU has closed its control socket"};
}

Error late() {
  return {Errc::kTimeout, "QEMU does not answer on its control socket"};
}

/// nullopt for objects, lists and null.
std::optional<std::string> as_text(const json& value) {
  if (const auto* text = value.get_ptr<const json::string_t*>()) return text->substr(0, kMaxText);
  if (const auto* flag = value.get_ptr<const json::boolean_t*>()) return *flag ? "true" : "false";
  // Unsigned numbers are also integers; the order matters.
  if (const auto* n = value.get_ptr<const json::number_unsigned_t*>()) return text::cat(*n);
  if (const auto* n = value.get_ptr<const json::number_integer_t*>()) return text::cat(*n);
  return std::nullopt;
}

void collect(const json& object, const std::string& prefix, bool is_deep, QmpMessage& out) {
  for (const auto& [name, value] : object.items()) {
    if (out.fields.size() >= kMaxFields || name.size() > kMaxText) return;
    if (auto text = as_text(value)) out.fields[prefix + name] = std::move(*text);
    if (is_deep && value.is_object()) collect(value, text::cat(name, "."), false, out);
  }
}

Status wait_for(int fd, int16_t events, int64_t until) {
  const int64_t left = (until - monotonic_ns()) / kNsPerMs;
  std::array<pollfd, 1> polled{{{fd, events, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(polled, Millis{std::max<int64_t>(left, 0)}));
  if (ready == 0) return late();
  return {};
}

}  // namespace

std::optional<std::string> QmpMessage::get(std::string_view name) const {
  const auto found = fields.find(name);
  if (found == fields.end()) return std::nullopt;
  return found->second;
}

Result<QmpMessage> parse_qmp(std::string_view line) {
  const Error bad(Errc::kProtocol, "QEMU's control socket: not a message");
  if (line.size() > kMaxQmpLine) return bad;
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return bad;
  QmpMessage message;
  if (const auto id = object.find("id"); id != object.end()) {
    if (const auto* n = id->get_ptr<const json::number_unsigned_t*>()) message.id = *n;
  }
  struct Shape {
    const char* key;
    QmpMessage::Kind kind;
  };
  constexpr std::array<Shape, 4> kShapes{{{"QMP", QmpMessage::Kind::kGreeting},
                                          {"error", QmpMessage::Kind::kError},
                                          {"return", QmpMessage::Kind::kReturn},
                                          {"event", QmpMessage::Kind::kEvent}}};
  for (const Shape& shape : kShapes) {
    const auto body = object.find(shape.key);
    if (body == object.end()) continue;
    message.kind = shape.kind;
    if (body->is_object()) collect(*body, {}, true, message);
    return message;
  }
  return bad;
}

Result<std::string> Qmp::read_line(int64_t until) {
  size_t looked = 0;
  for (;;) {
    const size_t end = buffer_.find('\n', looked);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    looked = buffer_.size();
    if (buffer_.size() > kMaxQmpLine) {
      return Error(Errc::kProtocol, "QEMU's control socket: a line without an end");
    }
    SBX_TRY(wait_for(socket_.get(), POLLIN, until));
    std::array<char, 4096> chunk{};
    const auto got = sys::read(socket_.get(), chunk.data(), chunk.size());
    if (!got.ok()) {
      if (got.error().sys_errno() == EAGAIN) continue;
      return gone();
    }
    if (got.value() == 0) return gone();
    buffer_.append(chunk.data(), got.value());
  }
}

Status Qmp::send(std::string_view line, int64_t until, int fd) {
  while (!line.empty()) {
    iovec part{const_cast<char*>(line.data()), line.size()};  // NOLINT: sendmsg(2) does not write
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (fd >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE || errno == ECONNRESET) return gone();
      if (errno != EAGAIN) return sys_error("write to QEMU's control socket");
      SBX_TRY(wait_for(socket_.get(), POLLOUT, until));
      continue;
    }
    fd = -1;  // went with the first byte
    line.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<QmpMessage> Qmp::answer_to(uint64_t id, int64_t until) {
  for (;;) {
    SBX_ASSIGN(const std::string line, read_line(until));
    SBX_ASSIGN(QmpMessage message, parse_qmp(line));
    const bool is_answer =
        message.kind == QmpMessage::Kind::kReturn || message.kind == QmpMessage::Kind::kError;
    if (!is_answer || message.id < id) continue;  // an event, or too late for whoever asked
    if (message.id > id) {
      return Error(Errc::kProtocol, "QEMU's control socket: an answer that nobody asked for");
    }
    return message;
  }
}

Status Qmp::open(int64_t until) {
  if (is_open_) return {};
  SBX_TRY(sys::set_nonblocking(socket_.get(), true));
  SBX_ASSIGN(const std::string line, read_line(until));
  SBX_ASSIGN(const QmpMessage greeting, parse_qmp(line));
  if (greeting.kind != QmpMessage::Kind::kGreeting) {
    return Error(Errc::kProtocol, "QEMU's control socket: no greeting");
  }
  const uint64_t id = next_id_++;
  SBX_TRY(send(text::cat(R"({"execute":"qmp_capabilities","id":)", id, "}\n"), until, -1));
  SBX_ASSIGN(const QmpMessage answer, answer_to(id, until));
  if (answer.kind != QmpMessage::Kind::kReturn) {
    return Error(Errc::kProtocol, "QEMU's control socket: no negotiation");
  }
  is_open_ = true;
  return {};
}

Result<QmpMessage> Qmp::execute(std::string_view command,
                                std::string_view arguments,
                                Millis deadline,
                                int fd) {
  const int64_t until = monotonic_ns() + deadline.v * kNsPerMs;
  SBX_TRY(open(until));
  const uint64_t id = next_id_++;
  std::string line = text::cat(R"({"execute":")", command, R"(","id":)", id);
  if (!arguments.empty()) line += text::cat(R"(,"arguments":)", arguments);
  line += "}\n";
  SBX_TRY(send(line, until, fd));
  SBX_ASSIGN(QmpMessage answer, answer_to(id, until));
  if (answer.kind == QmpMessage::Kind::kError) {
    return Error(Errc::kUnsupported,
                 text::cat("QEMU refuses ", command, ": ", answer.get("desc").value_or("?")));
  }
  return answer;
}

}  // namespace sbx::vm
