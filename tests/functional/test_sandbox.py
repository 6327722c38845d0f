# -sandbox in a running VMM: who is held, what is refused and how, and that saving, restoring and releasing memory need nothing of it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import vm as vmlib

# What libvirt passes at every start.
STRICT = ['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny']
MIB = 1 << 20
USER = 65534


def thread_fields(pid, name):
    """The field of /proc/PID/status of every thread."""
    found = []
    for task in Path(f'/proc/{pid}/task').iterdir():
        lines = (task / 'status').read_text().splitlines()
        found.append(int(next(line.split()[1] for line in lines if line.startswith(f'{name}:'))))
    return found


def refused(*arguments):
    return subprocess.run([str(vmlib.vmm_path()), '-nodefaults', '-display', 'none', '-S', *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('argument,words', [
    ('on,spawn=den', ['spawn', "'deny'"]),
    ('on,spwan=deny', ['spwan', "'spawn'"]),
    ('on,elevateprivileges=child', ['elevateprivileges', 'children']),
    ('on,spawn=children', ['spawn', 'children']),
    ('perhaps', ['perhaps']),
    ('spawn=deny', ['enable']),
    ('', ['enable']),
])
def test_bad_arguments(argument, words):
    done = refused('-sandbox', argument)
    assert done.returncode == 1
    for word in ['-sandbox', *words]:
        assert word in done.stderr


def test_advertised(machines):
    option, = machines.start(kernel=None, serial=False, args=['-S']).qmp.command('query-command-line-options', option='sandbox')
    assert {p['name'] for p in option['parameters']} == {'enable', 'obsolete', 'elevateprivileges', 'spawn', 'resourcecontrol'}


@pytest.mark.parametrize('arguments,mode,no_new_privileges', [
    ([], 0, 0),
    (['-sandbox', 'off'], 0, 0),
    (['-sandbox', 'on'], 2, 0),
    (['-sandbox', 'on,elevateprivileges=children'], 2, 1),
    (STRICT, 2, 1),
])
def test_every_thread_is_in_it(machines, arguments, mode, no_new_privileges):
    machine = machines.boot(cpus=2, memory='64M', args=['-object', 'iothread,id=t0', *arguments])
    filters = thread_fields(machine.pid, 'Seccomp')
    assert len(filters) >= 4
    assert set(filters) == {mode}
    if os.geteuid() == 0:
        assert set(thread_fields(machine.pid, 'NoNewPrivs')) == {no_new_privileges}


def test_snapshots_and_increments(machines, folder):
    """Everything that a clone's life takes, in the strictest sandbox; threads that come later are held too."""
    args = [*STRICT, '-device', 'virtio-balloon-pci']
    first = machines.filled(memory='96M', args=args)
    first.save(folder / 'base')
    first.cont()
    assert first.console.verify(7) == first.pages
    machines.end(first)
    clone = machines.restore(folder / 'base', 'copy-on-write', memory='96M', args=args)
    clone.console.command(f'write 9 {32 * MIB} {16 * MIB} 3')
    expected = clone.console.hash()
    info = clone.save_increment(folder / 'next')
    assert info['ram']['written-bytes'] < 20 * MIB
    assert set(thread_fields(clone.pid, 'Seccomp')) == {2}
    machines.end(clone)
    for mode in ('copy', 'auto'):
        again = machines.restore(folder / 'next', mode, memory='96M', args=args)
        assert again.console.hash() == expected
        machines.end(again)


def test_scanner_and_guard_are_the_same(machines, saved):
    """pagemap, its ioctl and leases: what is chosen does not depend on the sandbox."""
    seen = []
    for arguments in ([], STRICT):
        clone = machines.restore(saved.path, 'copy-on-write', **saved.options, args=[*arguments, '-d', 'memory'])
        restore = clone.qmp.command('query-ram-restore')
        scans = {line.split('pagemap_anon: ')[1] for line in clone.stderr().splitlines() if 'pagemap_anon: ' in line}
        seen.append((restore['guard'], [block['mode'] for block in restore['blocks']], scans))
        machines.end(clone)
    assert seen[0] == seen[1] and seen[0][2]


def test_program_is_refused_and_the_guest_goes_on(machines, folder):
    machine = machines.filled(memory='64M', args=STRICT)
    machine.set_capabilities(events=True)
    info = machine.migrate(f'exec:cat > {folder}/s', mapped_ram=False)
    assert info['status'] == 'failed'
    assert 'spawn=deny' in info['error-desc']
    assert machine.qmp.command('query-status')['status'] == 'running'
    assert machine.console.verify(7) == machine.pages
    assert not (folder / 's').exists()


def test_program_to_load_from_is_refused():
    done = refused('-m', '64', '-kernel', str(vmlib.guest_elf()), '-incoming', 'exec:cat /dev/null', *STRICT)
    assert done.returncode == 1
    assert 'spawn=deny' in done.stderr.splitlines()[-1]


@pytest.mark.parametrize('rules', ['', ',elevateprivileges=deny', ',resourcecontrol=deny,obsolete=allow'])
def test_programs_run_where_they_may(machines, folder, rules):
    machine = machines.filled(memory='64M', args=['-sandbox', f'on{rules},spawn=allow'])
    machine.qmp.command('stop')
    assert machine.migrate(f'exec:cat > {folder}/s', mapped_ram=False)['status'] == 'completed'
    again = machines.start(incoming=f'exec:cat {folder}/s', memory='64M', args=['-sandbox', f'on{rules}'])
    vmlib.wait_restored(again)
    again.cont()
    assert again.console.verify(7) == machine.pages


def test_daemon(folder):
    """The pid file is written, and removed at the end, from within."""
    monitor_path, pid_path = folder / 'qmp', folder / 'pid'
    done = refused('-machine', 'none', '-daemonize', '-pidfile', str(pid_path), '-qmp', f'unix:{monitor_path},server=on,wait=off', *STRICT)
    assert done.returncode == 0, done.stderr
    monitor = vmlib.Qmp(monitor_path, 30)
    assert set(thread_fields(int(pid_path.read_text()), 'Seccomp')) == {2}
    monitor.command('quit')
    deadline = time.monotonic() + 30
    while pid_path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not pid_path.exists()
    monitor.close()


def as_user(uid, group):
    def become():
        os.setgroups([group])
        os.setgid(uid)
        os.setuid(uid)
    return become


@pytest.fixture
def user(folder):
    """Options that start a VMM as another user: no capability, only the group of /dev/kvm, its own copy of the program."""
    if os.geteuid() != 0:
        pytest.skip('needs to become another user')
    group = os.stat('/dev/kvm').st_gid
    if group == 0:
        pytest.skip('/dev/kvm has no group of its own here')
    for source, name in ((vmlib.vmm_path(), 'vmm'), (vmlib.guest_elf(), 'guest')):
        shutil.copyfile(source, folder / name)
        (folder / name).chmod(0o755)
    mine = folder / 'mine'
    mine.mkdir()
    os.chown(mine, USER, USER)
    folder.chmod(0o755)
    return {'binary': folder / 'vmm', 'kernel': folder / 'guest', 'preexec': as_user(USER, group), 'memory': '96M', 'args': STRICT}


def life_of_a_clone(machines, path, expected_guard, user, mode='copy-on-write'):
    """Restore it, write to a sixth of it, save an increment and load that; what the increment holds in bytes."""
    clone = machines.restore(path, mode, **user)
    assert clone.qmp.command('query-ram-restore')['guard'] == expected_guard
    assert clone.restored_blocks()['pc.ram']['mode'] == 'copy-on-write'
    clone.console.command(f'write 9 {32 * MIB} {16 * MIB} 3')
    expected = clone.console.hash()
    increment = path.parent / 'mine' / f'{path.name}-next' if path.parent.name != 'mine' else path.with_suffix('.next')
    info = clone.save_increment(increment)
    machines.end(clone)
    again = machines.restore(increment, **user)
    assert again.console.hash() == expected
    machines.end(again)
    return info['ram']['written-bytes']


def test_user_without_privileges(machines, folder, user):
    """Its own snapshot is guarded by a lease and its increment is small."""
    first = machines.filled(**user)
    assert os.stat(f'/proc/{first.pid}').st_uid == USER
    first.save(folder / 'mine/base')
    machines.end(first)
    assert life_of_a_clone(machines, folder / 'mine/base', 'lease', user) < 20 * MIB


def test_snapshot_of_another_user(machines, folder, user):
    """What it may read but not lease: mapped when that is asked for, and never in doubt what is the guard."""
    first = machines.filled(**user)
    first.save(folder / 'mine/base')
    machines.end(first)
    os.rename(folder / 'mine/base', folder / 'base')
    os.chown(folder / 'base', 0, 0)
    (folder / 'base').chmod(0o644)
    assert life_of_a_clone(machines, folder / 'base', 'none', user) < 20 * MIB


def test_program_that_cannot_be_read(machines, folder, user):
    """/proc/self/pagemap of such a process belongs to root; it is opened all the same."""
    (folder / 'vmm').chmod(0o711)
    first = machines.filled(**user)
    assert os.stat(f'/proc/{first.pid}/pagemap').st_uid == 0
    first.save(folder / 'mine/base')
    machines.end(first)
    assert life_of_a_clone(machines, folder / 'mine/base', 'lease', user) < 20 * MIB
