# The life of a domain: every virsh command that starts, stops, resets or ends it, and what the guest does by itself.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import signal
import time

import pytest
from daemon import VirshError, still_there, wait_until
from expected import has_lines, prints

PANIC_PORT = 0x505


@pytest.fixture(scope='module')
def shared(module_domain):
    """A running domain for the tests that leave it running as it was."""
    return module_domain.boot('life', memory='128M', vcpus=2)


def on(action, what):
    """A change of the XML: <on_ACTION>WHAT</on_ACTION>."""
    return {'elements': f'<on_{action}>{what}</on_{action}>'}


def rebooted(machine):
    """Wait for what a guest says when it starts, and until libvirt is done with what it did for that."""
    machine.console.ready()
    assert machine.qmp('query-status')['running']


# Start

def test_define(domain):
    machine = domain('define', memory='128M')
    prints(machine.lv.virsh('define', machine.xml_path()), f"Domain '{machine.name}' defined from {machine.lv.folder}/{machine.name}.xml")
    assert machine.state() == 'shut off'


def test_start(domain):
    machine = domain('start', memory='128M').define()
    prints(machine.virsh('start'), f"Domain '{machine.name}' started")
    assert machine.virsh('domstate', '--reason').strip() == 'running (booted)'
    assert machine.console.command('ping') == 'pong'


def test_start_paused(domain):
    machine = domain('paused', memory='128M').define().start(paused=True)
    assert machine.virsh('domstate', '--reason').strip() == 'paused (user)'
    assert machine.qmp('query-status')['status'] == 'prelaunch'
    prints(machine.virsh('resume'), f"Domain '{machine.name}' resumed")
    assert machine.state() == 'running'
    assert machine.console.command('ping') == 'pong'


def test_start_twice_is_refused(shared):
    with pytest.raises(VirshError, match='already active'):
        shared.virsh('start')


def test_create_makes_a_transient_domain(domain):
    machine = domain('transient', memory='128M')
    prints(machine.lv.virsh('create', machine.xml_path()), f"Domain '{machine.name}' created from {machine.lv.folder}/{machine.name}.xml")
    has_lines(machine.virsh('dominfo'), 'Persistent: no')
    machine.destroy()
    with pytest.raises(VirshError, match='failed to get domain'):
        machine.state()


def test_undefine_of_a_running_domain(domain):
    machine = domain.boot('undefine', memory='128M')
    prints(machine.virsh('undefine'), f"Domain '{machine.name}' has been undefined")
    assert machine.state() == 'running'
    assert machine.console.command('ping') == 'pong'


def test_autostart(domain):
    machine = domain('autostart', memory='128M').define()
    prints(machine.virsh('autostart'), f"Domain '{machine.name}' marked as autostarted")
    has_lines(machine.virsh('dominfo'), 'Autostart: enable')
    machine.virsh('autostart', '--disable')


def test_domrename(domain):
    machine = domain('rename', memory='128M').define()
    machine.virsh('domrename', machine.name + 'd')
    machine.name += 'd'
    machine.start()
    assert machine.qmp('query-name')['name'] == machine.name


# Stop and go on

def test_suspend(shared):
    prints(shared.virsh('suspend'), f"Domain '{shared.name}' suspended")
    assert shared.virsh('domstate', '--reason').strip() == 'paused (user)'
    assert shared.qmp('query-status')['status'] == 'paused'
    shared.virsh('resume')


def test_resume(shared):
    shared.virsh('suspend')
    prints(shared.virsh('resume'), f"Domain '{shared.name}' resumed")
    assert shared.virsh('domstate', '--reason').strip() == 'running (unpaused)'
    assert shared.console.command('ping') == 'pong'


def test_suspend_twice_and_resume_twice(shared):
    for _ in range(2):
        prints(shared.virsh('suspend'), f"Domain '{shared.name}' suspended")
    shared.virsh('resume')
    with pytest.raises(VirshError, match='already running'):
        shared.virsh('resume')


def test_stopped_and_continued_behind_libvirts_back(shared):
    """Libvirt follows the events STOP and RESUME."""
    shared.qmp('stop')
    shared.wait_state('paused')
    shared.qmp('cont')
    shared.wait_state('running')


# Reset and reboot

def test_reset(shared):
    shared.console.command('ping')
    prints(shared.virsh('reset'), f"Domain '{shared.name}' was reset")
    rebooted(shared)
    assert shared.state() == 'running'


def test_reset_by_the_guest(shared):
    shared.console.send('reset')
    rebooted(shared)
    assert shared.state() == 'running'


