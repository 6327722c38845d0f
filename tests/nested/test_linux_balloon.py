# Linux's own virtio drivers on this machine's /dev/kvm: balloon, free page reporting, statistics, random numbers, a port.
#
# Guests with several ways to treat free pages are booted and saved once; the tests restore them copy-on-write.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import random
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import linux_balloon as lb  # noqa: E402
from linux_guest import TIMEOUT, file_sum  # noqa: E402

MEMORY = 128    # MiB of each guest; its kernel leaves 105 MiB free
LEAST = 80      # MiB that a balloon leaves to a guest that churns
HELD, BLOCKS = 8, 10
CHURN_TIME = 40
# A name and what is added to the kernel's command line. A poisoned page that is not what it was when it is handed out
# is reported in the kernel's log; with init_on_free a page that is not zero reaches a process.
VARIANTS = {'plain': '', 'init-on-free': 'init_on_free=1', 'page-poison': 'page_poison=1', 'no-deflate': ''}


def make(linux, folder, name, variant, **options):
    devices = lb.devices(folder / f'{name}.port', deflate_on_oom=variant != 'no-deflate')
    return linux.make(folder, name, MEMORY, VARIANTS[variant], args=devices, **options)


def boot_and_save(linux, folder, variant):
    path = folder / variant
    with make(linux, folder, f'boot-{variant}', variant) as guest:
        guest.boot()
        assert guest.complaints() == ''
        guest.run(lb.SET_UP)
        guest.save(path)
        guest.quit()
    return path


@pytest.fixture(scope='module')
def saved(linux, tmp_path_factory):
    """A file of each variant."""
    folder = tmp_path_factory.mktemp('saved')
    with ThreadPoolExecutor(2) as pool:
        paths = pool.map(lambda variant: boot_and_save(linux, folder, variant), VARIANTS)
        return dict(zip(VARIANTS, paths))


@pytest.fixture
def clone(linux, saved, tmp_path):
    """Makes running clones of a variant, or of a file that one has saved."""
    guests = []

    def restore(variant, name=None, path=None):
        guest = make(linux, tmp_path, name or variant, variant, incoming=True)
        guests.append(guest)
        guest.restore(path or saved[variant], 'copy-on-write')
        return guest
    yield restore
    for guest in guests:
        guest.kill()


def save_and_go_on(guest, clone, variant, folder, name):
    """Replace the clone by one of its increment; the old one is gone."""
    path = folder / f'{name}.increment'
    guest.save(path, 'full' if guest.is_qemu else 'incremental')
    guest.quit()
    return clone(variant, name, path)


def test_churn_while_the_balloon_moves(clone, saved, tmp_path, request):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f'random seed: {seed}')
    numbers = random.Random(seed)
    sums = {variant: file_sum(path) for variant, path in saved.items()}
    clones = {name: [name.removesuffix('-2'), clone(name.removesuffix('-2'), name)]
              for name in ('plain', 'plain-2', 'init-on-free', 'page-poison')}
    for number, (_, guest) in enumerate(clones.values()):
        lb.start_churn(guest, HELD, BLOCKS, number + 1)
    end = time.monotonic() + CHURN_TIME
    rounds = 0
    while time.monotonic() < end:
        for name, entry in clones.items():
            lb.balloon(entry[1], numbers.randrange(LEAST, MEMORY + 1))
            # Two generations of increments, saved while pages are on their way into the balloon or out of it.
            if rounds % 6 == 3:
                entry[1] = save_and_go_on(entry[1], clone, entry[0], tmp_path, f'{name}-{rounds}')
        time.sleep(numbers.uniform(0.5, 3))
        rounds += 1
    for _, guest in clones.values():
        lb.stop_churn(guest)
    for _, guest in clones.values():
        assert lb.end_churn(guest) > 10000
        lb.balloon_to(guest, MEMORY, TIMEOUT)
        lb.check_log(guest)
        guest.quit()
    assert {variant: file_sum(path) for variant, path in saved.items()} == sums, 'a clone has written to its file'


