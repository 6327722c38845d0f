# What goes wrong while virsh saves and restores: bad files, full disks, aborts, ends of the emulator and of libvirtd.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import os
import shutil
import signal
import struct
import time

import pytest
from daemon import VirshError, still_there, wait_until, wanted_version
from template import expect_early_end

SEED = 3


def statuses(lv, mark):
    return [m['data']['status'] for _, _, m in lv.qmp_log(mark) if m.get('event') == 'MIGRATION']


@pytest.fixture(scope='module')
def guest(module_domain):
    """Running before each test that does not say otherwise, and checked after it."""
    made = module_domain.boot('save-fault', memory='512M')
    made.pages = made.fill(SEED, 0, '400m')
    return made


def assert_same(guest):
    assert guest.state() == 'running'
    assert guest.console.verify(SEED, 0, guest.pages * 4096 + (2 << 20)) == guest.pages


@pytest.fixture(scope='module')
def saved(module_domain, workdir):
    """(domain that is off, its save file); the file may be restored any number of times."""
    made = module_domain.boot('save-broken', memory='64M')
    made.pages = made.fill(SEED, 0, '16m')
    made.save(workdir / 'good')
    return made, workdir / 'good'


def stream_start(path):
    with open(path, 'rb') as file:
        return 92 + struct.unpack_from('<5I', file.read(92), 16)[1]


def restore_fails(machine, path, *words):
    """virsh restore's message; the domain is off and nothing of it is left."""
    message = machine.lv.virsh('restore', path, *words, check=False)
    assert message.startswith('error: Failed to restore domain'), message
    assert machine.state() == 'shut off'
    return message


# Files

def test_file_that_is_cut_off(saved, workdir):
    machine, good = saved
    path = workdir / 'cut'
    shutil.copyfile(good, path)
    os.truncate(path, stream_start(good) + (4 << 20))
    assert 'cut off' in restore_fails(machine, path)
    assert 'cut off' in restore_fails(machine, path, '--bypass-cache')


def test_file_whose_state_was_changed(saved, workdir):
    machine, good = saved
    path = workdir / 'changed'
    shutil.copyfile(good, path)
    with open(path, 'r+b') as file:
        file.seek(-2000, os.SEEK_END)
        file.write(b'\xff' * 16)
    assert 'damaged' in restore_fails(machine, path)


def test_file_with_another_stream(saved, workdir):
    machine, good = saved
    path = workdir / 'foreign'
    shutil.copyfile(good, path)
    with open(path, 'r+b') as file:
        file.seek(stream_start(good))
        file.write(b'this is not a virtual machine' * 100)
    assert 'not a migration stream' in restore_fails(machine, path)


def test_file_of_a_domain_with_more_memory(saved, workdir):
    machine, good = saved
    changed = workdir / 'more.xml'
    path = workdir / 'more'
    shutil.copyfile(good, path)
    xml = machine.lv.virsh('save-image-dumpxml', path)
    changed.write_text(xml.replace('65536', '131072'))
    message = machine.lv.virsh('restore', path, '--xml', changed, check=False)
    assert 'same -m' in message or 'unsupported configuration' in message, message


def test_the_good_file_is_still_good(saved):
    machine, good = saved
    machine.restore(good)
    assert machine.console.verify(SEED, 0, machine.pages * 4096 + (2 << 20)) == machine.pages
    machine.destroy()


# Disk full

def test_disk_full(guest, make_disk):
    """The domain goes on, libvirt says why, no file is left."""
    disk = make_disk('ext4', 64)
    message = guest.virsh('save', disk.path / 'full', check=False)
    assert message.startswith('error: Failed to save domain')
    # The emulator and libvirt's helper both say it.
    guest.lv.expect_complaint("cannot write the migration stream (its reader has left)")
    guest.lv.expect_complaint('full: No space left on device')
    assert_same(guest)
    assert not (disk.path / 'full').exists()


@pytest.mark.needs_libvirt(11)
def test_disk_full_sparse(guest, make_disk):
    disk = make_disk('ext4', 64)
    message = guest.virsh('save', disk.path / 'full', '--image-format', 'sparse', check=False)
    assert 'No space left on device' in message
    assert_same(guest)


