# What an increment writes, and how fast.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import statistics
import time

from clones import running_clone
from common import GIB, MIB, Figure, interleave, median_ratio, parts_of, program, run, spread
from restore import full_2g

MEMORY = 2048
START = 16  # MiB; below it is the guest's own program


def _remove(path):
    """Unlink, and leave no work of it for the next one's fsync."""
    path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _timed_save(vm, path):
    """Milliseconds from the command to the event that tells that the file is whole and on disk."""
    vm.qmp.events = []
    start = time.monotonic()
    vm.qmp.command('migrate', uri=f'file:{path}')
    info = vm.end_migrate(120)
    took = time.monotonic() - start
    assert info['status'] == 'completed', info
    _remove(path)
    return took * 1000


def _timed_floor(path, mib):
    took = int(run(program('floor-write'), path, mib)) / 1000
    _remove(path)
    return took


def increment(mib):
    def measure(context):
        base = context.snapshots.ticking(MEMORY, 0)
        context.touch(MEMORY * MIB + 2 * GIB)
        with running_clone(base, MEMORY) as vm:
            vm.console.fill(11, f'{START}m', f'{mib}m', timeout=120)
            vm.qmp.command('stop')
            vm.set_capabilities(events=True, mapped_ram=True)
            vm.set_parameters(ram_save_mode='incremental', direct_io=True)
            samples = interleave({'increment': lambda: _timed_save(vm, context.work / 'increment'),
                                  'floor-write': lambda: _timed_floor(context.work / 'floor', mib)}, 5)
        return Figure(f'increment_{mib}m', median_ratio(samples, 'increment', 'floor-write'), 'x',
                      {'unit': 'ms, fsync included', **parts_of(samples)}, 'floor-write: 8 MiB O_DIRECT writes and fsync')
    return measure


def _clean_increment(context, base):
    """MiB that an increment takes of a clone that ran for a second."""
    path = context.work / 'clean'
    with running_clone(base, MEMORY) as vm:
        vm.qmp.command('stop')
        vm.cont()
        time.sleep(1)
        info = vm.save_increment(path)
        size = max(os.stat(path).st_blocks * 512, os.stat(path).st_size, info['ram'].get('written-bytes', 0))
    _remove(path)
    return size / MIB, info['ram'].get('data-pages', 0)


def increment_clean(context):
    base = full_2g(context)
    samples = [_clean_increment(context, base) for _ in range(5)]
    sizes = [size for size, _ in samples]
    return Figure('increment_clean', statistics.median(sizes), 'MiB',
                  {'unit': 'MiB', 'file': spread(sizes), 'data pages': spread([pages for _, pages in samples])})
