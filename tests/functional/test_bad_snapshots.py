# Files that are damaged or do not fit the machine: a clear error and exit status 1.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import re
import subprocess
import time

import balloon_vm
import pytest
import vm as vmlib


def snap(*arguments):
    return subprocess.run([vmlib.snap_path(), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def refused(machines, path, saved, **options):
    """Restoring ends with status 1; returns what was said."""
    with pytest.raises(vmlib.VmFailed) as failure:
        machines.restore(path, **{**saved.options, **options})
    assert failure.value.status == 1, failure.value.stderr
    return failure.value.stderr


def page_area(path):
    """The bytes of the file that are RAM data."""
    start = int(re.search(r'"pages-offset": (\d+)', snap('info', path).stdout)[1])
    return start, start + (160 << 20)


def test_truncated_anywhere(machines, saved, folder, rng, long):
    path = saved.copy(folder / 's')
    size = path.stat().st_size
    points = sorted({0, 1, 3, 4, 8, 100, size - 1, size - 4, *(rng.randrange(size) for _ in range(60 if long else 6))}, reverse=True)
    for point in points:
        os.truncate(path, point)
        assert snap('check', path).returncode == 1, f'check accepts a file cut to {point} of {size}'
    for point in points[::4]:
        with open(saved.path, 'rb') as whole, open(path, 'wb') as cut:
            cut.write(whole.read(point))
        refused(machines, path, saved)


def test_bit_flipped_anywhere_outside_ram(machines, saved, folder, rng, long):
    path = saved.copy(folder / 's')
    begin, end = page_area(path)
    size = path.stat().st_size
    outside = [rng.randrange(begin) for _ in range(200 if long else 20)] + [rng.randrange(end, size) for _ in range(200 if long else 20)]
    with open(path, 'r+b') as file:
        for number, at in enumerate(outside):
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
            file.flush()
            assert snap('check', path).returncode == 1, f'check accepts a bit flipped at {at}'
            if number % 8 == 0:
                refused(machines, path, saved)
            file.seek(at)
            file.write(bytes([byte]))
            file.flush()
    assert snap('check', path).returncode == 0


OTHER_CPU = ('the snapshot was made with another CPU (model, features or number) than this guest has; '
             'start it with the same -cpu and -smp on such a host')


def other_memory(ours):
    return f"the snapshot has a RAM block 'pc.ram' of 167772160 bytes; this machine has one of {ours} bytes; start it with the same -m"


@pytest.mark.parametrize('incoming', ['at-start', 'later'])
@pytest.mark.parametrize('mode', ['auto', 'copy'])
@pytest.mark.parametrize('options, message', [
    ({'memory': '192M'}, other_memory(192 << 20)), ({'memory': '128M'}, other_memory(128 << 20)),
    ({'cpus': 2}, OTHER_CPU), ({'cpu': 'host,-rdrand,-rdseed,-x2apic'}, OTHER_CPU),
    ({'machine': 'none', 'memory': '160M', 'serial': False, 'kernel': ''},
     "the snapshot is of a machine 'pc-i440fx-8.2', this one is 'none'")], ids=['more', 'less', 'smp', 'cpu', 'machine'])
def test_other_machine(machines, saved, options, message, mode, incoming):
    args = ['-global', f'migration.ram-restore-mode={mode}']
    if incoming == 'at-start':
        assert message in refused(machines, saved.path, saved, args=args, **options)
        return
    machine = machines.start(incoming='defer', args=args, **{**saved.options, **options})
    machine.set_capabilities(events=True)
    machine.qmp.command('migrate-incoming', {'uri': f'file:{saved.path}', 'exit-on-error': False})
    machine.qmp.event('MIGRATION', status='failed')
    assert message in machine.qmp.command('query-migrate')['error-desc']
    with pytest.raises(vmlib.QmpError):
        machine.qmp.command('cont')


def test_other_devices(machines, saved):
    assert 'serial' in refused(machines, saved.path, saved, serial=False).lower()
    refused(machines, saved.path, saved, args=['-device', 'pvpanic'], serial=False)


@pytest.mark.parametrize('change', ['vectors=0', 'disable-legacy=on', 'multifunction=on', 'addr=9'])
def test_device_with_other_properties(machines, saved_balloon, change):
    args = ['-device', f'{balloon_vm.DEVICE},{change}']
    text = refused(machines, saved_balloon.path, saved_balloon, args=args)
    assert 'properties it had' in text or 'does not have' in text, text


@pytest.mark.parametrize('content', [b'', b'\0' * 4096, b'QEVM', b'\x7fELF' + b'x' * 5000, b'QEVM\0\0\0\3' + b'\xff' * 4096])
def test_not_a_snapshot(machines, saved, folder, content):
    path = folder / 's'
    path.write_bytes(content)
    assert str(path) in refused(machines, path, saved)
    assert snap('check', path).returncode == 1


@pytest.mark.parametrize('uri', ['file:/nonexistent/file', 'file:/', 'fd:77', 'fd:nothing', 'nonsense:x', 'file:', 'exec:false',
                                 'unix:/nonexistent/socket', 'file:/dev/fdset/9'])
def test_incoming_that_cannot_be_opened(machines, saved, uri):
    with pytest.raises(vmlib.VmFailed) as failure:
        machine = machines.start(incoming=uri, **saved.options)
        vmlib.wait_restored(machine)
    assert failure.value.status == 1


def test_failed_incoming_tells_why_before_it_ends(machines, saved, folder):
    """libvirt asks when it sees the event: it gets the reason, not the end of the connection."""
    (folder / 'bad').write_bytes(b'QEVM')
    machine = machines.start(incoming='defer', **saved.options)
    machine.set_capabilities(events=True)
    machine.qmp.command('migrate-incoming', uri=f'file:{folder}/bad')
    machine.qmp.event('MIGRATION', status='failed')
    time.sleep(0.1)
    assert f'{folder}/bad' in machine.qmp.command('query-migrate')['error-desc']
    assert machine.process.wait(10) == 1


def test_failed_incoming_can_be_tried_again(machines, saved, folder):
    (folder / 'bad').write_bytes(b'QEVM')
    machine = machines.start(incoming='defer', **saved.options)
    machine.set_capabilities(events=True)
    machine.qmp.command('migrate-incoming', {'uri': f'file:{folder}/bad', 'exit-on-error': False})
    machine.qmp.event('MIGRATION', status='failed')
    assert machine.qmp.command('query-status')['status'] == 'inmigrate'
    machine.qmp.command('migrate-incoming', uri=f'file:{saved.path}')
    vmlib.wait_restored(machine)
    machine.cont()
    assert machine.console.verify(saved.seed) == saved.pages


def test_unknown_restore_mode(machines, saved):
    assert 'copy-on-write' in refused(machines, saved.path, saved, args=['-global', 'migration.ram-restore-mode=copyonwrite'])


def refused_stream(machines, saved, path, args):
    with pytest.raises(vmlib.VmFailed) as failure:
        machine = machines.start(incoming=f'exec:cat {path}', args=args, **saved.options)
        vmlib.wait_restored(machine)
    return failure.value.stderr


def test_strict_mode_on_a_stream(machines, saved, folder):
    strict = ['-global', 'migration.ram-restore-mode=copy-on-write', '-global', 'migration.ram-restore-fallback=off']
    assert 'give the file itself' in refused_stream(machines, saved, saved.path, strict)
    machine = machines.restore(saved.path, **saved.options)
    machine.migrate(f'exec:cat > {folder}/stream', mapped_ram=False)
    assert 'copy-on-write' in refused_stream(machines, saved, folder / 'stream', strict)
