# A Linux test guest (tests/linux-guest) in a VMM: its console, its monitor, saving and restoring.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import hashlib
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'lib'))
from qmp import Qmp, QmpClosed  # noqa: E402

TIMEOUT = 300   # seconds; guest kernel mode may be emulated, and all guests share the host's processors
# In the order in which they are loaded; what a kernel has built in, or has not, is left out.
MODULES = ('acpi/button', 'input/evdev', 'virtio/virtio_ring', 'virtio/virtio', 'virtio/virtio_pci_legacy_dev',
           'virtio/virtio_pci_modern_dev', 'virtio/virtio_pci', 'virtio/virtio_balloon',
           'char/hw_random/virtio-rng', 'char/virtio_console')


class Console:
    """The serial console, a unix socket on which the guest runs lines that it is sent."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(path))
        self.text = ''

    def wait_for(self, pattern, timeout):
        """Wait for the regular expression; returns what came before it, and the match."""
        end = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.text)
            if match:
                before, self.text = self.text[:match.start()], self.text[match.end():]
                return before, match
            self.sock.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self.sock.recv(65536)
            except socket.timeout:
                data = None
            if not data:
                raise AssertionError(f'console: no {pattern!r}; it says: {self.text[-2000:]!r}')
            self.text += data.decode(errors='replace').replace('\r', '')

    def run(self, line, timeout=60, check=True):
        """Run a line of shell in the guest; returns its output."""
        self.sock.sendall(line.encode() + b'\n')
        output, match = self.wait_for(r'guest: status (\d+)\n', timeout)
        if check and match.group(1) != '0':
            raise AssertionError(f'guest: {line!r} ended with {match.group(1)}: {output!r}')
        return output


class LinuxGuest:
    """One VMM process. `vmm` is its program; anything called qemu-* is taken for Debian's QEMU 7.2."""

    def __init__(self, vmm, folder, name, kernel, initrd, append, cpus=1, memory=256, cpu='host',
                 args=(), incoming=False, timeout=120):
        self.is_qemu = 'qemu' in Path(vmm).name
        if self.is_qemu and cpu == 'host':
            cpu = 'host,-arch-capabilities'
        self.timeout = timeout
        self.stderr_path = Path(folder) / f'{name}.stderr'
        qmp, serial = Path(folder) / f'{name}.qmp', Path(folder) / f'{name}.serial'
        command = [str(vmm), '-machine', 'pc', '-accel', 'kvm', '-cpu', cpu, '-m', str(memory),
                   '-smp', str(cpus), '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot', '-S',
                   '-qmp', f'unix:{qmp},server=on,wait=off',
                   '-chardev', f'socket,id=console,path={serial},server=on,wait=off',
                   '-device', 'isa-serial,chardev=console',
                   '-kernel', str(kernel), '-initrd', str(initrd), '-append', append, *args]
        if incoming:
            command += ['-incoming', 'defer']
        with open(self.stderr_path, 'wb') as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr)
        try:
            self.qmp = Qmp(qmp, timeout=timeout, alive=lambda: self.process.poll() is None)
            self.console = Console(serial)
        except BaseException as err:
            self.kill()
            raise AssertionError(f'{command} did not start: {err!r}: {self.stderr()}') from err

    def stderr(self):
        return self.stderr_path.read_text(errors='replace')[-4000:]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def run(self, line, **kwargs):
        kwargs.setdefault('timeout', self.timeout)
        return self.console.run(line, **kwargs)

    def boot(self):
        self.qmp.command('cont')
        self.console.wait_for('guest: ready\n', self.timeout)

    def set_up_migration(self, **parameters):
        if not self.is_qemu:
            self.qmp.command('migrate-set-capabilities', capabilities=[
                {'capability': 'mapped-ram', 'state': True}])
            if parameters:
                self.qmp.command('migrate-set-parameters', **parameters)

    def _finish(self, what):
        info = self.qmp.wait_migration(timeout=self.timeout)
        assert info['status'] == 'completed', f'{what}: {info}: {self.stderr()}'
        return info

    def save(self, path, mode='full'):
        """Stop the guest and save it to path, `mode` being the ram-save-mode; returns the last query-migrate."""
        self.qmp.command('stop')
        self.set_up_migration(ram_save_mode=mode)
        uri = f'exec:cat > {path}' if self.is_qemu else f'file:{path}'
        self.qmp.command('migrate', uri=uri)
        return self._finish('save')

    def restore(self, path, mode):
        """Load a saved guest (made with incoming=True) and let it go on."""
        self.set_up_migration(ram_restore_mode=mode)
        uri = f'exec:cat {path}' if self.is_qemu else f'file:{path}'
        self.qmp.command('migrate-incoming', uri=uri)
        self._finish('restore')
        self.qmp.command('cont')

    def power_down(self):
        """Press the power button; the guest's user space switches off through ACPI."""
        self.qmp.command('system_powerdown')
        self.console.wait_for('guest: power button\n', self.timeout)
        event = self.qmp.event('SHUTDOWN', timeout=self.timeout)
        assert event['data']['guest'], event
        assert event['data']['reason'] == 'guest-shutdown', event
        assert self.process.wait(self.timeout) == 0, self.stderr()

    def quit(self):
        try:
            self.qmp.command('quit')
        except QmpClosed:
            pass
        assert self.process.wait(self.timeout) == 0, self.stderr()

    # What the guest's init set going before anything was saved.

    def count(self):
        return int(self.run('read n </tmp/count; echo $n'), 10)

    def blob_sum(self):
        return self.run('sha256sum /tmp/blob').split()[0]

    def uptime(self):
        return float(self.run('read up idle </proc/uptime; echo $up'))

    def complaints(self):
        """Lines of the kernel's log that tell of something wrong."""
        return self.run("dmesg | grep -E 'BUG|Oops|Call Trace|lockup|stall|Hardware Error'", check=False)

    def forks_seen(self):
        """How many new VM generations the kernel has noticed."""
        return int(self.run("dmesg | grep -c 'virtual machine fork'", check=False))


def initramfs(out, kernel_dir, *programs):
    """Build the root file system for a kernel of debian-kernel, or for the Linux guest (None), with programs of the host."""
    modules = []
    if kernel_dir:
        for name in MODULES:
            modules += sorted(Path(kernel_dir).glob(f'lib/modules/*/kernel/drivers/{name}.ko'))
    script = Path(__file__).resolve().parent.parent / 'linux-guest' / 'initramfs'
    subprocess.run([script, out, *modules, *programs], check=True)
    return out


def file_sum(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        for block in iter(lambda: file.read(1 << 20), b''):
            digest.update(block)
    return digest.hexdigest()
