// Jail plan tests: the decision is pure, so it is compared as text, without privileges.
#include "core/backend/jail/jail_plan.h"

#include <algorithm>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "core/backend/jail/layered_plan.h"

using namespace sbx;

namespace {

struct Case {
  profile::Profile profile;
  backend::LaunchRequest request;
  jail::JailFacts facts;

  Case() {
    profile.name = "test";
    request.id = "id";
    facts.basics.own_uid = 1234;
    facts.basics.own_gid = 1235;
    facts.basics.landlock_abi = 3;
    facts.basics.binary = "/usr/bin/sbx";
    facts.tree.top = {{"/usr", jail::EntryKind::kDir, {}, false},
                      {"/bin", jail::EntryKind::kLink, "usr/bin", false}};
    facts.tree.etc = {{"/etc/alternatives", jail::EntryKind::kDir, {}, false},
                      {"/etc/os-release", jail::EntryKind::kLink, "../usr/lib/os-release", false}};
  }
  Result<jail::JailPlan> plan() {
    request.profile = &profile;
    facts.mount_is_dir.resize(profile.mounts.size(), true);
    return jail::make_plan(request, facts);
  }
  std::string text() {
    auto made = plan();
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().to_string()));
    return jail::to_text(made.value(), facts.tree);
  }
};

size_t position(const std::string& text, const std::string& line) {
  const size_t at = text.find(line);
  CHECK_MESSAGE(at != std::string::npos, "missing: ", line, "\nin:\n", text);
  return at;
}

}  // namespace

TEST_CASE("jail plan: the host's usr is bound read-only and the root is entered last") {
  Case c;
  const std::string text = c.text();
  CHECK(position(text, "new-root tmpfs") < position(text, "bind ro tree /usr on /usr"));
  CHECK(position(text, "link /bin -> usr/bin") < position(text, "enter root"));
  CHECK(position(text, "proc on /proc") < position(text, "mask /proc/kcore"));
  CHECK(position(text, "forbid user namespaces") < position(text, "read-only /proc/sys"));
  CHECK(text.find("/home/") == text.find("/home/sbx"));
  CHECK(text.find("bind rw tree") == std::string::npos);
}

TEST_CASE("jail plan: what is made outside the job's space asks for a root of its own") {
  Case c;
  CHECK_FALSE(c.plan().value().needs_own_root);
  c.request.inputs = {{"/data/a", "a", false}};
  c.request.files = {{"/work/main.py", "x"}, {"/run/sbx/python/hook.py", "y"}};
  c.profile.workdir = "/work/deep";
  c.profile.mounts = {{"/data", "/tmp/data", profile::MountMode::kReadOnly, {}}};
  const auto shared = c.plan();
  REQUIRE(shared.ok());
  CHECK_FALSE(shared.value().needs_own_root);
  REQUIRE(shared.value().base.files.size() == 1);
  CHECK(shared.value().base.files[0].path == "/run/sbx/python/hook.py");
  c.profile.mounts[0].target = "/data";
  CHECK(c.plan().value().needs_own_root);
  c.profile.mounts.clear();
  c.profile.hostname = "other";
  CHECK(c.plan().value().needs_own_root);
}

TEST_CASE("jail plan: nothing of the host's home, root, run or var is bound") {
  Case c;
  const std::string text = c.text();
  for (const std::string path : {"/home", "/root", "/run", "/var", "/tmp", "/etc", "/sys"}) {
    CHECK(text.find(" " + path + " on ") == std::string::npos);
  }
}

TEST_CASE("jail plan: with one id PID 1 comes from a read-only clone only where it must") {
  Case c;
  c.facts.basics.is_binary_writable = true;
  CHECK(c.text().find("init fork") != std::string::npos);  // Landlock shuts the file off
  c.facts.basics.landlock_abi = 1;
  CHECK(c.text().find("init exec from a read-only clone") != std::string::npos);
  c.facts.basics.is_binary_writable = false;
  CHECK(c.text().find("init fork") != std::string::npos);
  c.facts.basics.is_binary_writable = true;
  c.facts.basics.landlock_abi = 7;
  c.profile.nesting = true;  // Landlock would forbid mounts inside
  CHECK(c.text().find("init exec from a read-only clone") != std::string::npos);
  CHECK(c.text().find("forbid user namespaces") == std::string::npos);
}

