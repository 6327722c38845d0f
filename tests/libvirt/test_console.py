# The guest's serial console and its agent channel through libvirt.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import fcntl
import json
import os
import pty
import select
import stat
import termios
import time

import pytest
from daemon import VirshError, wait_until
from expected import fields

ESCAPE = b'\x1d'  # Control-]


@pytest.fixture(scope='module')
def shared(module_domain):
    return module_domain.boot('console', memory='128M')


class Terminal:
    """`virsh console` on a terminal of its own, as a user has it."""

    def __init__(self, machine, *words):
        self.master, slave = pty.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = machine.lv.popen_virsh('console', machine.name, *words, stdin=slave, stdout=slave, stderr=slave,
                                              preexec_fn=take_terminal)
        os.close(slave)
        self.text = b''

    def send(self, data):
        os.write(self.master, data)

    def expect(self, part, timeout=20):
        """Wait until this has been shown."""
        deadline = time.monotonic() + timeout
        while part not in self.text:
            left = deadline - time.monotonic()
            assert left > 0, f'{part!r} is not shown; there is {self.text!r}'
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.text += os.read(self.master, 4096)
                except OSError:
                    assert part in self.text, f'it ended; there is {self.text!r}'
        self.text = self.text.split(part, 1)[1]

    def ready(self):
        """virsh is connected and has switched line editing off, with which it forgets what was typed before."""
        self.expect(b'Escape character is ^]')
        wait_until(lambda: not termios.tcgetattr(self.master)[3] & termios.ECHO, 'virsh takes keys as they come')
        return self

    def leave(self):
        self.send(ESCAPE)
        assert self.process.wait(20) == 0

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal():
    made = []

    def make(machine, *words):
        machine.close_console()
        made.append(Terminal(machine, *words))
        return made[-1]

    yield make
    for one in made:
        one.close()


# The serial console

def test_ttyconsole(shared):
    path = shared.virsh('ttyconsole').strip()
    assert path.startswith('/dev/pts/') and stat.S_ISCHR(os.stat(path).st_mode)
    labels = {c['label']: c['filename'] for c in shared.qmp('query-chardev')}
    assert labels['charserial0'] == f'pty:{path}'


def test_console(shared, terminal):
    seen = terminal(shared)
    seen.expect(f"Connected to domain '{shared.name}'".encode())
    seen.ready()
    seen.send(b'ping\n')
    seen.expect(b'ok pong')
    seen.leave()


def test_console_again_and_again(shared, terminal):
    for _ in range(3):
        seen = terminal(shared).ready()
        seen.send(b'ping\n')
        seen.expect(b'ok pong')
        seen.leave()


def test_console_force_takes_over(shared, terminal):
    first = terminal(shared).ready()
    refused = terminal(shared)
    refused.expect(b'Active console session exists for this domain')
    assert refused.process.wait(20) == 1
    shared.lv.expect_complaint('Active console session exists for this domain')
    second = terminal(shared, '--force').ready()
    second.send(b'ping\n')
    second.expect(b'ok pong')
    assert first.process.wait(20) is not None
    second.leave()


def test_console_of_much_output(shared, terminal):
    seen = terminal(shared).ready()
    seen.send(b'dump 0x100000 4096\n')
    seen.expect(b'ok ')
    wait_for = time.monotonic() + 30
    while seen.text.count(b'\n') == 0 and time.monotonic() < wait_for:
        seen.text += os.read(seen.master, 4096)
    assert len(seen.text.split(b'\r')[0].strip()) == 2 * 4096
    seen.leave()


def test_guest_does_not_wait_for_a_reader(domain):
    """Output while nobody has the pty open is lost, and the guest goes on."""
    machine = domain('unread', memory='128M', cmdline='dump 0x100000 2000;dump 0x100000 2000').define().start()
    assert machine.console.command('ping') == 'pong'


def test_console_from_the_start(domain, terminal):
    """`start --console`, as far as a paused domain: what the guest says first is seen."""
    machine = domain('from-start', memory='128M').define().start(paused=True)
    seen = terminal(machine).ready()
    machine.virsh('resume')
    seen.expect(b'ready protocol=pvh')
    seen.leave()


def test_console_ends_with_the_domain(domain, terminal):
    machine = domain('ends', memory='128M').define().start()
    seen = terminal(machine).ready()
    machine.lv.expect_complaint('stream had I/O failure')
    machine.virsh('destroy')
    assert seen.process.wait(20) is not None


def test_console_of_a_domain_without_one(domain, terminal):
    machine = domain('no-console', memory='128M', console=False).define().start()
    seen = terminal(machine)
    seen.expect(b'cannot find character device')
    assert seen.process.wait(20) == 1
    machine.lv.expect_complaint('cannot find character device')


