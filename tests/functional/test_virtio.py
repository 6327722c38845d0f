# virtio over PCI as a guest's own driver sees it: PCI registers, interrupts, entropy, consoles, and all of it saved and restored.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re
import socket
import time

import pytest
import vm as vmlib
from balloon_vm import MIB, PAGE, VERSION_1, classes, do

RNG = ('-object', 'rng-random,id=rng0,filename=/dev/urandom', '-device', 'virtio-rng-pci,id=rng1,rng=rng0')
ADD, REMOVE, READY, CONSOLE, RESIZE, OPEN, NAME = range(1, 8)


def functions(machine):
    """{(vendor and device): fields} of bus 0."""
    lines, _ = machine.console.command('pci')
    return {int(re.search(r'id=(\S+)', line)[1], 16): {k: int(v, 0) for k, v in re.findall(r'(\w+)=(\S+)', line)} for line in lines}


def test_pci_functions(machines):
    machine = machines.boot(args=['-device', 'virtio-balloon-pci', *RNG, '-device', 'virtio-serial-pci'])
    found = functions(machine)
    for number, kind in ((0x1002, 0x00ff), (0x1005, 0x00ff), (0x1003, 0x0780)):
        device = found[number << 16 | 0x1af4]
        assert device['class'] >> 8 == kind
        assert device['bar4'] & ~15 and device['bar4'] & ~15 < 0xfec00000 and device['command'] & 3 == 3
    bars = [device['bar4'] & ~15 for device in found.values() if 'bar4' in device and device['bar4'] & 1 == 0]
    assert len(set(bars)) == len(bars)


@pytest.mark.parametrize('kind, number, revision', [('', 0x1005, 0), ('-transitional', 0x1005, 0), ('-non-transitional', 0x1044, 1)])
def test_kinds_of_a_device(machines, kind, number, revision):
    machine = machines.boot(args=['-object', 'rng-builtin,id=r', '-device', f'virtio-rng-pci{kind},rng=r'])
    assert number << 16 | 0x1af4 in functions(machine)
    assert do(machine, 'rng-start')['features'] & VERSION_1
    assert do(machine, 'rng-read 100')['bytes'] == 100


@pytest.mark.parametrize('mode, least', [(0, 0), (1, 1), (2, 1)])
def test_interrupts(machines, folder, mode, least):
    """Polling, MSI-X, INTx: buffers come back, and after a restore too."""
    machine = machines.boot(memory='64M', args=RNG)
    machine.console.command(f'virtio-wait 1 {mode}')
    do(machine, 'rng-start')
    for _ in range(8):
        do(machine, 'rng-read 64')
    count = machine.console.fields('virtio-info 1')['interrupts']
    assert count >= 8 * least and (least or count == 0)
    machine.save(folder / 'saved')
    machines.end(machine)
    again = machines.restore(folder / 'saved', memory='64M', args=RNG)
    for _ in range(8):
        do(again, 'rng-read 64')
    assert again.console.fields('virtio-info 1')['interrupts'] >= count + 8 * least


