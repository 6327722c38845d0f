# The life of a process: stop and cont, quit, signals, daemons, pid files, consoles that come and go.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import signal
import socket
import subprocess
import time

import pytest
import vm as vmlib


def test_stop_and_cont(machines):
    machine = machines.boot()
    machine.qmp.command('stop')
    machine.qmp.event('STOP')
    assert machine.qmp.command('query-status') == {'status': 'paused', 'running': False} | machine.qmp.command('query-status')
    machine.console.send('ping')
    with pytest.raises(TimeoutError):
        machine.console.read_line(timeout=0.3)
    machine.cont()
    machine.qmp.event('RESUME')
    assert machine.console.answer() == 'pong'


def test_stop_twice_and_cont_twice_are_harmless(machines):
    machine = machines.boot()
    for command in ('stop', 'stop', 'cont', 'cont'):
        machine.qmp.command(command)
    assert machine.console.command('ping') == 'pong'


def test_stopped_time_is_not_seen(machines):
    """The guest's clock stands still while it is stopped."""
    machine = machines.boot()
    begin, before = time.monotonic_ns(), machine.console.fields('kvmclock')['ns']
    machine.qmp.command('stop')
    stopped = time.monotonic_ns()
    with pytest.raises(TimeoutError):
        machine.console.read_line(timeout=1.5)
    stopped = time.monotonic_ns() - stopped
    machine.cont()
    passed = machine.console.fields('kvmclock')['ns'] - before
    assert passed < time.monotonic_ns() - begin - stopped + 100_000_000


def test_start_stopped(machines):
    machine = machines.start(args=['-S'])
    assert machine.qmp.command('query-status')['status'] == 'prelaunch'
    machine.cont()
    machine.console.ready()


def test_quit(machines):
    machine = machines.boot()
    assert machine.quit() == 0


def test_quit_tells_of_the_shutdown(machines):
    machine = machines.boot()
    machine.qmp.command('quit')
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': False, 'reason': 'host-qmp-quit'}


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_process_in_order(machines, number):
    machine = machines.boot()
    os.kill(machine.pid, number)
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': False, 'reason': 'host-signal'}
    assert machine.wait() == 0


def test_console_and_monitor_survive_their_clients(machines):
    machine = machines.boot()
    machine.console.sock.close()
    machine.qmp.close()
    machine.console = vmlib.Console(machine.connect('serial'), machine.timeout)
    machine.qmp = machine.new_qmp()
    assert machine.console.command('ping') == 'pong'
    assert machine.qmp.command('query-status')['running']


def test_much_console_input_is_not_lost(machines):
    machine = machines.boot()
    machine.console.send('\n'.join(['ping'] * 500))
    assert [machine.console.answer() for _ in range(500)] == ['pong'] * 500


def daemon_arguments(folder, listener):
    return [str(vmlib.vmm_path()), '-S', '-no-user-config', '-nodefaults', '-nographic', '-machine', 'none,accel=kvm:tcg',
            '-qmp', f'unix:{folder}/monitor,server=on,wait=off', '-pidfile', f'{folder}/pid', '-daemonize']


def test_daemon_is_ready_when_its_parent_ends(folder):
    """libvirt's probe: pid file complete and socket listening once the parent has exited with status 0."""
    done = subprocess.run(daemon_arguments(folder, None), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    text = (folder / 'pid').read_text()
    assert text.endswith('\n')
    pid = int(text)
    try:
        with vmlib.Qmp(folder / 'monitor', alive=lambda: False) as qmp:
            assert qmp.command('query-kvm') == {'enabled': True, 'present': True}
            assert {'name': 'none'}.items() <= next(m for m in qmp.command('query-machines') if m['name'] == 'none').items()
    finally:
        handle = os.pidfd_open(pid)
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        assert vmlib.wait_readable(handle, 30)
        os.close(handle)
    assert not (folder / 'monitor').exists()
    assert not (folder / 'pid').exists()


def test_daemon_that_cannot_start_says_so(folder):
    done = subprocess.run([*daemon_arguments(folder, None), '-device', 'nonsense'], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert 'nonsense' in done.stderr


def test_monitor_by_name_accepts_again(machines, folder):
    machine = machines.start(qmp=False, args=['-qmp', f'unix:{folder}/monitor,server=on,wait=off'])
    for _ in range(3):
        with vmlib.Qmp(folder / 'monitor', alive=lambda: machine.process.poll() is None) as qmp:
            assert qmp.command('query-status')['running']


def test_monitor_on_stdio():
    process = subprocess.Popen([vmlib.vmm_path(), '-machine', 'none', '-nodefaults', '-display', 'none', '-qmp', 'stdio', '-S'],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate('{"execute":"qmp_capabilities"}{"execute":"query-name"}{"execute":"quit"}', timeout=120)
    lines = [json.loads(line) for line in out.splitlines()]
    assert 'QMP' in lines[0]
    assert lines[1:3] == [{'return': {}}, {'return': {}}]
    assert process.returncode == 0


def test_killed_process_leaves_nothing_in_the_way(machines, folder):
    path = folder / 'monitor'
    for _ in range(2):
        machine = machines.start(qmp=False, args=['-qmp', f'unix:{path},server=on,wait=off'])
        vmlib.Qmp(path, alive=lambda: machine.process.poll() is None).close()
        machine.killed = True
        machine.kill()


def test_name_uuid_version(machines):
    machine = machines.start(args=['-name', 'guest=one', '-uuid', '6e6f7420-6120-7265-616c-207575696421'])
    assert machine.qmp.command('query-name') == {'name': 'one'}
    assert machine.qmp.command('query-uuid')['UUID'] == '6e6f7420-6120-7265-616c-207575696421'
    version = machine.qmp.command('query-version')
    assert set(version['qemu']) == {'major', 'minor', 'micro'} and isinstance(version['package'], str)


def test_pty_and_ring_buffer(machines):
    machine = machines.start(args=['-chardev', 'pty,id=p0', '-chardev', 'ringbuf,id=r0,size=4096',
                                   '-device', 'isa-debugcon,iobase=0xe9,chardev=r0'])
    machine.console.ready()
    machine.console.command('port 1 0xe9 65')
    assert machine.qmp.command('ringbuf-read', device='r0', size=100) == 'A'
    labels = {c['label']: c['filename'] for c in machine.qmp.command('query-chardev')}
    assert labels['p0'].startswith('pty:/dev/pts/')


def test_listening_socket_is_refused_twice(folder):
    """A second process on the same path may take it over, as in QEMU, but two chardevs of one process may not."""
    path = folder / 's'
    holder = socket.socket(socket.AF_UNIX)
    holder.bind(str(path))
    done = subprocess.run([vmlib.vmm_path(), '-machine', 'none', '-nodefaults', '-display', 'none', '-S',
                           '-chardev', 'null,id=a', '-chardev', 'null,id=a'], capture_output=True, text=True, timeout=120)
    holder.close()
    assert done.returncode == 1
    assert "'a'" in done.stderr