@pytest.fixture
def log_file(workdir):
    path = workdir / 'serial.log'
    yield path
    path.unlink(missing_ok=True)


def test_serial_port_to_a_file(domain, log_file):
    machine = domain('serial-file', memory='128M', console=False, devices=f'''
        <serial type="file"><source path="{log_file}"/><target type="isa-serial" port="0"/></serial>''').define().start()
    wait_until(lambda: machine.lv.inside(log_file).exists() and 'ready protocol=pvh' in machine.lv.inside(log_file).read_text(),
               'the guest writes to the file')


def test_serial_port_logged_beside_its_pty(domain, log_file):
    machine = domain('serial-log', memory='128M', console=False, devices=f'''
        <serial type="pty"><log file="{log_file}" append="off"/><target type="isa-serial" port="0"/></serial>''').define().start()
    assert machine.console.command('ping') == 'pong'
    assert 'ok pong' in machine.lv.inside(log_file).read_text()


def test_two_serial_ports(domain):
    machine = domain('two-ports', memory='128M',
                     devices='<serial type="null"><target type="isa-serial" port="1"/></serial>').define().start()
    assert machine.console.fields('port 1 0x2fd')['value'] & 0x60 == 0x60


# The agent channel

def channel(machine):
    """state= of the agent's channel, as dumpxml shows it."""
    line = next(line for line in machine.virsh('dumpxml').splitlines() if "<target type='virtio'" in line)
    return line.split("state='")[1].split("'")[0]


def start_agent(machine):
    machine.console.command('vserial-start')
    machine.console.command('vserial-events')
    machine.console.begin('agent 1')
    wait_until(lambda: channel(machine) == 'connected', 'libvirt sees the agent')


@pytest.fixture
def agent(domain):
    """A domain with a running agent of one's own."""
    machine = domain.boot('agent', memory='128M')
    start_agent(machine)
    return machine


@pytest.fixture(scope='module')
def served(module_domain):
    """One for the tests that leave the agent running."""
    machine = module_domain.boot('served', memory='128M')
    start_agent(machine)
    return machine


def ping(machine, check=True):
    machine.lv.expect_complaint('is tainted: custom-ga-command')
    return machine.virsh('qemu-agent-command', '{"execute":"guest-ping"}', check=check)


def test_agent_is_not_there_at_first(shared):
    assert channel(shared) == 'disconnected'
    assert 'QEMU guest agent is not connected' in ping(shared, check=False)


def test_qemu_agent_command(served):
    assert json.loads(ping(served)) == {'return': {}}
    for _ in range(10):
        ping(served)


def test_agent_that_knows_too_little(served):
    with pytest.raises(VirshError, match='The test guest does not know it|not supported'):
        served.virsh('domtime')
    assert json.loads(ping(served)) == {'return': {}}


def test_agent_that_leaves_and_comes_back(served):
    assert served.console.end()['messages'] > 0
    wait_until(lambda: channel(served) == 'disconnected', 'libvirt sees it leave')
    assert 'QEMU guest agent is not connected' in ping(served, check=False)
    served.console.begin('agent 1')
    wait_until(lambda: channel(served) == 'connected', 'libvirt sees it again')
    assert json.loads(ping(served)) == {'return': {}}


def test_agent_after_suspend_and_resume(served):
    served.virsh('suspend')
    served.virsh('resume')
    assert json.loads(ping(served)) == {'return': {}}


def test_agent_is_gone_after_a_reset(agent):
    agent.virsh('reset')
    wait_until(lambda: channel(agent) == 'disconnected', 'libvirt sees that the agent is gone')
    agent.console.ready()
    start_agent(agent)
    assert json.loads(ping(agent)) == {'return': {}}


def test_shutdown_by_the_agent(agent):
    """Libvirt ends the emulator when the guest is off. Where that is done before virsh's thread wakes up, virsh hears of the
    end of the agent's socket in place of its success; the domain is off all the same."""
    agent.lv.expect_complaint('End of file from agent socket')
    text = agent.virsh('shutdown', '--mode', 'agent', check=False)
    assert f"Domain '{agent.name}' is being shutdown" in text or 'End of file from agent socket' in text
    agent.wait_state('shut off')
    assert agent.virsh('domstate', '--reason').strip() == 'shut off (shutdown)'


def test_reboot_by_the_agent(agent):
    agent.virsh('reboot', '--mode', 'agent')
    agent.console.ready()
    assert agent.state() == 'running'
    assert fields(agent.virsh('dominfo'), ':')['State'] == 'running'


def test_agent_after_restart_of_the_daemon(served):
    served.lv.restart_daemon()
    assert channel(served) == 'connected'
    assert json.loads(ping(served)) == {'return': {}}
