# QMP as a client may misuse it: garbage, limits, wrong arguments, descriptors, clients that leave.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os

import pytest
import vm as vmlib


@pytest.fixture
def machine(machines):
    return machines.start(args=['-S'], memory='128M')


def raw(machine, data, timeout=120):
    machine.qmp.send_raw(data)
    return machine.qmp.reply(timeout)


def works(machine):
    return machine.qmp.command('query-status')['status'] == 'prelaunch'


def test_greeting(machine):
    assert set(machine.qmp.greeting['QMP']) == {'version', 'capabilities'}


@pytest.mark.parametrize('data', [
    b'garbage\n', b'{"execute":}\n', b']\n', b'}\n', b'{"execute":"query-status"]\n', b'"text"\n', b'12\n', b'[]\n', b'{}\n',
    b'{"execute":12}\n', b'{"execute":"query-status","arguments":[]}\n', b'{"execute":"query-status","extra":1}\n',
    b'{"execute":"query-status","arguments":{"a":1}}\n', b'{"execute":"stop","execute":"cont"]\n', b'\xff\xfe{"x"\n', b'\0\n',
    b'{"execute":"quer\x01y"}\n', b'{"execute":"\\ud800"}\n',
    b'{"execute":"query-status\\u0000"}\n', b'{"execute":"query-status\\u0000x"}\n'])
def test_garbage_is_answered_once_and_forgotten(machine, data):
    reply = raw(machine, data)
    assert 'error' in reply and reply['error']['desc']
    assert works(machine)


def test_unknown_command(machine):
    reply = raw(machine, b'{"execute":"query-statu","id":7}\n')
    assert reply['id'] == 7 and reply['error']['class'] == 'CommandNotFound'


@pytest.mark.parametrize('identity', [1, 'x', None, True, [1, {'a': 2}], {'deep': {'er': []}}, 2 ** 63])
def test_id_is_given_back(machine, identity):
    reply = raw(machine, json.dumps({'execute': 'query-name', 'id': identity}).encode() + b'\n')
    assert reply['id'] == identity


def test_commands_before_negotiation_are_refused(machine):
    machine.qmp.close()
    sock = machine.connect('qmp')
    sock.settimeout(120)
    file = sock.makefile('rwb')
    assert b'QMP' in file.readline()
    file.write(b'{"execute":"query-status"}\n')
    file.flush()
    assert json.loads(file.readline())['error']['class'] == 'CommandNotFound'
    file.write(b'{"execute":"qmp_capabilities","arguments":{"enable":["nonsense"]}}\n')
    file.flush()
    assert 'error' in json.loads(file.readline())
    file.close()
    sock.close()
    machine.qmp = machine.new_qmp()
    assert works(machine)


def test_deep_nesting_and_huge_input_are_limited(machine):
    assert 'error' in raw(machine, b'[' * 100000 + b'\n')
    assert works(machine)
    huge = b'{"execute":"query-status","id":"' + b'x' * (80 << 20) + b'"}\n'
    try:
        machine.qmp.send_raw(huge)
        reply = machine.qmp.reply(30)
        assert 'error' in reply
    except (BrokenPipeError, ConnectionResetError, vmlib.QmpClosed):
        machine.qmp = machine.new_qmp()
    assert works(machine)


def test_input_byte_by_byte(machine):
    for byte in b'{"execute":"query-name","id":"slow"}\r\n':
        machine.qmp.send_raw(bytes([byte]))
    assert machine.qmp.reply()['id'] == 'slow'


def test_many_commands_in_one_write(machine):
    machine.qmp.send_raw(b''.join(b'{"execute":"query-name","id":%d}' % i for i in range(300)))
    assert [machine.qmp.reply()['id'] for _ in range(300)] == list(range(300))


def test_client_that_leaves_in_the_middle(machine):
    for data in (b'{"execute":', b'{"execute":"query-qmp-schema"}\n' * 50, b''):
        machine.qmp.send_raw(data)
        machine.qmp.close()
        machine.qmp = machine.new_qmp()
    assert works(machine)


