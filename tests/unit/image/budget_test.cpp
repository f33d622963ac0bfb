// Tests of the budget: where it is found, what counts, when it is passed.
#include "core/image/budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx;
using namespace sbx::image;

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20U;

class State {
 public:
  State() : dir_(make()) { ::unsetenv("SBX_STATE_BUDGET"); }
  ~State() { ::unsetenv("SBX_STATE_BUDGET"); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  const std::string& path() const { return dir_.path(); }
  void write(const std::string& name, std::string_view content) const {
    auto file = sys::open(path() + "/" + name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(file.ok());
    REQUIRE(sys::write_all(file.value().get(), content).ok());
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/var/tmp", "sbx-budget-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  fs::TempDir dir_;
};

}  // namespace

TEST_CASE("budget: the variable counts before the file, and without either there is none") {
  const State state;
  CHECK(!state_budget(state.path()).value().bytes.has_value());
  REQUIRE(set_state_budget(state.path(), Bytes{20 * kMib}).ok());
  CHECK(state_budget(state.path()).value().bytes == Bytes{20 * kMib});
  CHECK(state_budget(state.path()).value().source == state.path() + "/budget");
  ::setenv("SBX_STATE_BUDGET", "1G", 1);
  CHECK(state_budget(state.path()).value().bytes == Bytes{1024 * kMib});
  ::setenv("SBX_STATE_BUDGET", "none", 1);
  CHECK(!state_budget(state.path()).value().bytes.has_value());
  ::setenv("SBX_STATE_BUDGET", "", 1);
  CHECK(state_budget(state.path()).value().bytes == Bytes{20 * kMib});
  REQUIRE(set_state_budget(state.path(), std::nullopt).ok());
  CHECK(!state_budget(state.path()).value().bytes.has_value());
}

TEST_CASE("budget: what is no size is refused with where it stands, never taken for no bound") {
  const State state;
  state.write("budget", "lots\n");
  const auto budget = state_budget(state.path());
  REQUIRE(!budget.ok());
  CHECK(budget.error().code() == Errc::kUsage);
  CHECK(budget.error().message().find("/budget") != std::string::npos);
  CHECK(!check_budget(state.path(), Bytes{1}).ok());
}

TEST_CASE("budget: what lies in the state directory counts, once, holes not") {
  const State state;
  const Bytes before = state_use(state.path()).value();
  REQUIRE(fs::mkdirs(state.path() + "/layers/a/fs/root", 0755).ok());
  state.write("layers/a/fs/root/file", std::string(3 * kMib, 'x'));
  REQUIRE(::link((state.path() + "/layers/a/fs/root/file").c_str(),
                 (state.path() + "/layers/a/fs/root/again").c_str()) == 0);
  state.write("hole", "");
  REQUIRE(::truncate((state.path() + "/hole").c_str(), off_t{1} << 40) == 0);
  const Bytes after = state_use(state.path()).value();
  CHECK(after.v - before.v >= 3 * kMib);
  CHECK(after.v - before.v < 4 * kMib);
}

TEST_CASE("budget: it is passed only when what is there and what comes are more") {
  const State state;
  state.write("file", std::string(3 * kMib, 'x'));
  REQUIRE(set_state_budget(state.path(), Bytes{5 * kMib}).ok());
  CHECK(check_budget(state.path(), Bytes{kMib}).ok());
  const Status refused = check_budget(state.path(), Bytes{3 * kMib});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code() == Errc::kLimit);
  CHECK(refused.error().message().find("needs 3.0M") != std::string::npos);
  CHECK(refused.error().message().find("budget of 5M") != std::string::npos);
  CHECK(refused.error().hint().find("sbx image gc") != std::string::npos);
  CHECK(state_room(state.path()).value().is_of_budget);

  REQUIRE(set_state_budget(state.path(), Bytes{kMib}).ok());
  CHECK(state_room(state.path()).value().left == Bytes{0});
  CHECK(check_budget(state.path(), Bytes{0}).ok());
}

TEST_CASE("budget: more than the disk has is refused without any budget") {
  const State state;
  const Status refused = check_budget(state.path(), Bytes{UINT64_MAX});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code() == Errc::kLimit);
  CHECK(refused.error().message().find("the disk of") != std::string::npos);
  CHECK(!state_room(state.path()).value().is_of_budget);
}
