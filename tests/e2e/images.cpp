// images: a state directory of its own with the images of one test case, and small archives.
#include "tests/e2e/images.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace sbx::test {

Spec Images::spec(const Args& args, const std::vector<std::string>& env) const {
  Args all{"image"};
  all.insert(all.end(), args.begin(), args.end());
  Spec spec = sessions_.spec(std::move(all));
  for (const std::string& entry : env) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(spec.env, [&](const std::string& each) { return each.starts_with(name); });
    spec.env.push_back(entry);
  }
  return spec;
}

void Images::shell(const std::string& script) const {
  const Outcome o = run({.argv = {"/bin/sh", "-ec", script},
                         .env = environment_of(subject()),
                         .cwd = dir().path(),
                         .as = &subject(),
                         .timeout = 120});
  INFO(o.show());
  REQUIRE(o.code == 0);
}

std::string Images::tar(const std::string& name,
                        const std::string& script,
                        const std::string& owner) const {
  const std::string uid = owner.substr(0, owner.find(':'));
  const std::string gid = owner.substr(owner.find(':') + 1);
  shell("rm -rf tree; mkdir tree; cd tree; " + script +
        "; cd ..; tar -C tree --numeric-owner --owner=" + uid + " --group=" + gid + " -cf " + name +
        " .; chmod -R u+rwX tree; rm -rf tree");
  return dir().at(name);
}

void Images::import(const std::string& file, const std::string& name) const {
  const Outcome o = call({"import", file, name});
  INFO(o.show());
  REQUIRE(o.code == 0);
}

std::vector<std::string> Images::layers() const {
  std::vector<std::string> names = names_in(state_dir() + "/layers");
  std::erase(names, "lock");
  return names;
}

std::string Images::show(const std::string& name, std::string_view pointer) const {
  return field(call({"show", name, "--json"}).out, pointer);
}

bool Images::is_clean() const {
  return comes_true([&] {
    const std::string found = sbx({"gc", "--dry-run"}).out;
    return !found.empty() && !contains(found, state_dir());
  });
}

}  // namespace sbx::test
