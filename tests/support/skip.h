// skip: leaves a test case that this machine cannot run, unless the machine was said to be able to.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace sbx::test {

/// True when `capability` ("cgroup-memory", "user", "kvm"…) can be used here; found by doing it.
/// Unknown names are a failure of the calling test.
bool have(std::string_view capability);

/// Prints "SKIP: needs CAPABILITY"; true when the case may be left. A capability listed in the
/// environment's SBX_TEST_REQUIRE (comma separated; NAME@root and NAME@user hold for that subject
/// only) may not be missing: then the case fails. While that variable is set, one that is not in
/// SBX_TEST_OPTIONAL either fails too. Nothing may be checked before it: ctest shows a case that
/// printed SKIP as skipped, whatever else it did.
bool skip_without(std::string_view capability);

/// Factor for every time-out and wait, from SBX_TEST_SLOW (1 when unset): emulated machines.
double slowness();

}  // namespace sbx::test

/// Ends the test case here when `capability` is missing; ctest shows it as skipped.
#define SKIP_UNLESS(capability)                  \
  do {                                           \
    if (::sbx::test::skip_without(capability)) { \
      return;                                    \
    }                                            \
  } while (false)
