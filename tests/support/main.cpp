// main: doctest's own main, compiled once for every test binary.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN  // NOLINT(readability-identifier-naming): doctest's name
#include <doctest/doctest.h>
