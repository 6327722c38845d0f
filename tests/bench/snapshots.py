# The guests that are restored: made once a run, saved while they run, so that a restored one goes on by itself.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import json
import os
import select
import subprocess
import time

from common import GIB, MIB, BenchError, program, run, vmlib

SEED = 7
QEMU = '/usr/bin/qemu-system-x86_64'
QEMU_CPU = 'qemu64,vendor=GenuineIntel,family=6,model=15'
TICK_PATH = '/proc/self/fd/9'  # see launch.c
SPINS = 20000


def devices(tick_path=TICK_PATH):
    """A serial line that nobody listens to, and the port that the beacon writes to."""
    return ['-chardev', 'null,id=ser0', '-device', 'isa-serial,chardev=ser0', '-chardev', f'file,id=tick0,path={tick_path}',
            '-device', 'isa-debugcon,chardev=tick0']


def command(binary, memory_mib, cpu, monitor, *arguments, tick_path=TICK_PATH):
    return [str(binary), '-nodefaults', '-no-user-config', '-display', 'none', '-machine', 'pc', '-accel', 'kvm', '-cpu', cpu,
            '-m', str(memory_mib), '-qmp', f'unix:{monitor},server=on,wait=off', *devices(tick_path), *map(str, arguments)]


class Booted:
    """A guest that has run the commands of its kernel command line and is in the last of them."""

    def __init__(self, work, binary, memory_mib, cpu, append, more_devices=()):
        self.monitor = work / f'boot-{os.getpid()}.qmp'
        self.ticks, write_end = os.pipe()
        self.process = subprocess.Popen(
            command(binary, memory_mib, cpu, self.monitor, '-kernel', vmlib.guest_elf(), '-append', append,
                    *more_devices, tick_path=f'/proc/self/fd/{write_end}'),
            pass_fds=[write_end], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(write_end)
        try:
            self.qmp = vmlib.Qmp(self.monitor, 120, alive=lambda: self.process.poll() is None)
        except OSError:
            self.process.kill()
            raise BenchError(f'{binary} does not start: {self.process.stderr.read().decode()[-600:]}') from None

    def wait_tick(self, timeout=180):
        if not select.select([self.ticks], [], [], timeout)[0] or not os.read(self.ticks, 4096):
            raise BenchError('the guest does not reach its beacon')

    def drain(self):
        """Take ticks out of the pipe, or the VMM would wait for its reader."""
        while select.select([self.ticks], [], [], 0)[0] and os.read(self.ticks, 65536):
            pass

    def save(self, uri, timeout=300):
        self.qmp.command('migrate', uri=uri)
        end = time.monotonic() + timeout
        while (status := self.qmp.command('query-migrate').get('status')) not in ('completed', 'failed'):
            self.drain()
            if time.monotonic() > end:
                raise BenchError(f'saving to {uri} does not end')
            time.sleep(0.01)
        if status != 'completed':
            raise BenchError(f'saving to {uri}: {self.qmp.command("query-migrate")}')

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.ticks)
        with contextlib.suppress(FileNotFoundError):
            self.monitor.unlink()


class Snapshots:
    """Snapshot files by size and contents, each made when it is first asked for."""

    def __init__(self, work):
        self.work = work
        self.made = {}

    def ticking(self, memory_mib, filled, folder=None, more_devices=()):
        """A running guest that only ticks; `filled` MiB of its memory hold data that does not compress."""
        key = ('tick', memory_mib, filled, folder, *more_devices)
        if key not in self.made:
            path = (folder or self.work.path) / f'{memory_mib}m-{filled}m-{len(more_devices)}.cowbird'
            guest = Booted(self.work, vmlib.vmm_path(), memory_mib, 'host', self._append(filled, f'beacon {SPINS}'), more_devices)
            try:
                guest.wait_tick()
                guest.qmp.command('migrate-set-capabilities', capabilities=[{'capability': 'mapped-ram', 'state': True}])
                guest.save(f'file:{path}')
            finally:
                guest.close()
            self.made[key] = path
        return self.made[key]

    @staticmethod
    def _append(filled, last):
        return f'fill {SEED} 0 {filled}m;{last}' if filled else last

    def qemu(self, memory_mib, filled):
        """The same guest saved by Debian's QEMU, its own stream in a regular file."""
        key = ('qemu', memory_mib, filled)
        if key not in self.made:
            path = self.work / f'{memory_mib}m.qemu'
            guest = Booted(self.work, QEMU, memory_mib, QEMU_CPU, self._append(filled, f'beacon {SPINS}'))
            try:
                guest.wait_tick()
                guest.qmp.command('migrate-set-parameters', {'max-bandwidth': 100 * GIB})
                guest.save(f'exec:cat > {path}')
            finally:
                guest.close()
            self.made[key] = path
        return self.made[key]

    def drop(self, path):
        self.made = {key: value for key, value in self.made.items() if value != path}
        path.unlink()


def restore_command(work, snapshot, memory_mib, *arguments):
    return command(vmlib.vmm_path(), memory_mib, 'host', work / 'launch-{i}.qmp', '-incoming', f'file:{snapshot}', *arguments)


def with_mode(mode):
    return ['-global', f'migration.ram-restore-mode={mode}', '-global', 'migration.ram-restore-fallback=off']


def qemu_restore_command(work, memory_mib):
    return command(QEMU, memory_mib, QEMU_CPU, work / 'launch-{i}.qmp', '-incoming', 'fd:8')


def launch(command_line, count=1, input_file=None, work=None, realtime=False):
    """Start it `count` times at once; the milliseconds each took to its first tick. realtime: see launch.c."""
    arguments = [program('launch'), '-n', count, *(['-r'] if realtime else []), *(['-i', input_file] if input_file else []), '--', *command_line]
    lines = run(*arguments).split('\n')
    if work:
        for path in work.path.glob('launch-*.qmp'):
            path.unlink()
    return [int(line.split()[2]) / 1000 for line in lines if line]


def snapshot_info(path):
    """What `cowbird-snap info` tells of the guest RAM of a file: (offset of its pages in the file, bytes of RAM)."""
    for line in run(vmlib.snap_path(), 'info', path).split('\n'):
        if '"pc.ram"' in line:
            block = json.loads(line.strip()[2:])
            return block['pages-offset'], block['size']
    raise BenchError(f'{path} has no block pc.ram')


__all__ = ['GIB', 'MIB', 'Snapshots', 'launch', 'qemu_restore_command', 'restore_command', 'snapshot_info', 'with_mode']
