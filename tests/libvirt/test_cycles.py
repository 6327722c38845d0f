# Define, start, save, restore, destroy, undefine, again and again: nothing of it stays. 20 cycles, or 200 with --long.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
from pathlib import Path

import pytest

WARM_UP = 3
# libvirt's own daemon grows by 1 to 2 MiB in its first 30 cycles and then by 4 KiB a cycle (measured).
DAEMON_KIB, DAEMON_KIB_A_CYCLE = 4096, 16


def fds(pid):
    """What is open, without the numbers of sockets and pipes."""
    found = []
    for link in Path(f'/proc/{pid}/fd').iterdir():
        try:
            found.append(os.readlink(link).split(':[')[0])
        except OSError:
            continue
    return sorted(found)


def resident_kib(pid):
    for line in open(f'/proc/{pid}/status'):
        if line.startswith('VmRSS:'):
            return int(line.split()[1])
    raise AssertionError(f'no process {pid}')


def emulators(emulator):
    """Processes that run this executable."""
    found = []
    for link in Path('/proc').glob('[0-9]*/exe'):
        try:
            if os.readlink(link).removesuffix(' (deleted)') == str(emulator):
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


def files(lv, workdir):
    """Everything in libvirt's folders and in ours, without logs."""
    roots = [lv.inside(path) for path in ('/run/libvirt', '/var/lib/libvirt', '/var/cache/libvirt', '/etc/libvirt')]
    found = {str(path) for root in roots for path in root.rglob('*')}
    return found | {str(path) for path in workdir.iterdir()}


def kernel_objects(name):
    """Control groups and shared memory with the domain's name."""
    groups = [str(path) for path in Path('/sys/fs/cgroup').rglob(f'*{name}*') if path.is_dir()]
    return groups + [str(path) for path in Path('/dev/shm').glob('*cowbird*')]


class State:
    def __init__(self, lv, workdir, emulator, name):
        self.fds = {daemon: fds(lv.pids[daemon]) for daemon in ('libvirtd', 'virtlogd')}
        self.files, self.processes = files(lv, workdir), emulators(emulator)
        self.objects = kernel_objects(name)
        self.resident = resident_kib(lv.pids['libvirtd'])


def cycle(machine, path):
    machine.define().start()
    machine.save(path)
    machine.restore(path)
    machine.destroy()
    machine.virsh('undefine')
    path.unlink()


@pytest.fixture
def before(lv, workdir, emulator, domain):
    machine = domain('cycle', memory='64M')
    path = workdir / 'cycle.save'
    for _ in range(WARM_UP):
        cycle(machine, path)
    return machine, path, State(lv, workdir, emulator, machine.name)


def test_nothing_stays(before, lv, workdir, emulator, long):
    machine, path, first = before
    count = 200 if long else 20
    for _ in range(count):
        cycle(machine, path)
    last = State(lv, workdir, emulator, machine.name)
    assert last.processes == first.processes
    assert last.files - first.files == set() and first.files - last.files == set()
    assert last.fds == first.fds
    assert last.objects == first.objects
    assert last.resident - first.resident < DAEMON_KIB + DAEMON_KIB_A_CYCLE * count
    assert machine.name not in lv.virsh('list', '--all', '--name').split()


def test_a_running_emulator_does_not_grow(lv, domain, workdir, long):
    """Snapshots of one process, again and again: descriptors and memory are what they were."""
    machine = domain.boot('grow', memory='64M')
    pid, path = machine.pid(), workdir / 'grow.memory'

    def snapshot():
        machine.virsh('snapshot-create-as', 'grow', '--memspec', f'file={path},snapshot=external', timeout=60)
        machine.virsh('snapshot-delete', 'grow', '--metadata')
        path.unlink()

    for _ in range(WARM_UP):
        snapshot()
    first, threads, memory = fds(pid), len(os.listdir(f'/proc/{pid}/task')), resident_kib(pid)
    for _ in range(50 if long else 8):
        snapshot()
    assert fds(pid) == first
    assert len(os.listdir(f'/proc/{pid}/task')) <= threads
    assert resident_kib(pid) - memory < 1024
