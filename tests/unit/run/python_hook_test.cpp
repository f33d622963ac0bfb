// python_hook_test: the plot back end as the host's matplotlib meets it.
#include "core/run/python_hook.h"

#include <string>

#include "tests/support/process.h"
#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

bool has_matplotlib() {
  return test::run({.argv = {"/usr/bin/python3", "-c", "import matplotlib"}}).code == 0;
}

/// Runs `code` in a directory of its own with the back end in force; its files are in `dir`.
test::Outcome plot(const Tree& dir, const std::string& code) {
  dir.mkdir("hook");
  dir.write("hook/sbx_mpl.py", python_hook());
  return test::run({.argv = {"/usr/bin/python3", "-c", code},
                    .env = {"PYTHONPATH=" + dir.at("hook"),
                            "MPLBACKEND=module://sbx_mpl",
                            "PYTHONDONTWRITEBYTECODE=1",
                            "MPLCONFIGDIR=/tmp/sbx-mpl-test-config",
                            "HOME=/nonexistent"},
                    .cwd = dir.path(),
                    .timeout = 120});
}

}  // namespace

TEST_CASE("python hook: the text is embedded whole") {
  CHECK(python_hook().find("def show(") != std::string_view::npos);
  CHECK(python_hook().ends_with("pass\n"));
}

TEST_CASE("python hook: each show() writes the open figures, numbered on, over no other file") {
  if (!has_matplotlib()) {
    MESSAGE("SKIP: needs python3-matplotlib");
    return;
  }
  const Tree dir;
  dir.write("figure-2.png", "mine");
  const test::Outcome o = plot(dir,
                               "import matplotlib.pyplot as plt\n"
                               "plt.plot([1, 2]); plt.show()\n"
                               "plt.figure(); plt.plot([2, 1]); plt.figure(); plt.show()\n"
                               "plt.show()\n"
                               "fig, ax = plt.subplots(); ax.plot([1]); plt.show(block=False)\n"
                               "print(plt.get_fignums())\n");
  INFO(o.show());
  CHECK(o.code == 0);
  CHECK(o.out == "[]\n");
  CHECK(o.err.empty());
  for (const char* name : {"figure-1.png", "figure-3.png", "figure-4.png", "figure-5.png"}) {
    CAPTURE(name);
    CHECK(dir.read(name).rfind("\x89PNG", 0) == 0);
  }
  CHECK(dir.read("figure-2.png") == "mine");
  CHECK_FALSE(dir.exists("figure-6.png"));
}

TEST_CASE("python hook: savefig and fig.show() work as elsewhere") {
  if (!has_matplotlib()) {
    MESSAGE("SKIP: needs python3-matplotlib");
    return;
  }
  const Tree dir;
  const test::Outcome o =
      plot(dir,
           "import matplotlib.pyplot as plt\n"
           "plt.bar(['a', 'b'], [1, 2]); plt.savefig('bar.pdf')\n"
           "plt.gcf().show(); plt.close('all')\n"
           "plt.plot([1]); plt.pause(0.01); plt.draw(); plt.savefig('x.svg')\n");
  INFO(o.show());
  CHECK(o.code == 0);
  CHECK(dir.read("bar.pdf").rfind("%PDF", 0) == 0);
  CHECK(dir.exists("x.svg"));
}

}  // namespace sbx::run