TEST_CASE("jail plan: mounts are made parents first, and never create anything on the host") {
  Case c;
  c.profile.mounts = {{"/srv/b", "/data/a/b", profile::MountMode::kReadOnly, {}},
                      {"/srv/a", "/data", profile::MountMode::kReadWrite, {}}};
  const std::string text = c.text();
  CHECK(position(text, "bind rw tree /srv/a on /data") <
        position(text, "bind ro tree /srv/b on /data/a/b"));
  CHECK(text.find("mkdir /data/a") == std::string::npos);
}

TEST_CASE("jail plan: a mount onto the sandbox's own places is refused by name") {
  for (const std::string target : {"/", "/usr", "/work", "/proc/1", "/dev/null", "/etc"}) {
    CAPTURE(target);
    Case c;
    c.profile.mounts = {{"/srv", target, profile::MountMode::kReadOnly, {}}};
    const auto plan = c.plan();
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code() == Errc::kUsage);
    CHECK(plan.error().message().find(target) != std::string::npos);
  }
}

TEST_CASE("jail plan: with an id range the parent opens inputs, else PID 1 does by path") {
  Case c;
  c.request.inputs = {{"/root/data.csv", "data.csv", false}, {"/root/dir", "dir", true}};
  CHECK(c.plan().value().sources.empty());
  c.facts.basics.ids = jail::IdScheme::kRange;
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  REQUIRE(plan.value().sources.size() == 2);
  CHECK(plan.value().sources[1].is_input);
  const auto is_second = [](const confine::Step& step) {
    const auto* bind = std::get_if<confine::Bind>(&step);
    return bind != nullptr && bind->source_fd == 1;
  };
  const auto& steps = plan.value().steps;
  const auto bind = std::find_if(steps.begin(), steps.end(), is_second);
  REQUIRE(bind != steps.end());
  CHECK(confine::to_text(*bind) == "bind ro tree /root/dir on /work/dir");
}

TEST_CASE("jail plan: two things at one place inside are refused") {
  Case c;
  c.request.files = {{"/work/main.py", "x"}};
  c.request.inputs = {{"/srv/main.py", "main.py", false}};
  const auto plan = c.plan();
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message().find("/work/main.py") != std::string::npos);
}

TEST_CASE("jail plan: a disk larger than the memory needs an image, or is refused") {
  Case c;
  c.profile.origins["limits.disk"] = {profile::Layer::kFlag, "--disk"};
  c.profile.limits.memory = Bytes{64 << 20};
  c.profile.limits.disk = Bytes{65 << 20};
  const auto plan = c.plan();
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().code() == Errc::kUnsupported);
  CHECK_FALSE(plan.error().hint().empty());
  c.facts.images.is_able = true;
  c.request.state_dir = "/state";
  const auto with_image = c.plan();
  REQUIRE(with_image.ok());
  REQUIRE(with_image.value().image.has_value());
  CHECK(with_image.value().image->dir == "/state");
  CHECK(with_image.value().image->size == Bytes{65 << 20});
  CHECK(c.text().find("scratch image size 65M") != std::string::npos);
}

TEST_CASE("jail plan: an explicit limit that nothing can hold is refused with a fix") {
  Case c;
  c.profile.limits.memory = Bytes{64 << 20};
  c.profile.origins["limits.memory"] = {profile::Layer::kFlag, "--memory"};
  c.facts.cgroups.memory.cause = "no cgroups here";
  c.facts.cgroups.memory.fix = "mount them";
  const auto plan = c.plan();
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().code() == Errc::kUnsupported);
  CHECK_FALSE(plan.error().hint().empty());
}

TEST_CASE("jail plan: a working directory in the job's space is made for it") {
  Case c;
  c.profile.workdir = "/work/a/b";
  const std::string text = c.text();
  CHECK(position(text, "mkdir /work/a ") < position(text, "mkdir /work/a/b "));
  c.profile.workdir = "/usr/share/nothing";
  CHECK(c.text().find("mkdir /usr/share") == std::string::npos);
}

TEST_CASE("jail plan: only named entries of etc are shown") {
  for (const char* name : {"ld.so.cache", "ssl", "java-17-openjdk", "python3.11", "R", "fonts"}) {
    CHECK(jail::is_etc_allowed(name));
  }
  for (const char* name : {"shadow",
                           "sudoers",
                           "sudoers.d",
                           "ssh",
                           "machine-id",
                           "apt",
                           "wgetrc",
                           "netrc",
                           "passwd-",
                           "gitconfig",
                           "pip.conf",
                           "environment",
                           "krb5.keytab",
                           "letsencrypt",
                           "sbx",
                           "hostname",
                           "resolv.conf"}) {
    CAPTURE(name);
    CHECK_FALSE(jail::is_etc_allowed(name));
  }
}

