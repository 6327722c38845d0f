# The real qemu-guest-agent in a Linux guest: saved once with the agent running, and asked in copy-on-write clones.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import random
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from linux_agent import AGENT, PORT, SHUTDOWN, START  # noqa: E402
from linux_guest import TIMEOUT, initramfs  # noqa: E402

MEMORY = 128    # MiB of each guest


class Agent:
    """The host's end of the agent's port."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(path))
        self.file = self.sock.makefile('rw', encoding='utf-8')

    def send(self, command, **arguments):
        self.file.write(json.dumps({'execute': command, 'arguments': arguments}) + '\n')
        self.file.flush()

    def ask(self, command, **arguments):
        self.send(command, **arguments)
        answer = json.loads(self.file.readline())
        assert 'return' in answer, (command, answer)
        return answer['return']

    def close(self):
        self.file.close()
        self.sock.close()


def make(linux, folder, name, initrd, **options):
    devices = ['-device', 'virtio-serial-pci',
               '-chardev', f'socket,id=agent,path={folder}/{name}.agent,server=on,wait=off',
               '-device', f'virtserialport,chardev=agent,name={PORT}']
    return linux.make(folder, name, MEMORY, initrd=initrd, args=devices, **options)


@pytest.fixture(scope='module')
def saved(linux, tmp_path_factory):
    """A file of a guest whose agent has answered once, and the guest's root file system."""
    if not AGENT.exists():
        pytest.skip(f'{AGENT} is missing (package qemu-guest-agent)')
    folder = tmp_path_factory.mktemp('saved')
    initrd = initramfs(folder / 'initramfs', None, AGENT)
    with make(linux, folder, 'boot', initrd) as guest:
        guest.boot()
        guest.run(SHUTDOWN)
        guest.run(START)
        agent = Agent(folder / 'boot.agent')
        assert agent.ask('guest-ping') == {}
        agent.close()
        guest.save(folder / 'ram')
        guest.quit()
    return folder / 'ram', initrd


@pytest.fixture(scope='module')
def clone(linux, saved, tmp_path_factory):
    """Makes a running clone, and its agent's port."""
    made = []

    def restore(name):
        folder = tmp_path_factory.mktemp(name)
        guest = make(linux, folder, name, saved[1], incoming=True)
        made.append(guest)
        guest.restore(saved[0], 'copy-on-write')
        return guest, Agent(folder / f'{name}.agent')
    yield restore
    for guest in made:
        guest.kill()


@pytest.fixture(scope='module')
def shared(clone):
    return clone('shared')


def test_sync_and_ping(shared):
    number = random.randrange(1 << 31)
    assert shared[1].ask('guest-sync', id=number) == number
    assert shared[1].ask('guest-ping') == {}


def test_info(shared):
    info = shared[1].ask('guest-info')
    enabled = {command['name'] for command in info['supported_commands'] if command['enabled']}
    assert {'guest-sync', 'guest-ping', 'guest-shutdown', 'guest-get-time'} <= enabled, info
    assert shared[1].ask('guest-get-osinfo')['machine'] == 'x86_64'
    assert [cpu['online'] for cpu in shared[1].ask('guest-get-vcpus')] == [True]


def test_time_goes_on(shared):
    first = shared[1].ask('guest-get-time')
    time.sleep(1)
    passed = (shared[1].ask('guest-get-time') - first) / 1e9
    assert 0.9 < passed < TIMEOUT, passed


def test_host_comes_again(shared, clone):
    """The agent answers the next one who opens the port."""
    guest, agent = clone('again')
    assert agent.ask('guest-ping') == {}
    path = agent.sock.getpeername()
    agent.close()
    agent = Agent(path)
    assert agent.ask('guest-sync', id=11) == 11
    assert guest.complaints() == ''


def test_shutdown(clone):
    guest, agent = clone('off')
    agent.send('guest-shutdown')    # It does not answer.
    event = guest.qmp.event('SHUTDOWN', timeout=TIMEOUT)
    assert event['data'] == {'guest': True, 'reason': 'guest-shutdown'}, event
    assert guest.process.wait(TIMEOUT) == 0, guest.stderr()
