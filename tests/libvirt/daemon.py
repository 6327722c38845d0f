# One libvirt of its own for tests, demo and benchmarks: virtlogd and libvirtd, started by hand in a private mount namespace.
#
# /run/libvirt, /etc/libvirt, /var/{lib,cache,log}/libvirt and /dev/kvm are private, so that any number of them can run beside
# each other and beside the machine's own. keeper.py holds the namespace. COWBIRD_LIBVIRT=11 takes Debian 13's libvirt from a
# chroot (trixie.py). Standard library only.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {'PATH': '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'LC_ALL': 'C', 'TERM': 'dumb'}
URI = 'qemu:///system'
PRIVATE = {'/run/libvirt': 'run', '/etc/libvirt': 'etc', '/var/lib/libvirt': 'lib', '/var/cache/libvirt': 'cache',
           '/var/log/libvirt': 'log'}
# Debug: traffic with the monitor, probing, starting and every command line; of the rest only warnings and errors.
FILTERS = '1:qemu.qemu_monitor 1:qemu.qemu_process 1:qemu.qemu_capabilities 1:util.command 3:*'
LIBVIRTD_CONF = """unix_sock_group = "root"
unix_sock_ro_perms = "0777"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_filters = "{filters}"
log_outputs = "1:file:/var/log/libvirt/libvirtd.log"
"""
# AppArmor would confine the emulator to paths that packages have; the tests run it from elsewhere. DAC stays on.
QEMU_CONF = {'security_driver': 'none'}

LOG_LINE = re.compile(r'^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+0000): (\d+): (debug|info|warning|error) : (.*)$')
QMP_LINE = re.compile(r'(QEMU_MONITOR_IO_WRITE: mon=\S+ buf=|QEMU_MONITOR_RECV_(?:EVENT|REPLY): mon=\S+ (?:event|reply)=)'
                      r'(\{.*\})')


class VirshError(Exception):
    """virsh failed; stderr is what it said."""

    def __init__(self, words, status, stdout, stderr):
        super().__init__(f'virsh {" ".join(words)}: status {status}: {stderr.strip() or stdout.strip()}')
        self.status, self.stdout, self.stderr = status, stdout, stderr


def wanted_version():
    """9 (this machine's) or 11 (Debian 13's in a chroot)."""
    return int(os.environ.get('COWBIRD_LIBVIRT', '9'))


def log_time(text):
    """Seconds since the epoch; libvirt writes UTC with milliseconds."""
    seconds, fraction = text[:-len('+0000')].split('.')
    return time.mktime(time.strptime(seconds, '%Y-%m-%d %H:%M:%S')) - time.timezone + float(f'0.{fraction}')


