// sessions: a state directory of its own with the sessions of one test case, all removed at the
// end.
#include "tests/e2e/sessions.h"

#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>

namespace sbx::test {

Sessions::Sessions(std::string below) : state_dir_(dir_.at(below)) {
  run({.argv = {"/bin/mkdir", "-p", "-m", "700", state_dir_}, .as = &subject()});
}

Sessions::Sessions(In in) : state_dir_(std::move(in.state_dir)) {
  clear();
}

Sessions::~Sessions() {
  clear();
}

void Sessions::clear() const {
  for (const std::string& name : names_in(state_dir_ + "/sessions")) {
    call({"rm", "-f", name});
  }
}

Spec Sessions::spec(Args args) const {
  Spec spec = sbx_spec(std::move(args));
  spec.env = environment_of(subject());
  spec.env.push_back("SBX_STATE_DIR=" + state_dir_);
  spec.clean_env = false;
  return spec;
}

Outcome Sessions::call(Args args) const {
  args.insert(args.begin(), "session");
  return sbx(std::move(args));
}

void Sessions::start(const std::string& name, const Args& flags) const {
  Args args{"start", name, "-p", "bash", "--set", "limits.timeout=unlimited"};
  args.insert(args.end(), flags.begin(), flags.end());
  const Outcome o = call(args);
  INFO(o.show());
  REQUIRE(o.code == 0);
}

Args Sessions::exec_args(const std::string& name, std::string_view code, const Args& flags) {
  Args args{"session", "exec", name};
  args.insert(args.end(), flags.begin(), flags.end());
  args.insert(args.end(), {"--", "bash", "-c", std::string(code)});
  return args;
}

Outcome Sessions::exec(const std::string& name, std::string_view code, const Args& flags) const {
  return sbx(exec_args(name, code, flags));
}

std::string Sessions::detached(const std::string& name, std::string_view code) const {
  const Outcome o = exec(name, code, {"-d"});
  INFO(o.show());
  REQUIRE(o.code == 0);
  return trimmed(o.out);
}

std::string Sessions::show(const std::string& name, std::string_view pointer) const {
  return field(call({"show", name, "--json"}).out, pointer);
}

pid_t Sessions::supervisor(const std::string& name) const {
  return std::atoi(show(name, "/supervisor_pid").c_str());
}

pid_t Sessions::init(const std::string& name) const {
  const std::string life = slurp(state_dir_ + "/sessions/" + name + "/life");
  return std::atoi(field(life, "/init/pid").c_str());
}

bool Sessions::comes(const std::string& name, std::string_view code) const {
  return comes_true([&] { return exec(name, code).code == 0; });
}

}  // namespace sbx::test
