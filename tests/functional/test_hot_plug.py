# Ports and character devices that come and go while the guest runs, over plain QMP.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import socket
from pathlib import Path

import pytest
import vm as vmlib

BUS = ['-device', 'virtio-serial-pci,id=vs0']
PERIPHERAL = '/machine/peripheral'


def channel_of(folder, name):
    """Arguments of chardev-add for a socket that others connect to."""
    address = {'type': 'unix', 'data': {'path': str(folder / name)}}
    return {'id': f'char-{name}', 'backend': {'type': 'socket', 'data': {'addr': address, 'server': True, 'wait': False}}}


def port_of(name, nr=1):
    return {'driver': 'virtserialport', 'bus': 'vs0.0', 'nr': nr, 'id': name, 'chardev': f'char-{name}', 'name': f'org.cowbird.{name}'}


def plug(machine, folder, name='one', nr=1):
    machine.qmp.command('chardev-add', channel_of(folder, name))
    machine.qmp.command('device_add', port_of(name, nr))


def on_command_line(folder, name='one', nr=1):
    port = ','.join(f'{key}={value}' for key, value in port_of(name, nr).items() if key != 'driver')
    return [*BUS, '-chardev', f'socket,id=char-{name},path={folder / name},server=on,wait=off', '-device', f'virtserialport,{port}']


def ports(machine):
    return [entry['name'] for entry in machine.qmp.command('qom-list', path=PERIPHERAL) if entry['type'] == 'child<virtserialport>']


def chardevs(machine):
    return {entry['label'] for entry in machine.qmp.command('query-chardev')}


def listen_in_guest(machine, nr=1):
    machine.console.command('vserial-start')
    machine.console.command('vserial-events')
    machine.console.command(f'vserial-control {nr} 6 1')


