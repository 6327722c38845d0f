# Booting: both boot protocols, memory layouts, processors, what the guest is told.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess

import pytest
import vm as vmlib

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize('image, protocol', [('guest.elf', 'pvh'), ('guest.bzimage', 'linux64')])
def test_protocol_passes_memory_map_and_command_line(machines, image, protocol):
    machine = machines.start(kernel=vmlib.build_dir() / 'tests/guest' / image, append='ping; ping')
    assert machine.console.wait_for('ready').split()[1] == f'protocol={protocol}'
    assert [machine.console.answer(), machine.console.answer()] == ['pong', 'pong']
    assert machine.console.command('cmdline') == 'ping; ping'
    ranges, _ = machine.console.command('meminfo')
    assert '0x100000' in [line.split()[0] for line in ranges]


@pytest.mark.parametrize('image', ['guest.elf', 'guest.bzimage'])
def test_initrd_is_passed_whole(machines, folder, image):
    path = folder / 'initrd'
    path.write_bytes(os.urandom(3 * MIB + 1000))
    machine = machines.boot(kernel=vmlib.build_dir() / 'tests/guest' / image, args=['-initrd', path])
    facts = vmlib.parse_fields(machine.console.command('meminfo')[1])
    assert facts['initrd-size'] == path.stat().st_size
    assert facts['initrd'] % 4096 == 0
    oracle = subprocess.run([vmlib.build_dir() / 'tests/guest/page-oracle', 'hash', path, '0', hex(facts['initrd']),
                             str(3 * MIB)], check=True, capture_output=True, text=True).stdout
    assert vmlib.parse_fields(oracle)['hash'] == machine.console.hash(facts['initrd'], 3 * MIB)
    end = machine.console.command(f'dump {facts["initrd"] + 3 * MIB} 1000')
    assert bytes.fromhex(end) == path.read_bytes()[3 * MIB:]


@pytest.mark.parametrize('memory', ['128M', '3G', '4G', '5G', '64G'])
def test_memory_layout(machines, memory):
    machine = machines.boot(memory=memory)
    size = int(memory[:-1]) * (GIB if memory[-1] == 'G' else MIB)
    ranges = [(int(a, 0), int(b, 0)) for a, b, kind in
              (line.split() for line in machine.console.command('meminfo')[0]) if kind == 'type=1']
    total = sum(end - start for start, end in ranges)
    assert size - 2 * MIB < total <= size
    assert machine.facts['pages'] * 4096 > size - 4 * MIB
    for start, end in ranges:
        assert end <= 0xe0000000 or start >= 4 * GIB, 'RAM in the hole below 4 GiB'
    if size > 0xe0000000:
        assert any(start == 4 * GIB for start, end in ranges)
    top = max(end for _, end in ranges)
    machine.console.fill(3, top - 2 * MIB, 2 * MIB)
    machine.console.verify(3, top - 2 * MIB, 2 * MIB)


@pytest.mark.parametrize('cpus', [2, 4])
def test_all_processors_work(machines, cpus):
    machine = machines.boot(cpus=cpus)
    assert machine.facts['cpus'] == cpus
    assert machine.console.fields('smp')['cpus'] == cpus
    machine.console.fill(5)
    assert machine.console.verify(5) == machine.facts['pages']
    assert len(machine.qmp.command('query-cpus-fast')) == cpus


def test_timer_ticks_while_idle(machines):
    machine = machines.boot()
    first = machine.console.fields('ticks')['ticks']
    while machine.console.fields('ticks')['ticks'] < first + 5:
        pass


@pytest.mark.parametrize('cpu', ['host', 'max', 'host,-avx512f', 'host,+x2apic'])
def test_cpu_model(machines, cpu):
    machine = machines.boot(cpu=cpu)
    leaf = machine.console.fields('cpuid 0')
    vendor = b''.join(leaf[r].to_bytes(4, 'little') for r in ('ebx', 'edx', 'ecx')).decode()
    with open('/proc/cpuinfo') as info:
        assert f'vendor_id\t: {vendor}' in info.read()
    assert machine.console.fields('cpuid 1')['ecx'] >> 31 == 1, 'no hypervisor bit'


def test_cpuid_gives_each_processor_its_apic_id(machines):
    machine = machines.boot(cpus=3)
    leaf = machine.console.fields('cpuid 1')
    assert leaf['ebx'] >> 24 == 0
    assert machine.console.fields('cpuid 0xb 1')['ebx'] & 0xffff in (0, 3)


def test_kvm_clock_runs(machines):
    machine = machines.boot()
    first = machine.console.fields('kvmclock')['ns']
    assert machine.console.fields('kvmclock')['ns'] > first


def test_simd_registers_are_usable(machines):
    machine = machines.boot()
    machine.console.command('simd-set 11')
    assert machine.console.fields('simd-check 11')['wrong'] == 0


def test_machine_without_pit(machines):
    machine = machines.boot(machine='pc,pit=off')
    assert machine.console.command('ping') == 'pong'


def test_exception_in_the_guest_is_only_the_guests_end(machines):
    machine = machines.boot()
    machine.console.send('undefined')
    with pytest.raises(vmlib.GuestDied, match='vector=6'):
        while True:
            machine.console.read_line()
    assert machine.qmp.command('query-status')['status'] == 'running'
