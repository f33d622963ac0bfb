// Overlay mount tests: the host's directory stays as it was.
#include <doctest/doctest.h>

#include "tests/unit/backend/jail_driver.h"
