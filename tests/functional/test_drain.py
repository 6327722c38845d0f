# The drain: a file that can neither be leased nor cloned is mapped, and memory is detached from it while the guest runs.
#
# That is the case under libvirt: the save file is root's, mode 0600, and comes as a descriptor; the VMM is another user
# without capabilities.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import pwd
import shutil
import time

import balloon_vm
import pytest
import vm as vmlib
from qmp import Qmp

MIB = 1 << 20
BIG = '384M'  # enough for a drain to last a while
LONGEST_PAUSE_US = 10000


@pytest.fixture(scope='module')
def big(tmp_path_factory):
    """A snapshot whose drain lasts a while; never to be changed."""
    from conftest import make_saved
    folder = os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')
    path = vmlib.tempfile.mkdtemp(prefix='cowbird-test-', dir=folder)
    try:
        yield make_saved(path, memory=BIG)
    finally:
        shutil.rmtree(path)


class Unprivileged:
    """The VMM as libvirt runs it: another user, no capability, the file by descriptor only."""

    def __init__(self, machines, folder):
        if os.geteuid() != 0:
            pytest.skip('becoming another user needs root')
        os.chmod(folder, 0o711)
        self.machines, self.folder = machines, folder
        self.binary, self.kernel = folder / 'vmm', folder / 'kernel'
        shutil.copy(vmlib.vmm_path(), self.binary)
        shutil.copy(vmlib.guest_elf(), self.kernel)
        os.chmod(self.binary, 0o755)
        os.chmod(self.kernel, 0o644)
        user = pwd.getpwnam('nobody')
        self.wrapper = ['setpriv', f'--reuid={user.pw_uid}', f'--regid={user.pw_gid}', f'--groups={os.stat("/dev/kvm").st_gid}',
                        '--inh-caps=-all', '--bounding-set=-all']

    def start(self, path, args=(), pass_fds=(), **options):
        """A VMM that waits for the file at `path`, which it cannot open itself."""
        fd = os.open(path, os.O_RDONLY)
        try:
            machine = self.machines.start(incoming='defer', pass_fds=(fd, *pass_fds), args=['-add-fd', f'set=0,fd={fd}', *args], binary=self.binary,
                                          kernel=self.kernel, wrapper=self.wrapper, **options)
        finally:
            os.close(fd)
        return machine

    def restore(self, path, run=True, **options):
        machine = self.start(path, **options)
        machine.set_capabilities(events=True, mapped_ram=True)
        machine.qmp.command('migrate-incoming', uri='file:/dev/fdset/0')
        vmlib.wait_restored(machine)
        if run:
            machine.cont()
        return machine


@pytest.fixture
def unprivileged(machines, folder):
    return Unprivileged(machines, folder)


def owned_by_root(saved, folder, name='save'):
    path = saved.copy(folder / name)
    os.chmod(path, 0o600)
    return path


def guard(machine):
    return machine.qmp.command('query-ram-restore')['guard']


def wait_drained(machine):
    event = machine.qmp.event('RAM_BASE_DETACHED', timeout=60)
    assert event['data']['reason'] == 'drain' and event['data']['incremental'] is False
    assert guard(machine) == 'detached'


