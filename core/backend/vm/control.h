// Control: what the host and the init of a guest say to each other over the port "sbx.control".
//
// Frames as in core/ipc/fields.h. The host asks, the guest answers, in order, one at a time; the
// guest never sends unasked. Each request has a number ("seq") that its answer repeats. An answer
// is "ok" with the fields of its struct, or an error (ipc::error_fields).
// Encoding and decoding are pure. The host decodes what a hostile guest sent: every decoder refuses
// what does not fit and holds no more than the frame did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/ipc/fields.h"

namespace sbx::vm::control {

/// What both sides must speak; said in the answer to "hello".
inline constexpr std::int64_t kVersion = 1;
/// Longest answer that the host takes.
inline constexpr std::size_t kLongestAnswer = std::size_t{4} << 20;
inline constexpr std::string_view kAgentPort = "sbx.agent";
inline constexpr std::string_view kControlPort = "sbx.control";
inline constexpr std::string_view kDataPort = "sbx.data";
/// Where the guest keeps what the host copies in before the launch, "<index>/<name>".
inline constexpr std::string_view kInputsDir = "/run/sbx/inputs";
/// Where the guest mounts the state disk, and the layers of sessions in it ("layers/<name>").
inline constexpr std::string_view kStateDir = "/run/sbx/state";
/// Where other shares of host directories than those of the root are meant to be mounted: what the
/// host puts in place of a profile's mount sources is "/run/sbx/shares/<tag>".
inline constexpr std::string_view kSharesDir = "/run/sbx/shares";
inline constexpr std::size_t kSeedSize = 32;

/// Requests without fields of their own, and those that only have a flag "on" (freeze, frozen).
namespace op {
inline constexpr std::string_view kHello = "hello";                 ///< -> Hello
inline constexpr std::string_view kPrepare = "prepare";             ///< -> ok; before a template
inline constexpr std::string_view kWake = "wake";                   ///< Wake -> ok
inline constexpr std::string_view kRoot = "root";                   ///< Root -> ok
inline constexpr std::string_view kMountShares = "mount_shares";    ///< -> ok; again, those of root
inline constexpr std::string_view kUmountShares = "umount_shares";  ///< -> ok; kDenied while in use
inline constexpr std::string_view kLaunch = "launch";               ///< Launch -> Launched
inline constexpr std::string_view kUsage = "usage";                 ///< -> backend::LiveUsage
inline constexpr std::string_view kProcesses = "processes";         ///< -> list of ProcessInfo
inline constexpr std::string_view kCpuTime = "cpu_time";            ///< -> "value" in ns
inline constexpr std::string_view kOomKills = "oom_kills";          ///< -> "value"
inline constexpr std::string_view kFreeze = "freeze";               ///< "on" -> ok; does not wait
inline constexpr std::string_view kFrozen = "frozen";               ///< "on" -> "value" as flag
inline constexpr std::string_view kReleaseKilled = "release_killed";  ///< -> ok
inline constexpr std::string_view kKill = "kill";                     ///< -> ok
inline constexpr std::string_view kFinish = "finish";                 ///< -> backend::FinalState
inline constexpr std::string_view kQuiesce = "quiesce";               ///< -> "value": bytes written
inline constexpr std::string_view kDrain = "drain";                   ///< "value" -> ok
inline constexpr std::string_view kResume = "resume";                 ///< "value": epoch -> ok
inline constexpr std::string_view kDisk = "disk";                     ///< -> Disk
/// "name", "is_dir" -> ok, once what comes over the data port is there. Before the launch.
inline constexpr std::string_view kTakeInput = "take_input";
/// -> ok; then /work comes over the data port. After finish.
inline constexpr std::string_view kGiveWork = "give_work";
inline constexpr std::string_view kSync = "sync";          ///< -> ok
inline constexpr std::string_view kShutdown = "shutdown";  ///< -> ok, then power off
}  // namespace op

/// A request with a flag, for kFreeze and kFrozen.
ipc::Fields flag_request(std::string_view op, bool is_on);
/// A request with a number, for kDrain and kResume (see Bridge).
ipc::Fields value_request(std::string_view op, std::uint64_t value);
/// What an answer to kQuiesce, kCpuTime and kOomKills says; kProtocol when it says nothing.
Result<std::uint64_t> decode_value(const ipc::Fields& answer);
/// The same of kFrozen.
Result<bool> decode_flag(const ipc::Fields& answer);

struct Hello {
  std::int64_t version = kVersion;
  std::string kernel;                 ///< uname(2)'s release
  std::vector<std::string> features;  ///< "9p", "overlay", "ext4", "erofs", "seccomp", "landlock"…
  std::uint64_t init_us = 0;          ///< CLOCK_BOOTTIME when init began
  std::uint64_t ready_us = 0;         ///< … and when it listened
  bool operator==(const Hello&) const = default;
};

/// Gives a guest its identity, before anything else runs in it: what is alike in all clones of one
/// template must differ.
struct Wake {
  std::string seed;  ///< kSeedSize random bytes
  std::int64_t realtime_ns = 0;
  std::string hostname;    ///< of the guest; a sandbox has a name of its own
  std::string machine_id;  ///< 32 hex digits, shown as /etc/machine-id; empty: there is none
  bool operator==(const Wake&) const = default;
};

/// A host directory over 9p.
struct Share {
  std::string tag;   ///< mount_tag of the device
  std::string path;  ///< absolute place in the guest, e.g. "/usr"; made when missing
  bool is_read_only = true;
  bool operator==(const Share&) const = default;
};
/// A symbolic link in the root, e.g. {"/bin", "usr/bin"}.
struct RootLink {
  std::string path;
  std::string target;
  bool operator==(const RootLink&) const = default;
};
/// A small file of the root.
struct RootFile {
  std::string path;
  std::string content;
  bool operator==(const RootFile&) const = default;
};
/// Something of a share at another place.
struct RootBind {
  std::string source;
  std::string path;
  bool is_dir = true;
  bool operator==(const RootBind&) const = default;
};
/// A block device with an image's files, owners as inside. It becomes the layer image_layer(i).
struct ImageDisk {
  std::string device;  ///< "vda"
  std::string type;    ///< "erofs", "ext4", "squashfs"
  bool operator==(const ImageDisk&) const = default;
};

struct Root {
  std::vector<Share> shares;
  std::vector<RootLink> links;
  std::vector<RootFile> files;
  std::vector<RootBind> binds;
  std::vector<ImageDisk> images;  ///< lowest first
  /// ext4, read-write, mounted at kStateDir. Empty: a tmpfs, where no session can be.
  std::string state_device;
  /// The state disk belongs to a session: it is never made anew, and what is written is synced by
  /// kSync and kShutdown. Else it is mounted for speed: nothing of it is wanted after a crash.
  bool is_state_kept = false;
  bool operator==(const Root&) const = default;
};
/// Layer directory of the i-th of Root::images, for ImageRoot::layers.
std::string image_layer(std::size_t index);

/// backend::LaunchRequest, in the guest's view.
struct Launch {
  std::string id;
  std::string profile;  ///< profile::save()
  bool is_lasting = false;
  std::vector<backend::InputFile> files;
  struct Image {
    backend::User user;
    std::vector<std::uint32_t> groups;
    std::vector<std::string> volumes;
    bool operator==(const Image& other) const {
      return user.uid == other.user.uid && user.gid == other.user.gid && groups == other.groups &&
             volumes == other.volumes;
    }
  };
  std::optional<Image> image;  ///< its layers are all of Root::images
  /// A session: names of layers below kStateDir/layers, lowest first, without the image's and the
  /// base. The upper is made when it is not there.
  struct Layers {
    std::vector<std::string> lowers;
    std::string upper;
    bool operator==(const Layers&) const = default;
  };
  std::optional<Layers> layers;
  bool operator==(const Launch&) const = default;
};

/// What is known once the jail in the guest is launched. Its set-up goes on; its messages go over
/// the port of the agent.
struct Launched {
  std::vector<confine::InForce> limits;
  std::vector<std::string> warnings;
  std::optional<Millis> cpu_time;  ///< Plan::cpu_time()
  bool has_freezer = false;
  /// How long the parts took, in us: {"plan", 1200}. For measuring only.
  std::vector<std::pair<std::string, std::uint64_t>> spent;
};

/// The state disk (or tmpfs).
struct Disk {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t inodes_free = 0;
  bool operator==(const Disk&) const = default;
};

ipc::Fields encode(const Wake& wake);
ipc::Fields encode(const Root& root);
ipc::Fields encode(const Launch& launch);
Result<Wake> decode_wake(const ipc::Fields& request);
Result<Root> decode_root(const ipc::Fields& request);
Result<Launch> decode_launch(const ipc::Fields& request);

ipc::Fields encode(const Hello& hello);
ipc::Fields encode(const Launched& launched);
ipc::Fields encode(const backend::LiveUsage& usage);
ipc::Fields encode(const std::vector<backend::ProcessInfo>& processes);
ipc::Fields encode(const backend::FinalState& state);
ipc::Fields encode(const Disk& disk);
/// At most backend::kMaxProcesses; host_pid is the guest's.
Result<std::vector<backend::ProcessInfo>> decode_processes(const ipc::Fields& answer);
Result<Hello> decode_hello(const ipc::Fields& answer);
Result<Launched> decode_launched(const ipc::Fields& answer);
Result<backend::LiveUsage> decode_usage(const ipc::Fields& answer);
Result<backend::FinalState> decode_final(const ipc::Fields& answer);
Result<Disk> decode_disk(const ipc::Fields& answer);

}  // namespace sbx::vm::control
