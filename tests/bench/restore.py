# From exec of the VMM to the first tick of the restored guest.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import statistics

import floor_state
from common import MIB, Figure, interleave, median_ratio, parts_of, program, read_through
from snapshots import launch, qemu_restore_command, restore_command, snapshot_info, with_mode

FILLED_2G = 2000
TO_TICK = 'ms from posix_spawn to the first tick'
# Of what takes only milliseconds and is held against a floor; it gets a real-time priority where that is permitted.
SHORT_ROUNDS = 41


def _ours(context, snapshot, memory_mib, mode, realtime=False):
    command = restore_command(context.work, snapshot, memory_mib, *with_mode(mode))
    return lambda: launch(command, work=context.work, realtime=realtime)[0]


def _floor(context, snapshot, name):
    """The bare C program that restores the same file."""
    offset, size = snapshot_info(snapshot)
    state = floor_state.write_state(snapshot, context.work / f'{name}.state')
    return lambda: launch([program('floor-restore'), snapshot, offset, size, state], realtime=True)[0]


def full_2g(context):
    """A guest of 2 GiB full of data that does not compress, in the page cache."""
    snapshot = context.snapshots.ticking(2048, FILLED_2G)
    context.touch(5 * 1024 * MIB)
    read_through(snapshot)
    return snapshot


def _copy_vs_cow_samples(context):
    """Three variants in one run serve two figures."""
    def measure():
        snapshot = full_2g(context)
        offset, size = snapshot_info(snapshot)
        floor = [program('floor-copy'), snapshot, offset, size]
        return interleave({'copy': _ours(context, snapshot, 2048, 'copy'),
                           'copy-on-write': _ours(context, snapshot, 2048, 'copy-on-write'),
                           'floor-copy': lambda: launch(floor)[0]})
    return context.once('copy_vs_cow', measure)


def restore_copy_vs_floor(context):
    samples = _copy_vs_cow_samples(context)
    parts = parts_of({name: samples[name] for name in ('copy', 'floor-copy')})
    return Figure('restore_copy_vs_floor', median_ratio(samples, 'copy', 'floor-copy'), 'x', {'unit': TO_TICK, **parts},
                  'floor-copy: threads that pread the file into MADV_HUGEPAGE memory')


def restore_copy_vs_cow_2g(context):
    samples = _copy_vs_cow_samples(context)
    parts = parts_of({name: samples[name] for name in ('copy', 'copy-on-write')})
    return Figure('restore_copy_vs_cow_2g', median_ratio(samples, 'copy', 'copy-on-write'), 'x', {'unit': TO_TICK, **parts})


def restore_cow_vs_floor(context):
    snapshot = full_2g(context)
    samples = interleave({'copy-on-write': _ours(context, snapshot, 2048, 'copy-on-write', realtime=True),
                          'floor-restore': _floor(context, snapshot, 'cow')}, SHORT_ROUNDS)
    return Figure('restore_cow_vs_floor', median_ratio(samples, 'copy-on-write', 'floor-restore'), 'x',
                  {'unit': TO_TICK, **parts_of(samples)}, 'floor-restore: the system calls of the same restore')


def restore_cow_size(context):
    small, large = context.snapshots.ticking(256, 0), context.snapshots.ticking(16384, 0)
    samples = interleave({'256m': _ours(context, small, 256, 'copy-on-write', realtime=True),
                          '256m-floor': _floor(context, small, 'small'),
                          '16g': _ours(context, large, 16384, 'copy-on-write', realtime=True),
                          '16g-floor': _floor(context, large, 'large')}, SHORT_ROUNDS)
    over = {size: statistics.median(samples[size]) - statistics.median(samples[f'{size}-floor']) for size in ('256m', '16g')}
    return Figure('restore_cow_size', over['16g'] / over['256m'], 'x', {'unit': TO_TICK, **parts_of(samples)},
                  'floor-restore of the same file, subtracted',
                  f'above the floor: {over["16g"]:.2f} ms for 16 GiB, {over["256m"]:.2f} ms for 256 MiB')


def restore_vs_qemu_2g(context):
    ours, theirs = full_2g(context), context.snapshots.qemu(2048, FILLED_2G)
    read_through(theirs)
    command = qemu_restore_command(context.work, 2048)
    samples = interleave({'qemu-7.2': lambda: launch(command, input_file=theirs, work=context.work)[0],
                          'copy-on-write': _ours(context, ours, 2048, 'copy-on-write')})
    context.snapshots.drop(theirs)
    return Figure('restore_vs_qemu_2g', median_ratio(samples, 'qemu-7.2', 'copy-on-write'), 'x',
                  {'unit': TO_TICK, **parts_of(samples)})
