# The process that holds the private world of one libvirt under test: mount namespace, daemons, and what they leave behind.
#
# It is started by daemon.py with a JSON description as its argument, makes the namespace, says "ready", and then obeys one
# JSON line after the other on standard input: {"argv": [...], "output": FILE} starts a process and answers its pid. It is
# the subreaper of everything started below it, so that an emulator whose daemon was killed is still reaped. When its input
# ends, it kills all of them: a test run that is killed leaves no daemon and no virtual machine.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import ctypes
import json
import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS = 0x00020000
PR_SET_CHILD_SUBREAPER = 36
KVM_DEVICE = os.makedev(10, 232)
_libc = ctypes.CDLL(None, use_errno=True)


def mount(*words):
    done = subprocess.run(['mount', *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'mount {" ".join(map(str, words))}: {done.stderr.strip()}')


def enter_namespace():
    if _libc.unshare(CLONE_NEWNS) != 0:
        sys.exit(f'unshare: {os.strerror(ctypes.get_errno())}; tests with libvirt need root')
    mount('--make-rprivate', '/')


def enter_chroot(root, binds):
    """Makes root the "/" of the namespace, as a mount point, which libvirt needs to give a domain a /dev of its own."""
    mount('--bind', root, root)
    for name, kind in [('/proc', '--rbind'), ('/sys', '--rbind'), ('/dev', '--rbind'), *((path, '--bind') for path in binds)]:
        Path(f'{root}{name}').mkdir(parents=True, exist_ok=True)
        mount(kind, name, f'{root}{name}')
    os.chdir(root)
    # With "." twice the old root is stacked on the new one and can be unmounted from there (pivot_root(2)).
    subprocess.run(['pivot_root', '.', '.'], check=True)
    subprocess.run(['umount', '-l', '.'], check=True)
    os.chdir('/')


def group_id(name):
    for line in Path('/etc/group').read_text().splitlines():
        fields = line.split(':')
        if fields[0] == name:
            return int(fields[2])
    sys.exit(f'there is no group {name}: is libvirt-daemon-system installed?')


def give_kvm_to_its_group(folder):
    """What udev does on other machines, here with a node that only this namespace sees."""
    node = Path(folder, 'kvm')
    if not os.path.exists('/dev/kvm'):
        return
    os.mknod(node, stat.S_IFCHR | 0o660, KVM_DEVICE)
    os.chown(node, 0, group_id('kvm'))
    node.chmod(0o660)
    mount('--bind', node, '/dev/kvm')


def make_private(folders):
    """folders: path in the namespace -> the folder outside that is seen there."""
    for place, source in folders.items():
        Path(place).mkdir(parents=True, exist_ok=True)
        mount('--bind', source, place)


def children(pid):
    try:
        return [int(word) for word in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
    except OSError:
        return []


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def kill_all():
    while (left := descendants(os.getpid())):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.wait()
        except ChildProcessError:
            pass


def spawn(order):
    output = os.open(order['output'], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for fd, number in ((os.open('/dev/null', os.O_RDWR), 0), (output, 1), (output, 2)):
            os.dup2(fd, number)
        signal.set_wakeup_fd(-1)
        try:
            os.execvpe(order['argv'][0], order['argv'], order['env'])
        except OSError as error:
            os.write(2, f'{order["argv"][0]}: {error}\n'.encode())
        os._exit(127)
    os.close(output)
    return pid


def serve():
    """Orders from standard input, dead children from the wake-up pipe, until the input ends."""
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    waiting = b''
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            reap()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b'\n')
            for line in lines:
                print(spawn(json.loads(line)), flush=True)


def main():
    plan = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    enter_namespace()
    if plan['chroot']:
        enter_chroot(plan['chroot'], plan['binds'])
    make_private(plan['folders'])
    give_kvm_to_its_group(plan['state'])
    print('ready', flush=True)
    try:
        serve()
    finally:
        kill_all()


if __name__ == '__main__':
    main()
