# A full disk, and a disk whose writes, reads or fsync fail: the save fails, the guest goes on, no wrong file is left.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import errno
import os
import resource
import subprocess

import pytest
import vm as vmlib
from fail_calls import FailCalls


@pytest.fixture
def calls(folder):
    return FailCalls(folder)


def check(path):
    return subprocess.run([vmlib.snap_path(), 'check', path], capture_output=True, text=True, timeout=120).returncode == 0


def failed(info):
    assert info['status'] == 'failed', info
    return info['error-desc']


def save_expecting_failure(machine, path, **parameters):
    machine.qmp.command('stop')
    try:
        text = failed(machine.migrate(f'file:{path}', **parameters))
    except vmlib.QmpError as error:
        text = error.desc
    machine.cont()
    return text


def test_full_disk(machines, small_disk):
    machine = machines.filled(memory='160M')
    text = save_expecting_failure(machine, small_disk / 's')
    assert 'No space left' in text and str(small_disk / 's') in text
    assert os.listdir(small_disk) == ['lost+found'], 'nothing is left behind'
    assert machine.console.verify(7) == machine.pages


def test_file_that_may_not_grow(machines, folder):
    """RLIMIT_FSIZE: the signal that comes with it does not end the process."""
    machine = machines.filled(memory='160M')
    resource.prlimit(machine.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    assert 'File too large' in save_expecting_failure(machine, folder / 's')
    assert os.listdir(folder) == [], 'nothing is left behind'
    assert machine.console.verify(7) == machine.pages


def test_full_disk_keeps_the_old_snapshot(machines, small_disk):
    machine = machines.boot(memory='160M')
    machine.console.fill(5, 16 << 20, 24 << 20)
    machine.save(small_disk / 's')
    old = (small_disk / 's').read_bytes()
    machine.cont()
    machine.console.fill(6)
    save_expecting_failure(machine, small_disk / 's')
    assert (small_disk / 's').read_bytes() == old
    machine.console.verify(6)
    again = machines.restore(small_disk / 's', memory='160M')
    again.console.verify(5, 16 << 20, 24 << 20)


def test_full_disk_in_place(machines, small_disk):
    """An fd given to us: what is left in it is no snapshot."""
    machine = machines.filled(memory='160M')
    fd = os.open(small_disk / 's', os.O_RDWR | os.O_CREAT, 0o600)
    machine.qmp.command('getfd', fdname='out', fds=[fd])
    os.close(fd)
    machine.qmp.command('stop')
    assert 'No space left' in failed(machine.migrate('fd:out'))
    assert subprocess.run([vmlib.snap_path(), 'check', small_disk / 's'], capture_output=True).returncode != 0
    machine.cont()
    assert machine.console.verify(7) == machine.pages


def test_full_disk_after_a_while_increment(machines, saved, small_disk, folder):
    clone = machines.restore(saved.path, **saved.options)
    clone.console.fill(8)
    assert 'No space left' in save_expecting_failure(clone, small_disk / 'i', ram_save_mode='incremental')
    clone.qmp.command('stop')
    info = clone.save_increment(folder / 'i')
    assert info['ram']['data-pages'] >= saved.pages, 'what the failed save had taken is not forgotten'
    again = machines.restore(folder / 'i', **saved.options)
    assert again.console.verify(8) == saved.pages


@pytest.mark.parametrize('mode', ['full', 'incremental'])
@pytest.mark.parametrize('kind, after', [('write', 0), ('write', 3), ('sync', 0)])
def test_write_error(machines, saved, folder, calls, mode, kind, after):
    clone = machines.restore(saved.path, env=calls.env, **saved.options)
    clone.console.command(f'write 9 {32 << 20} {64 << 20}')
    calls.arm(kind, after, errno.EIO)
    text = save_expecting_failure(clone, calls.folder / 's', ram_save_mode=mode)
    calls.disarm()
    assert 'Input/output error' in text and str(calls.folder / 's') in text, text
    assert os.listdir(calls.folder) == []
    clone.console.verify(9, 32 << 20, 64 << 20)
    clone.console.verify(saved.seed, 96 << 20)
    info = clone.save(folder / 'good', mode=mode)
    assert info['status'] == 'completed'
    again = machines.restore(folder / 'good', **saved.options)
    again.console.verify(9, 32 << 20, 64 << 20)


class Series:
    """Saves of one clone, each with another call that fails, each of memory that was written anew."""

    def __init__(self, machines, saved, calls, mode, in_place):
        self.machines, self.saved, self.calls, self.mode, self.in_place = machines, saved, calls, mode, in_place
        self.path = calls.folder / 's'
        self.clone = machines.restore(saved.path, env=calls.env, **saved.options)
        self.seed = 400

    def write(self):
        self.seed += 1
        self.clone.console.command(f'write {self.seed} {32 << 20} {48 << 20} 2')

    def is_right(self, machine, seed):
        machine.console.verify(seed, 32 << 20, 48 << 20, 2)
        machine.console.verify_others(self.saved.seed, 32 << 20, 48 << 20, 2)
        machine.console.verify(self.saved.seed, 80 << 20)

    def save(self):
        """Whether it is said to have worked."""
        self.clone.qmp.command('stop')
        uri = f'file:{self.path}'
        if self.in_place:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            self.clone.qmp.command('getfd', fdname='out', fds=[fd])
            os.close(fd)
            uri = 'fd:out'
        try:
            status = self.clone.migrate(uri, ram_save_mode=self.mode)['status']
        except vmlib.QmpError:
            status = 'failed'
        self.clone.cont()
        return status == 'completed'

    def restored_is_right(self):
        again = self.machines.restore(self.path, **self.saved.options)
        self.is_right(again, self.seed)
        self.machines.end(again)


@pytest.mark.parametrize('in_place', [False, True], ids=['by-name', 'in-place'])
@pytest.mark.parametrize('mode', ['full', 'incremental'])
def test_errors_at_random_points(machines, saved, calls, rng, long, mode, in_place):
    """Any call of a save fails: it says so or copes, the guest goes on, and no wrong file passes for a snapshot."""
    series = Series(machines, saved, calls, mode, in_place)
    series.write()
    calls.count('any')
    assert series.save()
    total, old = calls.seen, series.path.read_bytes()
    assert total > 5
    for _ in range(40 if long else 5):
        series.write()
        calls.arm('any', rng.randrange(total), rng.choice([errno.EIO, errno.ENOSPC]), once=rng.random() < 0.5)
        worked = series.save()
        calls.disarm()
        series.is_right(series.clone, series.seed)
        if worked:
            series.restored_is_right()
            old = series.path.read_bytes()
        elif not in_place:
            assert series.path.read_bytes() == old, 'the old snapshot was damaged'
            assert os.listdir(calls.folder) == ['s']
        elif series.path.read_bytes() != old and check(series.path):
            # Whole, but neither fsync nor cutting it off worked any more.
            series.restored_is_right()
            old = series.path.read_bytes()
    series.write()
    assert series.save()
    series.restored_is_right()


@pytest.mark.parametrize('after', [0, 1, 5])
def test_read_error_while_restoring(machines, saved, calls, after):
    path = saved.copy(calls.folder / 's')
    calls.arm('read', after, errno.EIO)
    with pytest.raises(vmlib.VmFailed) as failure:
        machines.restore(path, 'copy', env=calls.env, **saved.options)
    assert failure.value.status == 1
    assert 'Input/output error' in failure.value.stderr and str(path) in failure.value.stderr


@pytest.mark.parametrize('old', [False, True], ids=['new-file', 'old-file'])
def test_flatten_with_errors(machines, saved, folder, calls, rng, long, old):
    clone = machines.restore(saved.path, **saved.options)
    clone.console.command(f'write 60 {32 << 20} {32 << 20} 2')
    clone.save_increment(folder / 'increment')
    target = calls.folder / 'flat'
    command = [vmlib.snap_path(), 'flatten', '-q', folder / 'increment', '-o', target]
    environment = {**os.environ, **calls.env}
    calls.count('any')
    subprocess.run(command, env=environment, check=True, capture_output=True)
    total = calls.seen
    for _ in range(20 if long else 4):
        target.unlink(missing_ok=True)
        if old:
            target.write_bytes(b'not to be lost')
        error = rng.choice([errno.EIO, errno.ENOSPC])
        calls.arm('any', rng.randrange(total), error, once=rng.random() < 0.5)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            assert subprocess.run([vmlib.snap_path(), 'compare', '-q', folder / 'increment', target]).returncode == 0
        else:
            assert done.returncode == 1 and os.strerror(error) in done.stderr, done.stderr
            assert os.listdir(calls.folder) == (['flat'] if old else [])
            assert not old or target.read_bytes() == b'not to be lost'
