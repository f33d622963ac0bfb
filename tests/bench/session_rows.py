# session_rows: what sessions cost, side by side with what others need for the same.
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

BUNDLE_MOUNTS = [
    {'destination': '/proc', 'type': 'proc', 'source': 'proc'},
    {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs',
     'options': ['nosuid', 'strictatime', 'mode=755', 'size=65536k']},
    {'destination': '/usr', 'type': 'none', 'source': '/usr', 'options': ['rbind', 'ro']},
]


class Sessions:
    """Sessions of a state directory of their own, all removed at the end."""

    def __init__(self, sbx, env):
        self.dir = tempfile.mkdtemp(prefix='sbx-bench-')
        self.sbx = sbx
        env['SBX_STATE_DIR'] = self.dir
        self.env = dict(env)

    def argv(self, *words):
        return [self.sbx, 'session', *words]

    def call(self, *words):
        done = subprocess.run(self.argv(*words), env=self.env, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode()

    def names(self):
        return self.call('ls', '-q').split()

    def close(self):
        for name in self.names():
            self.call('rm', '-f', name)
        shutil.rmtree(self.dir)


def runc_container(folder):
    """A container of runc that sleeps, with the host's /usr as the session has it; its id, or why not."""
    if os.geteuid() != 0:
        return None, 'runc needs root'
    if not shutil.which('runc'):
        return None, 'runc is not installed'
    for name in ('bin', 'sbin', 'lib', 'lib64'):
        os.makedirs(os.path.join(folder, 'rootfs'), exist_ok=True)
        os.symlink('usr/' + name, os.path.join(folder, 'rootfs', name))
    for name in ('proc', 'dev', 'usr'):
        os.mkdir(os.path.join(folder, 'rootfs', name))
    subprocess.run(['runc', 'spec'], cwd=folder, check=True)
    path = os.path.join(folder, 'config.json')
    with open(path) as file:
        config = json.load(file)
    config['process']['terminal'] = False
    config['process']['args'] = ['/usr/bin/sleep', 'infinity']
    config['mounts'] = BUNDLE_MOUNTS
    config['linux'].pop('resources', None)
    with open(path, 'w') as file:
        json.dump(config, file)
    name = f'sbx-bench-{os.getpid()}'
    started = subprocess.run(['runc', 'run', '-d', '--no-new-keyring', '-b', folder, name],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=open(os.path.join(folder, 'stderr'), 'w'), check=False)
    if started.returncode != 0:
        with open(os.path.join(folder, 'stderr')) as file:
            return None, 'runc run: ' + file.read().strip()[-200:]
    return name, ''


def exec_rows(sessions, rounds, timed, pair, row):
    rows = []
    sessions.call('start', 's', '-p', 'bash', '--set', 'limits.timeout=unlimited', '-q')
    sessions.call('exec', 's', '-d', '--', 'sleep', '1000')
    ours = sessions.argv('exec', 's', '--', 'true')
    with open(os.path.join(sessions.dir, 'sessions/s/life')) as file:
        inside = json.load(file)['init']['pid']
    nsenter = ['/usr/bin/nsenter', '-a', '-t', str(inside), '/usr/bin/true']
    if os.geteuid() == 0:
        one, other = pair(rounds, lambda: timed(ours), lambda: timed(nsenter))
        rows.append(row('session exec true : nsenter -a true', one, other, 2, 'all namespaces of PID 1'))
    with tempfile.TemporaryDirectory() as folder:
        name, why = runc_container(folder)
        if name:
            runc = [shutil.which('runc'), 'exec', name, '/usr/bin/true']
            try:
                one, other = pair(rounds, lambda: timed(ours), lambda: timed(runc))
                rows.append(row('session exec true : runc exec true', one, other, 0.25, 'host /usr bound'))
            finally:
                subprocess.run(['runc', 'delete', '-f', name], check=False)
        else:
            print(f'SKIP: runc exec: {why}')

    def pause_and_resume():
        return timed(sessions.argv('pause', 's')) + timed(sessions.argv('resume', 's'))
    one, other = pair(rounds, pause_and_resume, lambda: timed([sessions.sbx, 'version']))
    rows.append(row('session pause + resume : sbx version', one, other, 3, 'two commands against one'))
    return rows


def layer_rows(sessions, rounds, timed, pair, row):
    for name, size in (('small', '1M'), ('large', '1G')):
        sessions.call('start', name, '-p', 'bash', '-q')
        sessions.call('exec', name, '--', 'bash', '-c', f'head -c {size} /dev/urandom >/work/f')
        sessions.call('stop', name)
    count = [0]

    def checkpoint(name):
        count[0] += 1
        return timed(sessions.argv('checkpoint', name, f'b{count[0]}'))

    def fork(name):
        count[0] += 1
        return timed(sessions.argv('fork', name, f'{name}-{count[0]}'))
    rows = []
    for word, one in (('checkpoint', checkpoint), ('fork', fork)):
        large, small = pair(min(rounds, 8), lambda: one('large'), lambda: one('small'))
        rows.append(row(f'session {word} of 1 GiB : of 1 MiB', large, small, 1.25, 'stopped sessions'))
    return rows


def available():
    with open('/proc/meminfo') as file:
        for line in file:
            if line.startswith('MemAvailable:'):
                return int(line.split()[1]) / 1024
    return 0


def crowd_rows(sessions, count, row):
    sessions.call('start', 'warm', '-p', 'bash', '-q')
    sessions.call('rm', '-f', 'warm')
    time.sleep(1)
    before = available()
    took = []
    for i in range(count):
        begin = time.perf_counter_ns()
        sessions.call('start', f'idle-{i}', '-p', 'bash', '-q')
        took.append((time.perf_counter_ns() - begin) / 1e6)
    time.sleep(1)
    each = (before - available()) / count
    part = max(3, count // 10)
    first, last = statistics.median(took[:part]), statistics.median(took[-part:])
    return [row(f'memory of each of {count} idle sessions (MiB)', each, 1, 5, 'fall of MemAvailable'),
            row(f'start of session {count} : of the first', last, first, 1.25,
                f'medians of {part} starts each')]


def measure(sbx, rounds, env, timed, pair, row, count=100):
    rows = []
    for part in (lambda s: exec_rows(s, rounds, timed, pair, row),
                 lambda s: layer_rows(s, rounds, timed, pair, row),
                 lambda s: crowd_rows(s, count, row)):
        sessions = Sessions(sbx, env)
        try:
            rows += part(sessions)
        finally:
            sessions.close()
    return rows