def test_reset_by_a_triple_fault(shared):
    shared.console.send('triple-fault')
    rebooted(shared)
    assert shared.state() == 'running'


def test_reboot(shared):
    """The power button, then libvirt resets the machine that has switched itself off."""
    pid = shared.pid()
    shared.console.command('power-button 1')
    mark = shared.lv.log_mark()
    prints(shared.virsh('reboot'), f"Domain '{shared.name}' is being rebooted")
    assert shared.console.wait_for('power button')
    rebooted(shared)
    shared.wait_state('running')
    assert shared.pid() == pid
    events = [message['event'] for _, kind, message in shared.lv.qmp_log(mark) if kind == 'event']
    assert [e for e in events if e in ('POWERDOWN', 'SHUTDOWN', 'STOP', 'RESET', 'RESUME')] == [
        'POWERDOWN', 'SHUTDOWN', 'STOP', 'RESET', 'RESUME']


def test_on_reboot_destroy(domain):
    machine = domain('on-reboot', memory='128M', **on('reboot', 'destroy')).define().start()
    machine.console.send('reset')
    machine.wait_state('shut off')


def test_set_lifecycle_action(domain):
    machine = domain.boot('lifecycle', memory='128M')
    machine.virsh('set-lifecycle-action', 'reboot', 'destroy', '--live')
    machine.console.send('reset')
    machine.wait_state('shut off')


# Shutdown

def test_shutdown(domain):
    machine = domain.boot('shutdown', memory='128M')
    machine.console.command('power-button 1')
    pid = machine.pid()
    prints(machine.virsh('shutdown'), f"Domain '{machine.name}' is being shutdown")
    machine.wait_state('shut off')
    assert machine.virsh('domstate', '--reason').strip() == 'shut off (shutdown)'
    wait_until(lambda: not still_there(pid), 'the emulator ends')


def test_shutdown_of_a_guest_that_ignores_the_button(shared):
    shared.virsh('shutdown', '--mode', 'acpi')
    time.sleep(0.5)
    assert shared.state() == 'running'
    assert shared.console.command('ping') == 'pong'


def test_the_guest_switches_itself_off(domain):
    machine = domain.boot('off', memory='128M')
    machine.console.send('power-off')
    machine.wait_state('shut off')
    assert machine.virsh('domstate', '--reason').strip() == 'shut off (shutdown)'


def test_on_poweroff_restart(domain):
    """Ending it afterwards makes libvirt complain: it takes the SHUTDOWN of its own SIGTERM for one to be answered by a reset."""
    machine = domain('on-poweroff', memory='128M', **on('poweroff', 'restart')).define().start()
    machine.lv.expect_complaint('guest unexpectedly quit')
    machine.console.send('power-off')
    rebooted(machine)
    machine.wait_state('running')


def test_destroy(domain):
    machine = domain.boot('destroy', memory='128M')
    pid = machine.pid()
    prints(machine.virsh('destroy'), f"Domain '{machine.name}' destroyed")
    assert machine.virsh('domstate', '--reason').strip() == 'shut off (destroyed)'
    wait_until(lambda: not still_there(pid), 'the emulator ends')


def test_destroy_graceful(domain):
    machine = domain.boot('graceful', memory='128M')
    prints(machine.virsh('destroy', '--graceful'), f"Domain '{machine.name}' destroyed")
    assert 'terminating on signal 15' in machine.log()


def test_destroy_of_a_stopped_domain(domain):
    machine = domain('stopped', memory='128M').define().start(paused=True)
    began = time.monotonic()
    machine.virsh('destroy')
    assert time.monotonic() - began < 5
    assert machine.state() == 'shut off'


def test_quit_behind_libvirts_back(domain):
    machine = domain.boot('quit', memory='128M')
    machine.virsh('qemu-monitor-command', '--hmp', 'quit', check=False)
    machine.wait_state('shut off')


def test_killed_emulator_is_a_crash(domain):
    machine = domain.boot('killed', memory='128M')
    os.kill(machine.pid(), signal.SIGKILL)
    machine.wait_state('shut off')
    assert machine.virsh('domstate', '--reason').strip() == 'shut off (crashed)'
    machine.start()
    assert machine.state() == 'running'


def test_managed_process_leaves_nothing(domain):
    machine = domain.boot('leaves', memory='128M')
    machine.destroy()
    wait_until(lambda: not list(machine.lv.inside('/var/lib/libvirt/qemu').glob(f'domain-*-{machine.name}*')), 'its folder is gone')


# A guest that panics

def panic(machine):
    machine.console.send(f'port 1 {PANIC_PORT} 1')