@pytest.mark.parametrize('backend', ['rng-random,id=r,filename=/dev/urandom', 'rng-builtin,id=r'])
def test_entropy(machines, backend):
    machine = machines.boot(memory='64M', args=['-object', backend, '-device', 'virtio-rng-pci,rng=r'])
    do(machine, 'rng-start')
    hashes = {do(machine, 'rng-read 4096')['hash'] for _ in range(20)}
    assert len(hashes) == 20
    machine.console.command(f'fill 7 {32 * MIB} {4 * MIB}')
    assert do(machine, f'rng-read {MIB} {33 * MIB}')['bytes'] == MIB
    machine.console.verify(7, 32 * MIB, MIB)
    machine.console.verify(7, 34 * MIB, 2 * MIB)
    assert classes(machine, 33 * MIB, MIB, 7, 0) == {None: MIB // PAGE}


def test_entropy_of_a_known_file(machines, folder):
    """What the device delivers is what the back end read, in order, nothing twice."""
    data = bytes(range(251)) * 100
    (folder / 'source').write_bytes(data)
    machine = machines.boot(memory='64M', args=['-object', f'rng-random,id=r,filename={folder}/source', '-device', 'virtio-rng-pci,rng=r'])
    do(machine, 'rng-start')
    do(machine, f'rng-read 300 {32 * MIB}')
    assert machine.console.command(f'dump {32 * MIB} 300') == ' '.join([data[:300].hex()])


def test_entropy_at_a_limited_rate(machines):
    machine = machines.boot(memory='64M', args=['-object', 'rng-builtin,id=r',
                                                '-device', 'virtio-rng-pci,rng=r,max-bytes=1024,period=200'])
    do(machine, 'rng-start')
    result = do(machine, f'rng-read 4096 {32 * MIB}')
    assert result['bytes'] == 4096 and result['requests'] >= 4
    assert result['cycles'] > 400_000_000, 'four periods of 200 ms cannot be over'


class Port:
    """The host's end of a virtio console port: a socket that waits for the VMM."""

    def __init__(self, folder):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / 'port'))
        self.listener.listen(2)
        self.arguments = ['-device', 'virtio-serial-pci,id=vs', '-chardev', f'socket,id=c1,path={folder}/port',
                          '-device', 'virtserialport,bus=vs.0,nr=1,chardev=c1,id=port1,name=org.qemu.guest_agent.0']

    def accept(self):
        self.sock = self.listener.accept()[0]
        self.sock.settimeout(30)

    def receive(self, count):
        data = b''
        while len(data) < count and (part := self.sock.recv(65536)):
            data += part
        return data


def events(machine):
    """(port, event, value, name) of the control messages that came."""
    lines, _ = machine.console.command('vserial-events')
    parts = [re.match(r'event port=(\d+) event=(\d+) value=(\d+) ?(.*)', line) for line in lines]
    return [(int(p[1]), int(p[2]), int(p[3]), p[4]) for p in parts]


def start_port(machine):
    assert do(machine, 'vserial-start')['ports'] >= 2
    seen = events(machine)
    assert (1, ADD, 1, '') in seen
    return seen + events(machine)


@pytest.fixture
def port(folder):
    port = Port(folder)
    yield port
    port.listener.close()


def test_console_port(machines, folder, port):
    machine = machines.boot(memory='64M', args=port.arguments)
    port.accept()
    seen = start_port(machine)
    assert (1, NAME, 1, 'org.qemu.guest_agent.0') in seen and (1, OPEN, 1, '') in seen
    assert machine.console.command('vserial-control 1 6 1') == ''
    assert machine.qmp.event('VSERPORT_CHANGE')['data'] == {'id': 'port1', 'open': True}
    machine.console.command('vserial-write 1 a line of text')
    assert port.receive(14) == b'a line of text'
    port.sock.sendall(b'0123456789')
    assert machine.console.command('vserial-read 1 4') == '0123'
    assert machine.console.command('vserial-read 1 6') == '456789'
    machine.console.command('vserial-control 1 6 0')
    assert machine.qmp.event('VSERPORT_CHANGE')['data'] == {'id': 'port1', 'open': False}


def test_console_port_with_much_data(machines, port):
    """A megabyte each way; the host's end takes and gives it slowly."""
    machine = machines.boot(memory='64M', args=port.arguments)
    port.accept()
    start_port(machine)
    machine.console.command('vserial-control 1 6 1')
    machine.console.command(f'fill 9 {32 * MIB} {MIB}')
    machine.console.send(f'vserial-send 1 {32 * MIB} {MIB}')
    data = port.receive(MIB)
    assert machine.console.answer() == ''
    machine.console.command(f'zero {40 * MIB} {MIB}')
    machine.console.send(f'vserial-read 1 {MIB} {40 * MIB}')
    port.sock.sendall(data)
    machine.console.answer()
    assert machine.console.hash(40 * MIB, PAGE) != machine.console.hash(32 * MIB, PAGE), 'hashes depend on the page'
    assert machine.console.command(f'dump {40 * MIB + 1000} 200') == machine.console.command(f'dump {32 * MIB + 1000} 200')
    assert machine.console.command(f'dump {41 * MIB - 200} 200') == machine.console.command(f'dump {33 * MIB - 200} 200')


