# kill -9 of the VMM at random points of a save: whatever file is left is either refused or right.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import select
import subprocess

import pytest
import vm as vmlib


def check(path):
    return subprocess.run([vmlib.snap_path(), 'check', path], capture_output=True, text=True, timeout=120)


def time_of_save(machine, path, **parameters):
    info = machine.migrate(f'file:{path}', **parameters)
    assert info['status'] == 'completed', info
    return info['total-time'] / 1000


@pytest.mark.parametrize('in_place', [False, True], ids=['by-name', 'in-place'])
@pytest.mark.parametrize('mode', ['full', 'incremental'])
def test_killed_while_saving(machines, saved, folder, rng, long, mode, in_place):
    rounds = 50 if long else 5
    path = folder / 'victim'
    durations = []
    for number in range(rounds):
        machine = machines.restore(saved.path, **saved.options)
        machine.console.command(f'write {300 + number} {32 << 20} {96 << 20} 2')
        machine.qmp.command('stop')
        uri = f'file:{path}'
        if in_place:
            path.unlink(missing_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            machine.qmp.command('getfd', fdname='out', fds=[fd])
            os.close(fd)
            uri = 'fd:out'
        if not durations:
            machine.set_capabilities(events=True)
            durations.append(time_of_save(machine, folder / 'trial', ram_save_mode=mode))
            (folder / 'trial').unlink()
            machine.cont()
            machine.qmp.command('stop')
        before = path.read_bytes() if path.exists() and not in_place else None
        machine.begin_migrate(uri, ram_save_mode=mode)
        # The point of the kill is meant to be random, so this wait is the test and no synchronisation.
        select.select([], [], [], rng.uniform(0, durations[0] * 1.2))
        machine.killed = True
        machine.kill()
        if path.exists() and check(path).returncode == 0 and path.read_bytes() != before:
            again = machines.restore(path, **saved.options)
            again.console.verify(300 + number, 32 << 20, 96 << 20, 2)
            again.console.verify_others(saved.seed, 32 << 20, 96 << 20, 2)
            again.console.verify(saved.seed, 128 << 20)
            machines.end(again)
        elif before is not None:
            assert path.read_bytes() == before, 'an old snapshot was damaged'
