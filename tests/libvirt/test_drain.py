# A sparse save file under the domain that was restored from it: mapped, drained, overwritten, removed.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import time

import pytest

pytestmark = pytest.mark.needs_libvirt(11)
MIB = 1 << 20
SEED = 7
SPARSE = ('--image-format', 'sparse')
CHANNELS = ('--parallel-channels', '3')


@pytest.fixture(scope='module')
def guest(module_domain):
    """One running domain; each test saves and restores it and leaves it running."""
    made = module_domain.boot('drain', memory='256M')
    made.fill(SEED, 0, '160m')
    return made


@pytest.fixture(params=['ext4_dir', 'xfs_dir'])
def disk(request):
    """A folder that everybody may write to: where there are reflinks a clone is mapped, so nothing is drained."""
    return request.getfixturevalue(request.param)


def guard(guest):
    return guest.qmp('query-ram-restore')['guard']


def wait_guard(guest, *wanted):
    end = time.monotonic() + 60
    while (seen := guard(guest)) not in wanted:
        assert time.monotonic() < end, seen
        time.sleep(0.05)


def write(guest, seed):
    guest.console.command(f'write {seed} {32 * MIB} {4 * MIB}')


def check(guest, seed):
    guest.console.verify(SEED, 0, 32 * MIB)
    guest.console.verify(seed, 32 * MIB, 4 * MIB)
    guest.console.verify(SEED, 36 * MIB, 64 * MIB)


def test_the_file_of_a_running_domain_may_go(guest, disk):
    write(guest, 50)
    guest.save(disk / 'drained', *SPARSE)
    guest.restore(disk / 'drained')
    wait_guard(guest, 'clone' if disk.name.startswith('xfs') else 'detached')
    with open(disk / 'drained', 'r+b') as file:
        file.truncate(0)
    check(guest, 50)


def test_save_over_the_file_at_once(guest, disk):
    """Ten times; every second time paused, when libvirt sends no stop. The guest writes in between."""
    guest.save(disk / 'over', *SPARSE)
    for turn in range(10):
        seed = 60 + turn
        if turn % 2:
            guest.restore(disk / 'over', '--paused')
        else:
            guest.restore(disk / 'over', '--running')
            write(guest, seed)
            written = seed
        guest.save(disk / 'over', *SPARSE)
    guest.restore(disk / 'over', '--running')
    check(guest, written)


@pytest.mark.parametrize('words', [(), ('--bypass-cache',), CHANNELS, ('--bypass-cache', *CHANNELS)],
                         ids=['plain', 'bypass', 'channels', 'bypass-channels'])
def test_paused_save_over_the_file_at_once(guest, disk, words):
    """libvirt sends no stop to a domain that is paused; each way to write, over each way to read."""
    write(guest, 90)
    guest.save(disk / 'paused', *SPARSE, *words)
    for _ in range(3):
        guest.restore(disk / 'paused', '--paused', *words)
        guest.save(disk / 'paused', *SPARSE, *words)
    guest.restore(disk / 'paused', '--running', *words)
    check(guest, 90)


def test_live_snapshot_onto_the_file_at_once(guest, disk):
    """A raw file over the sparse one that the running guest's memory still comes from."""
    path = disk / 'onto'
    write(guest, 95)
    guest.save(path, *SPARSE)
    guest.restore(path, '--running')
    guest.virsh('snapshot-create-as', 'onto', '--memspec', f'file={path},snapshot=external', '--live')
    guest.virsh('snapshot-delete', 'onto', '--metadata')
    check(guest, 95)
    guest.destroy()
    guest.restore(path, '--running')
    check(guest, 95)


@pytest.fixture
def sparse_by_default(lv):
    lv.configure(save_image_format='sparse')
    yield
    lv.configure(save_image_format=None)


def test_removed_managed_save_is_not_drained(guest, sparse_by_default):
    """libvirt removes the file as soon as the domain runs; on a busy host that may be after the drain."""
    write(guest, 80)
    guest.virsh('managedsave', '--running')
    guest.close_console()
    guest.start()
    wait_guard(guest, 'unlinked', 'detached')
    check(guest, 80)
