// Codec: see codec.h.
#include "core/ipc/codec.h"

#include <type_traits>
#include <utility>

namespace sbx::ipc {

void Writer::number(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    u8(static_cast<uint8_t>(value >> (8 * i)));
  }
}

void Writer::str(std::string_view value) {
  u32(static_cast<uint32_t>(value.size()));
  out_.append(value);
}

void Writer::list(const std::vector<std::string>& items) {
  u32(static_cast<uint32_t>(items.size()));
  for (const std::string& item : items) {
    str(item);
  }
}

uint64_t Reader::number(size_t bytes) {
  if (!ok_ || in_.size() < bytes) {
    ok_ = false;
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<uint8_t>(in_[i])} << (8 * i);
  }
  in_.remove_prefix(bytes);
  return value;
}

std::string Reader::str() {
  const uint32_t size = u32();
  if (!ok_ || in_.size() < size) {
    ok_ = false;
    return {};
  }
  std::string value(in_.substr(0, size));
  in_.remove_prefix(size);
  return value;
}

std::vector<std::string> Reader::list() {
  const uint32_t count = u32();
  std::vector<std::string> items;
  // Each item takes at least its four length bytes, which bounds the count before anything grows.
  if (!ok_ || count > kMaxItems || in_.size() / 4 < count) {
    ok_ = false;
    return items;
  }
  items.reserve(count);
  for (uint32_t i = 0; i < count && ok_; ++i) {
    items.push_back(str());
  }
  return items;
}

