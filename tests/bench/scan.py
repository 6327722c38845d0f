# How fast the pages written by a guest are found.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import statistics

from common import ROUNDS, BenchError, Figure, parts_of, program, run


def times(work, mib, touched, *ways, rounds=ROUNDS):
    """{way: [milliseconds]}, interleaved in one process."""
    path = work / 'scan.ram'
    samples = {way: [] for way in ways}
    try:
        if touched == 'tenth':  # real pages of a file, as a snapshot has
            run('dd', 'if=/dev/urandom', f'of={path}', 'bs=1M', f'count={mib}', 'status=none')
        for line in run(program('scan-times'), path, mib, touched, rounds + 1, *ways).split('\n'):
            if line:
                way, microseconds = line.split()
                samples[way].append(int(microseconds) / 1000)
    finally:
        path.unlink(missing_ok=True)
    if any(len(values) != rounds + 1 for values in samples.values()):
        raise BenchError('scan-times: a round is missing')
    return {way: values[1:] for way, values in samples.items()}


def _figure(name, samples, above, below, floor=None, note=''):
    ratio = statistics.median(samples[above]) / statistics.median(samples[below])
    return Figure(name, ratio, 'x', {'unit': 'ms', **parts_of(samples)}, floor, note)


def scan_full(mib):
    def measure(context):
        samples = times(context.work, mib, 'tenth', 'kpageflags', 'auto')
        return _figure(f'scan_full_{mib}m', samples, 'kpageflags', 'auto',
                       note='where the page structures are out of the cache, auto waits for them in the kernel '
                            '(vm_normal_page), as the bare loop of scan_vs_floor does')
    return measure


def scan_vs_floor(context):
    samples = times(context.work, 1024, 'tenth', 'auto', 'floor', rounds=15)
    return _figure('scan_vs_floor', samples, 'auto', 'floor', 'a loop of PAGEMAP_SCAN, 512 ranges a call')


def scan_sparse_8g(context):
    return _figure('scan_sparse_8g', times(context.work, 8192, '21', 'bit61', 'auto'), 'bit61', 'auto')
