# The libvirt suites: the files of tests/libvirt dealt out to two pytest processes, each with daemons and a log of its own.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import concurrent.futures
from pathlib import Path

PROCESSES = 2
# Seconds on two quiet cores, the mean of libvirt 9.0's and 11.3's (scripts/check --durations); others count as OTHERS.
SECONDS = {
    'test_increments': 60, 'test_save': 50, 'test_capabilities': 45, 'test_life_cycle': 40, 'test_drain': 45, 'test_console': 28,
    'test_cycles': 28, 'test_reconnect': 25, 'test_save_faults': 22, 'test_demo': 10, 'test_managed_save': 17, 'test_clones': 16,
    'test_statistics': 11, 'test_snapshot': 10, 'test_hot_plug': 8, 'test_bad_xml': 6, 'test_confinement': 5, 'test_first': 5,
    'test_harness': 2, 'test_agent': 75, 'test_odd_xml': 40, 'test_dump': 13,
}
OTHERS = 10
# In every process, last: it looks at what the others left in the daemon's log.
LAST = 'test_log'


def shares(folder):
    """The test files, dealt out so that the processes take about the same time: the longest first, each to who has least."""
    dealt = [[0, []] for _ in range(PROCESSES)]
    files = sorted((path for path in Path(folder).glob('test_*.py') if path.stem != LAST),
                   key=lambda path: (-SECONDS.get(path.stem, OTHERS), path.stem))
    for path in files:
        least = min(dealt, key=lambda share: share[0])
        least[0] += SECONDS.get(path.stem, OTHERS)
        least[1].append(path)
    return [[*sorted(paths), Path(folder) / f'{LAST}.py'] for _, paths in dealt if paths]


def run_shares(folder, run_files):
    """run_files(number, files) for all shares at once; what they returned."""
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(run_files, range(1, PROCESSES + 1), shares(folder)))