namespace {

struct BodyWriter {
  Writer& w;
  void operator()(const Setup& m) const {
    w.u16(m.version);
    w.str(m.plan);
  }
  void operator()(const Exec& m) const {
    w.u32(m.id);
    w.list(m.argv);
    w.list(m.env);
    w.str(m.cwd);
    w.u8(m.tty ? 1 : 0);
    w.u8(m.is_last ? 1 : 0);
    w.u16(m.rows);
    w.u16(m.cols);
    w.u8(m.has_user ? 1 : 0);
    w.u32(m.uid);
    w.u32(m.gid);
    w.u32(m.more_fds);
  }
  void operator()(const Signal& m) const {
    w.u32(m.id);
    w.i32(m.signo);
  }
  void operator()(const Resize& m) const {
    w.u32(m.id);
    w.u16(m.rows);
    w.u16(m.cols);
  }
  void operator()(const Ready& m) const { w.u16(m.version); }
  void operator()(const Begin& m) const {
    w.u16(m.version);
    w.u8(m.has_id_range ? 1 : 0);
    w.u64(m.ignored_signals);
    w.str(m.base);
  }
  void operator()(const SetupFailed& m) const {
    w.str(m.step);
    w.str(m.call);
    w.i32(m.error);
  }
  void operator()(const Started& m) const {
    w.u32(m.id);
    w.i32(m.pid);
  }
  void operator()(const ExecFailed& m) const {
    w.u32(m.id);
    w.u8(m.is_program ? 1 : 0);
    w.str(m.what);
    w.i32(m.error);
  }
  void operator()(const Exited& m) const {
    w.u32(m.id);
    w.i32(m.wait_status);
  }
  void operator()(const SetFrozen& m) const { w.u8(m.is_frozen ? 1 : 0); }
  void operator()(const FrozenSet& m) const {
    w.u8(m.is_frozen ? 1 : 0);
    w.i32(m.error);
  }
  void operator()(const Files& m) const {
    w.u32(m.id);
    w.u8(static_cast<uint8_t>(m.op));
    w.str(m.path);
    w.str(m.root_name);
    w.u8(m.is_following ? 1 : 0);
    w.u8(m.is_announcing ? 1 : 0);
    w.u8(m.is_resuming ? 1 : 0);
  }
  void operator()(const Running& m) const {
    w.u32(m.id);
    w.i32(m.pid);
    w.u8(m.tty ? 1 : 0);
    w.u8(m.is_worker ? 1 : 0);
    w.u8(m.has_exited ? 1 : 0);
    w.u8(m.has_in ? 1 : 0);
    w.u8(m.has_out ? 1 : 0);
    w.u8(m.has_err ? 1 : 0);
  }
};

void read_into(Reader& r, Setup& m) {
  m.version = r.u16();
  m.plan = r.str();
}
void read_into(Reader& r, Exec& m) {
  m.id = r.u32();
  m.argv = r.list();
  m.env = r.list();
  m.cwd = r.str();
  m.tty = r.u8() != 0;
  m.is_last = r.u8() != 0;
  m.rows = r.u16();
  m.cols = r.u16();
  m.has_user = r.u8() != 0;
  m.uid = r.u32();
  m.gid = r.u32();
  m.more_fds = r.u32();
  if (m.more_fds > kMaxMoreFds) r.fail();
}
void read_into(Reader& r, Signal& m) {
  m.id = r.u32();
  m.signo = r.i32();
}
void read_into(Reader& r, Resize& m) {
  m.id = r.u32();
  m.rows = r.u16();
  m.cols = r.u16();
}
void read_into(Reader& r, Ready& m) {
  m.version = r.u16();
}
void read_into(Reader& r, Begin& m) {
  m.version = r.u16();
  m.has_id_range = r.u8() != 0;
  m.ignored_signals = r.u64();
  m.base = r.str();
}
void read_into(Reader& r, SetupFailed& m) {
  m.step = r.str();
  m.call = r.str();
  m.error = r.i32();
}
void read_into(Reader& r, Started& m) {
  m.id = r.u32();
  m.pid = r.i32();
}
void read_into(Reader& r, ExecFailed& m) {
  m.id = r.u32();
  m.is_program = r.u8() != 0;
  m.what = r.str();
  m.error = r.i32();
}
void read_into(Reader& r, Exited& m) {
  m.id = r.u32();
  m.wait_status = r.i32();
}
void read_into(Reader& r, SetFrozen& m) {
  m.is_frozen = r.u8() != 0;
}
void read_into(Reader& r, FrozenSet& m) {
  m.is_frozen = r.u8() != 0;
  m.error = r.i32();
}

void read_into(Reader& r, Files& m) {
  m.id = r.u32();
  const uint8_t op = r.u8();
  if (op >= kFilesOps) r.fail();
  m.op = static_cast<FilesOp>(op);
  m.path = r.str();
  m.root_name = r.str();
  m.is_following = r.u8() != 0;
  m.is_announcing = r.u8() != 0;
  m.is_resuming = r.u8() != 0;
}
void read_into(Reader& r, Running& m) {
  m.id = r.u32();
  m.pid = r.i32();
  m.tty = r.u8() != 0;
  m.is_worker = r.u8() != 0;
  m.has_exited = r.u8() != 0;
  m.has_in = r.u8() != 0;
  m.has_out = r.u8() != 0;
  m.has_err = r.u8() != 0;
}

template <size_t I = 0>
Result<Message> decode_as(uint16_t type, std::string_view body) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (type != I) return decode_as<I + 1>(type, body);
    std::variant_alternative_t<I, Message> message;
    Reader reader(body);
    read_into(reader, message);
    if (!reader.done()) {
      return Error(Errc::kProtocol, "message of type " + std::to_string(type) + " is malformed");
    }
    return Message(std::move(message));
  } else {
    return Error(Errc::kProtocol, "message of unknown type " + std::to_string(type));
  }
}

}  // namespace

std::string encode_body(const Message& message) {
  Writer writer;
  std::visit(BodyWriter{writer}, message);
  return writer.take();
}

std::string encode(const Message& message) {
  const std::string body = encode_body(message);
  return encode_header(message, body.size()) + body;
}

std::string encode_header(const Message& message, size_t length) {
  Writer writer;
  writer.u32(static_cast<uint32_t>(length));
  writer.u16(static_cast<uint16_t>(message.index()));
  writer.u16(0);
  return writer.take();
}

Result<Header> decode_header(std::string_view bytes, size_t max_body) {
  if (bytes.size() < kHeaderSize) return Error(Errc::kProtocol, "message header is cut short");
  Reader reader(bytes.substr(0, kHeaderSize));
  Header header;
  header.length = reader.u32();
  header.type = reader.u16();
  if (reader.u16() != 0) return Error(Errc::kProtocol, "message header has unknown flags");
  if (header.length > max_body) return Error(Errc::kProtocol, "message is longer than allowed");
  if (header.type >= std::variant_size_v<Message>) {
    return Error(Errc::kProtocol, "message of unknown type " + std::to_string(header.type));
  }
  return header;
}

Result<Message> decode_body(uint16_t type, std::string_view body) {
  return decode_as(type, body);
}

}  // namespace sbx::ipc
