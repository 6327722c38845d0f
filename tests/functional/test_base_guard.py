# The base file under a running clone: who rewrites or truncates it does not harm the clone.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import errno
import os
import subprocess
import threading

import pytest
import vm as vmlib

MIB = 1 << 20


@pytest.fixture
def clone(machines, saved, folder):
    machine = machines.restore(saved.copy(folder / 'base'), 'copy-on-write', **saved.options)
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    return machine


def assert_memory_is_right(machine, saved):
    machine.console.verify(80, 32 * MIB, 4 * MIB)
    machine.console.verify(saved.seed, 0, 32 * MIB)
    machine.console.verify(saved.seed, 36 * MIB)


def spoil(path, flags):
    """Open for writing as another program would: the kernel holds us up until the lease is given back."""
    def work():
        fd = os.open(path, flags)
        if not flags & os.O_TRUNC:
            os.pwrite(fd, b'\xee' * (80 * MIB), 0)
        os.close(fd)
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize('flags', [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC])
def test_rewritten_base(machines, saved, folder, clone, flags):
    thread = spoil(folder / 'base', flags)
    event = clone.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    assert not thread.is_alive()
    assert event['data']['reason'] == 'lease-broken'
    assert_memory_is_right(clone, saved)


def test_truncated_by_name(machines, saved, folder, clone):
    thread = threading.Thread(target=os.truncate, args=(folder / 'base', 0))
    thread.start()
    clone.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    assert_memory_is_right(clone, saved)


def test_rewritten_through_a_hard_link(machines, saved, folder, clone):
    os.link(folder / 'base', folder / 'link')
    thread = spoil(folder / 'link', os.O_WRONLY | os.O_TRUNC)
    clone.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    assert_memory_is_right(clone, saved)


def test_several_clones_detach(machines, saved, folder, clone):
    others = [machines.restore(folder / 'base', 'copy-on-write', **saved.options) for _ in range(3)]
    thread = spoil(folder / 'base', os.O_WRONLY | os.O_TRUNC)
    for machine in [clone, *others]:
        machine.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    assert_memory_is_right(clone, saved)
    for machine in others:
        assert machine.console.verify(saved.seed) == saved.pages


def test_detach_while_the_guest_writes(machines, saved, folder):
    machine = machines.restore(saved.copy(folder / 'base'), 'copy-on-write', **saved.options)
    machine.console.begin(f'churn {16 * MIB} {64 * MIB}')
    thread = spoil(folder / 'base', os.O_WRONLY | os.O_TRUNC)
    machine.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    result = machine.console.end()
    assert result['wrong'] == 0 and result['rounds'] > 0
    machine.console.verify(saved.seed, 80 * MIB)


def test_unlinked_and_renamed_base_is_harmless(machines, saved, folder, clone):
    os.rename(folder / 'base', folder / 'other')
    os.unlink(folder / 'other')
    assert_memory_is_right(clone, saved)
    assert not [e for e in clone.qmp.events if e['event'].startswith('RAM_')]


def test_impatient_writer_is_told_to_come_back(machines, saved, folder, clone):
    """O_NONBLOCK gives EAGAIN; the clone detaches all the same, then the writer is let in."""
    with pytest.raises(BlockingIOError) as failure:
        os.open(folder / 'base', os.O_WRONLY | os.O_NONBLOCK)
    assert failure.value.errno == errno.EAGAIN
    clone.qmp.event('RAM_BASE_DETACHED', timeout=120)
    fd = os.open(folder / 'base', os.O_WRONLY | os.O_NONBLOCK)
    os.ftruncate(fd, 0)
    os.close(fd)
    assert_memory_is_right(clone, saved)


def test_reader_with_truncation_costs_the_guest_not_the_process(machines, saved, folder, clone):
    """O_RDONLY|O_TRUNC is not held up by a lease: pages are lost, and the VM stops and says so."""
    os.close(os.open(folder / 'base', os.O_RDONLY | os.O_TRUNC))
    clone.console.send(f'verify {saved.seed} 0 max')
    event = clone.qmp.event('RAM_LOST', timeout=120)
    assert event['data']['block'] == 'pc.ram'
    failure = clone.qmp.event('MEMORY_FAILURE')['data']
    assert failure['recipient'] == 'hypervisor' and failure['action'] == 'fatal'
    assert clone.qmp.command('query-status')['status'] == 'io-error'
    assert clone.quit() == 0


