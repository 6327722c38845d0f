# The daemon ends, in order or not, and comes back: domains go on, and it finds them as they are.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import signal

import pytest
from daemon import wait_until
from expected import fields, has_lines

MIB = 1 << 20


@pytest.fixture(scope='module')
def shared(module_domain):
    machine = module_domain.boot('reconnect', memory='128M', vcpus=2)
    machine.console.command('balloon-start')
    return machine


def reason(machine):
    return machine.virsh('domstate', '--reason').strip()


@pytest.mark.parametrize('kill', [False, True], ids=['ended', 'killed'])
def test_running_domain(shared, kill):
    pid = shared.pid()
    seen = shared.console.fields('ticks')['ticks']
    mark = shared.lv.log_mark()
    shared.lv.restart_daemon(kill=kill)
    assert shared.state() == 'running' and shared.pid() == pid
    assert shared.console.fields('ticks')['ticks'] > seen
    asked = [m['execute'] for _, kind, m in shared.lv.qmp_log(mark) if kind == 'send']
    assert asked[0] == 'qmp_capabilities' and 'query-status' in asked


def test_commands_work_after_it(shared):
    shared.lv.restart_daemon()
    shared.virsh('suspend')
    assert reason(shared) == 'paused (user)'
    shared.virsh('resume')
    has_lines(shared.virsh('domstats', '--vcpu'), 'vcpu.0.exits.sum=<n>')
    assert int(fields(shared.virsh('dommemstat'))['actual']) == 128 * 1024
    shared.virsh('setmem', '--size', '120M', '--live')
    assert shared.console.fields('balloon-config')['target'] == 8 * 256
    shared.virsh('setmem', '--size', '128M', '--live')


def test_many_times(shared):
    """Each connection is served, and none leaves anything behind."""
    descriptors = len(os.listdir(f'/proc/{shared.pid()}/fd'))
    for i in range(5):
        shared.lv.restart_daemon(kill=i % 2 == 1)
        assert shared.state() == 'running'
    assert len(os.listdir(f'/proc/{shared.pid()}/fd')) == descriptors


def test_paused_domain(shared):
    shared.virsh('suspend')
    shared.lv.restart_daemon()
    assert shared.state() == 'paused'
    shared.virsh('resume')
    assert shared.console.command('ping') == 'pong'


def test_never_started_domain(domain):
    machine = domain('reconnect-paused', memory='128M').define().start(paused=True)
    machine.lv.restart_daemon()
    assert machine.state() == 'paused'
    machine.virsh('resume')
    assert machine.console.command('ping') == 'pong'


def test_reset_while_the_daemon_was_away(shared):
    shared.lv.end_daemon()
    shared.console.send('reset')
    shared.console.ready()
    shared.lv.start()
    assert shared.state() == 'running'


def test_balloon_changed_while_the_daemon_was_away(shared):
    shared.console.command('balloon-start')
    shared.lv.end_daemon()
    shared.console.command(f'inflate {32 * MIB} {8 * MIB}')
    shared.lv.start()
    wait_until(lambda: fields(shared.virsh('dominfo'), ':')['Used memory'] == f'{120 * 1024} KiB', 'the balloon is seen')
    shared.console.command(f'deflate {32 * MIB} {8 * MIB}')


def test_guest_switched_itself_off_while_the_daemon_was_away(domain):
    machine = domain.boot('reconnect-off', memory='128M')
    machine.lv.end_daemon()
    machine.console.send('power-off')
    machine.lv.start()
    machine.wait_state('shut off')


def test_guest_panicked_while_the_daemon_was_away(domain):
    machine = domain('reconnect-panic', memory='128M', panic='isa',
                     elements='<on_crash>preserve</on_crash>').define().start()
    assert machine.console.command('ping') == 'pong'
    machine.lv.end_daemon()
    machine.console.send(f'port 1 {0x505} 1')
    machine.lv.start()
    machine.wait_state('crashed')


def test_emulator_killed_while_the_daemon_was_away(domain):
    machine = domain.boot('reconnect-killed', memory='128M')
    pid = machine.pid()
    machine.lv.end_daemon(kill=True)
    os.kill(pid, signal.SIGKILL)
    machine.lv.expect_complaint('failed to connect to monitor socket: Connection refused')
    machine.lv.start()
    machine.wait_state('shut off')
    machine.start()
    assert machine.state() == 'running'


def test_two_domains(shared, domain):
    other = domain.boot('reconnect-other', memory='128M')
    shared.lv.restart_daemon()
    assert shared.state() == other.state() == 'running'
    assert int(other.virsh('domid')) != int(shared.virsh('domid'))