def destroy(path):
    """As libvirt does before it writes a new save file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, b'\xee' * MIB)
    os.close(fd)


def save_by_descriptor(machine, path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    machine.qmp.command('add-fd', fds=[fd], arguments={'fdset-id': 7})
    os.close(fd)
    info = machine.migrate('file:/dev/fdset/7')
    assert info['status'] == 'completed', info


def assert_nothing_lost(machine):
    assert machine.qmp.command('query-status')['status'] in ('running', 'paused')
    assert not [e for e in machine.qmp.events if e['event'] in ('RAM_LOST', 'MEMORY_FAILURE')]


def test_it_drains_in_the_background(unprivileged, saved, folder):
    machine = unprivileged.restore(owned_by_root(saved, folder), **saved.options)
    block = machine.restored_blocks()['pc.ram']
    assert block['mode'] == 'copy-on-write'
    wait_drained(machine)
    destroy(folder / 'save')
    assert machine.console.verify(saved.seed) == saved.pages
    figures = machine.qmp.command('query-ram-restore')['detach']
    assert figures['chunks'] == 80 and figures['chunks-left'] == 0 and not figures['active']


def drain_a_writer(unprivileged, big, path):
    """The guest rewrites 64 MiB all the time and misses nothing; returns the figures."""
    machine = unprivileged.restore(path, **big.options)
    machine.console.begin(f'churn {16 * MIB} {64 * MIB}')
    wait_drained(machine)
    destroy(path)
    time.sleep(0.2)
    result = machine.console.end()
    assert result['wrong'] == 0 and result['rounds'] > 0
    machine.console.verify(big.seed, 80 * MIB)
    figures = machine.qmp.command('query-ram-restore')['detach']
    unprivileged.machines.end(machine)
    return figures


def test_a_writing_guest_loses_nothing(unprivileged, big, folder):
    """And it is never paused for long, best of five: on a busy host the scheduler makes some pauses longer."""
    longest = []
    while not longest or (longest[-1] > LONGEST_PAUSE_US and len(longest) < 5):
        figures = drain_a_writer(unprivileged, big, owned_by_root(big, folder))
        assert figures['pauses'] > 0 and figures['paused-us'] / figures['pauses'] <= LONGEST_PAUSE_US
        longest.append(figures['longest-pause-us'])
    assert min(longest) <= LONGEST_PAUSE_US, longest


def test_stop_is_answered_when_the_file_may_go(unprivileged, big, folder):
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    machine.qmp.command('stop')
    destroy(folder / 'save')
    names = [e['event'] for e in machine.qmp.events]
    assert 'STOP' in names and 'RAM_BASE_DETACHED' in names
    assert guard(machine) == 'detached'
    machine.cont()
    machine.console.verify(80, 32 * MIB, 4 * MIB)
    machine.console.verify(big.seed, 0, 32 * MIB)
    machine.console.verify(big.seed, 36 * MIB)


def test_query_migrate_is_answered_when_the_file_may_go(unprivileged, big, folder):
    """restore --paused F; save F: libvirt sends no stop then."""
    machine = unprivileged.restore(owned_by_root(big, folder), run=False, **big.options)
    machine.qmp.command('query-migrate')
    destroy(folder / 'save')
    assert guard(machine) == 'detached'
    machine.cont()
    assert machine.console.verify(big.seed) == big.pages


def test_query_migrate_of_a_running_guest(unprivileged, big, folder):
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    machine.console.begin(f'churn {16 * MIB} {64 * MIB}')
    machine.qmp.command('query-migrate')
    destroy(folder / 'save')
    assert machine.console.end()['wrong'] == 0
    machine.console.verify(big.seed, 80 * MIB)


def test_save_over_the_file_ten_times(unprivileged, machines, saved, folder):
    """What `virsh restore F; virsh save F` sends, again and again, the guest writing in between."""
    path = owned_by_root(saved, folder)
    for turn in range(10):
        paused = turn % 2 == 1
        machine = unprivileged.restore(path, run=not paused, **saved.options)
        if not paused:
            machine.console.command(f'write {100 + turn} {32 * MIB} {4 * MIB}')
            written = turn
        machine.qmp.command('query-migrate')
        if not paused:
            machine.qmp.command('stop')
        save_by_descriptor(machine, path)
        machines.end(machine)
    machine = unprivileged.restore(path, **saved.options)
    machine.console.verify(100 + written, 32 * MIB, 4 * MIB)
    machine.console.verify(saved.seed, 0, 32 * MIB)
    machine.console.verify(saved.seed, 36 * MIB)


def two_clients(unprivileged, path, **options):
    """A machine restored from path, and a second connection to it that needs no path."""
    listener = vmlib._listener(unprivileged.folder / 'second')
    args = ['-chardev', f'socket,id=mon1,fd={listener.fileno()},server=on,wait=off', '-mon', 'chardev=mon1,mode=control']
    machine = unprivileged.restore(path, args=args, pass_fds=(listener.fileno(),), **options)
    listener.close()
    return machine, Qmp(unprivileged.folder / 'second')


def send(connection, name):
    connection.send_raw(json.dumps({'execute': name}).encode() + b'\n')


def test_stop_cont_stop_from_two_clients(unprivileged, big, folder):
    machine, second = two_clients(unprivileged, owned_by_root(big, folder), **big.options)
    machine.console.begin(f'churn {16 * MIB} {64 * MIB}')
    send(machine.qmp, 'stop')
    second.event('STOP', timeout=60)
    second.command('cont')
    send(second, 'stop')
    assert 'return' in machine.qmp.reply() and 'return' in second.reply()
    destroy(folder / 'save')
    assert second.command('query-status')['status'] == 'paused'
    machine.cont()
    assert machine.console.end()['wrong'] == 0
    machine.console.verify(big.seed, 80 * MIB)
    second.close()


@pytest.mark.parametrize('command', ['stop', 'query-migrate'])
@pytest.mark.parametrize('how', ['quit', 'terminate', 'kill', 'disconnect'])
def test_end_while_somebody_waits(unprivileged, big, folder, command, how):
    machine, second = two_clients(unprivileged, owned_by_root(big, folder), **big.options)
    send(machine.qmp, command)
    if how == 'quit':
        second.command('quit')
        assert machine.wait() == 0
    elif how == 'disconnect':
        machine.qmp.close()
        second.event('RAM_BASE_DETACHED', timeout=60)
        second.command('cont')
        machine.console.verify(big.seed)
        second.command('quit')
        assert machine.wait() == 0
    else:
        getattr(machine.process, how)()
        machine.killed = True
        assert machine.wait() == (0 if how == 'terminate' else -9)
    second.close()


@pytest.mark.parametrize('when', ['before', 'during'])
def test_a_removed_file_need_not_be_drained(unprivileged, big, folder, when):
    """libvirt removes a managed save once the domain runs."""
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    if when == 'during':
        send(machine.qmp, 'query-migrate')
        time.sleep(0.05)
    os.unlink(folder / 'save')
    if when == 'during':
        assert 'return' in machine.qmp.reply()
    machine.qmp.command('query-migrate')
    # On a busy host the drain may have come to its end before the file went.
    drained = any(e['event'] == 'RAM_BASE_DETACHED' for e in machine.qmp.events)
    assert guard(machine) == ('detached' if drained else 'unlinked')
    machine.console.verify(80, 32 * MIB, 4 * MIB)
    machine.console.verify(big.seed, 0, 32 * MIB)
    machine.console.verify(big.seed, 36 * MIB)
    machine.qmp.command('stop')
    save_by_descriptor(machine, folder / 'again')
    again = unprivileged.machines.restore(folder / 'again', **big.options)
    again.console.verify(80, 32 * MIB, 4 * MIB)
    again.console.verify(big.seed, 36 * MIB)


@pytest.mark.parametrize('after', [0.0, 0.12, 0.2])
@pytest.mark.parametrize('how', ['truncate', 'write'])
def test_a_file_changed_during_the_drain_stops_the_guest(unprivileged, big, folder, how, after):
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    send(machine.qmp, 'query-migrate')
    time.sleep(after / 4)
    if how == 'truncate':
        os.truncate(folder / 'save', 0)
    else:
        with open(folder / 'save', 'r+b') as file:
            file.write(b'\xee' * MIB)
    assert 'return' in machine.qmp.reply()
    if guard(machine) != 'detached':
        assert machine.qmp.command('query-status')['status'] == 'io-error'
        machine.qmp.event('RAM_LOST')
        failure = machine.qmp.event('MEMORY_FAILURE')['data']
        assert failure['recipient'] == 'hypervisor' and failure['action'] == 'fatal'
        with pytest.raises(vmlib.QmpError, match='lost'):
            machine.qmp.command('cont')
        machine.qmp.command('stop')
    else:
        assert machine.console.verify(big.seed) == big.pages
    assert machine.quit() == 0


def test_save_during_the_drain(unprivileged, machines, big, folder):
    """Plain QMP may save without asking first: right, whatever of memory has been detached."""
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    time.sleep(0.13)
    save_by_descriptor(machine, folder / 'other')
    destroy(folder / 'save')
    machines.end(machine)
    again = machines.restore(folder / 'other', **big.options)
    again.console.verify(80, 32 * MIB, 4 * MIB)
    again.console.verify(big.seed, 0, 32 * MIB)
    again.console.verify(big.seed, 36 * MIB)


def test_stop_during_a_save_during_the_drain(unprivileged, big, folder):
    """A save to a pipe that nobody reads: stop is answered, the save can be cancelled, and the guest is right."""
    machine = unprivileged.restore(owned_by_root(big, folder), **big.options)
    reader, writer = os.pipe()
    machine.qmp.command('getfd', fds=[writer], fdname='pipe')
    os.close(writer)
    machine.begin_migrate('fd:pipe', mapped_ram=False)
    machine.qmp.command('query-migrate')
    machine.qmp.command('stop')
    destroy(folder / 'save')
    machine.qmp.command('migrate_cancel')
    machine.qmp.event('MIGRATION', status='cancelled')
    os.close(reader)
    assert_nothing_lost(machine)
    machine.cont()
    assert machine.console.verify(big.seed) == big.pages


def test_balloon_during_the_drain(unprivileged, machines, folder):
    from conftest import make_saved
    saved = make_saved(folder, memory='256M', args=balloon_vm.BALLOON, prepare=['balloon-start'])
    os.chmod(saved.path, 0o600)
    args = saved.options.pop('args')
    machine = unprivileged.restore(saved.path, args=args, **saved.options)
    send(machine.qmp, 'query-migrate')
    machine.console.begin(f'balloon-churn {16 * MIB} {128 * MIB} {2 * MIB} report')
    machine.qmp.event('RAM_BASE_DETACHED', timeout=60)
    machine.qmp.reply()
    destroy(saved.path)
    assert machine.console.end()['wrong'] == 0
    machine.console.verify(saved.seed, 144 * MIB)
    assert_nothing_lost(machine)


def test_without_memory_the_guest_stops_and_stop_fails(machines, unprivileged, saved, folder):
    """So libvirt does not open the file; and nothing is lost."""
    from test_base_guard import memory_cgroup
    path = owned_by_root(saved, folder)
    with memory_cgroup(96 * MIB) as enter:
        machine = unprivileged.restore(path, preexec=enter, **saved.options)
        machine.qmp.event('MEMORY_FAILURE', timeout=60)
        assert machine.qmp.command('query-status')['status'] == 'io-error'
        for command in ('stop', 'query-migrate'):
            with pytest.raises(vmlib.QmpError, match='cgroup leaves .* MiB; give it more memory'):
                machine.qmp.command(command)
        assert guard(machine) == 'none'
        machine.cont()
        assert machine.console.command('ping') == 'pong'
        os.unlink(path)
        machine.qmp.command('stop')
        assert guard(machine) == 'unlinked'
        machines.end(machine)


def test_a_file_of_the_own_user_is_leased(unprivileged, saved, folder):
    path = owned_by_root(saved, folder)
    os.chown(path, pwd.getpwnam('nobody').pw_uid, -1)
    machine = unprivileged.restore(path, **saved.options)
    assert guard(machine) == 'lease'
    machine.qmp.command('stop')
    assert guard(machine) == 'lease'


@pytest.mark.parametrize('writable', [True, False])
def test_reflink_where_the_folder_may_be_written(machines, saved, xfs, writable):
    os.chmod(xfs.parent, 0o711)
    (xfs / 'folder').mkdir()
    other = Unprivileged(machines, xfs / 'folder')
    path = owned_by_root(saved, xfs / 'folder')
    os.chmod(xfs / 'folder', 0o777 if writable else 0o711)
    machine = other.restore(path, **saved.options)
    machine.console.command(f'write 80 {32 * MIB} {4 * MIB}')
    machine.qmp.command('stop')
    assert guard(machine) == ('clone' if writable else 'detached')
    destroy(path)
    machine.cont()
    machine.console.verify(80, 32 * MIB, 4 * MIB)
    machine.console.verify(saved.seed, 36 * MIB)


def test_explicit_copy_on_write_warns_and_does_not_drain(unprivileged, saved, folder):
    machine = unprivileged.restore(owned_by_root(saved, folder), args=['-global', 'migration.ram-restore-mode=copy-on-write'],
                                   **saved.options)
    assert 'nothing to guard it' in machine.stderr()
    machine.qmp.command('stop')
    assert guard(machine) == 'none'
    assert not [e for e in machine.qmp.events if e['event'] == 'RAM_BASE_DETACHED']
