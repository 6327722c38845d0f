# What a hostile user or guest does to a running machine: it answers, keeps its memory, and leaves others' files alone.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import mmap
import os
import struct
import subprocess

import pytest
import vm as vmlib

MIB = 1 << 20


@pytest.fixture
def clone(machines, saved, folder):
    machine = machines.restore(saved.copy(folder / 'base'), 'copy-on-write', **saved.options)
    machine.qmp.timeout = 20
    return machine


def memory_is_right(machine, saved):
    assert machine.qmp.command('query-status')['status'] == 'running'
    assert machine.console.verify(saved.seed) == saved.pages


def test_pmemsave_onto_the_base(clone, saved, folder):
    """The main loop would wait for itself: it is the one to give the lease back."""
    with pytest.raises(vmlib.QmpError, match='mapped from'):
        clone.qmp.command('pmemsave', val=0, size=4096, filename=str(folder / 'base'))
    memory_is_right(clone, saved)
    assert (folder / 'base').stat().st_size == saved.path.stat().st_size


def test_pipes_without_another_end(clone, saved, folder):
    os.mkfifo(folder / 'pipe')
    with pytest.raises(vmlib.QmpError, match='nobody reads'):
        clone.qmp.command('pmemsave', val=0, size=4096, filename=str(folder / 'pipe'))
    with pytest.raises(vmlib.QmpError, match='regular file'):
        clone.qmp.command('migrate', uri=f'file:{folder}/pipe')
    memory_is_right(clone, saved)


def test_a_pipe_is_no_snapshot(machines, saved, folder):
    """The tools refuse it; a machine waits for whoever writes it, and answers meanwhile."""
    os.mkfifo(folder / 'pipe')
    for command in ('info', 'check', 'map'):
        assert subprocess.run([vmlib.snap_path(), command, folder / 'pipe'], timeout=20).returncode == 1
    machine = machines.start(incoming='defer', **saved.options)
    machine.qmp.command('migrate-incoming', uri=f'file:{folder}/pipe', timeout=20)
    assert machine.qmp.command('query-status')['status'] == 'inmigrate'
    assert machine.quit() == 0


def test_a_pipe_is_no_parent(machines, saved, folder, clone):
    clone.console.command(f'write 9 {64 * MIB} {4 * MIB}')
    clone.save_increment(folder / 'increment')
    clone.quit()
    os.rename(folder / 'base', folder / 'moved')
    os.mkfifo(folder / 'base')
    assert subprocess.run([vmlib.snap_path(), 'check', folder / 'increment'], timeout=20).returncode == 1
    with pytest.raises(vmlib.VmFailed, match='regular file'):
        machines.restore(folder / 'increment', **saved.options)


@pytest.mark.parametrize('name', ['symbolic', 'hard', 'fd', 'folder/../base'])
def test_a_save_onto_the_base_by_another_name(clone, saved, folder, name):
    (folder / 'folder').mkdir()
    os.symlink(folder / 'base', folder / 'symbolic')
    os.link(folder / 'base', folder / 'hard')
    fds = [n for n in os.listdir(f'/proc/{clone.pid}/fd') if os.readlink(f'/proc/{clone.pid}/fd/{n}') == str(folder / 'base')]
    paths = [f'/proc/self/fd/{n}' for n in fds] if name == 'fd' else [folder / name]
    assert paths
    for path in paths:
        for mode in ('full', 'incremental'):
            with pytest.raises(vmlib.QmpError, match='in use'):
                clone.migrate(f'file:{path}', ram_save_mode=mode)
    memory_is_right(clone, saved)


def test_save_after_a_detach_and_quit(clone, saved, folder):
    """The end of a detach unmapped the stacks of threads that were started meanwhile: a crash at the end."""
    with pytest.raises(BlockingIOError):
        os.open(folder / 'base', os.O_RDWR | os.O_NONBLOCK)
    clone.qmp.event('RAM_BASE_DETACHED', timeout=60)
    for number in range(3):
        clone.save(folder / f'after-{number}', 60)
        clone.cont()
    memory_is_right(clone, saved)
    assert clone.quit() == 0


def test_two_machines_save_to_one_name(machines, saved, folder):
    """One of the two wins, whole."""
    both = [machines.restore(saved.path, 'copy-on-write', **saved.options) for _ in range(2)]
    for seed, machine in enumerate(both, 11):
        machine.console.command(f'write {seed} {64 * MIB} {8 * MIB}')
        machine.qmp.command('stop')
    for machine in both:
        machine.begin_migrate(f'file:{folder}/same')
    assert [machine.end_migrate()['status'] for machine in both] == ['completed'] * 2
    assert os.listdir(folder) == ['same']
    machine = machines.restore(folder / 'same', **saved.options)
    wrong = [machine.console.fields(f'verify {seed} {64 * MIB} {8 * MIB}')['wrong'] for seed in (11, 12)]
    assert sorted(wrong) == [0, 8 * MIB // 4096]


def test_a_sparse_file_that_claims_gigabytes_of_device_state(saved, folder):
    """Refused before memory is taken for it."""
    path = saved.copy(folder / 's')
    length = struct.pack('>Q', 3 << 30)
    with open(path, 'r+b') as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        footer = mapped.rfind(b'\x7e\0\0\0\x03')
        file.seek(footer - 12)  # before it: be64 length of the rest, be32 checksum
        file.write(length)
        file.flush()
        mapped.close()
        file.truncate(4 << 30)
    done = subprocess.run([vmlib.snap_path(), 'check', path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'too large' in done.stderr
