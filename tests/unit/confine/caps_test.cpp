#include "core/confine/caps.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

/// "CapEff:" and so on of this process, as hexadecimal text.
std::string status_line(const std::string& key) {
  const auto text = fs::read_file("/proc/self/status", Bytes{65536});
  if (!text.ok()) return {};
  const std::size_t at = text.value().find(key + "\t");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size() + 1;
  return text.value().substr(begin, text.value().find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("caps: names with and without CAP_, in either case") {
  CHECK(parse_capability("CAP_NET_BIND_SERVICE").value() == CAP_NET_BIND_SERVICE);
  CHECK(parse_capability("net_bind_service").value() == CAP_NET_BIND_SERVICE);
  CHECK(parse_capability("cap_chown").value() == CAP_CHOWN);
  const std::vector<std::string> names{"chown", "CAP_SETUID"};
  CHECK(parse_capabilities(names).value() == ((1U << CAP_CHOWN) | (1U << CAP_SETUID)));
  CHECK(capability_name(CAP_SYS_ADMIN) == "CAP_SYS_ADMIN");
  CHECK(capability_name(63).empty());
}

TEST_CASE("caps: unknown names get a suggestion, dangerous ones a reason") {
  const auto typo = parse_capability("net_bind_servce");
  REQUIRE_FALSE(typo.ok());
  CHECK(typo.error().code() == Errc::kUsage);
  CHECK(typo.error().to_string() ==
        "unknown capability \"net_bind_servce\" (hint: did you mean CAP_NET_BIND_SERVICE?)");
  CHECK_FALSE(parse_capability("").ok());
  CHECK(parse_capability("\x1b[2J").error().message().find('\x1b') == std::string::npos);
  for (const char* name : {"SYS_ADMIN",
                           "SYS_PTRACE",
                           "NET_ADMIN",
                           "SYS_MODULE",
                           "BPF",
                           "MKNOD",
                           "SYS_RESOURCE",
                           "DAC_READ_SEARCH",
                           "SETPCAP",
                           "SYS_RAWIO",
                           "PERFMON"}) {
    CAPTURE(name);
    const auto refused = parse_capability(name);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message().find("is never given to a sandbox") != std::string::npos);
    CHECK_FALSE(refused.error().hint().empty());
  }
  for (const std::string_view name : allowed_capabilities()) {
    CHECK(parse_capability(name).ok());
  }
}

TEST_CASE("caps: all are gone, also from the bounding set") {
  SKIP_UNLESS("root");
  const int bad = test::in_child([] {
    if (become_user_in_child(65534, 65534, true) != 0) return 1;
    if (drop_all_caps_in_child(0) != 0) return 2;
    for (const char* key : {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"}) {
      if (status_line(key) != "0000000000000000") return 3;
    }
    if (::getuid() != 65534 || ::getegid() != 65534 || ::getgroups(0, nullptr) != 0) return 4;
    return ::setuid(0) == 0 ? 5 : 0;
  });
  CHECK(bad == 0);
}

TEST_CASE("caps: a kept one survives the change of user and an exec, and only it") {
  SKIP_UNLESS("root");
  const int bad = test::in_child([] {
    if (become_user_in_child(65534, 65534, true) != 0) return 1;
    if (drop_all_caps_in_child(1U << CAP_NET_BIND_SERVICE) != 0) return 2;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
    ::execl("/bin/sh",
            "sh",
            "-c",
            "test $(grep -c '^Cap.*0000000000000400$' /proc/self/status) = 5 || exit 9",
            nullptr);
    return 4;
  });
  CHECK(bad == 0);
}

TEST_CASE("caps: dropping works without any privilege to begin with") {
  const int bad = test::in_child([] {
    if (::getuid() == 0 &&
        (become_user_in_child(65534, 65534, true) != 0 || drop_all_caps_in_child(0) != 0)) {
      return 1;
    }
    return ::prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 0 && drop_all_caps_in_child(0) != 0 ? 2
                                                                                               : 0;
  });
  CHECK(bad == 0);
}

}  // namespace sbx::confine
