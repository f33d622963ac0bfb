// Sealed: see sealed.h.
#include "core/backend/vm/sealed.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/paths.h"

#include <nettle/gcm.h>
#include <nettle/hmac.h>

namespace sbx::vm {

namespace {

constexpr std::string_view kMagic = "SBXSEAL1";
constexpr size_t kSaltSize = 32;
constexpr size_t kTagSize = GCM_DIGEST_SIZE;
constexpr size_t kPiece = size_t{256} << 10;
constexpr uint32_t kLast = uint32_t{1} << 31;
constexpr const char* kKeyFile = "images.key";

using Bytes8 = std::span<uint8_t>;

Error broken() {
  return {Errc::kProtocol, "a saved image is damaged, or was not saved with this key"};
}

/// Reads until `out` is full or the stream ends.
Result<size_t> read_full(int fd, Bytes8 out) {
  size_t done = 0;
  while (done < out.size()) {
    SBX_ASSIGN(const size_t got, sys::read(fd, std::as_writable_bytes(out.subspan(done))));
    if (got == 0) break;
    done += got;
  }
  return done;
}

Status write_full(int fd, std::span<const uint8_t> data) {
  return sys::write_all(fd, {reinterpret_cast<const char*>(data.data()), data.size()});
}

/// One file's cipher; a nonce is used once.
class Cipher {
 public:
  Cipher(const SealKey& key, std::span<const uint8_t> salt, std::string_view label) {
    constexpr std::string_view kUse = "sbx sealed stream";
    hmac_sha256_ctx mac{};
    hmac_sha256_set_key(&mac, key.size(), reinterpret_cast<const uint8_t*>(key.data()));
    add(mac, kUse);
    hmac_sha256_update(&mac, salt.size(), salt.data());
    add(mac, label);
    std::array<uint8_t, SHA256_DIGEST_SIZE> own{};
    hmac_sha256_digest(&mac, own.size(), own.data());
    gcm_aes256_set_key(&gcm_, own.data());
    ::explicit_bzero(own.data(), own.size());
    ::explicit_bzero(&mac, sizeof mac);
  }
  ~Cipher() { ::explicit_bzero(&gcm_, sizeof gcm_); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  void encrypt(std::span<const uint8_t, 4> head, Bytes8 data, std::span<uint8_t, kTagSize> tag) {
    begin(head);
    gcm_aes256_encrypt(&gcm_, data.size(), data.data(), data.data());
    gcm_aes256_digest(&gcm_, tag.size(), tag.data());
  }
  bool decrypt(std::span<const uint8_t, 4> head,
               Bytes8 data,
               std::span<const uint8_t, kTagSize> tag) {
    begin(head);
    gcm_aes256_decrypt(&gcm_, data.size(), data.data(), data.data());
    std::array<uint8_t, kTagSize> own{};
    gcm_aes256_digest(&gcm_, own.size(), own.data());
    uint8_t difference = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      difference = static_cast<uint8_t>(difference | (own[i] ^ tag[i]));
    }
    return difference == 0;
  }

 private:
  static void add(hmac_sha256_ctx& mac, std::string_view text) {
    // With its length, so that no two sequences of texts are the same bytes.
    const uint64_t size = text.size();
    hmac_sha256_update(&mac, sizeof size, reinterpret_cast<const uint8_t*>(&size));
    hmac_sha256_update(&mac, text.size(), reinterpret_cast<const uint8_t*>(text.data()));
  }
  void begin(std::span<const uint8_t, 4> head) {
    std::array<uint8_t, GCM_IV_SIZE> nonce{};
    for (size_t i = 0; i < sizeof count_; ++i) {
      nonce[i] = static_cast<uint8_t>(count_ >> (8 * i));
    }
    ++count_;
    gcm_aes256_set_iv(&gcm_, nonce.size(), nonce.data());
    gcm_aes256_update(&gcm_, head.size(), head.data());
  }