def still_there(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def wait_until(condition, what, timeout=30, pause=0.02):
    """Returns the condition's first true value."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f'not within {timeout} s: {what}')
        time.sleep(pause)
    return value


def quoted(value):
    """A value as libvirt's configuration files want it."""
    if isinstance(value, (list, tuple)):
        return f'[ {", ".join(quoted(item) for item in value)} ]'
    return str(int(value)) if isinstance(value, (bool, int)) else f'"{value}"'


class Virsh:
    """virsh of a libvirt, by run_inside() and popen_inside() of the class."""

    def virsh(self, *words, check=True, timeout=60):
        """What the command printed, without the empty lines at its end. A failure raises VirshError, or with check=False
        its message is returned. What virsh says stands in the daemon's log too and counts there as expected."""
        words = [str(word) for word in words]
        done = self.run_inside(['virsh', '-c', URI, *words], check=False, timeout=timeout)
        if done.returncode == 0:
            return done.stdout.rstrip('\n')
        self.expected += [line.removeprefix('error: ') for line in done.stderr.splitlines() if line.strip()]
        if check:
            raise VirshError(words, done.returncode, done.stdout, done.stderr)
        return done.stderr.strip()

    def popen_virsh(self, *words, **options):
        return self.popen_inside(['virsh', '-c', URI, *words], **options)

    @property
    def version(self):
        """Of the library, as (9, 0, 0)."""
        text = self.virsh('version')
        return tuple(int(word) for word in re.search(r'Using library: libvirt (\d+)\.(\d+)\.(\d+)', text).groups())


class Libvirt(Virsh):
    """Daemons that run until stop(); `folder` is an existing folder that everybody may enter, and keeps the logs."""

    def __init__(self, folder, chroot=None, start=True, **qemu_conf):
        self.folder, self.chroot = Path(folder), chroot
        self.state = Path(tempfile.mkdtemp(prefix='libvirt-', dir=folder))
        self.qemu_conf = {**QEMU_CONF, **qemu_conf}
        self.expected, self.notes = [], []
        self.pids = {}
        for name in PRIVATE.values():
            (self.state / name).mkdir(parents=True)
        for path in (self.state, *self.state.iterdir()):
            path.chmod(0o755)
        (self.state / 'etc/libvirtd.conf').write_text(LIBVIRTD_CONF.format(filters=FILTERS))
        (self.state / 'etc/virtlogd.conf').write_text('log_outputs = "1:file:/var/log/libvirt/virtlogd.log"\n')
        self._write_qemu_conf()
        self._start_keeper()
        if start:
            try:
                self.start()
            except BaseException:
                self.stop()
                raise

    def _write_qemu_conf(self):
        text = ''.join(f'{name} = {quoted(value)}\n' for name, value in self.qemu_conf.items())
        (self.state / 'etc/qemu.conf').write_text(text)

    def _start_keeper(self):
        plan = {'chroot': self.chroot and str(self.chroot), 'binds': [str(self.folder.parent)], 'state': str(self.state),
                'folders': {place: str(self.state / name) for place, name in PRIVATE.items()}}
        self.keeper = subprocess.Popen(['/usr/bin/python3', HERE / 'keeper.py', json.dumps(plan)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                       env=ENVIRONMENT)
        if self.keeper.stdout.readline() != 'ready\n':
            raise RuntimeError(f'no namespace for libvirt: {self.keeper.communicate()[1].strip()}')

    # Daemons

    def _spawn(self, name, *argv):
        order = {'argv': [f'/usr/sbin/{name}', *argv], 'output': f'/var/log/libvirt/{name}.out', 'env': ENVIRONMENT}
        self.keeper.stdin.write(json.dumps(order) + '\n')
        self.keeper.stdin.flush()
        self.pids[name] = int(self.keeper.stdout.readline())

    def start(self):
        """Start what does not run and wait until it answers."""
        if not self.runs('virtlogd'):
            self._spawn('virtlogd', '-f', '/etc/libvirt/virtlogd.conf', '-p', '/run/libvirt/virtlogd.pid')
            wait_until((self.state / 'run/virtlogd-sock').exists, 'virtlogd listens')
        if not self.runs('libvirtd'):
            self._spawn('libvirtd', '-f', '/etc/libvirt/libvirtd.conf', '-p', '/run/libvirt/libvirtd.pid')
        wait_until(self._answers, f'libvirtd answers; its log ends: {self.log_text()[-500:]}')

    def _answers(self):
        if not self.runs('libvirtd'):
            raise RuntimeError(f'libvirtd ended: {(self.state / "log/libvirtd.out").read_text()[-2000:]}')
        return self.run_inside(['virsh', '-c', URI, 'uri'], check=False).returncode == 0

    def runs(self, name):
        return name in self.pids and still_there(self.pids[name])

    def end_daemon(self, name='libvirtd', kill=False):
        """Domains go on running. kill: without a chance to clean up."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[name], signal.SIGKILL if kill else signal.SIGTERM)
        # libvirt 11.3 sometimes waits 30 s for a thread of its own.
        wait_until(lambda: not self.runs(name), f'{name} ends', timeout=60)

    def restart_daemon(self, kill=False):
        self.end_daemon(kill=kill)
        self.start()

    def configure(self, **settings):
        """Settings of qemu.conf, None for the default; the daemon is restarted if they are new."""
        new = {**self.qemu_conf, **settings}
        new = {name: value for name, value in new.items() if value is not None}
        if new != self.qemu_conf:
            self.qemu_conf = new
            self._write_qemu_conf()
            self.restart_daemon()

    def stop(self):
        """End the daemons and every process below them. The folder with the logs stays."""
        self.keeper.stdin.close()
        self.keeper.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    # Inside

    def inside(self, path):
        """Where a path of the namespace is seen from outside."""
        return Path(f'/proc/{self.keeper.pid}/root{path}')

    def run_inside(self, argv, check=True, timeout=60, **options):
        """A program in the namespace, as root; returns subprocess.CompletedProcess with text."""
        line = ['nsenter', '-t', str(self.keeper.pid), '-m', *map(str, argv)]
        return subprocess.run(line, check=check, timeout=timeout, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, **options)

    def popen_inside(self, argv, **options):
        """The same without waiting, for what goes on while something else is done."""
        line = ['nsenter', '-t', str(self.keeper.pid), '-m', *map(str, argv)]
        return subprocess.Popen(line, **{'env': ENVIRONMENT, 'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                                         'stderr': subprocess.PIPE, 'text': True, **options})

    # Logs

    def log_text(self):
        path = self.state / 'log/libvirtd.log'
        return path.read_text(errors='replace') if path.exists() else ''

    def log_mark(self):
        """A position for qmp_log and complaints: what is logged from now on."""
        path = self.state / 'log/libvirtd.log'
        return path.stat().st_size if path.exists() else 0

    def _log_lines(self, mark):
        with open(self.state / 'log/libvirtd.log', 'rb') as log:
            log.seek(mark)
            for raw in log:
                if (match := LOG_LINE.match(raw.decode(errors='replace').rstrip('\n'))):
                    yield mark, match
                mark += len(raw)

    def qmp_log(self, mark=0):
        """The traffic with all monitors as (seconds since the epoch, 'send' | 'reply' | 'event', message)."""
        found = []
        for _, match in self._log_lines(mark):
            if (line := QMP_LINE.search(match[4])):
                kind = 'send' if 'IO_WRITE' in line[1] else 'event' if 'EVENT' in line[1] else 'reply'
                message, _ = json.JSONDecoder().raw_decode(line[2].replace('\\r\\n', ''))
                found.append((log_time(match[1]), kind, message))
        return found

    def complaints(self, mark=0):
        """The daemon's warnings and errors as (level, text, what was noted last before)."""
        return [(match[3], match[4], self._noted_before(place)) for place, match in self._log_lines(mark)
                if match[3] in ('warning', 'error')]

    def note(self, text):
        """What is being done from here on, for complaints()."""
        self.notes.append((self.log_mark(), text))

    def _noted_before(self, place):
        earlier = [text for mark, text in self.notes if mark <= place]
        return earlier[-1] if earlier else 'the start'

    def expect_complaint(self, text):
        """A test that provokes a warning or an error in the daemon's log says so: a part of the line."""
        self.expected.append(text)

    def domain_log(self, name):
        """What the emulator wrote to standard error, with libvirt's own lines about starting it."""
        path = self.state / f'log/qemu/{name}.log'
        return path.read_text(errors='replace') if path.exists() else ''


class MachineLibvirt(Virsh):
    """The libvirt that runs on this machine, for the demonstration; no test touches it."""

    def __init__(self, folder):
        self.folder, self.expected = Path(folder), []

    def answers(self):
        return self.run_inside(['virsh', '-c', URI, 'uri'], check=False).returncode == 0

    def inside(self, path):
        return Path(path)

    def run_inside(self, argv, check=True, timeout=60):
        return subprocess.run([str(word) for word in argv], check=check, timeout=timeout, env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def popen_inside(self, argv, **options):
        return subprocess.Popen([str(word) for word in argv], **{'env': ENVIRONMENT, 'stdin': subprocess.DEVNULL, **options})

    def domain_log(self, name):
        path = Path(f'/var/log/libvirt/qemu/{name}.log')
        return path.read_text(errors='replace') if path.exists() else ''


def open_libvirt(folder, **options):
    """A Libvirt of the version that COWBIRD_LIBVIRT asks for."""
    if wanted_version() == 9:
        return Libvirt(folder, **options)
    sys.path.insert(0, str(HERE))
    import trixie
    return Libvirt(folder, chroot=trixie.path(), **options)
