# The real qemu-guest-agent in a Linux domain, asked by virsh. The domain boots once; tests share it, the last one switches it off.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon import wait_until
from domain import Pty

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / 'nested'))
from linux_guest import TIMEOUT, Console, initramfs  # noqa: E402
from linux_agent import AGENT, SHUTDOWN, START  # noqa: E402


class LinuxConsole(Console):
    """On a domain's pty, which the guest may have written to before anybody read."""

    def __init__(self, path):
        self.sock, self.text = Pty(path), ''


@pytest.fixture(scope='module')
def machine(module_domain, workdir):
    if not AGENT.exists():
        pytest.skip(f'{AGENT} is missing (package qemu-guest-agent)')
    linux = TESTS / 'linux-guest'
    out = subprocess.run([linux / 'build'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    cmdline = (linux / 'cmdline').read_text().strip()
    made = module_domain('agent', memory='128M', cmdline=cmdline, rng=False,
                         initrd=initramfs(workdir / 'agent.initrd', None, AGENT))
    made.kernel = shutil.copyfile(Path(out) / 'vmlinux', workdir / 'agent.vmlinux')
    made.define().start(paused=True)
    console = LinuxConsole(made.virsh('ttyconsole').strip())
    made.virsh('resume')
    console.wait_for('guest: ready\n', TIMEOUT)
    console.run(SHUTDOWN, timeout=TIMEOUT)
    console.run(START, timeout=TIMEOUT)
    yield made
    console.sock.close()


def agent_command(machine, command):
    text = machine.virsh('qemu-agent-command', json.dumps({'execute': command}), timeout=TIMEOUT)
    return json.loads(text)['return']


def test_channel_is_connected(machine):
    wait_until(lambda: "state='connected'" in machine.virsh('dumpxml'), 'libvirt sees the agent')


def test_agent_command(machine):
    assert agent_command(machine, 'guest-ping') == {}
    assert 'guest-shutdown' in {command['name'] for command in agent_command(machine, 'guest-info')['supported_commands']}


def test_domtime(machine):
    first = int(machine.virsh('domtime', timeout=TIMEOUT).split()[-1])
    time.sleep(2)
    assert 1 <= int(machine.virsh('domtime', timeout=TIMEOUT).split()[-1]) - first < TIMEOUT


def test_guestinfo(machine):
    text = machine.virsh('guestinfo', '--os', '--timezone', timeout=TIMEOUT)
    assert 'os.machine' in text and 'x86_64' in text and 'timezone.offset' in text, text


def test_agent_after_save_and_restore(machine, workdir):
    machine.save(workdir / 'agent.save')
    machine.lv.virsh('restore', workdir / 'agent.save')
    wait_until(lambda: "state='connected'" in machine.virsh('dumpxml'), 'libvirt sees the agent again')
    assert agent_command(machine, 'guest-ping') == {}


def test_shutdown_by_the_agent(machine):
    machine.virsh('shutdown', '--mode', 'agent', timeout=TIMEOUT)
    machine.wait_state('shut off', TIMEOUT)
    assert machine.virsh('domstate', '--reason').split()[-1] == '(shutdown)'
