# Streams of virtio devices cut by save and restore, on KVM: nothing is lost, nothing comes twice.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import random
import threading
import time

import pytest
import vm as vmlib
from balloon_vm import MIB, do
from test_virtio import Port, start_port

LENGTH = 4 * MIB
CUTS = 5


class Drain(threading.Thread):
    """Reads a socket to its end."""

    def __init__(self, sock):
        super().__init__()
        self.sock, self.data = sock, b''
        self.start()

    def run(self):
        while part := self.sock.recv(65536):
            self.data += part

    def result(self):
        self.join()
        return self.data


@pytest.mark.parametrize('seed', range(3))
def test_console_port_cut_while_sending(machines, folder, seed):
    """The guest sends one buffer after another to a slow reader, and is saved in the middle of them, again and again."""
    rng, port = random.Random(seed), Port(folder)
    machine = machines.boot(memory='64M', args=port.arguments)
    port.accept()
    start_port(machine)
    machine.console.command('vserial-control 1 6 1')
    machine.console.command(f'fill {seed + 1} {32 * MIB} {LENGTH}')
    machine.console.send(f'vserial-send 1 {32 * MIB} {LENGTH}')
    whole = port.receive(LENGTH)
    assert len(whole) == LENGTH and machine.console.answer() == ''
    machine.console.send(f'vserial-send 1 {32 * MIB} {LENGTH}')
    got = b''
    for cut in range(CUTS):
        got += port.receive(rng.randrange(1, LENGTH // 8))
        machine.qmp.command('stop')
        rest = Drain(port.sock)
        machine.save(folder / f'saved{cut}')
        machines.end(machine)
        got += rest.result()
        machine = machines.restore(folder / f'saved{cut}', memory='64M', args=port.arguments)
        port.accept()
        machine.qmp.command('cont')
    assert len(got) < LENGTH, 'it was over before the last cut'
    got += port.receive(LENGTH - len(got))
    assert got == whole
    assert machine.console.answer() == ''
    port.listener.close()


@pytest.mark.parametrize('iothread', ['', ',iothread=io'])
def test_entropy_cut_while_reading(machines, folder, iothread):
    """A guest that waits for random bytes, also from a thread of their own, gets them from the process that restores it."""
    args = ['-object', 'iothread,id=io', '-object', 'rng-random,id=r,filename=/dev/urandom',
            '-device', f'virtio-rng-pci,rng=r{iothread}']
    machine = machines.boot(memory='64M', args=args)
    do(machine, 'rng-start')
    for cut in range(CUTS):
        machine.console.send(f'rng-read {8 * MIB} {32 * MIB}')
        time.sleep(0.02 + 0.005 * cut)  # the command itself comes by the serial port: it must be whole
        machine.save(folder / f'saved{cut}')
        machines.end(machine)
        machine = machines.restore(folder / f'saved{cut}', memory='64M', args=args)
        result = vmlib.parse_fields(machine.console.read_line())  # its "ok" went to the console before
        assert result['bytes'] == 8 * MIB
        assert do(machine, 'rng-read 100')['bytes'] == 100