namespace {

/// A plan whose root is kept, of the base and one more layer.
void keep_root(Case& c) {
  c.request.root.emplace();
  c.request.root->lowers = {"/layers/base-1", "/layers/one"};
  c.request.root->upper = "/layers/up";
  c.facts.layer_parts = {{"root"}, {"root", jail::overlay_part("/data")}};
}

}  // namespace

TEST_CASE("jail plan: a root that is kept is an overlay, entered writable, with /dev sealed") {
  Case c;
  keep_root(c);
  const std::string text = c.text();
  CHECK(text.find("new-root") == std::string::npos);
  CHECK(position(text, "stage 0=/layers/base-1 1=/layers/one 2=/layers/up\n") <
        position(text, "overlay on / of 0/fs/root 1/fs/root changes in 2/fs/root\n"));
  CHECK(position(text, "place dir /dev") < position(text, "tmpfs on /dev"));
  CHECK(position(text, "tmpfs on /dev") < position(text, "bind rw device /dev/null"));
  CHECK(position(text, "place dir /proc") < position(text, "proc on /proc"));
  CHECK(position(text, "seal /dev\n") < position(text, "enter root, writable\n"));
  CHECK(text.find("on /work(") == std::string::npos);
  CHECK(text.find(" /tmp(1777) /dev/shm(1777)\n") != std::string::npos);
}

TEST_CASE("jail plan: what the root holds is made in the base layer, and not again by PID 1") {
  Case c;
  keep_root(c);
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  std::string objects;
  for (const confine::Step& step : plan.value().base_objects) {
    objects += confine::to_text(step) + "\n";
  }
  CHECK(objects.find("file /etc/passwd") != std::string::npos);
  CHECK(objects.find("link /bin -> usr/bin") != std::string::npos);
  CHECK(objects.find("mkdir /work ") != std::string::npos);
  CHECK(objects.find("/dev/null") == std::string::npos);
  const std::string text = c.text();
  CHECK(text.find("/etc/passwd") == std::string::npos);
  CHECK(text.find("place link /bin -> usr/bin") != std::string::npos);
  CHECK(text.find("place dir /home/sbx mode 0755\n") != std::string::npos);
}

TEST_CASE("jail plan: an overlay mount has the layers that know its target above the host") {
  Case c;
  keep_root(c);
  c.profile.mounts = {{"/host", "/data", profile::MountMode::kOverlay, {}}};
  const std::string part = jail::overlay_part("/data");
  CHECK(part.size() == 14);
  CHECK(c.text().find("overlay on /data of 3 1/fs/" + part + " changes in 2/fs/" + part + "\n") !=
        std::string::npos);
  c.facts.mount_is_dir = {false};
  const auto file = c.plan();
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().code() == Errc::kUsage);
}

TEST_CASE("jail plan: without a kept root an overlay mount changes the scratch space") {
  Case c;
  c.profile.mounts = {{"/host", "/data", profile::MountMode::kOverlay, {}}};
  std::string text = c.text();
  CHECK(position(text, "scratch tmpfs") < position(text, "stage 0=/host\n"));
  CHECK(position(text, "stage 0=/host\n") <
        position(text, "overlay on /data of 0 changes in scratch\n"));
  // Where a tmpfs keeps no attributes of users, in a layer that goes with the run.
  c.facts.tmpfs_keeps_attributes = false;
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  CHECK(plan.value().throwaway_at == 0);
  text = c.text();
  CHECK(text.find("overlay on /data of 1 changes in 0/fs/m-") != std::string::npos);
  c.profile.mounts[0].mode = profile::MountMode::kReadWrite;
  CHECK_FALSE(c.plan().value().throwaway_at.has_value());
}

TEST_CASE("jail plan: descriptors of layers come behind those of mounts when ids are mapped") {
  Case c;
  keep_root(c);
  c.facts.basics.ids = jail::IdScheme::kRange;
  c.profile.mounts = {{"/host", "/data", profile::MountMode::kOverlay, {}},
                      {"/host", "/ro", profile::MountMode::kReadOnly, {}}};
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  const auto& stage = std::get<confine::Stage>(plan.value().steps.front());
  REQUIRE(stage.dirs.size() == 4);
  for (size_t i = 0; i < stage.dirs.size(); ++i) {
    CHECK(stage.dirs[i].source_fd == static_cast<int32_t>(i + 1));
  }
}

TEST_CASE("jail plan: a root that is kept takes no inputs") {
  Case c;
  keep_root(c);
  c.request.inputs = {{"/data/a", "a", false}};
  REQUIRE_FALSE(c.plan().ok());
  CHECK(c.plan().error().code() == Errc::kUsage);
  c.request.inputs.clear();
  c.request.files = {{"/work/main.py", "x"}};
  CHECK_FALSE(c.plan().ok());
}

