// Drivers: the programs that make a set inside a sandbox, pip_driver.py and npm_driver.js. Each
// wants its request in front of it, as REQUEST.
#pragma once

#include <string_view>

namespace sbx::packages {

std::string_view pip_driver();
std::string_view npm_driver();

}  // namespace sbx::packages