def test_reported_pages_leave_the_host(clone):
    guest = clone('plain')
    guest.run(f'echo {lb.REPORTING_OFF} >{lb.REPORTING_ORDER}')
    before = lb.anonymous_memory(guest)
    guest.run('memwork once 48 3')
    used = lb.anonymous_memory(guest)
    assert used > before + 44, (before, used)
    # The order is looked at when pages are freed.
    guest.run(f'echo 9 >{lb.REPORTING_ORDER}; memwork once 4 3')
    left = lb.wait_anonymous_below(guest, used - 0.8 * 48, 60)
    assert guest.run('memwork once 32 4') == 'memwork: right\n'
    assert lb.anonymous_memory(guest) > left + 28
    lb.check_log(guest)


def test_inflated_pages_leave_the_host(clone):
    guest = clone('plain')
    guest.run(f'echo {lb.REPORTING_OFF} >{lb.REPORTING_ORDER}')
    guest.run('memwork once 80 3')
    used = lb.anonymous_memory(guest)
    lb.balloon_to(guest, MEMORY - 48, TIMEOUT)
    # Part of what the guest gives away it had not written: 20 MiB of its 100 free ones.
    lb.wait_anonymous_below(guest, used - 24, 60)
    lb.balloon_to(guest, MEMORY, TIMEOUT)
    assert guest.run('memwork once 32 4') == 'memwork: right\n'
    lb.check_log(guest)


@pytest.mark.parametrize('variant', ['plain', 'no-deflate'])
def test_deflate_on_oom(clone, variant):
    """A guest that needs more than the balloon leaves is helped by the balloon, or has to kill."""
    guest = clone(variant)
    # A balloon that does not deflate makes the guest smaller, and it would not even promise so much.
    guest.run('echo 1 >/proc/sys/vm/overcommit_memory')
    lb.balloon_to(guest, MEMORY - 48, TIMEOUT)
    output = guest.run('memwork once 80 5', check=False)
    killed = guest.run("dmesg | grep -c 'Out of memory: Killed process'", check=False) != '0\n'
    if variant == 'plain':
        assert output == 'memwork: right\n' and not killed, output
        # The guest has told; unless it has taken pages again since then.
        assert lb.actual(guest) > (MEMORY - 48) * lb.MIB
    else:
        assert 'right' not in output and killed, output
        assert lb.actual(guest) == (MEMORY - 48) * lb.MIB


def test_statistics(clone):
    guest = clone('plain')
    lb.check_statistics(guest, TIMEOUT)
    # This kernel has no huge pages that could be counted.
    stats = lb.statistics(guest, TIMEOUT)
    assert stats['stat-htlb-pgalloc'] == stats['stat-htlb-pgfail'] == lb.UNKNOWN, stats


def test_random_numbers(clone):
    guests = [clone('plain', f'rng{n}') for n in range(2)]
    assert guests[0].run('read name </sys/class/misc/hw_random/rng_current; echo $name') == 'virtio_rng.0\n'
    # The first bytes may have been in the saved guest already.
    sums = [guest.run('dd if=/dev/hwrng bs=256 count=4 iflag=fullblock 2>/dev/null >/tmp/r; wc -c </tmp/r; sha256sum </tmp/r')
            for guest in guests]
    assert all(text.split()[0] == '1024' for text in sums), sums
    assert sums[0] != sums[1]


def test_port_echoes(clone, tmp_path):
    guest = clone('plain', 'port')
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(TIMEOUT)
        link.connect(str(tmp_path / 'port.port'))
        # A port can be opened once, so the descriptor is for both directions.
        guest.run(f'cat 2>/tmp/echo <>/dev/virtio-ports/{lb.PORT} >&0 &')
        data = os.urandom(100000)
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(link.sendall, data)
            back = b''
            while len(back) < len(data) and (piece := link.recv(65536)):
                back += piece
            sending.result()
        assert back == data, (len(back), guest.run('cat /tmp/echo'))
    lb.check_log(guest)