@pytest.mark.parametrize('action, state', [('destroy', 'shut off (crashed)'), ('preserve', 'crashed (panicked)')])
def test_on_crash(domain, action, state):
    machine = domain(f'crash-{action}', memory='128M', panic='isa', **on('crash', action)).define().start()
    panic(machine)
    wait_until(lambda: machine.virsh('domstate', '--reason').strip() == state, state)


def test_on_crash_coredump_destroy(domain):
    """Libvirt dumps the memory of the crashed guest before it ends it."""
    machine = domain('coredump', memory='128M', panic='isa', **on('crash', 'coredump-destroy')).define().start()
    panic(machine)
    machine.wait_state('shut off')
    dumps = list(machine.lv.inside('/var/lib/libvirt/qemu/dump').glob(f'*{machine.name}*'))
    assert len(dumps) == 1
    with open(dumps[0], 'rb') as dump:
        assert dump.read(4) == b'\x7fELF'
    dumps[0].unlink()


def test_on_crash_restart(domain):
    machine = domain('crash-restart', memory='128M', panic='isa', **on('crash', 'restart')).define().start()
    panic(machine)
    rebooted(machine)
    machine.wait_state('running')


def test_crashed_domain_is_reset_and_runs(domain):
    machine = domain('crash-reset', memory='128M', panic='isa', **on('crash', 'preserve')).define().start()
    panic(machine)
    machine.wait_state('crashed')
    machine.virsh('reset')
    machine.virsh('resume')
    rebooted(machine)


# Keys and interrupts

def test_send_key_is_refused(shared):
    with pytest.raises(VirshError, match="unable to execute QEMU command 'send-key': the machine has no keyboard"):
        shared.virsh('send-key', 'KEY_LEFTCTRL', 'KEY_LEFTALT', 'KEY_DELETE')


def test_inject_nmi(domain):
    machine = domain.boot('nmi', memory='128M')
    machine.virsh('inject-nmi')
    wait_until(lambda: b'panic vector=2' in collect(machine), 'the NMI arrives', 10)


def collect(machine):
    """What has come on the console so far."""
    machine.console.sock.settimeout(0.2)
    try:
        machine.console.buffer += machine.console.sock.recv(4096)
    except OSError:
        pass
    return machine.console.buffer


# The monitor

def test_qemu_monitor_command(shared):
    reply = json.loads(shared.virsh('qemu-monitor-command', '{"execute":"query-status"}'))
    assert reply['return']['status'] == 'running' and reply['id'].startswith('libvirt-')


def test_qemu_monitor_command_pretty(shared):
    text = shared.virsh('qemu-monitor-command', '--pretty', '{"execute":"query-name"}')
    assert json.loads(text)['return'] == {'name': shared.name} and '\n' in text


def test_qemu_monitor_command_with_an_error(shared):
    reply = json.loads(shared.virsh('qemu-monitor-command', '{"execute":"query-nonsense"}'))
    assert reply['error']['class'] == 'CommandNotFound'


@pytest.mark.parametrize('words, expected', [
    ('info status', 'VM status: running'), ('info kvm', 'kvm support: enabled'), ('info balloon', 'balloon: actual=128'),
    ('info cpus', '* CPU #0: thread_id=<n>\n CPU #1: thread_id=<n>'), ('info version', '8.2.0 (cowbird-<word>)')])
def test_qemu_monitor_command_hmp(shared, words, expected):
    prints(shared.hmp(words), expected)


def test_qemu_monitor_command_hmp_unknown(shared):
    assert shared.hmp('nonsense').startswith("unknown command: 'nonsense'")


def test_event_lists_what_happens(shared):
    """`virsh event` sees a suspend and a resume."""
    watcher = shared.lv.popen_virsh('event', '--domain', shared.name, '--event', 'lifecycle', '--loop', '--timeout', '3')
    time.sleep(0.5)
    shared.virsh('suspend')
    shared.virsh('resume')
    text = watcher.communicate(timeout=30)[0]
    text = text.decode() if isinstance(text, bytes) else text
    has_lines(text, f"event 'lifecycle' for domain '{shared.name}': Suspended Paused\n"
                    f"event 'lifecycle' for domain '{shared.name}': Resumed Unpaused")


def test_qemu_monitor_event(shared):
    watcher = shared.lv.popen_virsh('qemu-monitor-event', shared.name, '--event', 'STOP', '--timeout', '10')
    time.sleep(0.5)
    shared.virsh('suspend')
    text = watcher.communicate(timeout=30)[0]
    shared.virsh('resume')
    assert 'event STOP at' in (text.decode() if isinstance(text, bytes) else text)