namespace {

void take_image(Case& c) {
  c.request.image.emplace();
  c.request.image->layers = {"/layers/img-1", "/layers/img-2"};
  c.facts.basics.ids = jail::IdScheme::kRange;
  c.facts.tree = {};
}

std::string objects_of(const jail::JailPlan& plan) {
  std::string objects;
  for (const confine::Step& step : plan.base_objects) {
    objects += confine::to_text(step) + "\n";
  }
  return objects;
}

}  // namespace

TEST_CASE("jail plan: with an image nothing of the host's tree is shown") {
  Case c;
  take_image(c);
  const std::string text = c.text();
  CHECK(text.find("/usr") == std::string::npos);
  CHECK(text.find("new-root") == std::string::npos);
  CHECK(text.find("/home/sbx") == std::string::npos);
  CHECK(text.find("/etc/passwd") == std::string::npos);
  CHECK(position(text, "stage 0=/layers/img-1 1=/layers/img-2 2=\n") <
        position(text, "scratch space tmpfs"));
  CHECK(position(text, "scratch space tmpfs") <
        position(text, "overlay on / of 0/fs/root 1/fs/root 2/fs/root changes in scratch\n"));
  CHECK(position(text, "place dir /proc") < position(text, "proc on /proc"));
  CHECK(position(text, "tmpfs on /dev") < position(text, "bind rw device /dev/null"));
  CHECK(position(text, " on /work(0755") != 0);
  CHECK(position(text, "seal /dev\n") < position(text, "enter root, writable\n"));
}

TEST_CASE("jail plan: an image's base holds names and places, and nothing that the image has") {
  Case c;
  take_image(c);
  c.request.files = {{"/run/sbx/python/hook.py", "x"}, {"/work/main.py", "y"}};
  c.request.inputs = {{"/srv/data", "data", true}};
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  REQUIRE(plan.value().base_at.has_value());
  CHECK(*plan.value().base_at == 2);
  const std::string objects = objects_of(plan.value());
  for (const char* there : {"/etc/hosts",
                            "/etc/hostname",
                            "/etc/resolv.conf",
                            "mkdir /work ",
                            "/run/sbx/python/hook.py",
                            "mkdir /proc"}) {
    CAPTURE(there);
    CHECK(objects.find(there) != std::string::npos);
  }
  for (const char* absent : {"passwd", "nsswitch", "/var", "/home", "/dev/null", "/work/"}) {
    CAPTURE(absent);
    CHECK(objects.find(absent) == std::string::npos);
  }
  const std::string text = c.text();
  CHECK(position(text, "scratch tmpfs") < position(text, "file /work/main.py"));
  CHECK(position(text, "mkdir /work/data") <
        position(text, "bind ro tree /srv/data on /work/data"));
}

TEST_CASE("jail plan: the image's user gets what its id says, and never more than the short list") {
  Case c;
  take_image(c);
  std::string text = c.text();
  position(text, "job uid 0 gid 0");
  position(text, "seccomp image");
  for (const char* name : {"CHOWN",
                           "DAC_OVERRIDE",
                           "FOWNER",
                           "FSETID",
                           "SETGID",
                           "SETUID",
                           "SETPCAP",
                           "SETFCAP",
                           "NET_BIND_SERVICE",
                           "KILL",
                           "SYS_CHROOT"}) {
    position(text, std::string("capability CAP_") + name + "\n");
  }
  for (const char* name : {"SYS_PTRACE", "SYS_ADMIN", "NET_ADMIN", "MKNOD", "NET_RAW"}) {
    CHECK(text.find(std::string("CAP_") + name) == std::string::npos);
  }
  c.request.image->user = {1000, 1001};
  c.request.image->groups = {44};
  const auto other = c.plan();
  REQUIRE(other.ok());
  CHECK(other.value().rules.uid == 1000);
  CHECK(other.value().rules.gid == 1001);
  CHECK(other.value().rules.groups == std::vector<gid_t>{44});
  CHECK(other.value().rules.kept() == 0);
  position(c.text(), "no capabilities");
  c.request.image->user = {};
  c.profile.capabilities = {"CAP_CHOWN"};
  c.profile.origins["capabilities"] = {profile::Layer::kFile, "p.yaml:1:1"};
  CHECK(c.plan().value().rules.kept() == 1);
  c.profile.capabilities = {};
  CHECK(c.plan().value().rules.kept() == 0);
}