def test_increment_after_a_detach_into_memory_is_refused(machines, saved, folder, clone):
    thread = spoil(folder / 'base', os.O_WRONLY)
    event = clone.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    if event['data']['incremental']:
        pytest.fail('ext4 has no reflink: the increment cannot go on')
    clone.qmp.command('stop')
    clone.set_capabilities(events=True)
    clone.set_parameters(ram_save_mode='incremental')
    with pytest.raises(vmlib.QmpError):
        clone.qmp.command('migrate', uri=f'file:{folder}/i')
    clone.save(folder / 'full')
    again = machines.restore(folder / 'full', **saved.options)
    assert_memory_is_right(again, saved)


def test_increment_after_a_detach_with_reflink_goes_on(machines, saved, xfs):
    machine = machines.restore(saved.copy(xfs / 'base'), 'copy-on-write', **saved.options)
    saved.copy(xfs / 'kept')
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    thread = spoil(xfs / 'base', os.O_WRONLY)
    event = machine.qmp.event('RAM_BASE_DETACHED', timeout=120)
    thread.join(120)
    assert event['data']['incremental'] is True
    assert_memory_is_right(machine, saved)
    machine.console.command(f'write 81 {64 * MIB} {4 * MIB}')
    machine.save_increment(xfs / 'increment', ram_parent=[str(xfs / 'kept')])
    machines.end(machine)
    again = machines.start(incoming='defer', **saved.options)
    again.set_parameters(ram_parent=[str(xfs / 'kept')])
    again.qmp.command('migrate-incoming', uri=f'file:{xfs}/increment')
    vmlib.wait_restored(again)
    again.cont()
    again.console.verify(80, 32 * MIB, 4 * MIB)
    again.console.verify(81, 64 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 68 * MIB)


@contextlib.contextmanager
def memory_cgroup(limit_bytes):
    """A function by which a child process enters a memory cgroup of that size."""
    group = '/sys/fs/cgroup/memory/cowbird-test-%d' % os.getpid()
    try:
        os.mkdir(group)
    except OSError:
        pytest.skip('no writable memory cgroup (v1) here')

    def enter():
        with open(f'{group}/cgroup.procs', 'w') as procs:
            procs.write('0')
    try:
        with open(f'{group}/memory.limit_in_bytes', 'w') as limit:
            limit.write(str(limit_bytes))
        yield enter
    finally:
        subprocess.run(['rmdir', group], check=True)


def test_copy_without_memory_is_refused(machines, saved):
    """An eager restore into a cgroup that cannot hold the guest's RAM: a clear error, not the OOM killer."""
    with memory_cgroup(64 * MIB) as enter:
        with pytest.raises(vmlib.VmFailed, match='cgroup leaves .* MiB; give it more memory') as failure:
            machines.restore(saved.path, 'copy', preexec=enter, **saved.options)
        assert failure.value.status == 1


def test_without_memory_to_detach_the_vm_stops(machines, saved, folder):
    """In a memory cgroup that is too small for the copy: an event and io-error, not the OOM killer."""
    with memory_cgroup(64 * MIB) as enter:
        base = saved.copy(folder / 'base')
        machine = machines.restore(base, 'copy-on-write', preexec=enter, **saved.options)
        assert machine.console.command('ping') == 'pong'
        thread = spoil(base, os.O_WRONLY)
        machine.qmp.event('STOP', timeout=120)
        assert machine.qmp.command('query-status')['status'] == 'io-error'
        assert any(e['event'] in ('RAM_LOST', 'MEMORY_FAILURE') for e in machine.qmp.events)
        assert machine.process.poll() is None
        machines.end(machine)
        thread.join(120)


def test_target_that_is_the_base_in_use(machines, saved, folder, clone):
    os.link(folder / 'base', folder / 'link')
    for name in ('base', 'link'):
        clone.set_capabilities(events=True)
        with pytest.raises(vmlib.QmpError, match='in use|base'):
            clone.qmp.command('migrate', uri=f'file:{folder}/{name}')
    assert_memory_is_right(clone, saved)
