// Python hook: the plot back end that turns plt.show() into numbered pictures.
#pragma once

#include <string_view>

namespace sbx::run {

/// Where the python profile's PYTHONPATH finds it.
inline constexpr std::string_view kPythonHookPath = "/run/sbx/python/sbx_mpl.py";

/// The module's text, embedded at build time.
std::string_view python_hook();

}  // namespace sbx::run
