# image_rows: what a root made of an image costs, beside one of the host's tree.
import io
import os
import shutil
import subprocess
import tarfile
import tempfile

BUSYBOX = '/bin/busybox'


def archive():
    """The bytes of a tar file with a shell and /bin/true."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w') as tar:
        tar.add(os.path.realpath(BUSYBOX), arcname='bin/busybox')
        for name in ('sh', 'true'):
            link = tarfile.TarInfo('bin/' + name)
            link.type, link.linkname = tarfile.SYMTYPE, 'busybox'
            tar.addfile(link)
    return data.getvalue()


def measure(sbx, rounds, env, timed, pair, row):
    if not os.path.exists(BUSYBOX):
        print('no image rows: there is no ' + BUSYBOX)
        return []
    folder = tempfile.mkdtemp(prefix='sbx-bench-')
    before = env.get('SBX_STATE_DIR')
    env['SBX_STATE_DIR'] = folder
    try:
        subprocess.run([sbx, 'image', 'import', '-', 'bench'], input=archive(), env=env, check=True,
                       stdout=subprocess.DEVNULL)
        ours, theirs = pair(rounds, lambda: timed([sbx, 'run', '--image', 'bench', '--', '/bin/true']),
                            lambda: timed([sbx, 'run', '-p', 'base', '--', '/bin/true']))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        env.pop('SBX_STATE_DIR')
        if before is not None:
            env['SBX_STATE_DIR'] = before
    return [row('run --image true : run true', ours, theirs, 2.5, 'root of an image, of the host')]