def talk(machine, path, nr=1):
    """Bytes in both directions."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        sock.sendall(b'hello')
        machine.console.command(f'vserial-read {nr} 5')
        machine.console.command(f'vserial-write {nr} back')
        assert sock.recv(4, socket.MSG_WAITALL) == b'back'


def refused(machine, command, arguments, words):
    with pytest.raises(vmlib.QmpError, match=words) as error:
        machine.qmp.command(command, arguments)
    assert not error.value.desc.startswith('-'), 'an option of the command line has nothing to do with it'
    return error.value


def test_port_comes_and_goes(machines, folder):
    machine = machines.boot(args=BUS)
    for _ in range(3):
        plug(machine, folder)
        assert ports(machine) == ['one'] and 'char-one' in chardevs(machine)
        listen_in_guest(machine)
        talk(machine, folder / 'one')
        machine.qmp.command('device_del', id='one')
        assert machine.qmp.event('DEVICE_DELETED')['data'] == {'device': 'one', 'path': f'{PERIPHERAL}/one'}
        machine.qmp.command('chardev-remove', id='char-one')
        assert ports(machine) == [] and 'char-one' not in chardevs(machine)
        assert not (folder / 'one').exists()
    assert machine.console.command('ping') == 'pong'


def test_port_goes_by_path(machines, folder):
    machine = machines.boot(args=on_command_line(folder))
    machine.qmp.command('device_del', id=f'{PERIPHERAL}/one')
    assert machine.qmp.event('DEVICE_DELETED')['data']['device'] == 'one'
    refused(machine, 'device_del', {'id': 'one'}, "no device 'one'")


def test_refused_devices_leave_nothing(machines, folder):
    machine = machines.boot(args=[*BUS, '-device', 'virtio-rng-pci,id=rng0'])
    machine.qmp.command('chardev-add', channel_of(folder, 'one'))
    for arguments, words in [
            ({'driver': 'virtio-balloon-pci', 'id': 'b'}, 'running machine'),
            ({'driver': 'virtio-serial-pci', 'id': 's'}, 'running machine'),
            ({'driver': 'nonsense', 'id': 'n'}, 'nonsense'),
            ({'driver': 'mc146818rtc', 'id': 'r'}, 'part of a board'),
            ({**port_of('one'), 'bus': 'vs1.0'}, "no bus 'vs1.0'"),
            ({**port_of('one'), 'id': '1'}, 'no id'),
            ({**port_of('one'), 'id': 5}, "'id'"),
            ({**port_of('one'), 'id': 'rng0'}, 'rng0'),
            ({**port_of('one'), 'nr': 99}, '99'),
            ({'id': 'one'}, 'driver'),
            ({}, 'driver')]:
        refused(machine, 'device_add', arguments, words)
    refused(machine, 'device_del', {'id': 'rng0'}, 'stays as long as the machine does')
    assert refused(machine, 'device_del', {'id': 'one'}, 'one').error_class == 'DeviceNotFound'
    machine.qmp.command('device_add', port_of('one'))
    assert ports(machine) == ['one']
    # Two of a kind.
    refused(machine, 'device_add', port_of('one'), 'one')
    refused(machine, 'device_add', {**port_of('one', 2), 'id': 'two', 'name': 'two'}, 'char-one')


def test_refused_character_devices_leave_nothing(machines, folder):
    machine = machines.boot(args=on_command_line(folder))
    before = chardevs(machine)
    inet = {'type': 'inet', 'data': {'host': '127.0.0.1', 'port': '1'}}
    for backend, words in [
            ({'type': 'nonsense', 'data': {}}, 'nonsense'),
            ({'type': 'file', 'data': {'out': '/nonexistent/f'}}, '/nonexistent/f'),
            ({'type': 'file', 'data': {}}, ''),
            ({'type': 'ringbuf', 'data': {'size': 3}}, 'size'),
            ({'type': 'socket', 'data': {}}, ''),
            ({'type': 'socket', 'data': {'addr': 5}}, 'addr'),
            ({'type': 'socket', 'data': {'addr': inet, 'server': False}}, '127.0.0.1'),
            ({'type': 'null', 'data': 7}, 'data')]:
        refused(machine, 'chardev-add', {'id': 'new', 'backend': backend}, words)
    refused(machine, 'chardev-add', {'id': 'char-one', 'backend': {'type': 'null', 'data': {}}}, 'char-one')
    refused(machine, 'chardev-remove', {'id': 'nonsense'}, 'nonsense')
    refused(machine, 'chardev-remove', {'id': 'char-one'}, 'char-one')
    refused(machine, 'chardev-remove', {'id': 'mon0'}, 'mon0')
    assert chardevs(machine) == before
    assert machine.console.command('ping') == 'pong'


def test_kinds_of_character_device(machines, folder):
    machine = machines.boot()
    for kind, data in [('null', {}), ('file', {'out': str(folder / 'out')}), ('ringbuf', {'size': 4096})]:
        assert machine.qmp.command('chardev-add', {'id': kind, 'backend': {'type': kind, 'data': data}}) == {}
    pty = machine.qmp.command('chardev-add', {'id': 'pty', 'backend': {'type': 'pty', 'data': {}}})['pty']
    assert Path(pty).is_char_device()
    for kind in ('null', 'file', 'ringbuf', 'pty'):
        machine.qmp.command('chardev-remove', id=kind)


@pytest.mark.parametrize('mode', ['copy', 'copy-on-write'])
def test_saved_with_a_port_that_came_later(machines, folder, mode):
    """The destination names the port on its command line; two clones do so, each with a socket of its own."""
    machine = machines.filled(memory='64M', args=BUS)
    plug(machine, folder)
    listen_in_guest(machine)
    machine.save(folder / 'state')
    machines.end(machine)
    for name in ('first', 'second'):
        (folder / name).mkdir()
        clone = machines.restore(folder / 'state', mode, memory='64M', args=on_command_line(folder / name))
        assert ports(clone) == ['one']
        talk(clone, folder / name / 'one')
        assert clone.console.verify(7) == machine.pages


def test_destination_without_the_port_is_refused(machines, folder):
    machine = machines.boot(memory='64M', args=BUS)
    plug(machine, folder)
    machine.save(folder / 'state')
    machines.end(machine)
    with pytest.raises(vmlib.VmFailed, match='virtio-serial|virtserialport|port'):
        machines.restore(folder / 'state', memory='64M', args=BUS)


def test_no_port_comes_or_goes_during_a_save(machines, folder):
    """A save into a pipe that nobody empties yet; afterwards both work again."""
    machine = machines.filled(memory='64M', args=on_command_line(folder))
    machine.qmp.command('chardev-add', channel_of(folder, 'two'))
    read, write = os.pipe()
    machine.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    machine.begin_migrate('fd:out', mapped_ram=False)
    refused(machine, 'device_add', port_of('two', 2), 'being saved')
    refused(machine, 'device_del', {'id': 'one'}, 'being saved')
    machine.qmp.command('migrate_cancel')
    os.close(read)
    machine.qmp.command('device_add', port_of('two', 2))
    machine.qmp.command('device_del', id='one')
    assert ports(machine) == ['two']


def test_ports_come_and_go_during_a_dump(machines, folder):
    """A dump holds memory and registers, no devices."""
    machine = machines.filled(memory='64M', args=on_command_line(folder))
    machine.qmp.command('chardev-add', channel_of(folder, 'two'))
    read, write = os.pipe()
    machine.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    machine.qmp.command('dump-guest-memory', paging=False, protocol='fd:out', detach=True)
    machine.qmp.command('device_add', port_of('two', 2))
    machine.qmp.command('device_del', id='one')
    with open(read, 'rb') as dumped:
        assert sum(len(data) for data in iter(lambda: dumped.read(1 << 20), b'')) >= 64 << 20
    machine.qmp.event('DUMP_COMPLETED')
    assert ports(machine) == ['two']
    assert machine.console.verify(7) == machine.pages


def test_no_port_before_the_state_is_loaded(machines, folder):
    machine = machines.start(args=BUS, incoming='defer')
    machine.qmp.command('chardev-add', channel_of(folder, 'one'))
    refused(machine, 'device_add', port_of('one'), 'being loaded')


def test_a_new_socket_does_not_wait(machines, folder):
    """Nobody has come yet and commands are answered; to wait for somebody is refused."""
    machine = machines.start(args=BUS)
    added = channel_of(folder, 'one')
    for name in ('server', 'wait'):
        del added['backend']['data'][name]
    machine.qmp.command('chardev-add', added)
    assert 'char-one' in chardevs(machine)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(folder / 'one'))
    added['id'], added['backend']['data']['wait'] = 'char-two', True
    refused(machine, 'chardev-add', added, "'wait' must be false")
