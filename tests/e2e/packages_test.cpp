// packages_test: -P and a profile's `packages`, with wheels and tarballs made here - chosen once in
// a sandbox, kept, shown read-only, under policy and lock file, whatever the archives hold.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// wheel(name, version, files, deps, scripts), npm(name, version, files, **manifest) and
/// sdist(name, version, files): archives in the directory argv[1].
constexpr std::string_view kMaker = R"py(
import io, json, os, sys, tarfile, zipfile
DIR = sys.argv[1]
os.makedirs(DIR, exist_ok=True)
def wheel(name, version, files, deps=(), scripts=(), raw=()):
    info = f'{name}-{version}.dist-info/'
    files = dict(files)
    files[info + 'METADATA'] = (f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n' +
                                ''.join(f'Requires-Dist: {d}\n' for d in deps))
    files[info + 'WHEEL'] = ('Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n'
                             'Tag: py3-none-any\n')
    if scripts:
        files[info + 'entry_points.txt'] = '[console_scripts]\n' + ''.join(f'{s}\n' for s in scripts)
    files[info + 'RECORD'] = ''.join(f'{n},,\n' for n in files)
    with zipfile.ZipFile(f'{DIR}/{name}-{version}-py3-none-any.whl', 'w') as z:
        for n, content in files.items():
            z.writestr(n, content)
        for entry, content in raw:
            z.writestr(entry, content)
def tar(path, files, links=()):
    with tarfile.open(path, 'w:gz') as t:
        for n, content in files.items():
            entry = tarfile.TarInfo(n)
            entry.size, entry.mode = len(content.encode()), 0o755
            t.addfile(entry, io.BytesIO(content.encode()))
        for n, target in links:
            entry = tarfile.TarInfo(n)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            t.addfile(entry)
def npm(name, version, files, links=(), **manifest):
    files = {'package/' + n: c for n, c in files.items()}
    files['package/package.json'] = json.dumps({'name': name, 'version': version, **manifest})
    tar(f'{DIR}/{name.replace("@", "").replace("/", "-")}-{version}.tgz', files, links)
def sdist(name, version, files):
    files = {f'{name}-{version}/{n}': c for n, c in files.items()}
    files[f'{name}-{version}/PKG-INFO'] = f'Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n'
    tar(f'{DIR}/{name}-{version}.tar.gz', files)
)py";

constexpr std::string_view kUsualArchives = R"py(
alpha = {'alpha/__main__.py': 'print("as a module")\n',
         'alpha/cli.py': 'def main():\n    print("as a command")\n'}
for version in ('1.0', '1.1'):
    wheel('alpha', version, {**alpha, 'alpha/__init__.py': f'import beta\nVERSION = "{version}"\n'},
          ['beta>=2'], ['alpha-command = alpha.cli:main'])
wheel('beta', '2.0', {'beta.py': 'WORTH = 2\n'})
npm('lefty', '1.0.0', {'index.js': 'module.exports = "old";\n'})
npm('lefty', '1.2.0', {'index.js': 'module.exports = "lefty and " + require("righty");\n',
                       'bin.js': '#!/usr/bin/env node\nconsole.log("bin of", require("righty"));\n'},
    dependencies={'righty': '^2.0.0'}, bin={'lefty-command': 'bin.js'},
    scripts={'install': 'touch ran-a-script', 'preinstall': 'touch ran-a-script'})
npm('righty', '2.1.0', {'index.js': 'module.exports = "righty";\n'})
npm('@scope/modern', '0.1.0', {'index.mjs': 'export default "modern";\n'}, exports='./index.mjs')
)py";

/// Lines of a batch.
constexpr std::string_view kJobs =
    R"json({"id":"a","profile":"python","package":"alpha","code":"import alpha; print(alpha.VERSION)"}
{"id":"b","profile":"python","package":["alpha==1.0"],"code":"import alpha; print(alpha.VERSION)"}
{"id":"c","profile":"python","code":"import alpha"}
)json";

/// A state directory and a directory of archives of its own.
class Packages {
 public:
  explicit Packages(std::string_view archives = kUsualArchives) { make(archives); }

  /// Makes (more) archives.
  void make(std::string_view archives) const {
    const std::string script =
        sessions_.dir().write("make.py", std::string(kMaker) + std::string(archives));
    const Outcome o = test::run({.argv = {"/usr/bin/python3", script, source()}, .as = &subject()});
    REQUIRE_MESSAGE(o.code == 0, o.show());
  }
  std::string source() const { return sessions_.dir().at("source"); }
  const Sessions& sessions() const { return sessions_; }
  const WorkDir& dir() const { return sessions_.dir(); }

