# Power, panic and agent as libvirt uses them: the exact commands, over plain QMP.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import socket

import pytest
import vm as vmlib

PANIC_PORT = 0x505


def test_power_button_ends_the_process(machines):
    machine = machines.boot()
    machine.console.command('power-button 1')
    machine.qmp.command('system_powerdown')
    machine.qmp.event('POWERDOWN')
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': True, 'reason': 'guest-shutdown'}
    assert machine.wait() == 0


def test_power_button_of_a_guest_that_ignores_it(machines):
    machine = machines.boot()
    machine.qmp.command('system_powerdown')
    machine.qmp.event('POWERDOWN')
    assert machine.console.command('ping') == 'pong'
    machine.console.command('power-button 1')
    machine.qmp.command('system_powerdown')
    machine.console.wait_for('power button')


def test_fake_reboot(machines):
    """With -no-shutdown the machine stays, stopped; libvirt resets it and lets it run."""
    machine = machines.boot(args=['-no-shutdown'])
    for _ in range(3):
        machine.qmp.events.clear()
        machine.console.command('power-button 1')
        machine.qmp.command('system_powerdown')
        machine.qmp.event('SHUTDOWN')
        machine.qmp.event('STOP')
        assert machine.qmp.command('query-status') == {'running': False, 'status': 'shutdown'}
        with pytest.raises(vmlib.QmpError, match='system_reset'):
            machine.qmp.command('cont')
        machine.qmp.command('system_reset')
        machine.qmp.event('RESET')
        machine.qmp.command('cont')
        machine.qmp.event('RESUME')
        machine.console.ready()


def test_signal_ends_a_machine_that_is_off(machines):
    """virsh shutdown: the guest is off, then libvirt sends SIGTERM."""
    machine = machines.boot(args=['-no-shutdown'])
    machine.console.send('power-off')
    machine.qmp.event('STOP')
    os.kill(machine.pid, 15)
    assert machine.wait() == 0


def test_reset_while_running_and_while_stopped(machines):
    machine = machines.boot()
    machine.qmp.command('system_reset')
    machine.qmp.event('RESET')
    machine.console.ready()
    machine.qmp.command('stop')
    machine.qmp.command('system_reset')
    machine.qmp.event('RESET')
    machine.cont()
    machine.console.ready()


# Panic

def panic(machine):
    machine.console.send(f'port 1 {PANIC_PORT} 1')


def test_panic_under_libvirt(machines):
    """-no-shutdown: the machine stops in guest-panicked, can be looked at, reset and run again."""
    machine = machines.boot(args=['-no-shutdown', '-device', 'pvpanic,ioport=1285'])
    panic(machine)
    assert machine.qmp.event('GUEST_PANICKED')['data'] == {'action': 'pause'}
    machine.qmp.event('STOP')
    assert machine.qmp.command('query-status')['status'] == 'guest-panicked'
    machine.qmp.command('system_reset')
    machine.qmp.event('RESET')
    machine.cont()
    machine.console.ready()


def test_panic_by_default_shuts_down(machines):
    machine = machines.boot(args=['-device', 'pvpanic'])
    panic(machine)
    assert machine.qmp.event('GUEST_PANICKED')['data'] == {'action': 'poweroff'}
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': True, 'reason': 'guest-panic'}
    assert machine.wait() == 0


def test_panic_action_is_changed_while_running(machines):
    machine = machines.boot(args=['-device', 'pvpanic'])
    machine.qmp.command('set-action', panic='none')
    panic(machine)
    assert machine.qmp.event('GUEST_PANICKED')['data'] == {'action': 'run'}
    machine.console.answer()
    assert machine.console.command('ping') == 'pong'


# The agent

class Agent:
    """libvirt's side of the channel."""

    def __init__(self, sock):
        self.file, self.sock = sock.makefile('rwb'), sock

    def ask(self, message):
        self.file.write(json.dumps(message).encode() + b'\n')
        self.file.flush()
        return json.loads(self.file.readline().lstrip(b'\xff'))


@pytest.fixture
def with_agent(machines, folder):
    """A machine whose agent channel is a socket, and that end of it; the agent is not started yet."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / 'agent'))
    listener.listen(1)
    machine = machines.boot(pass_fds=[listener.fileno()], args=[
        '-no-shutdown', '-device', 'virtio-serial-pci,id=virtio-serial0',
        '-chardev', f'socket,id=charchannel0,fd={listener.fileno()},server=on,wait=off',
        '-device', 'virtserialport,bus=virtio-serial0.0,nr=1,chardev=charchannel0,id=channel0,name=org.qemu.guest_agent.0'])
    listener.close()
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(str(folder / 'agent'))
    yield machine, Agent(sock)
    sock.close()


def start_agent(machine):
    machine.console.command('vserial-start')
    machine.console.command('vserial-events')
    machine.console.begin('agent 1')
    assert machine.qmp.event('VSERPORT_CHANGE', id='channel0')['data']['open']


def test_agent(with_agent):
    machine, agent = with_agent
    start_agent(machine)
    assert agent.ask({'execute': 'guest-sync', 'arguments': {'id': 1796095449580}}) == {'return': 1796095449580}
    assert agent.ask({'execute': 'guest-ping'}) == {'return': {}}
    assert agent.ask({'execute': 'guest-nonsense'})['error']['class'] == 'CommandNotFound'
    assert machine.console.end()['messages'] == 3
    assert not machine.qmp.event('VSERPORT_CHANGE', id='channel0')['data']['open']


def frontend_open(machine):
    return next(c['frontend-open'] for c in machine.qmp.command('query-chardev') if c['label'] == 'charchannel0')


def test_agent_is_seen_by_a_new_client(with_agent):
    """What libvirt reads after its own restart."""
    machine, _ = with_agent
    assert not frontend_open(machine)
    start_agent(machine)
    assert frontend_open(machine)
    machine.console.end()
    assert not frontend_open(machine)


@pytest.mark.parametrize('mode, reason', [('powerdown', 'guest-shutdown'), ('reboot', 'guest-reset')])
def test_agent_switches_off_and_resets(with_agent, mode, reason):
    machine, agent = with_agent
    start_agent(machine)
    agent.file.write(json.dumps({'execute': 'guest-shutdown', 'arguments': {'mode': mode}}).encode() + b'\n')
    agent.file.flush()
    event = machine.qmp.event('SHUTDOWN' if mode == 'powerdown' else 'RESET')
    assert event['data'] == {'guest': True, 'reason': reason}


# Threads

def thread_names(pid):
    names = {}
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/comm') as comm:
            names[int(task)] = comm.read().strip()
    return names


def test_threads_have_names(machines):
    """top and gdb show what each is; libvirt finds those of CPUs and iothreads by number."""
    machine = machines.boot(cpus=2, args=['-name', 'guest=x,debug-threads=on', '-object', 'iothread,id=io1'])
    names = thread_names(machine.pid)
    for cpu in machine.qmp.command('query-cpus-fast'):
        assert names[cpu['thread-id']] == f'CPU {cpu["cpu-index"]}/KVM'
    io = machine.qmp.command('query-iothreads')
    assert [t['id'] for t in io] == ['io1'] and names[io[0]['thread-id']] != names[machine.pid]
    assert len(set(names.values())) == len(names), names
