# Many guests restored from one file: how fast, and what each one costs.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from common import GIB, MIB, Figure, Skipped, interleave, median_ratio, parts_of, read_through, run, spread, vmlib
from snapshots import launch, restore_command, with_mode

CLONES = 16
MEMORY = 512
FILLED = 480
P50 = f'ms, p50 of {CLONES} started at once'
HINT = ['-global', 'migration.x-ram-restore-hugepage-hint=on']
RANDOM_READS = 2_000_000


def _p50_of_clones(context, snapshot, *arguments):
    command = restore_command(context.work, snapshot, MEMORY, *arguments)
    return statistics.median(launch(command, CLONES, work=context.work))


def clones_16(context):
    snapshot = context.snapshots.ticking(MEMORY, FILLED)
    context.touch(CLONES * MEMORY * MIB + GIB)
    read_through(snapshot)
    samples = interleave({mode: lambda mode=mode: _p50_of_clones(context, snapshot, *with_mode(mode))
                          for mode in ('copy', 'copy-on-write')}, 5)
    return Figure('clones_16', median_ratio(samples, 'copy', 'copy-on-write'), 'x', {'unit': P50, **parts_of(samples)})


# What a clone costs

def running_clone(snapshot, memory_mib, arguments=(), **options):
    """A clone with QMP and console, its guest idle."""
    vm = vmlib.restore(snapshot, 'copy-on-write', run=False, memory=f'{memory_mib}M', kernel='',
                       args=['-chardev', 'null,id=tick0', '-device', 'isa-debugcon,chardev=tick0', *arguments], **options)
    if vm.qmp.command('query-status')['status'] != 'running':
        vm.cont()
    vm.console.end()
    return vm


@contextlib.contextmanager
def memory_cgroup():
    """A memory cgroup (v1 or v2) of our own, or None where that is not possible."""
    base = Path('/sys/fs/cgroup/memory')
    group = (base if base.is_dir() else base.parent) / f'cowbird-bench-{os.getpid()}'
    try:
        group.mkdir()
    except OSError:
        group = None
    try:
        yield group
    finally:
        for _ in range(50 if group else 0):
            try:
                group.rmdir()
                break
            except OSError:  # the last process is still being taken down
                time.sleep(0.1)


def kernel_memory(group):
    """Bytes of kernel memory that are charged to the group; None = not told here."""
    if not group:
        return None
    usage = group / 'memory.kmem.usage_in_bytes'
    if usage.exists():
        return int(usage.read_text())
    stat = dict(line.split() for line in (group / 'memory.stat').read_text().splitlines())
    return int(stat['kernel']) if 'kernel' in stat else None


def _kib(text, name):
    return sum(int(value) for value in re.findall(rf'^{name}:\s+(\d+) kB', text, re.M))


def clone_cost(pid, snapshot):
    """MiB of anonymous memory and page tables, without the pages of guest RAM that are no longer the file's."""
    smaps = Path(f'/proc/{pid}/smaps').read_text()
    mappings = re.split(r'^(?=[0-9a-f]+-[0-9a-f]+ )', smaps, flags=re.M)
    written = sum(_kib(mapping, 'Anonymous') for mapping in mappings if str(snapshot) in mapping.split('\n', 1)[0])
    tables = _kib(Path(f'/proc/{pid}/status').read_text(), 'VmPTE')
    anonymous = _kib(smaps, 'Anonymous')
    return {'cost': (anonymous + tables - written) / 1024, 'written': written / 1024, 'page-tables': tables / 1024}


def enter(group):
    def move():
        (group / 'cgroup.procs').write_text(str(os.getpid()))
    return move if group else None


def clone_memory(context):
    snapshot = context.snapshots.ticking(MEMORY, FILLED)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(memory_cgroup())
        clones = [stack.enter_context(running_clone(snapshot, MEMORY, preexec=enter(group))) for _ in range(CLONES)]
        time.sleep(2)
        costs = [clone_cost(vm.pid, snapshot) for vm in clones]
        kernel = kernel_memory(group)
    parts = {'unit': 'MiB per clone', **{key: spread([cost[key] for cost in costs]) for key in costs[0]}}
    parts['kernel'] = round(kernel / CLONES / MIB, 2) if kernel is not None else 'not told by this host'
    return Figure('clone_memory', parts['cost']['median'], 'MiB', parts)


# Huge pages on the overlay

READ_AHEAD = 128    # KiB: the kernel's default for disks; a loop device takes a multiple of it from what lies below


class XfsLoop:
    """An XFS file system in a file, without a second page cache below it."""

    def __init__(self, work, size):
        if os.geteuid() or not shutil.which('mkfs.xfs', path='/usr/sbin:/sbin'):
            raise Skipped('an XFS loop mount needs root and xfsprogs')
        self.image, self.folder, self.device = work / 'xfs.img', work / 'xfs', None
        with open(self.image, 'wb') as file:
            file.truncate(size)
        self.folder.mkdir()

    def __enter__(self):
        try:
            run('/usr/sbin/mkfs.xfs', '-q', self.image)
            self.device = run('/usr/sbin/losetup', '--find', '--show', '--direct-io=on', self.image).strip()
            self._block('queue/read_ahead_kb').write_text(str(READ_AHEAD))
            run('/usr/bin/mount', self.device, self.folder)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        subprocess.run(['/usr/bin/umount', self.folder], stderr=subprocess.DEVNULL, check=False)
        if self.device:
            subprocess.run(['/usr/sbin/losetup', '--detach', self.device], check=False)
        self.folder.rmdir()
        self.image.unlink()

    def _block(self, name):
        return Path(f'/sys/block/{Path(self.device).name}') / name

    def bytes_read(self):
        return int(self._block('stat').read_text().split()[2]) * 512


def drop_from_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def _cold_start(context, xfs, snapshot, arguments):
    """(p50 in ms, MiB read) of clones that start at once from a file that is not in memory."""
    drop_from_cache(snapshot)
    before = xfs.bytes_read()
    p50 = _p50_of_clones(context, snapshot, *arguments)
    return p50, (xfs.bytes_read() - before) / MIB


def _random_reads(snapshot, arguments):
    """Random reads per second of a guest whose memory is all mapped."""
    with running_clone(snapshot, MEMORY, arguments) as vm:
        vm.console.command(f'touch 16m {FILLED - 16}m')
        start = time.monotonic()
        vm.console.command(f'random 16m {FILLED - 16}m {RANDOM_READS} 1')
        return RANDOM_READS / (time.monotonic() - start)


def restore_no_hugepage_hint(context):
    with XfsLoop(context.work, 3 * GIB) as xfs:
        snapshot = context.snapshots.ticking(MEMORY, FILLED, xfs.folder)
        try:
            cold = interleave({'hint': lambda: _cold_start(context, xfs, snapshot, HINT),
                               'no-hint': lambda: _cold_start(context, xfs, snapshot, [])}, 5)
            reads = interleave({'hint': lambda: _random_reads(snapshot, HINT), 'no-hint': lambda: _random_reads(snapshot, [])}, 5)
        finally:
            context.snapshots.drop(snapshot)
    latency = {name: [value[0] for value in values] for name, values in cold.items()}
    parts = {'unit': P50 + ', cold file', **parts_of(latency)}
    for name, values in cold.items():
        parts[f'{name} MiB read'] = spread([value[1] for value in values])
        parts[f'{name} random reads/s'] = spread(reads[name], 0)
    return Figure('restore_no_hugepage_hint', median_ratio(latency, 'hint', 'no-hint'), 'x', parts)
