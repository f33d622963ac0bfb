# Runs inside the sandbox that makes a set of Python packages; REQUEST is put in front of it.
#
# It leaves a virtual environment in TARGET and says on stdout, as one JSON object, what is in it.
import base64, glob, hashlib, json, os, re, shutil, subprocess, sys

WORK = os.path.join(REQUEST["target"], ".sbx-work")
SOURCE = REQUEST["source"]
WHEELS = os.path.join(WORK, "wheels")
VENV_PYTHON = os.path.join(REQUEST["target"], "bin", "python3")


class Failed(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def folded(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return "sha256:" + digest.hexdigest()


def run(argv, env):
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, cwd=WORK)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def find_pip(env):
    """The directory or archive that pip is imported from."""
    status, text = run([sys.executable, "-c",
                        "import os, pip; print(os.path.dirname(os.path.dirname(pip.__file__)))"], env)
    if status == 0:
        return text.strip()
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        raise Failed("no_pip", "this Python has no pip")
    return wheels[-1]


def pip(python, command, arguments, env, path):
    options = ["--isolated", "--disable-pip-version-check", "--no-input", "--no-cache-dir",
               "--no-color", "--no-index"]
    status, text = run([python, "-m", "pip", command] + options + arguments,
                       dict(env, PYTHONPATH=path))
    if status == 0:
        return
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    shown = errors[:2] if errors else lines[-2:]
    code = "not_found" if any("No matching distribution" in line for line in errors) else "failed"
    raise Failed(code, "; ".join(line[:500].removeprefix("ERROR: ") for line in shown))


def build_options():
    """Where the source has no setuptools, what builds a package is what the host has."""
    return [] if glob.glob(os.path.join(glob.escape(SOURCE), "setuptools-*")) else ["--no-build-isolation"]


def take_locked(env, path):
    for package in REQUEST["packages"]:
        copy = os.path.join(WORK, "taken", package["file"])
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        try:
            shutil.copyfile(os.path.join(SOURCE, package["file"]), copy)
        except OSError as error:
            raise Failed("not_found", "%s: %s" % (package["file"], error.strerror))
        if sha256(copy) != package["digest"]:
            raise Failed("digest", "%s is not the file that the lock file names: its digest differs"
                         % package["file"])
        if copy.endswith(".whl"):
            os.rename(copy, os.path.join(WHEELS, package["file"]))
        else:
            pip(sys.executable, "wheel", ["--no-deps", "-w", WHEELS] + build_options() + [copy],
                env, path)


def origin(name, version, wheel):
    """The file of the source that `wheel` is, or was built from."""
    same = os.path.join(SOURCE, wheel)
    if os.path.isfile(same):
        return wheel
    for file in sorted(os.listdir(SOURCE)):
        for suffix in (".tar.gz", ".zip", ".tar.bz2", ".tgz"):
            if not file.endswith(suffix) or "-" not in file:
                continue
            stem, _, found = file[:-len(suffix)].rpartition("-")
            if folded(stem) == folded(name) and found == version:
                return file
    raise Failed("failed", "no file of the source gave %s" % wheel)


def describe(wheel):
    name, version = wheel[:-len(".whl")].split("-")[:2]
    name, version = folded(name), version.replace("_", "-")
    file = origin(name, version, wheel)
    digest = sha256(os.path.join(WHEELS, wheel) if file == wheel else os.path.join(SOURCE, file))
    return {"name": name, "version": version, "file": file, "digest": digest}


def make():
    for directory in (WHEELS, os.path.join(WORK, "home"), os.path.join(WORK, "tmp")):
        os.makedirs(directory)
    env = {"PATH": os.environ["PATH"], "HOME": os.path.join(WORK, "home"), "LANG": "C.UTF-8",
           "TMPDIR": os.path.join(WORK, "tmp"), "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    path = find_pip(env)
    if REQUEST["packages"]:
        take_locked(env, path)
    else:
        pip(sys.executable, "wheel", ["--find-links", SOURCE, "-w", WHEELS] + build_options() +
            ["--"] + REQUEST["wants"], env, path)
    wheels = sorted(os.listdir(WHEELS))
    packages = [describe(wheel) for wheel in wheels]
    status, text = run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages",
                        REQUEST["target"]], env)
    if status != 0:
        raise Failed("no_venv", text.strip()[-500:])
    pip(VENV_PYTHON, "install", ["--no-deps", "--ignore-installed", "--no-warn-script-location",
                                 "--"] + [os.path.join(WHEELS, wheel) for wheel in wheels], env, path)
    status, site = run([VENV_PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                       env)
    site = os.path.relpath(site.strip(), REQUEST["target"])
    return {"packages": packages, "site": site}


try:
    answer = make()
except Failed as failure:
    answer = {"error": failure.code, "text": str(failure)}
except OSError as failure:
    answer = {"error": "failed", "text": str(failure)}
shutil.rmtree(WORK, ignore_errors=True)
print(json.dumps(answer))
