# One domain under libvirt for tests, demo and benchmarks: its XML, its life, the test guest's console on its pty.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import json
import os
import socket
import select
import sys
import termios
import time
import tty
import uuid
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'lib'))
import vm as vmlib  # noqa: E402
from daemon import VirshError, still_there, wait_until  # noqa: E402

QEMU_NAMESPACE = 'http://libvirt.org/schemas/domain/qemu/1.0'
UNITS = {'K': 1, 'M': 1 << 10, 'G': 1 << 20}


class QmpFailed(Exception):
    """The emulator answered an error; `error_class` and `desc` are its."""

    def __init__(self, command, error):
        super().__init__(f'{command}: {error.get("class")}: {error.get("desc")}')
        self.error_class, self.desc = error.get('class'), error.get('desc', '')


class Pty:
    """The other end of a pty with the methods of a socket that vm.Console uses."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.fd, termios.TCSANOW)
        self.timeout = None

    def settimeout(self, seconds):
        self.timeout = seconds

    def recv(self, size):
        if not select.select([self.fd], [], [], self.timeout)[0]:
            raise socket.timeout
        try:
            return os.read(self.fd, size)
        except OSError:
            return b''

    def sendall(self, data):
        while data:
            data = data[os.write(self.fd, data):]

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def kib(memory):
    return int(memory[:-1]) * UNITS[memory[-1]] if isinstance(memory, str) else memory // 1024


class Domain:
    """A domain of `lv`. Options that are not enough: xml_changes(xml) -> xml. Nothing is defined or started at first."""

    def __init__(self, lv, name, emulator, kernel, memory='256M', vcpus=1, initrd=None, cmdline='', machine='pc',
                 cpu='<cpu mode="host-passthrough"/>', console=True, balloon=True, rng=True, agent=True, panic=None,
                 devices='', elements='', extra_args=(), xml_changes=None, timeout=60):
        self.lv, self.name, self.timeout = lv, name, timeout
        self.emulator, self.kernel, self.initrd, self.cmdline = emulator, kernel, initrd, cmdline
        self.memory, self.vcpus, self.machine, self.cpu = kib(memory), vcpus, machine, cpu
        self.with_console, self.balloon, self.rng, self.agent, self.panic = console, balloon, rng, agent, panic
        self.devices, self.elements, self.extra_args = devices, elements, [str(word) for word in extra_args]
        self.xml_changes, self.uuid = xml_changes, str(uuid.uuid4())
        self._console = None

    # XML

    def _device_lines(self):
        yield f'<emulator>{self.emulator}</emulator>'
        yield '<controller type="usb" model="none"/>'
        if self.with_console:
            yield '<serial type="pty"><target type="isa-serial" port="0"/></serial>'
            yield '<console type="pty"><target type="serial" port="0"/></console>'
        if self.agent:
            yield '<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>'
        yield f'<memballoon model="{"virtio" if self.balloon else "none"}"/>'
        if self.rng:
            yield '<rng model="virtio"><backend model="random">/dev/urandom</backend></rng>'
        if self.panic:
            yield f'<panic model={quoteattr(self.panic)}/>'
        yield self.devices

    def _boot_lines(self):
        for tag, value in (('kernel', self.kernel), ('initrd', self.initrd), ('cmdline', self.cmdline)):
            if value:
                yield f'<{tag}>{escape(str(value))}</{tag}>'

    @property
    def xml(self):
        arguments = ''.join(f'<qemu:arg value={quoteattr(word)}/>' for word in self.extra_args)
        text = f'''<domain type="kvm" xmlns:qemu="{QEMU_NAMESPACE}">
  <name>{self.name}</name>
  <uuid>{self.uuid}</uuid>
  <memory unit="KiB">{self.memory}</memory>
  <vcpu>{self.vcpus}</vcpu>
  <os><type arch="x86_64" machine="{self.machine}">hvm</type>{''.join(self._boot_lines())}</os>
  <features><acpi/></features>
  {self.cpu}
  {self.elements}
  <devices>
    {f"{chr(10)}    ".join(line for line in self._device_lines() if line)}
  </devices>
  {f"<qemu:commandline>{arguments}</qemu:commandline>" if arguments else ""}
</domain>
'''
        return self.xml_changes(text) if self.xml_changes else text

    def xml_path(self):
        """The XML written to a file that libvirt can read."""
        path = self.lv.folder / f'{self.name}.xml'
        path.write_text(self.xml)
        return path

    # Life

    def virsh(self, command, *words, **options):
        """virsh COMMAND with this domain's name as the first argument."""
        return self.lv.virsh(command, self.name, *words, **options)

    def define(self):
        self.lv.virsh('define', self.xml_path())
        return self

    def start(self, *words, paused=False):
        """Start it (define it first) without waiting for the guest."""
        self.virsh('start', *(['--paused'] if paused else []), *words)
        return self

    def boot(self, **options):
        """Define and start it, and wait until the guest answers on its console."""
        self.define().start(**options)
        self.console.command('smp')
        return self

    def state(self):
        """As domstate says: running, paused, shut off."""
        return self.virsh('domstate').strip()

    def wait_state(self, state, timeout=None):
        wait_until(lambda: self.state() == state, f'{self.name} is {state}', timeout or self.timeout)

    def pid(self):
        """Of the emulator, which is seen by this number outside as well."""
        return int(self.lv.inside(f'/run/libvirt/qemu/{self.name}.pid').read_text())

    def save(self, path, *words, **options):
        """virsh save: the domain is off afterwards."""
        text = self.virsh('save', path, *words, **{'timeout': self.timeout, **options})
        self.close_console()
        return text

    def restore(self, path, *words, **options):
        """virsh restore of a file that this domain was saved to."""
        text = self.lv.virsh('restore', path, *words, **{'timeout': self.timeout, **options})
        self.close_console()
        return text

    def destroy(self):
        pid = self.pid()
        self.virsh('destroy')
        self.close_console()
        wait_until(lambda: not still_there(pid), f'the emulator of {self.name} ends')

    def destroy_undefine(self):
        """Whatever state it is in, nothing of it stays."""
        self.close_console()
        for words in (['destroy'], ['undefine', '--managed-save', '--snapshots-metadata']):
            with contextlib.suppress(VirshError):
                self.virsh(*words)

    def log(self):
        return self.lv.domain_log(self.name)

    # Monitor

    def qmp(self, command, **arguments):
        """qemu-monitor-command: the `return` of the reply, or QmpFailed. Names with _ are sent with -."""
        message = {'execute': command}
        if arguments:
            message['arguments'] = {name.replace('_', '-'): value for name, value in arguments.items()}
        reply = json.loads(self.virsh('qemu-monitor-command', json.dumps(message), timeout=self.timeout))
        if 'error' in reply:
            raise QmpFailed(command, reply['error'])
        return reply['return']

    def hmp(self, line):
        return self.virsh('qemu-monitor-command', '--hmp', line)

    # The test guest

    @property
    def console(self):
        """vm.Console on the domain's pty, connected on first use, when the guest has answered a ping."""
        if self._console is None:
            self._console = self._connect_console()
        return self._console

    def _connect_console(self):
        """What the guest printed before the pty was open is lost, so it is asked until it answers."""
        console = vmlib.Console(Pty(self.virsh('ttyconsole').strip()), self.timeout)
        deadline = time.monotonic() + self.timeout
        while True:
            console.send('ping')
            try:
                console.wait_for('ok pong', 0.3)
                break
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f'{self.name}: the guest does not answer; its log: {self.log()[-1000:]}') from None
        # The answers to all pings come before this one.
        console.send('ticks')
        console.wait_for('ok ticks=')
        return console

    def close_console(self):
        if self._console:
            self._console.sock.close()
            self._console = None

    def console_send(self, text):
        self.console.send(text)

    def expect(self, prefix, timeout=None):
        """The next line of the guest that begins with prefix."""
        return self.console.wait_for(prefix, timeout)

    def fill(self, seed, start=0, length='max'):
        return self.console.fill(seed, start, length, timeout=self.timeout)

    def check(self, seed, start=0, length='max'):
        """Every page of the range is what fill wrote with this seed."""
        return self.console.verify(seed, start, length, timeout=self.timeout)
