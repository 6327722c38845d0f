# Running a virtual machine for tests, demo and benchmarks: process, QMP, and the test guest's serial console.
#
# Monitor and console are sockets that listen before the VMM starts, so nothing ever waits for a path to
# appear. Standard library only.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import ctypes
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from qmp import Qmp, QmpClosed, QmpError  # noqa: F401 (used by tests)

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def build_dir():
    return Path(os.environ.get('COWBIRD_BUILD', ROOT / 'build'))


def vmm_path():
    return Path(os.environ.get('COWBIRD_VMM', build_dir() / 'system/cowbird-system-x86_64'))


def snap_path():
    return build_dir() / 'tools/cowbird-snap'


def guest_elf():
    return build_dir() / 'tests/guest/guest.elf'


def guest_bzimage():
    return build_dir() / 'tests/guest/guest.bzimage'


class GuestDied(Exception):
    """The console was closed, or the guest reported an exception."""


class GuestError(Exception):
    """The guest answered "error ..."."""


class Console:
    """The line protocol of the test guest (tests/guest/README.rst)."""

    def __init__(self, sock, timeout):
        self.sock = sock
        self.timeout = timeout
        self.buffer = b''
        self.log = []

    def read_line(self, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        while b'\n' not in self.buffer:
            self.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.sock.recv(65536)
            except socket.timeout:
                raise TimeoutError(f'the guest is silent; so far {self.log[-5:]} {self.buffer!r}') from None
            except ConnectionResetError:
                data = b''
            if not data:
                raise GuestDied(f'console closed after {self.log[-5:]} {self.buffer!r}')
            self.buffer += data
        line, self.buffer = self.buffer.split(b'\n', 1)
        text = line.decode('ascii', 'replace').rstrip('\r')
        self.log.append(text)
        if text.startswith('panic'):
            raise GuestDied(text)
        return text

    def wait_for(self, prefix, timeout=None):
        """The next line that begins with prefix."""
        while True:
            line = self.read_line(timeout)
            if line.startswith(prefix):
                return line

    def send(self, line):
        self.sock.settimeout(self.timeout)
        self.sock.sendall(line.encode() + b'\n')

    def answer(self, timeout=None):
        """The text of one answer, the lines of a long one as a list and its end."""
        line = self.read_line(timeout)
        if line.startswith('error'):
            raise GuestError(line)
        if line != 'ok begin':
            return line[3:]
        lines = []
        while not (line := self.read_line(timeout)).startswith('end'):
            lines.append(line)
        return lines, line[4:]

    def command(self, line, timeout=None):
        self.send(line)
        return self.answer(timeout)

    def fields(self, line, timeout=None):
        """A command's answer as a dict of numbers."""
        return parse_fields(self.command(line, timeout))

    def ready(self, timeout=None):
        return parse_fields(self.wait_for('ready', timeout).split(' ', 2)[2])

    def verify(self, seed, start=0, length='max', step=None, timeout=None):
        """Every page of the range is what `fill` with this seed wrote; returns how many were checked."""
        result = self.fields(f'verify {seed} {start} {length}' + (f' {step}' if step else ''), timeout)
        assert result['wrong'] == 0, f'{result["wrong"]} of {result["pages"]} pages differ, first {result["first"]:#x}'
        return result['pages']

    def verify_others(self, seed, start, length, step, timeout=None):
        result = self.fields(f'verify-others {seed} {start} {length} {step}', timeout)
        assert result['wrong'] == 0, f'{result["wrong"]} of {result["pages"]} pages differ, first {result["first"]:#x}'
        return result['pages']

    def fill(self, seed, start=0, length='max', timeout=None):
        return self.fields(f'fill {seed} {start} {length}', timeout)['pages']

    def hash(self, start=0, length='max', timeout=None):
        return self.fields(f'hash {start} {length}', timeout)['hash']

    def begin(self, line):
        """Start a command that goes on until end() is called."""
        self.send(line)
        assert self.read_line() == 'ok begin'

    def end(self, timeout=None):
        self.send('')
        return parse_fields(self.wait_for('end', timeout)[4:])


def parse_fields(text):
    return {key: int(value, 0) for key, value in re.findall(r'(\S+)=(\S+)', text)}


def _listener(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen(4)
    return sock


def die_with_parent():
    """Run in the child: a killed test leaves no virtual machine behind."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Vm:
    """One VMM process. close() ends it; as a context manager that happens by itself."""

    def __init__(self, memory='256M', cpus=1, kernel=None, append='', args=(), machine='pc', cpu='host', incoming=None,
                 binary=None, env=None, timeout=120, stdout=None, pass_fds=(), wrapper=(), folder=None, start=True,
                 qmp=True, serial=True, preexec=None):
        self.timeout = timeout
        self.folder = Path(tempfile.mkdtemp(prefix='cowbird-vm-', dir=folder))
        self.binary = str(binary or vmm_path())
        self.memory, self.cpus, self.machine, self.cpu = memory, cpus, machine, cpu
        self.kernel = kernel if kernel is not None else guest_elf()
        self.append, self.args, self.incoming = append, [str(a) for a in args], incoming
        self.env, self.stdout, self.pass_fds, self.wrapper = env, stdout, tuple(pass_fds), [str(w) for w in wrapper]
        self.want_qmp, self.want_serial, self.preexec = qmp, serial, preexec
        self.process = self.qmp = self.console = None
        self.stderr_path = self.folder / 'stderr'
        self._listeners = []
        if start:
            try:
                self.start()
            except BaseException:
                self.close()
                raise

    def command_line(self):
        line = [*self.wrapper, self.binary, '-nodefaults', '-no-user-config', '-display', 'none', '-machine', self.machine,
                '-accel', 'kvm', '-m', self.memory, '-smp', str(self.cpus)]
        if self.cpu:
            line += ['-cpu', self.cpu]
        if self.kernel:
            line += ['-kernel', str(self.kernel)]
        if self.append:
            line += ['-append', self.append]
        if self.incoming:
            line += ['-incoming', self.incoming]
        return line + self.args

    def _socket_arguments(self):
        arguments = []
        if self.want_qmp:
            self._listeners.append(_listener(self.folder / 'qmp'))
            arguments += ['-chardev', f'socket,id=mon0,fd={self._listeners[-1].fileno()},server=on,wait=off',
                          '-mon', 'chardev=mon0,mode=control']
        if self.want_serial:
            self._listeners.append(_listener(self.folder / 'serial'))
            arguments += ['-chardev', f'socket,id=ser0,fd={self._listeners[-1].fileno()},server=on,wait=on',
                          '-serial', 'chardev:ser0']
        return arguments

    def _prepare_child(self):
        die_with_parent()
        if self.preexec:
            self.preexec()

    def spawn(self):
        """Start the process and connect nothing."""
        arguments = self.command_line() + self._socket_arguments()
        fds = self.pass_fds + tuple(sock.fileno() for sock in self._listeners)
        with open(self.stderr_path, 'wb') as stderr:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self.stdout or subprocess.DEVNULL,
                                            stderr=stderr, pass_fds=fds, env={**os.environ, **(self.env or {})},
                                            preexec_fn=self._prepare_child)
        for sock in self._listeners:
            sock.close()

    def start(self):
        self.spawn()
        self.connect_all()

    def connect_all(self):
        """Console and monitor; fails with what the VMM said if it has ended."""
        try:
            if self.want_serial:
                self.console = Console(self.connect('serial'), self.timeout)
            if self.want_qmp:
                self.qmp = Qmp(None, self.timeout, sock=self.connect('qmp'))
        except (QmpClosed, OSError) as error:
            raise VmFailed(self.wait(), self.stderr()) from error

    def connect(self, name):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.folder / name))
        return sock

    def new_qmp(self):
        """A further monitor connection; the old one has to be closed first."""
        return Qmp(None, self.timeout, sock=self.connect('qmp'))

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        return self.stderr_path.read_text(errors='replace') if self.stderr_path.exists() else ''

    def wait(self, timeout=None):
        """The exit status."""
        return self.process.wait(timeout or self.timeout)

    def quit(self):
        with contextlib.suppress(QmpClosed, BrokenPipeError, ConnectionResetError):
            self.qmp.command('quit')
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.process.wait()

    def close(self):
        for link in (self.qmp, self.console and self.console.sock):
            if link:
                link.close()
        for sock in self._listeners:
            sock.close()
        if self.process and self.process.poll() is None:
            self.kill()
        for path in self.folder.iterdir() if self.folder.exists() else ():
            path.unlink()
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # Saving and restoring

    def set_parameters(self, **parameters):
        if parameters:
            self.qmp.command('migrate-set-parameters', parameters_named(parameters))

    def set_capabilities(self, **capabilities):
        states = [{'capability': name.replace('_', '-'), 'state': state} for name, state in capabilities.items()]
        self.qmp.command('migrate-set-capabilities', capabilities=states)

    def migrate(self, uri, timeout=None, mapped_ram=True, **parameters):
        """Start saving and wait for the end, without stopping first; returns the last query-migrate."""
        self.begin_migrate(uri, mapped_ram, **parameters)
        return self.end_migrate(timeout)

    def begin_migrate(self, uri, mapped_ram=True, **parameters):
        self.set_capabilities(events=True, mapped_ram=mapped_ram)
        self.set_parameters(**parameters)
        self.qmp.events = [e for e in self.qmp.events if e['event'] != 'MIGRATION']
        self.qmp.command('migrate', uri=uri)

    def end_migrate(self, timeout=None):
        while self.qmp.event('MIGRATION', timeout)['data']['status'] not in ('completed', 'failed', 'cancelled'):
            pass
        return self.qmp.command('query-migrate')

    def save(self, path, timeout=None, mode='full', **parameters):
        """Stop the guest and save it to the file; an error if that fails."""
        self.qmp.command('stop')
        info = self.migrate(f'file:{path}', timeout, ram_save_mode=mode, **parameters)
        assert info['status'] == 'completed', info
        return info

    def save_increment(self, path, timeout=None, **parameters):
        return self.save(path, timeout, mode='incremental', **parameters)

    def cont(self):
        self.qmp.command('cont')

    def restored_blocks(self):
        return {block['block']: block for block in self.qmp.command('query-ram-restore')['blocks']}


class VmFailed(Exception):
    """The VMM ended instead of answering."""

    def __init__(self, status, stderr):
        lines = [line for line in stderr.splitlines() if ': info: ' not in line]
        super().__init__(f'the VMM ended with status {status}: ' + '; '.join(lines))
        self.status, self.stderr = status, stderr


def parameters_named(parameters):
    return {key.replace('_', '-'): value for key, value in parameters.items()}


def restore(path, mode=None, run=True, **options):
    """A Vm that has loaded the file and runs, or, with run=False, stays as it was saved. mode is the ram-restore-mode."""
    args = list(options.pop('args', ()))
    if mode:
        args += ['-global', f'migration.ram-restore-mode={mode}']
    vm = Vm(incoming=f'file:{path}', args=args, **options)
    try:
        wait_restored(vm)
        if run:
            vm.cont()
    except BaseException:
        vm.close()
        raise
    return vm


def wait_restored(vm, timeout=None):
    """Wait until an incoming migration has ended; one that failed raises VmFailed."""
    try:
        deadline = time.monotonic() + (timeout or vm.timeout)
        while vm.qmp.command('query-status')['status'] == 'inmigrate':
            with contextlib.suppress(TimeoutError):
                vm.qmp.event('RESUME', timeout=0.05)
            if time.monotonic() > deadline:
                raise TimeoutError('the incoming migration does not end')
    except (QmpClosed, BrokenPipeError, ConnectionResetError) as error:
        raise VmFailed(vm.wait(), vm.stderr()) from error


def wait_readable(fd, timeout):
    """Whether fd (a pidfd: the process has ended) becomes readable in time."""
    return bool(select.select([fd], [], [], timeout)[0])
