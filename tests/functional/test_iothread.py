# iothread objects, and a device whose queue is served by one: with a running guest, stopped, saved and restored.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import signal

import pytest
from qmp import QmpError

ARGS = ('-object', 'iothread,id=io0', '-object', 'rng-random,id=rng0,filename=/dev/urandom',
        '-device', 'virtio-rng-pci,id=rng1,rng=rng0,iothread=io0')


def threads_of(machine):
    return {int(name) for name in os.listdir(f'/proc/{machine.pid}/task')}


def cpu_time(machine, thread):
    """Clock ticks that a thread has used."""
    with open(f'/proc/{machine.pid}/task/{thread}/stat', encoding='ascii') as stat:
        fields = stat.read().rsplit(') ', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_objects(machines):
    machine = machines.boot(args=['-object', 'iothread,id=io0'])
    assert [t['id'] for t in machine.qmp.command('query-iothreads')] == ['io0']
    machine.qmp.command('object-add', **{'qom-type': 'iothread', 'id': 'io1'})
    found = {t['id']: t['thread-id'] for t in machine.qmp.command('query-iothreads')}
    assert set(found) == {'io0', 'io1'} and set(found.values()) <= threads_of(machine)
    machine.qmp.command('object-del', id='io1')
    assert [t['id'] for t in machine.qmp.command('query-iothreads')] == ['io0']
    assert found['io1'] not in threads_of(machine)
    assert machine.quit() == 0


def test_no_polling(machines):
    """The thread does not poll, so there is nothing to be set."""
    machine = machines.boot()
    with pytest.raises(QmpError, match='poll-max-ns'):
        machine.qmp.command('object-add', **{'qom-type': 'iothread', 'id': 'io0', 'poll-max-ns': 1000})


def test_device(machines, folder):
    machine = machines.boot(memory='64M', args=ARGS)
    thread = machine.qmp.command('query-iothreads')[0]['thread-id']
    with pytest.raises(QmpError, match='io0'):
        machine.qmp.command('object-del', id='io0')
    machine.console.command('rng-start')
    before = cpu_time(machine, thread)
    for _ in range(16):
        assert machine.console.fields('rng-read 8388608 33554432')['bytes'] == 8388608
    assert cpu_time(machine, thread) > before
    machine.save(folder / 'saved')
    assert machine.quit() == 0
    again = machines.restore(folder / 'saved', memory='64M', args=ARGS)
    assert again.console.fields('rng-read 100000 33554432')['bytes'] == 100000
    again.qmp.command('system_reset')
    again.console.ready()
    again.console.command('rng-start')
    assert again.console.fields('rng-read 1000')['bytes'] == 1000


def test_end_while_busy(machines):
    """The process ends in order while the thread has work."""
    machine = machines.boot(memory='64M', args=ARGS)
    machine.console.command('rng-start')
    machine.console.send('rng-read 16777216 33554432')
    machine.process.send_signal(signal.SIGTERM)
    assert machine.wait() == 0
