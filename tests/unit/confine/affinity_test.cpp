#include "core/confine/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/confine/in_child.h"

namespace sbx::confine {

TEST_CASE("affinity: as many as asked for, neighbours, all of them in turn") {
  const std::vector<std::size_t> allowed{1, 3, 5, 7};
  CHECK(choose_cpus(allowed, 1, 0) == std::vector<std::size_t>{1});
  CHECK(choose_cpus(allowed, 1, 6) == std::vector<std::size_t>{5});
  CHECK(choose_cpus(allowed, 2, 3) == std::vector<std::size_t>{7, 1});
  CHECK(choose_cpus(allowed, 4, 9) == allowed);
  CHECK(choose_cpus(allowed, 100, 9) == allowed);
}

TEST_CASE("affinity: a process sees the processors that its share rounds up to") {
  const int seen = test::in_child([] {
    if (!show_cpus(::getpid(), 500).ok()) return 100;
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return 101;
    return CPU_COUNT(&set);
  });
  CHECK(seen == 1);
}

}  // namespace sbx::confine