TEST_CASE("jail plan: set-user-id files cannot be made where the host's own can be written to") {
  Case c;
  take_image(c);
  c.profile.mounts = {{"/srv/a", "/data", profile::MountMode::kReadOnly, {}}};
  CHECK(c.plan().value().rules.may_set_id_bits);
  c.profile.mounts[0].mode = profile::MountMode::kReadWrite;
  CHECK_FALSE(c.plan().value().rules.may_set_id_bits);
  Case host;
  CHECK_FALSE(host.plan().value().rules.may_set_id_bits);
}

TEST_CASE("jail plan: mounts into an image are led by PID 1, and make nothing in the base") {
  Case c;
  take_image(c);
  c.profile.mounts = {{"/srv/a", "/usr/lib/x", profile::MountMode::kReadOnly, {}},
                      {"/srv/b", "/usr/lib/x/deep/er", profile::MountMode::kReadOnly, {}},
                      {"/srv/c", "/tmp/c", profile::MountMode::kReadOnly, {}}};
  c.request.image->volumes = {"/data", "/work/v", "/dev/shm/v"};
  c.profile.workdir = "/app";
  const std::string text = c.text();
  CHECK(position(text, "find dir /usr/lib/x\n") < position(text, "bind ro tree /srv/a"));
  CHECK(text.find("find dir /usr/lib/x/deep") == std::string::npos);
  position(text, "mkdir /tmp/c");
  position(text, "find dir /data, or go without\n");
  position(text, "find dir /app, or go without\n");
  CHECK(text.find("find dir /work/v") == std::string::npos);
  CHECK(objects_of(c.plan().value()).find("/usr") == std::string::npos);
  c.profile.mounts = {{"/srv/a", "/etc", profile::MountMode::kReadOnly, {}}};
  CHECK(c.plan().error().code() == Errc::kUsage);
}

TEST_CASE("jail plan: changes of an image go to the state disk where memory keeps no attributes") {
  Case c;
  take_image(c);
  c.facts.tmpfs_keeps_attributes = false;
  const auto plan = c.plan();
  REQUIRE(plan.ok());
  CHECK(plan.value().throwaway_at == 3);
  position(c.text(), "overlay on / of 0/fs/root 1/fs/root 2/fs/root changes in 3/fs/root\n");
  CHECK(c.text().find("scratch space") == std::string::npos);
  // A limit that somebody asked for is held by an image file, or refused.
  c.profile.limits.disk = Bytes{64 << 20};
  c.profile.limits.memory = Bytes{1 << 30};
  c.profile.origins["limits.disk"] = {profile::Layer::kFlag, "--disk"};
  REQUIRE_FALSE(c.plan().ok());
  CHECK(c.plan().error().code() == Errc::kUnsupported);
  c.facts.images.is_able = true;
  position(c.text(), "scratch space image size 64M");
  CHECK_FALSE(c.plan().value().throwaway_at.has_value());
  const auto& steps = c.plan().value().steps;
  (void)steps;
}

TEST_CASE("jail plan: a session on an image keeps its changes in its own layer") {
  Case c;
  take_image(c);
  keep_root(c);
  c.request.root->lowers = {"/layers/img-1", "/layers/img-2", "/layers/base-1", "/layers/own"};
  c.facts.layer_parts = {{"root"}, {"root"}, {"root"}, {"root"}};
  const std::string text = c.text();
  position(text, "overlay on / of 0/fs/root 1/fs/root 2/fs/root 3/fs/root changes in 4/fs/root\n");
  CHECK(text.find("scratch space") == std::string::npos);
  CHECK_FALSE(c.plan().value().base_at.has_value());
  position(text, "place dir /work mode 0755 owner 0\n");
  CHECK(text.find("/home/sbx") == std::string::npos);
  CHECK(text.find("/usr") == std::string::npos);
}

TEST_CASE("jail plan: an image of a user has the user's ids, and without many ids none") {
  Case c;
  take_image(c);
  c.facts.basics.ids = jail::IdScheme::kSubids;
  c.facts.basics.subids.emplace();
  position(c.text(), "ids 0 inside is 1234:1235");
  CHECK(c.plan().value().sources.empty());
  c.request.inputs = {{"/srv/data", "data", true}};
  CHECK(c.plan().value().sources.empty());  // PID 1 is the user and opens them
  c.facts.basics.is_binary_writable = true;
  c.facts.basics.landlock_abi = 0;
  CHECK(c.plan().value().init == jail::InitMode::kExecClone);
  c.facts.basics.ids = jail::IdScheme::kSingle;
  CHECK_FALSE(c.plan().ok());
}
