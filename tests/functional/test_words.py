# Commands in words (human-monitor-command), as `virsh qemu-monitor-command --hmp` sends them.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest
import vm as vmlib

UUID = '6e6f7420-6120-7265-616c-207575696421'


@pytest.fixture
def machine(machines):
    return machines.boot(cpus=2, args=['-name', 'guest=wordy', '-uuid', UUID, '-object', 'iothread,id=io0',
                                       '-device', 'virtio-balloon-pci,id=balloon0'])


def say(machine, words):
    return machine.qmp.command('human-monitor-command', {'command-line': words})


@pytest.mark.parametrize('words, answer', [
    ('info status', r'VM status: running\r\n'), ('info version', r'8\.2\.0 \(cowbird-.*\)\r\n'), ('info name', r'wordy\r\n'),
    ('info uuid', UUID + r'\r\n'), ('info kvm', r'kvm support: enabled\r\n'), ('info balloon', r'balloon: actual=256\r\n'),
    ('info cpus', r'\* CPU #0: thread_id=\d+\r\n  CPU #1: thread_id=\d+\r\n'),
    ('info chardev', r'mon0: filename=unix:\S+\r\nser0: filename=unix:\S+\r\n'), ('info iothreads', r'io0:\r\n  thread_id=\d+\r\n')])
def test_info(machine, words, answer):
    text = say(machine, words)
    assert re.fullmatch(answer, text), text


def test_threads_are_those_of_the_query(machine):
    ids = [int(n) for n in re.findall(r'thread_id=(\d+)', say(machine, 'info cpus'))]
    assert ids == [cpu['thread-id'] for cpu in machine.qmp.command('query-cpus-fast')]


def test_stop_and_cont(machine):
    assert say(machine, 'stop') == ''
    machine.qmp.event('STOP')
    assert say(machine, 'info status') == 'VM status: paused\r\n'
    assert say(machine, 'cont') == ''
    machine.qmp.event('RESUME')
    assert say(machine, 's') == '' and say(machine, 'c') == ''
    assert machine.console.command('ping') == 'pong'


def test_system_reset(machine):
    assert say(machine, 'system_reset') == ''
    assert machine.qmp.event('RESET')['data'] == {'guest': False, 'reason': 'host-qmp-system-reset'}
    machine.console.ready()


def test_system_powerdown(machine):
    assert say(machine, 'system_powerdown') == ''
    machine.qmp.event('POWERDOWN')


def test_nmi(machine):
    assert say(machine, 'nmi') == ''
    with pytest.raises(vmlib.GuestDied, match='vector=2'):
        machine.console.wait_for('panic')


def test_balloon(machine):
    machine.console.command('balloon-start')
    assert say(machine, 'balloon 200') == ''
    assert machine.console.fields('balloon-config')['target'] == 56 * 256


@pytest.mark.parametrize('words', ['balloon', 'balloon 0', 'balloon -1', 'balloon 1x', 'balloon 99999999999999999999', 'stop now',
                                   'quit 1'])
def test_bad_arguments(machine, words):
    with pytest.raises(vmlib.QmpError):
        say(machine, words)
    assert machine.qmp.command('query-status')['running']


def test_quit(machine):
    assert say(machine, 'quit') == ''
    assert machine.wait() == 0


@pytest.mark.parametrize('words', ['nonsense', '', 'info', 'info nonsense', 'help', 'stopp'])
def test_unknown_words_are_answered_by_a_list(machine, words):
    text = say(machine, words)
    assert text.startswith('unknown command:') == (words != 'help')
    for known in ('stop -- ', 'info status -- ', 'info registers -- '):
        assert known in text


def test_error_of_a_command(machines):
    machine = machines.start(args=['-S'])
    with pytest.raises(vmlib.QmpError, match='balloon') as error:
        say(machine, 'info balloon')
    assert error.value.error_class == 'DeviceNotActive'
