# kill -9 of the VMM at random points of a save, and of other writers: what is left is either refused or right.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import select
import subprocess

import pytest
import vm as vmlib
from fail_calls import FailCalls

MIB = 1 << 20
START, LENGTH, STEP = 32 * MIB, 96 * MIB, 2


def check(path):
    return subprocess.run([vmlib.snap_path(), 'check', path], capture_output=True, text=True, timeout=120).returncode == 0


class Victims:
    """Clones that have written something and are killed while they save it."""

    def __init__(self, machines, saved, folder, mode, in_place):
        self.machines, self.saved, self.mode, self.in_place = machines, saved, mode, in_place
        self.calls = FailCalls(folder)
        self.path = self.calls.folder / 's'
        self.seconds, self.n_calls = self.measure()

    def clone(self, seed):
        machine = self.machines.restore(self.saved.path, env=self.calls.env, **self.saved.options)
        machine.console.command(f'write {seed} {START} {LENGTH} {STEP}')
        machine.qmp.command('stop')
        return machine

    def measure(self):
        """How long an undisturbed save takes and how many calls it makes."""
        machine = self.clone(1)
        self.calls.count('any')
        info = machine.migrate(f'file:{self.path}', ram_save_mode=self.mode)
        assert info['status'] == 'completed', info
        self.machines.end(machine)
        self.path.unlink()
        return info['total-time'] / 1000, self.calls.seen

    def uri(self, machine):
        if not self.in_place:
            return f'file:{self.path}'
        self.path.unlink(missing_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        machine.qmp.command('getfd', fdname='out', fds=[fd])
        os.close(fd)
        return 'fd:out'

    def kill_one(self, seed, rng, by_call):
        machine = self.clone(seed)
        uri = self.uri(machine)
        machine.killed = True
        if by_call:
            self.calls.arm('any', rng.randrange(self.n_calls))
        try:
            machine.begin_migrate(uri, ram_save_mode=self.mode)
            if by_call:
                machine.end_migrate()
            else:
                # The point of the kill is meant to be random, so this wait is the test and no synchronisation.
                select.select([], [], [], rng.uniform(0, self.seconds * 1.2))
        except (vmlib.QmpClosed, BrokenPipeError, ConnectionResetError):
            assert by_call
        machine.kill()
        self.calls.disarm()
        self.machines.end(machine)

    def is_right(self, seed):
        again = self.machines.restore(self.path, **self.saved.options)
        again.console.verify(seed, START, LENGTH, STEP)
        again.console.verify_others(self.saved.seed, START, LENGTH, STEP)
        again.console.verify(self.saved.seed, START + LENGTH)
        self.machines.end(again)


@pytest.mark.parametrize('in_place', [False, True], ids=['by-name', 'in-place'])
@pytest.mark.parametrize('mode', ['full', 'incremental'])
def test_killed_while_saving(machines, saved, folder, rng, long, mode, in_place):
    """At a random moment, and before a random system call: 20 kills, 200 in the long form."""
    victims = Victims(machines, saved, folder, mode, in_place)
    for number in range(50 if long else 5):
        before = victims.path.read_bytes() if victims.path.exists() and not in_place else None
        victims.kill_one(300 + number, rng, by_call=number % 2 == 0)
        if victims.path.exists() and check(victims.path) and victims.path.read_bytes() != before:
            victims.is_right(300 + number)
        elif before is not None:
            assert victims.path.read_bytes() == before, 'an old snapshot was damaged'


def test_killed_command_of_a_stream(machines, saved):
    """The process that writes for us (exec:) dies: the save fails, the guest goes on."""
    machine = machines.restore(saved.path, **saved.options)
    info = machine.migrate('exec:head -c 1000000 > /dev/null; kill -9 $$', mapped_ram=False)
    assert info['status'] == 'failed' and info['error-desc']
    assert machine.qmp.command('query-status')['running']
    assert machine.console.verify(saved.seed) == saved.pages


def test_killed_flatten(machines, saved, folder, rng, long):
    clone = machines.restore(saved.path, **saved.options)
    clone.console.command(f'write 60 {START} {LENGTH} {STEP}')
    clone.save_increment(folder / 'increment')
    calls = FailCalls(folder)
    command = [vmlib.snap_path(), 'flatten', folder / 'increment', '-o', calls.folder / 'flat']
    calls.count('any')
    subprocess.run(command, env={**os.environ, **calls.env}, check=True, capture_output=True)
    total = calls.seen
    (calls.folder / 'flat').unlink()
    for _ in range(20 if long else 3):
        calls.arm('any', rng.randrange(total))
        subprocess.run(command, env={**os.environ, **calls.env}, capture_output=True)
        if (calls.folder / 'flat').exists():
            assert check(calls.folder / 'flat')
            done = subprocess.run([vmlib.snap_path(), 'compare', folder / 'increment', calls.folder / 'flat'])
            assert done.returncode == 0
            (calls.folder / 'flat').unlink()
