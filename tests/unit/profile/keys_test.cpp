// Keys test: the table is consistent, and what is said about keys that are not in it.
#include "core/profile/keys.h"

#include <set>
#include <string>

#include "core/profile/show.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;

TEST_CASE("keys: paths and variables are unique, docs are one plain sentence") {
  std::set<std::string_view> paths;
  std::set<std::string_view> variables;
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    CHECK(paths.insert(key.path).second);
    if (!key.env.empty()) {
      CHECK(variables.insert(key.env).second);
      CHECK(key.env.starts_with("SBX_"));
    }
    CHECK(!key.doc.empty());
    CHECK(!key.doc.ends_with('.'));
    CHECK(key.range.least <= key.range.most);
    CHECK(find_key(key.path) == &key);
    const std::size_t dot = key.path.find('.');
    CHECK((dot == std::string_view::npos || is_group(key.path.substr(0, dot))));
  }
  CHECK(key_infos().size() == keys().size());
  CHECK(find_key("limits") == nullptr);
  CHECK(find_key("") == nullptr);
}

TEST_CASE("keys: an unknown key gets the sentence that helps most") {
  struct Row {
    std::string_view group;
    std::string_view key;
    std::string_view expected;
  };
  for (const Row& row : {
           Row{"limits", "memroy", "(did you mean \"memory\"?)"},
           Row{"limits", "Open-Files", "(did you mean \"open_files\"?)"},
           Row{"limits", "open-files", "(did you mean \"open_files\"?)"},
           Row{"", "Mounts", "(did you mean \"mounts\"?)"},
           Row{"", "limit", "(did you mean \"limits\"?)"},
           Row{"", "memory", "belongs below \"limits\""},
           Row{"", "timeout", "belongs below \"limits\""},
           Row{"", "interpreter", "belongs below \"language\""},
           Row{"", "memroy", "\"memory\", which belongs below \"limits\""},
           Row{"limits", "env", "belongs at the top level"},
           Row{"", "limits.memory", "is written as \"memory\" below \"limits\""},
           Row{"", "network", "not supported by this version"},
           Row{"", "secrets", "not supported by this version"},
           Row{"", "service", "use \"services\" at the top level"},
           Row{"", "ttl", "belongs below \"session\""},
           Row{"session", "idle", "known: idle_pause, ttl"},
           Row{"session", "labels", "belongs at the top level"},
           Row{"", "name", "named by its file"},
           Row{"", "volumes", "use \"mounts\""},
           Row{"", "requirements", "use \"pip\" below \"packages\""},
           Row{"packages", "pypi", "known: pip, npm, allow"},
           Row{"", "mem", "use \"memory\" below \"limits\""},
           Row{"", "xyzzy", "known: language, limits, packages, session, vm, extends"},
           Row{"", "kernel", "belongs below \"vm\""},
           Row{"limits", "xyzzy", "below \"limits\"; known: memory, pids"},
           Row{"", "", "known: "},
       }) {
    CAPTURE(row.key);
    const std::string sentence = unknown_key(row.group, row.key);
    CHECK_MESSAGE(sentence.find(row.expected) != std::string::npos, sentence);
  }
  CHECK(unknown_key("", std::string(5000, 'x')).size() < 500);
  CHECK(unknown_key("", "\x1b[1m").find('\x1b') == std::string::npos);
}

TEST_CASE("keys: values are shown as a profile would have them") {
  CHECK(show_cpus(1500) == "1.5");
  CHECK(show_cpus(250) == "0.25");
  CHECK(show_cpus(2000) == "2");
  CHECK(show_cpus(1005) == "1.005");
  CHECK(show_mount({"/a", "/b", MountMode::kReadWrite, ""}) == "/a:/b:rw");
  CHECK(show_mount({"/a:x", "/b", MountMode::kReadOnly, ""}) == "src=/a:x,dst=/b,mode=ro");
}