def test_console_port_survives_a_restore(machines, folder, port):
    machine = machines.boot(memory='64M', args=port.arguments)
    port.accept()
    start_port(machine)
    machine.console.command('vserial-control 1 6 1')
    machine.console.command('vserial-write 1 before')
    assert port.receive(6) == b'before'
    machine.save(folder / 'saved')
    machines.end(machine)
    again = machines.restore(folder / 'saved', memory='64M', args=port.arguments)
    port.accept()
    again.console.command('vserial-write 1 after')
    assert port.receive(5) == b'after'
    port.sock.sendall(b'hello')
    assert again.console.command('vserial-read 1 5') == 'hello'


def test_host_end_goes_away(machines, port):
    machine = machines.boot(memory='64M', args=port.arguments)
    port.accept()
    start_port(machine)
    machine.console.command('vserial-control 1 6 1')
    port.sock.close()
    assert (1, OPEN, 0, '') in events(machine) + events(machine)
    assert machine.console.fields('vserial-write 1 nobody').get('failed', 0) in (0, 1)
    assert machine.console.command('ping') == 'pong'


@pytest.mark.parametrize('device', [1, 2])
def test_hostile_requests(machines, device):
    """Buffers that are no RAM, the wrong way round, heads beyond the ring: a reset helps, the guest lives."""
    machine = machines.boot(memory='64M', args=[*RNG, '-device', 'virtio-serial-pci'])
    start = {1: 'rng-start', 2: 'vserial-start'}[device]
    for queue in (0,) if device == 1 else (0, 1, 2, 3):
        for address, length, flags, following, head in (
                (1 << 40, 4096, 2, 0, 0), (1 << 40, 4096, 0, 0, 0), (32 * MIB, 0, 2, 0, 0), (32 * MIB, 0xffffffff, 2, 0, 0),
                (32 * MIB, 64, 0, 0, 0), (32 * MIB, 64, 3, 0, 0), (32 * MIB, 17, 4, 0, 0), (32 * MIB, 64, 2, 0, 999), (0xa0000, 64, 2, 0, 0)):
            do(machine, start)
            machine.console.command(f'vq-desc {device} {queue} 0 {address} {length} {flags} {following}')
            machine.console.command(f'vq-offer {device} {queue} {head}')
            machine.console.command(f'vq-wait {device} {queue} 20000000')
    do(machine, start)
    assert machine.console.command('ping') == 'pong'
    if device == 1:
        assert do(machine, 'rng-read 64')['bytes'] == 64


def test_everything_saved_in_the_middle(machines, folder):
    """Requests are on their way when the guest is saved, again and again; each is answered once."""
    options = {'memory': '64M', 'args': ['-object', 'rng-builtin,id=r', '-device', 'virtio-rng-pci,rng=r,max-bytes=65536,period=20']}
    machine = machines.boot(**options)
    do(machine, 'rng-start')
    for number in range(5):
        # 64 KiB every 20 ms: a third of a second, in the middle of which the guest is saved.
        machine.console.send(f'rng-read {MIB} {32 * MIB}')
        time.sleep(0.05 + 0.02 * number)
        path = folder / str(number)
        machine.save(path)
        machines.end(machine)
        machine = machines.restore(path, **options)
        result = vmlib.parse_fields(machine.console.read_line())  # its "ok" went to the console before
        assert result['bytes'] == MIB and 'failed' not in result