@pytest.mark.parametrize('name, arguments, word', [
    ('migrate-set-parameters', {'ram-restore-mode': 'cow'}, 'copy-on-write'),
    ('migrate-set-parameters', {'ram-restore-moed': 'copy'}, 'ram-restore-mode'),
    ('migrate-set-parameters', {'multifd-channels': 'x'}, 'multifd-channels'),
    ('migrate-set-parameters', {'multifd-channels': 70000}, 'multifd-channels'),
    ('migrate-set-capabilities', {'capabilities': [{'capability': 'mapped', 'state': True}]}, 'mapped-ram'),
    ('migrate-set-capabilities', {'capabilities': {}}, 'capabilities'),
    ('getfd', {'fdname': 'x'}, 'SCM_RIGHTS'), ('closefd', {'fdname': 'x'}, 'x'), ('remove-fd', {'fdset-id': 3}, '3'),
    ('qom-get', {'path': '/machine', 'property': 'nonsense'}, 'nonsense'),
    ('qom-get', {'path': '/nowhere', 'property': 'type'}, '/nowhere'),
    ('device-list-properties', {'typename': 'nonsense'}, 'nonsense'),
    ('pmemsave', {'val': 0, 'size': 4096, 'filename': '/nonexistent/x'}, '/nonexistent/x'),
    ('pmemsave', {'val': 1 << 40, 'size': 4096, 'filename': '/dev/null'}, ''),
    ('human-monitor-command', {}, 'command-line')])
def test_wrong_arguments_are_named(machine, name, arguments, word):
    with pytest.raises(vmlib.QmpError) as failure:
        machine.qmp.command(name, arguments)
    assert word in failure.value.desc
    assert works(machine)


def test_descriptors(machine):
    read, write = os.pipe()
    machine.qmp.command('getfd', fdname='p', fds=[write])
    machine.qmp.command('closefd', fdname='p')
    added = machine.qmp.command('add-fd', {'fdset-id': 2, 'opaque': 'note'}, fds=[write])
    assert added['fdset-id'] == 2
    assert [s['fdset-id'] for s in machine.qmp.command('query-fdsets')] == [2]
    machine.qmp.command('remove-fd', {'fdset-id': 2})
    os.close(write)
    assert machine.qmp.command('query-fdsets') == []
    assert os.read(read, 1) == b'', 'a descriptor was kept'
    os.close(read)


def test_descriptors_nobody_takes_are_closed(machine):
    read, write = os.pipe()
    for _ in range(100):
        machine.qmp.command('query-name', fds=[write] * 10)
    os.close(write)
    machine.qmp.command('query-name')
    machine.qmp.close()
    machine.qmp = machine.new_qmp()
    assert os.read(read, 1) == b''
    os.close(read)


def test_schema_lists_every_command(machine):
    schema = {e['name']: e for e in machine.qmp.command('query-qmp-schema')}
    commands = {c['name'] for c in machine.qmp.command('query-commands')}
    assert commands == {name for name, entry in schema.items() if entry['meta-type'] == 'command'}
    for entry in schema.values():
        for key in ('arg-type', 'ret-type', 'element-type'):
            assert key not in entry or entry[key] in schema


def test_events_carry_timestamps(machine):
    machine.qmp.command('cont')
    event = machine.qmp.event('RESUME')
    assert set(event['timestamp']) == {'seconds', 'microseconds'}


def test_reads_of_everything(machine):
    for name in ('query-version', 'query-commands', 'query-status', 'query-kvm', 'query-cpus-fast', 'query-name', 'query-uuid',
                 'query-target', 'query-machines', 'query-chardev', 'query-fdsets', 'query-migrate',
                 'query-migrate-capabilities', 'query-migrate-parameters', 'query-ram-restore', 'qom-list-types',
                 'query-command-line-options'):
        machine.qmp.command(name)
    assert 'VM status' in machine.qmp.command('human-monitor-command', {'command-line': 'info status'})
    assert 'RIP' in machine.qmp.command('human-monitor-command', {'command-line': 'info registers'})