def test_folder_that_is_missing(guest, workdir):
    message = guest.virsh('save', workdir / 'missing/file', check=False)
    assert 'No such file or directory' in message
    assert_same(guest)


# Abort

def slow_save(guest, path):
    """virsh save in the background; it has begun when this returns."""
    mark = guest.lv.log_mark()
    process = guest.lv.popen_virsh('save', guest.name, str(path))
    wait_until(lambda: 'active' in statuses(guest.lv, mark), 'the save has begun', pause=0.002)
    return process, mark


@pytest.fixture
def slow_disk(lv):
    """A compressor that takes its time is the slow disk."""
    lv.configure(save_image_format='bzip2')
    yield
    lv.configure(save_image_format=None)


def test_abort(guest, workdir, slow_disk):
    process, mark = slow_save(guest, workdir / 'abort')
    info = guest.virsh('domjobinfo')
    assert 'Save' in info or 'Job type' in info
    guest.virsh('domjobabort')
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and 'Failed to save domain' in err
    guest.lv.expect_complaint('canceled by client')
    assert statuses(guest.lv, mark)[-1] == 'cancelled'
    assert_same(guest)
    # The file is libvirt's, we have but a descriptor: 11.3 leaves it when a client aborts, 9.0 does not.
    if wanted_version() == 9:
        assert not (workdir / 'abort').exists()
    (workdir / 'abort').unlink(missing_ok=True)


def test_job_info_in_the_middle(guest, workdir, slow_disk):
    process, _ = slow_save(guest, workdir / 'info')
    fields = {}
    deadline = time.monotonic() + 20
    while 'Memory processed' not in fields and time.monotonic() < deadline:
        fields = dict(line.split(':', 1) for line in guest.virsh('domjobinfo').splitlines() if ':' in line)
    assert fields['Operation'].strip() == 'Save'
    assert float(fields['Memory total'].split()[0]) > 500
    assert 0 < float(fields['Memory remaining'].split()[0]) < 512
    guest.virsh('domjobabort')
    process.communicate(timeout=60)
    assert_same(guest)


# Ends of processes

def expect_killed(lv):
    expect_early_end(lv)
    lv.expect_complaint('operation failed: domain is not running')
    lv.expect_complaint('operation failed: domain is no longer running')


def test_libvirtd_is_killed_during_save(guest, workdir, slow_disk):
    process, _ = slow_save(guest, workdir / 'killed')
    # A client's object that libvirt 11.3 frees too early when it reconnects.
    guest.lv.expect_complaint('is not a virObjectLockable instance')
    guest.lv.restart_daemon(kill=True)
    process.communicate(timeout=60)
    wait_until(lambda: guest.state() == 'running', 'libvirt lets the guest run again')
    assert_same(guest)


def test_emulator_is_killed_during_save(guest, workdir, slow_disk):
    process, _ = slow_save(guest, workdir / 'dead')
    pid = guest.pid()
    expect_killed(guest.lv)
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    guest.close_console()
    wait_until(lambda: guest.state() == 'shut off', 'libvirt notices')
    assert not (workdir / 'dead').exists()
    assert not still_there(pid)


def restore_in_background(saved):
    """A restore that has begun."""
    machine, good = saved
    mark = machine.lv.log_mark()
    process = machine.lv.popen_virsh('restore', str(good))
    wait_until(lambda: statuses(machine.lv, mark), 'the restore has begun', pause=0.001)
    return machine, process


def test_emulator_is_killed_during_restore(saved):
    machine, process = restore_in_background(saved)
    pid = machine.pid()
    expect_killed(machine.lv)
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: machine.state() == 'shut off', 'libvirt notices')
    test_the_good_file_is_still_good(saved)


def test_libvirtd_is_killed_during_restore(saved):
    machine, process = restore_in_background(saved)
    machine.lv.restart_daemon(kill=True)
    process.communicate(timeout=60)
    # libvirt may end it at this very moment.
    with contextlib.suppress(VirshError):
        machine.virsh('destroy')
    machine.wait_state('shut off')
    machine.close_console()
    test_the_good_file_is_still_good(saved)