  gcm_aes256_ctx gcm_{};
  uint64_t count_ = 0;
};

std::array<uint8_t, 4> head_of(size_t size, bool is_last) {
  const uint32_t value = static_cast<uint32_t>(size) | (is_last ? kLast : 0);
  return {static_cast<uint8_t>(value),
          static_cast<uint8_t>(value >> 8U),
          static_cast<uint8_t>(value >> 16U),
          static_cast<uint8_t>(value >> 24U)};
}

uint32_t value_of(const std::array<uint8_t, 4>& head) {
  return uint32_t{head[0]} | uint32_t{head[1]} << 8U | uint32_t{head[2]} << 16U |
         uint32_t{head[3]} << 24U;
}

Status fill_random(std::span<std::byte> out) {
  SBX_ASSIGN(const UniqueFd source, sys::open("/dev/urandom", O_RDONLY));
  SBX_ASSIGN(const size_t got, sys::read(source.get(), out));
  if (got != out.size()) return Error(Errc::kSystem, "read /dev/urandom: too few bytes");
  return {};
}

Result<SealKey> read_key(int dirfd, const std::string& name) {
  SBX_ASSIGN(const UniqueFd file, sys::openat(dirfd, kKeyFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  SBX_ASSIGN(const struct stat info, sys::fstat(file.get()));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Error(Errc::kDenied, text::cat(name, " is not ours alone"))
        .with_hint(text::cat("chmod 600 ", name));
  }
  SealKey key{};
  SBX_ASSIGN(const size_t got, sys::read(file.get(), key));
  if (got != key.size() || info.st_size != static_cast<off_t>(key.size())) {
    return Error(Errc::kProtocol, text::cat(name, " is not a key of sbx"));
  }
  return key;
}

/// Whoever is first makes it; everybody else reads that one.
Status make_key(int dirfd) {
  SealKey key{};
  SBX_TRY(fill_random(key));
  SBX_ASSIGN(const UniqueFd file, sys::openat(dirfd, ".", O_TMPFILE | O_WRONLY, 0600));
  SBX_TRY(sys::fchmod(file.get(), 0600));
  SBX_TRY(sys::write_all(file.get(), {reinterpret_cast<const char*>(key.data()), key.size()}));
  ::explicit_bzero(key.data(), key.size());
  SBX_TRY(sys::fsync(file.get()));
  const std::string source = text::cat("/proc/self/fd/", file.get());
  if (::linkat(AT_FDCWD, source.c_str(), dirfd, kKeyFile, AT_SYMLINK_FOLLOW) != 0 &&
      errno != EEXIST) {
    return sys_error(text::cat("make ", kKeyFile));
  }
  return sys::fsync(dirfd);
}

}  // namespace

Result<std::string> seal_key_dir() {
  if (::geteuid() == 0) return std::string("/etc/sbx");
  auto dir = host::config_dir();
  if (!dir.has_value()) {
    return Error(Errc::kNotFound, "no directory for the key of saved machines")
        .with_hint("set HOME or XDG_CONFIG_HOME");
  }
  return std::move(*dir);
}

Result<SealKey> seal_key(const std::string& dir) {
  SBX_TRY(fs::mkdirs(dir, 0700));
  SBX_ASSIGN(const UniqueFd fd, fs::open_dir(dir));
  const std::string name = text::cat(dir, "/", kKeyFile);
  Result<SealKey> found = read_key(fd.get(), name);
  if (found.ok() || found.error().code() != Errc::kNotFound) return found;
  SBX_TRY(make_key(fd.get()));
  return read_key(fd.get(), name);
}

Status seal(int from, int to, const SealKey& key, std::string_view label) {
  std::array<uint8_t, kSaltSize> salt{};
  SBX_TRY(fill_random(std::as_writable_bytes(std::span(salt))));
  SBX_TRY(sys::write_all(to, kMagic));
  SBX_TRY(write_full(to, salt));
  Cipher cipher(key, salt, label);
  std::vector<uint8_t> piece(4 + kPiece + kTagSize);
  for (bool is_last = false; !is_last;) {
    SBX_ASSIGN(const size_t size, read_full(from, Bytes8(piece).subspan(4, kPiece)));
    is_last = size < kPiece;
    const std::array<uint8_t, 4> head = head_of(size, is_last);
    std::copy(head.begin(), head.end(), piece.begin());
    std::array<uint8_t, kTagSize> tag{};
    cipher.encrypt(head, Bytes8(piece).subspan(4, size), tag);
    std::copy(tag.begin(), tag.end(), piece.begin() + static_cast<std::ptrdiff_t>(4 + size));
    SBX_TRY(write_full(to, std::span(piece).first(4 + size + kTagSize)));
  }
  return {};
}

Status unseal(int from, int to, const SealKey& key, std::string_view label) {
  std::array<uint8_t, kMagic.size() + kSaltSize> start{};
  SBX_ASSIGN(const size_t got, read_full(from, start));
  if (got != start.size() || !std::equal(kMagic.begin(), kMagic.end(), start.begin())) {
    return broken();
  }
  Cipher cipher(key, std::span(start).subspan(kMagic.size()), label);
  std::vector<uint8_t> piece(kPiece + kTagSize);
  for (bool is_last = false; !is_last;) {
    std::array<uint8_t, 4> head{};
    SBX_ASSIGN(const size_t begun, read_full(from, head));
    const size_t size = value_of(head) & ~kLast;
    is_last = (value_of(head) & kLast) != 0;
    if (begun != head.size() || size > kPiece) return broken();
    const Bytes8 body = Bytes8(piece).first(size + kTagSize);
    SBX_ASSIGN(const size_t filled, read_full(from, body));
    if (filled != body.size()) return broken();
    std::array<uint8_t, kTagSize> tag{};
    std::copy_n(body.begin() + static_cast<std::ptrdiff_t>(size), kTagSize, tag.begin());
    if (!cipher.decrypt(head, body.first(size), tag)) return broken();
    SBX_TRY(write_full(to, body.first(size)));
  }
  uint8_t more = 0;
  SBX_ASSIGN(const size_t behind, read_full(from, Bytes8(&more, 1)));
  if (behind != 0) return broken();
  return {};
}

Status SealPipe::finish() {
  open_end.reset();
  SBX_ASSIGN(const int status, process.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Errc::kProtocol) + 1) {
    return broken();
  }
  return Error(Errc::kSystem, "the process that seals or opens a saved image has failed");
}

namespace {

enum class Way : uint8_t { kSeal, kUnseal };

Result<SealPipe> start(int file, const SealKey& key, std::string_view label, Way way) {
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  (void)sys::set_pipe_size(pipe.r.get(), 1 << 20);
  const bool is_sealing = way == Way::kSeal;
  UniqueFd& ours = is_sealing ? pipe.w : pipe.r;
  const pid_t parent = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(parent);
    (void)::prctl(PR_SET_DUMPABLE, 0);
    ours.reset();
    const Status done =
        is_sealing ? seal(pipe.r.get(), file, key, label) : unseal(file, pipe.w.get(), key, label);
    ::_exit(done.ok() ? 0 : static_cast<int>(done.error().code()) + 1);
  }
  return SealPipe{std::move(ours), ChildProcess(forked.pid, std::move(forked.pidfd))};
}

}  // namespace

Result<SealPipe> start_sealing(int to, const SealKey& key, std::string_view label) {
  return start(to, key, label, Way::kSeal);
}

Result<SealPipe> start_unsealing(int from, const SealKey& key, std::string_view label) {
  return start(from, key, label, Way::kUnseal);
}

}  // namespace sbx::vm