  Args args(const Args& flags, const Args& program) const {
    Args all{"run", "--set", "packages.source=" + source()};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  Outcome run(const Args& flags, const Args& program) const {
    return sessions_.sbx(args(flags, program));
  }
  Outcome python(const Args& flags, const std::string& code) const {
    return run(flags, {"-p", "python", "-c", code});
  }
  Outcome node(const Args& flags, const std::string& code) const {
    return run(flags, {"-p", "node", "-c", code});
  }
  /// Names in STATE/packages that begin with `prefix`.
  std::vector<std::string> kept(std::string_view prefix) const {
    std::vector<std::string> names = names_in(sessions_.state_dir() + "/packages");
    std::erase_if(names, [&](const std::string& each) { return !each.starts_with(prefix); });
    return names;
  }

 private:
  Sessions sessions_;
};

void as_subject(const Args& argv) {
  const Outcome o = run({.argv = argv, .as = &subject()});
  REQUIRE_MESSAGE(o.code == 0, o.show());
}

/// Spoils every archive without changing name, size and times: who looks into one again, fails.
void spoil(const std::string& dir) {
  as_subject(
      {"/bin/sh",
       "-c",
       "cd \"$0\" && for f in *; do cp -p \"$f\" ../before; size=$(stat -c %s \"$f\"); "
       "head -c $size /dev/zero > ../zeros; cat ../zeros > \"$f\"; touch -r ../before \"$f\"; done",
       dir});
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("packages: pip packages come with what they need, as modules and as commands") {
    SKIP_UNLESS("pip");
    const Packages packages;
    Outcome o = packages.python({"-P", "alpha", "--json"},
                                "import alpha, beta; print(alpha.VERSION, beta.WORTH)");
    INFO(o.show());
    CHECK(field(o.out, "/stdout") == "1.1 2\n");
    CHECK(field(o.out, "/packages/pip") == R"(["alpha==1.1","beta==2.0"])");
    CHECK(field(o.out, "/artifacts") == "[]");
    o = packages.run({"-P", "pip:alpha==1.0"},
                     {"-p",
                      "bash",
                      "-c",
                      "python3 -m alpha && alpha-command && python3 -c 'import alpha; "
                      "print(alpha.VERSION)' && /usr/bin/python3 -c 'import beta'"});
    INFO(o.show());
    CHECK(o.out == "as a module\nas a command\n1.0\n");
    CHECK(packages.kept("pip-").size() == 2);
    CHECK(packages.kept(".tmp-").empty());
  }

  TEST_CASE("packages: npm packages are required, imported and run; their scripts are not") {
    SKIP_UNLESS("npm");
    const Packages packages;
    Outcome o = packages.node({"-P", "lefty@^1", "-P", "@scope/modern", "--json"},
                              "console.log(require('lefty')); "
                              "import('@scope/modern').then((m) => console.log(m.default))");
    INFO(o.show());
    CHECK(field(o.out, "/stdout") == "lefty and righty\nmodern\n");
    CHECK(field(o.out, "/packages/npm") ==
          R"(["@scope/modern@0.1.0","lefty@1.2.0","righty@2.1.0"])");
    o = packages.run(
        {"-P", "npm:lefty", "-P", "npm:@scope/modern"},
        {"-p", "bash", "-c", "lefty-command; find /node_modules -name 'ran-a-script'"});
    INFO(o.show());
    CHECK(o.out == "bin of righty\n");
  }

  TEST_CASE("packages: a second run looks into no archive again") {
    SKIP_UNLESS("pip");
    SKIP_UNLESS("npm");
    const Packages packages;
    const Args both{"-P", "pip:alpha", "-P", "npm:lefty"};
    const std::string code = "python3 -c 'import alpha; print(alpha.VERSION)'; lefty-command";
    const Outcome first = packages.run(both, {"-p", "bash", "-c", code});
    INFO(first.show());
    REQUIRE(first.out == "1.1\nbin of righty\n");
    spoil(packages.source());
    const Outcome second = packages.run(both, {"-p", "bash", "-c", code});
    INFO(second.show());
    CHECK(second.out == first.out);
    // And a new archive means a new choice, which finds the spoilt ones.
    packages.make("wheel('gamma', '1', {})");
    CHECK(packages.run(both, {"-p", "bash", "-c", code}).code != 0);
  }

  TEST_CASE("packages: nothing inside can change them, and they are no artifacts") {
    SKIP_UNLESS("pip");
    const Packages packages;
    const Outcome o =
        packages.python({"-P", "beta"},
                        "import beta, os\n"
                        "for path in (beta.__file__, os.path.dirname(beta.__file__) + '/new'):\n"
                        "    try:\n        open(path, 'a'); print('changed')\n"
                        "    except OSError as e: print(e.errno)\n");
    INFO(o.show());
    CHECK(o.out == "30\n30\n");
  }

  TEST_CASE("packages: options, URLs and paths are refused before anything is started") {
    const Packages packages("");
    for (const char* spec : {"--index-url=http://127.0.0.1/",
                             "-r/etc/passwd",
                             "https://127.0.0.1/x.whl",
                             "git+file:///x",
                             "./x",
                             "/etc/passwd",
                             "x @ file:///etc/passwd",
                             "npm:user/repo",
                             "npm:file:../x",
                             "npm:--prefix=/"}) {
      const Outcome o = packages.python({"-P", spec}, "print(1)");
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(contains(o.err, "-P/--package: \""));
      CHECK(o.out.empty());
    }
    const Outcome o = packages.run({"-P", "six"}, {"--", "/bin/true"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "-P pip:six or -P npm:six"));
  }

  TEST_CASE("packages: without a source, or without what is wanted in it, the message says how") {
    SKIP_UNLESS("pip");
    SKIP_UNLESS("npm");
    const Packages packages;
    Outcome o = packages.sessions().sbx({"run", "-P", "alpha", "-c", "print(1)"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "no packages.source"));
    CHECK(contains(o.err, "pip download -d DIR 'alpha'"));
    o = packages.python({"-P", "alpha==9"}, "print(1)");
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "alpha==9"));
    CHECK(contains(o.err, "pip download -d "));
    o = packages.node({"-P", "nowhere"}, "");
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "nothing there is called nowhere"));
    CHECK(contains(o.err, "npm pack"));
    o = packages.run({"-P", "alpha", "--set", "packages.source=/nonexistent"}, {"-c", "1"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "/nonexistent"));
    CHECK(packages.kept("pip-").empty());
    CHECK(packages.kept(".tmp-").empty());
  }

  TEST_CASE("packages: policy counts for what others need, and a project cannot lift the user's") {
    SKIP_UNLESS("pip");
    const Packages packages;
    Outcome o = packages.python({"-P", "alpha", "--set", "packages.deny=[Beta]"}, "print(1)");
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "package beta is refused by packages.deny of profile python"));
    CHECK(packages.kept("pip-").empty());
    o = packages.python({"-P", "alpha", "--set", "packages.allow=[alpha]"}, "print(1)");
    INFO(o.show());
    CHECK(contains(o.err, "package beta is not in packages.allow"));
    // Also where the set is there already.
    REQUIRE(packages.python({"-P", "alpha"}, "print(1)").code == 0);
    CHECK(packages.python({"-P", "alpha", "--set", "packages.deny=[beta]"}, "print(1)").code ==
          125);

    as_subject({"/bin/mkdir", "-p", packages.dir().at("config/sbx/profiles")});
    packages.dir().write("config/sbx/profiles/base.yaml", "packages:\n  deny: ['bet*']\n");
    const std::string project =
        packages.dir().write("project.yaml",
                             "extends: python\npackages:\n  pip: [alpha]\n  allow: ['*']\n  deny: "
                             "[]\n  source: source\n");
    Spec spec = packages.sessions().spec({"run", "-p", project, "-c", "print(1)"});
    REQUIRE(run(spec).code == 0);
    spec.env.push_back("XDG_CONFIG_HOME=" + packages.dir().at("config"));
    o = run(spec);
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "config/sbx/profiles/base.yaml"));
  }

  TEST_CASE("packages: a lock file pins versions and digests; frozen chooses nothing anew") {
    SKIP_UNLESS("pip");
    SKIP_UNLESS("npm");
    const Packages packages;
    const std::string lock = packages.dir().at("sbx.lock");
    const Args flags{"-P", "pip:alpha", "-P", "npm:lefty", "--set", "packages.lock=" + lock};
    const Args frozen{"-P",
                      "pip:alpha",
                      "-P",
                      "npm:lefty",
                      "--set",
                      "packages.lock=" + lock,
                      "--set",
                      "packages.frozen=true"};
    const Args program{"-p",
                       "bash",
                       "-c",
                       "python3 -c 'import alpha; print(alpha.VERSION)'; "
                       "node -p 'require(\"lefty\")'"};
    Outcome o = packages.run(frozen, program);
    INFO(o.show());
    CHECK(o.code == 2);
    o = packages.run(flags, program);
    INFO(o.show());
    REQUIRE(o.out == "1.1\nlefty and righty\n");
    const std::string written = slurp(lock);
    CHECK(field(written, "/pip/packages/0/name") == "alpha");
    CHECK(field(written, "/pip/packages/0/version") == "1.1");
    CHECK(field(written, "/npm/packages/1/name") == "righty");
    // Newer ones are there now: the lock file says which it is, set or no set.
    packages.make(
        "wheel('alpha', '3', {'alpha.py': 'VERSION = 3\\n'}); "
        "npm('lefty', '1.9.0', {'index.js': 'module.exports = 9;\\n'})");
    CHECK(packages.run(frozen, program).out == o.out);
    as_subject({"/bin/rm", "-rf", packages.sessions().state_dir() + "/packages"});
    o = packages.run(frozen, program);
    INFO(o.show());
    CHECK(o.out == "1.1\nlefty and righty\n");
    CHECK(slurp(lock) == written);
    // Without the source the kept set is enough.
    o = packages.sessions().sbx({"run",
                                 "-P",
                                 "pip:alpha",
                                 "-P",
                                 "npm:lefty",
                                 "--set",
                                 "packages.lock=" + lock,
                                 "-p",
                                 "bash",
                                 "-c",
                                 "echo ok"});
    INFO(o.show());
    CHECK(o.out == "ok\n");
    // Other packages: frozen refuses, else the file is written anew.
    o = packages.run(
        {"-P", "pip:alpha==3", "--set", "packages.lock=" + lock, "--set", "packages.frozen=true"},
        program);
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "was written for other pip packages"));
    CHECK(packages
              .run({"-P", "pip:alpha==3", "--set", "packages.lock=" + lock},
                   {"-p", "bash", "-c", "true"})
              .code == 0);
    CHECK(field(slurp(lock), "/pip/packages/0/version") == "3");
  }

  TEST_CASE("packages: an archive that is not the one that was locked is refused") {
    SKIP_UNLESS("pip");
    SKIP_UNLESS("npm");
    const Packages packages;
    const std::string lock = packages.dir().at("sbx.lock");
    for (const char* spec : {"pip:beta", "npm:righty"}) {
      const Args flags{"-P", spec, "--set", "packages.lock=" + lock};
      as_subject({"/bin/rm", "-f", lock});
      REQUIRE(packages.run(flags, {"-p", "bash", "-c", "true"}).code == 0);
    }
    as_subject({"/bin/rm", "-rf", packages.sessions().state_dir() + "/packages"});
    packages.make(
        "npm('righty', '2.1.0', {'index.js': 'module.exports = \"evil\";\\n'}); "
        "wheel('beta', '2.0', {'beta.py': 'EVIL = 1\\n'})");
    Outcome o = packages.run({"-P", "npm:righty", "--set", "packages.lock=" + lock},
                             {"-p", "bash", "-c", "true"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "digest"));
    as_subject({"/bin/rm", "-f", lock});
    const Packages other;
    REQUIRE(
        other
            .run({"-P", "pip:beta", "--set", "packages.lock=" + lock}, {"-p", "bash", "-c", "true"})
            .code == 0);
    o = packages.run({"-P", "pip:beta", "--set", "packages.lock=" + lock},
                     {"-p", "bash", "-c", "true"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "digest"));
    CHECK(packages.kept("pip-").empty());
  }

  TEST_CASE("packages: two that want the same at once make it once") {
    SKIP_UNLESS("pip");
    const Packages packages;
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < 4; ++i) {
      children.push_back(std::make_unique<Child>(packages.sessions().spec(packages.args(
          {"-P", "alpha"}, {"-p", "python", "-c", "import alpha; print(alpha.VERSION)"}))));
    }
    for (const auto& child : children) {
      const Outcome o = child->wait();
      INFO(o.show());
      CHECK(o.out == "1.1\n");
    }
    CHECK(packages.kept("pip-").size() == 1);
    CHECK(packages.kept(".tmp-").empty());
  }

  TEST_CASE("packages: killed half way there is no half set, and the next one makes it whole") {
    SKIP_UNLESS("pip");
    const Packages packages;
    for (const double after : {0.05, 0.2, 0.6, 1.2}) {
      Child child(packages.sessions().spec(
          packages.args({"-P", "alpha"}, {"-p", "python", "-c", "import alpha"})));
      pause(after);
      child.kill(SIGKILL);
      child.wait();
    }
    const Outcome o = packages.python({"-P", "alpha"}, "import alpha; print(alpha.VERSION)");
    INFO(o.show());
    CHECK(o.out == "1.1\n");
    CHECK(packages.kept("pip-").size() == 1);
    for (const std::string& half : packages.kept(".tmp-")) {
      as_subject({"/usr/bin/touch",
                  "-d",
                  "2 hours ago",
                  packages.sessions().state_dir() + "/packages/" + half});
    }
    const std::size_t halves = packages.kept(".tmp-").size();
    const Outcome dry = packages.sessions().sbx({"gc", "--dry-run"});
    INFO(dry.show());
    CHECK(contains(dry.out, "would remove packages ") == (halves > 0));
    CHECK(packages.sessions().sbx({"gc"}).code == 0);
    CHECK(packages.kept(".tmp-").empty());
    CHECK(packages.kept("pip-").size() == 1);
  }

  TEST_CASE("packages: a hostile wheel changes nothing outside its set") {
    SKIP_UNLESS("pip");
    const Packages packages(R"py(
link = zipfile.ZipInfo('linked')
link.external_attr = 0o120777 << 16
def hostile(name, raw):
    wheel(name, '1', {name + '.py': 'HERE = 1\n'}, raw=raw)
hostile('climber', [('../../../../../../../../tmp/sbx-escaped', 'x')])
hostile('rooted', [('/tmp/sbx-escaped', 'x')])
hostile('linker', [(link, '/tmp'), ('linked/sbx-escaped', 'x')])
hostile('scripter', [('scripter-1.data/scripts/../../../../../../tmp/sbx-escaped', 'x')])
hostile('dataful', [('dataful-1.data/data/../../../../../../../tmp/sbx-escaped', 'x')])
setuid = zipfile.ZipInfo('setuid.bin')
setuid.external_attr = 0o106755 << 16
hostile('risen', [(setuid, 'x')])
)py");
    const std::string before = packages.dir().path();
    for (const char* name : {"climber", "rooted", "linker", "scripter", "dataful", "risen"}) {
      const Outcome o = packages.python({"-P", name}, std::string("import ") + name);
      INFO(name);
      INFO(o.show());
      CHECK((o.code == 0 || o.code == 125));
      CHECK(!exists("/tmp/sbx-escaped"));
    }
    CHECK(names_in(before) == std::vector<std::string>{"make.py", "source", "state"});
    const Outcome found = run({.argv = {"/usr/bin/find",
                                        packages.sessions().state_dir(),
                                        "-name",
                                        "sbx-escaped",
                                        "-o",
                                        "-perm",
                                        "/6000"},
                               .as = &subject()});
    CHECK(!contains(found.out, "setuid"));
    CHECK(packages.kept(".tmp-").empty());
  }

  TEST_CASE("packages: a hostile npm tarball changes nothing outside its set") {
    SKIP_UNLESS("npm");
    const Packages packages(R"py(
npm('climber', '1.0.0', {'../../../../../../../tmp/sbx-escaped': 'x', 'index.js': ''})
npm('linker', '1.0.0', {'index.js': '', 'up/sbx-escaped': 'x'}, links=[('package/up', '/tmp')])
npm('binner', '1.0.0', {'index.js': ''}, bin={'../../../../../../tmp/sbx-escaped': 'index.js'})
)py");
    for (const char* name : {"climber", "linker", "binner"}) {
      const Outcome o = packages.node({"-P", name}, "");
      INFO(name);
      INFO(o.show());
      CHECK((o.code == 0 || o.code == 125));
      CHECK(!exists("/tmp/sbx-escaped"));
    }
    CHECK(packages.kept(".tmp-").empty());
  }

  TEST_CASE("packages: a package that comes as source is built inside, where it sees nothing") {
    SKIP_UNLESS("pip");
    const Packages packages(R"py(
sdist('built', '1.0', {'built.py': 'HERE = 1\n', 'setup.py': '''
import os
from setuptools import setup
for path in ("/tmp/sbx-escaped", "/run/sbx/packages/source/sbx-escaped", "/usr/sbx-escaped"):
    try:
        open(path, "w").close()
    except OSError:
        pass
assert not os.path.exists("/root/.ssh") and os.listdir("/home") == ["sbx"]
setup(name="built", version="1.0", py_modules=["built"])
'''})
)py");
    const Outcome o = packages.python({"-P", "built", "--json"}, "import built; print(built.HERE)");
    INFO(o.show());
    CHECK(field(o.out, "/stdout") == "1\n");
    CHECK(field(o.out, "/packages/pip") == R"(["built==1.0"])");
    CHECK(!exists("/tmp/sbx-escaped"));
    CHECK(names_in(packages.source()) == std::vector<std::string>{"built-1.0.tar.gz"});
  }

  TEST_CASE("packages: a dry run makes nothing") {
    SKIP_UNLESS("python");
    const Packages packages;
    Outcome o = packages.python({"-P", "alpha", "--dry-run"}, "print(1)");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(packages.kept("pip-").empty());
    CHECK(packages.kept("wish-").empty());
  }

  TEST_CASE("packages: a batch adds them to each job that wants them") {
    SKIP_UNLESS("pip");
    const Packages packages;
    const std::string jobs = packages.dir().write("jobs.jsonl", std::string(kJobs));
    const Outcome o = packages.sessions().sbx(
        {"batch", jobs, "-j", "2", "--set", "packages.source=" + packages.source()});
    INFO(o.show());
    CHECK(o.code == 1);
    for (const std::string& line : lines_of(o.out)) {
      const std::string job = field(line, "/job");
      const std::string out = field(line, "/stdout");
      CHECK(out == (job == "a" ? "1.1\n" : job == "b" ? "1.0\n" : ""));
    }
  }

  TEST_CASE("packages: a session keeps what it was made with, also when the source is gone") {
    SKIP_UNLESS("pip");
    SKIP_UNLESS("npm");
    const Packages packages;
    const Sessions& sessions = packages.sessions();
    sessions.start(
        "dev",
        {"-P", "pip:alpha", "-P", "npm:lefty", "--set", "packages.source=" + packages.source()});
    const std::string code =
        "python3 -m alpha && alpha-command && lefty-command && node -p 'require(\"lefty\")'";
    const std::string right = "as a module\nas a command\nbin of righty\nlefty and righty\n";
    Outcome o = sessions.exec("dev", code);
    INFO(o.show());
    CHECK(o.out == right);
    REQUIRE(sessions.call({"stop", "dev"}).code == 0);
    as_subject({"/bin/rm", "-rf", packages.source()});
    for (const std::string& name : packages.kept("")) {
      as_subject(
          {"/usr/bin/touch", "-d", "60 days ago", sessions.state_dir() + "/packages/" + name});
    }
    REQUIRE(sessions.sbx({"gc"}).code == 0);
    CHECK(packages.kept("pip-").size() == 1);
    CHECK(packages.kept("wish-").empty());
    o = sessions.exec("dev", code);
    INFO(o.show());
    CHECK(o.out == right);
    REQUIRE(sessions.call({"stop", "dev"}).code == 0);
    const std::string kept = sessions.state_dir() + "/packages/";
    const std::string set = packages.kept("npm-").front();
    as_subject({"/bin/mv", kept + set, packages.dir().at("hidden")});
    o = sessions.exec("dev", "true");
    INFO(o.show());
    CHECK(o.code != 0);
    CHECK(contains(o.err, "the session's packages are gone"));
    as_subject({"/bin/mv", packages.dir().at("hidden"), kept + set});
    REQUIRE(sessions.call({"rm", "-f", "dev"}).code == 0);
    for (const std::string& name : packages.kept("")) {
      as_subject(
          {"/usr/bin/touch", "-d", "60 days ago", sessions.state_dir() + "/packages/" + name});
    }
    const Outcome dry = sessions.sbx({"gc", "--dry-run"});
    INFO(dry.show());
    CHECK(contains(dry.out, "nobody used it for 60 days"));
    REQUIRE(sessions.sbx({"gc"}).code == 0);
    CHECK(packages.kept("pip-").empty());
    CHECK(packages.kept("npm-").empty());
  }
}

}  // namespace sbx::test
