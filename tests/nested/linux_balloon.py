# The virtio devices of a Linux test guest, and what a test does with them: balloon, statistics, churn of memory.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re
import time

from linux_guest import TIMEOUT

MIB = 1 << 20
PORT = 'org.cowbird.test'
BALLOON = '/machine/peripheral/balloon0'
UNKNOWN = (1 << 64) - 1
# Pieces in which the guest's kernel reports free pages; it takes 4 MiB by itself where it is built without huge pages.
REPORTING_ORDER = '/sys/module/page_reporting/parameters/page_reporting_order'
REPORTING_OFF = 11
# A kernel with less than 512 MiB switches huge pages off; a page fault takes milliseconds where the kernel is emulated.
SET_UP = f'echo 9 >{REPORTING_ORDER}; echo madvise >/sys/kernel/mm/transparent_hugepage/enabled'

CHURN_ROUNDS = 30   # memchurn rests, and pages are reported, every 12
STATISTICS = ('swap-in', 'swap-out', 'major-faults', 'minor-faults', 'free-memory', 'total-memory',
              'available-memory', 'disk-caches', 'htlb-pgalloc', 'htlb-pgfail')


def devices(port, deflate_on_oom=True):
    """Arguments for a balloon, a random number generator, and a serial port with its end at the socket `port`."""
    oom = 'on' if deflate_on_oom else 'off'
    return ['-device', f'virtio-balloon-pci,id=balloon0,free-page-reporting=on,deflate-on-oom={oom}',
            '-object', 'rng-random,id=rng0,filename=/dev/urandom', '-device', 'virtio-rng-pci,rng=rng0',
            '-device', 'virtio-serial-pci,id=serial0', '-chardev', f'socket,id=port0,path={port},server=on,wait=off',
            '-device', f'virtserialport,chardev=port0,name={PORT}']


def actual(guest):
    """Bytes that the balloon leaves to the guest."""
    return guest.qmp.command('query-balloon')['actual']


def balloon(guest, mib):
    guest.qmp.command('balloon', value=mib * MIB)


def balloon_to(guest, mib, timeout):
    """Wait until the guest has as many MiB as it is told."""
    balloon(guest, mib)
    end = time.monotonic() + timeout
    while actual(guest) != mib * MIB:
        assert time.monotonic() < end, f'the balloon stands at {actual(guest) / MIB} of {mib} MiB'
        time.sleep(0.1)


def statistics(guest, timeout):
    """The first statistics that arrive from now on."""
    guest.qmp.command('qom-set', path=BALLOON, property='guest-stats-polling-interval', value=1)
    before = guest.qmp.command('qom-get', path=BALLOON, property='guest-stats')['last-update']
    end = time.monotonic() + timeout
    while (stats := guest.qmp.command('qom-get', path=BALLOON, property='guest-stats'))['last-update'] == before:
        assert time.monotonic() < end, f'no statistics come: {stats}'
        time.sleep(0.1)
    guest.qmp.command('qom-set', path=BALLOON, property='guest-stats-polling-interval', value=0)
    return stats['stats']


def check_statistics(guest, timeout):
    stats = {name.removeprefix('stat-'): value for name, value in statistics(guest, timeout).items()}
    told = {name: int(kib) << 10 for name, kib in re.findall(r'^(\w+): +(\d+) kB', guest.run('cat /proc/meminfo'), re.M)}
    # Linux 6.1 tells these; what later kernels tell as well is unknown.
    assert all(stats.pop(name) == UNKNOWN for name in set(stats) - set(STATISTICS)), stats
    assert set(stats) == set(STATISTICS), stats
    assert stats['total-memory'] == told['MemTotal'], (stats, told)
    assert abs(stats['free-memory'] - told['MemFree']) < 4 * MIB, (stats, told)
    assert abs(stats['available-memory'] - told['MemAvailable']) < 4 * MIB, (stats, told)
    assert abs(stats['disk-caches'] - told['Cached']) < 4 * MIB, (stats, told)
    assert 0 < stats['minor-faults'] < UNKNOWN and stats['swap-in'] == 0, stats


def start_churn(guest, held, blocks, seed):
    """Start memchurn (tests/linux-guest/memchurn.c); it goes on until stop_churn(), for CHURN_ROUNDS at least."""
    guest.run(f'memchurn {held} {blocks} {seed} {CHURN_ROUNDS} </dev/null >/tmp/churn 2>&1 & churn=$!')


def stop_churn(guest):
    guest.run('kill -TERM $churn')


def end_churn(guest):
    """All that was written was right; returns the number of pages checked."""
    output = guest.run('wait $churn; result=$?; cat /tmp/churn; test $result = 0', check=False, timeout=3 * TIMEOUT)
    last = re.search(r'^churn: (\d+) rounds, (\d+) pages checked, 0 wrong$', output, re.M)
    assert last and int(last[1]) >= CHURN_ROUNDS, output
    return int(last[2])


def check_log(guest, known=''):
    """The kernel has noticed nothing but what it told at boot, neither wrong poison in a free page nor anything else."""
    complaints = guest.complaints()
    assert complaints == known, complaints
    complaints = guest.run("dmesg | grep -iE 'corruption|bad page|out of memory'", check=False)
    assert complaints == '', complaints


def anonymous_memory(guest):
    """MiB of the process's memory that are its own."""
    with open(f'/proc/{guest.process.pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith('RssAnon:'))


def wait_anonymous_below(guest, mib, timeout):
    end = time.monotonic() + timeout
    while (now := anonymous_memory(guest)) >= mib:
        assert time.monotonic() < end, f'{now:.0f} MiB are still used, not below {mib:.0f}'
        time.sleep(0.2)
    return now
