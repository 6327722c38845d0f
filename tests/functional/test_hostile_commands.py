# Hostile arguments of the commands that libvirt uses on a running machine: each is answered at once, nothing of the guest is lost.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import select
import subprocess
import time

import pytest
import vm as vmlib

STRICT = ['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny']
LARGEST = (1 << 64) - 1
DUMP, ADD, STATS, RATE, MODEL = 'dump-guest-memory', 'device_add', 'query-stats', 'calc-dirty-rate', 'query-cpu-model-expansion'


def dump(protocol, **arguments):
    return DUMP, {'paging': False, 'protocol': protocol, **arguments}


def port(**arguments):
    return ADD, {'driver': 'virtserialport', 'bus': 'vs0.0', **arguments}


# Commands, and a word of the error; {folder} has a pipe without reader, named pipe.
REFUSED = [
    (dump('file:'), "''"),
    (dump('fd:nope'), 'nope'),
    (dump('exec:cat'), 'exec:cat'),
    (dump('file:{folder}'), 'directory'),
    (dump('file:{folder}/pipe'), 'nobody reads'),
    (dump('file:/dev/full'), 'No space'),
    (dump('file:/dev/kvm'), '/dev/kvm'),
    (dump('file:/proc/self/mem'), '/proc/self/mem'),
    (dump('file:/proc/self/exe'), 'busy'),
    (dump('file:/dev/fdset/7'), 'fdset'),
    (dump('file:{folder}/d', begin=0, length=0), 'length'),
    (dump('file:{folder}/d', begin=0), 'together'),
    (dump('file:{folder}/d', begin=LARGEST, length=1), 'no RAM'),
    (dump('file:{folder}/d', begin=1 << 62, length=LARGEST), 'no RAM'),
    ((ADD, {'driver': 'pc-i440fx-8.2-machine'}), 'device'),
    ((ADD, {'driver': 'virtio-rng-pci'}), 'running'),
    (port(id='vs0'), 'in use'),
    (port(id='a b'), "'a b'"),
    (port(id='p', bus='b0'), 'b0'),
    (port(id='p', nr=0), 'nr=0'),
    (port(id='p', nr=1 << 40), 'nr'),
    (port(id='p', chardev='nope'), 'nope'),
    (port(id='p', foo=[1, {'a': None}]), 'foo'),
    (port(id='p', name='x' * 100000), 'name'),
    (('device_del', {'id': '/machine'}), '/machine'),
    (('device_del', {'id': 'vs0'}), 'vs0'),
    ((STATS, {'target': 'planet'}), 'planet'),
    ((RATE, {'calc-time': -1}), 'calc-time'),
    ((RATE, {'calc-time': 1, 'sample-pages': (1 << 63) - 1}), 'sample-pages'),
    (('send-key', {'keys': [{'type': 'qcode', 'data': 'a'}] * 5000}), 'keyboard'),
    ((MODEL, {'type': 'full', 'model': {'name': 'qemu64', 'props': [1]}}), 'props'),
    ((MODEL, {'type': 'full', 'model': {'name': 'qemu64', 'props': {'x' * 10000: None}}}), 'xxx'),
    (('object-add', {'qom-type': 'secret', 'id': 's', 'file': '/dev/zero'}), 'no regular file'),
    (('object-add', {'qom-type': 'secret', 'id': 's', 'file': '/proc/self/mem'}), '/proc/self/mem'),
]


def placed(value, folder):
    if isinstance(value, dict):
        return {key: placed(inner, folder) for key, inner in value.items()}
    return value.replace('{folder}', str(folder)) if isinstance(value, str) else value


def test_refused_one_after_the_other(machines, folder):
    """One machine takes them all."""
    os.mkfifo(folder / 'pipe')
    machine = machines.filled(memory='64M', args=[*STRICT, '-device', 'virtio-serial-pci,id=vs0', '-device', 'virtio-balloon-pci,id=b0'])
    slow = []
    for (name, arguments), word in REFUSED:
        start = time.monotonic()
        with pytest.raises(vmlib.QmpError) as refused:
            machine.qmp.command(name, placed(arguments, folder))
        assert word in str(refused.value), (name, str(refused.value))
        if time.monotonic() - start > 5:
            slow.append(name)
    assert not slow
    assert machine.qmp.command('query-status')['status'] == 'running'
    assert machine.console.verify(7) == machine.pages
    # What a failed dump leaves is its own unfinished file at most.
    assert set(os.listdir(folder)) <= {'pipe', 'd'}


def test_commands_during_a_dump(machines, folder):
    """No second dump, no save, no start of the guest while one is written to a pipe that nobody empties yet; then it goes on."""
    machine = machines.filled(memory='64M', args=STRICT)
    read, write = os.pipe()
    machine.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    machine.qmp.command(DUMP, paging=False, protocol='fd:out', detach=True)
    for name, arguments in (dump(f'file:{folder}/other'), ('migrate', {'uri': f'file:{folder}/state'}), ('cont', {})):
        with pytest.raises(vmlib.QmpError, match='dump'):
            machine.qmp.command(name, arguments)
    assert machine.qmp.command('query-dump')['status'] == 'active'
    with open(read, 'rb') as dumped:
        size = sum(len(data) for data in iter(lambda: dumped.read(1 << 20), b''))
    assert size >= 64 << 20
    machine.qmp.event('DUMP_COMPLETED')
    assert machine.console.verify(7) == machine.pages
    assert os.listdir(folder) == []


@pytest.mark.parametrize('name', ['symbolic', 'hard', 'folder/../base'])
def test_dump_onto_the_base_of_a_clone(machines, saved, folder, name):
    """The file that guest RAM is mapped from is not written, by whatever name."""
    base = saved.copy(folder / 'base')
    clone = machines.restore(base, 'copy-on-write', **saved.options)
    (folder / 'folder').mkdir()
    os.symlink(base, folder / 'symbolic')
    os.link(base, folder / 'hard')
    clone.qmp.timeout = 20
    with pytest.raises(vmlib.QmpError):
        clone.qmp.command(DUMP, paging=False, protocol=f'file:{folder / name}')
    assert base.stat().st_size == saved.path.stat().st_size
    assert clone.qmp.command('query-status')['status'] == 'running'
    assert clone.console.verify(saved.seed) == saved.pages


def test_secret_from_a_pipe(machines, tmp_path):
    """A pipe without a writer is no empty secret, and one with a writer is read to its end."""
    machine = machines.start()
    pipe, long = tmp_path / 'pipe', tmp_path / 'long'
    os.mkfifo(pipe)
    long.write_bytes(b'x' * 65537)
    for path, message in ((pipe, 'nobody writes'), (long, 'longer'), (tmp_path, 'no regular file')):
        with pytest.raises(vmlib.QmpError, match=message):
            machine.qmp.command('object-add', {'qom-type': 'secret', 'id': 's', 'file': str(path)})
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b'c2VjcmV0')
    with pytest.raises(vmlib.QmpError, match='timed out'):
        machine.qmp.command('object-add', {'qom-type': 'secret', 'id': 's', 'file': str(pipe)})
    os.close(writer)
    child = subprocess.Popen(['sh', '-c', f'exec 3>{pipe}; printf c2Vj >&3; sleep 0.2; printf cmV0 >&3'])
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert select.select([reader], [], [], 10)[0]
    machine.qmp.command('object-add', {'qom-type': 'secret', 'id': 's', 'format': 'base64', 'file': str(pipe)})
    os.close(reader)
    assert child.wait(10) == 0
