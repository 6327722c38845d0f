# Devices of the pc machine as the guest finds them: reset, power, ACPI tables, SMBIOS, fw_cfg, clock, debug ports, pvpanic.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import datetime
import struct

import pytest
import vm as vmlib

FW_CFG_SELECT, FW_CFG_DATA = 0x510, 0x511


def read_port(console, width, port):
    return console.fields(f'port {width} {port}')['value']


def write_port(console, width, port, value):
    console.command(f'port {width} {port} {value}')


def dump(console, address, length):
    return bytes.fromhex(console.command(f'dump {address} {length}'))


def fw_cfg_read(console, key, length):
    write_port(console, 2, FW_CFG_SELECT, key)
    return bytes(read_port(console, 1, FW_CFG_DATA) for _ in range(length))


def acpi_tables(console):
    """Signature -> bytes of every table, checksums verified."""
    rsdp_at = vmlib.parse_fields(console.command('meminfo')[1])['rsdp']
    rsdp = dump(console, rsdp_at, 36)
    assert rsdp[:8] == b'RSD PTR ' and sum(rsdp[:20]) % 256 == 0
    if rsdp[15] >= 2:
        assert sum(rsdp) % 256 == 0
        root, width = struct.unpack_from('<Q', rsdp, 24)[0], 8
    else:
        root, width = struct.unpack_from('<I', rsdp, 16)[0], 4
    tables = {}

    def read(address):
        length, = struct.unpack('<I', dump(console, address + 4, 4))
        table = dump(console, address, length)
        assert sum(table) % 256 == 0, f'checksum of {table[:4]}'
        tables[table[:4].decode()] = table
        return table

    entries = read(root)[36:]
    for at in range(0, len(entries), width):
        read(int.from_bytes(entries[at:at + width], 'little'))
    read(struct.unpack_from('<I', tables['FACP'], 40)[0])
    return tables


@pytest.mark.parametrize('write', ['port 1 0xcf9 6', 'port 1 0x64 0xfe', 'triple-fault'])
def test_guest_resets_itself(machines, write):
    machine = machines.filled()
    machine.console.send(write)
    event = machine.qmp.event('RESET')
    assert event['data'] == {'guest': True, 'reason': 'guest-reset'}
    assert machine.console.ready()['pages'] == machine.facts['pages']


def test_reset_by_qmp(machines):
    machine = machines.boot(cpus=2)
    machine.qmp.command('system_reset')
    event = machine.qmp.event('RESET')
    assert event['data'] == {'guest': False, 'reason': 'host-qmp-system-reset'}
    assert machine.console.ready()['cpus'] == 2


def test_reset_while_paused_keeps_the_pause(machines):
    machine = machines.boot()
    machine.qmp.command('stop')
    machine.qmp.command('system_reset')
    machine.qmp.event('RESET')
    assert machine.qmp.command('query-status')['running'] is False
    machine.cont()
    machine.console.ready()


def test_no_reboot_ends_at_a_reset(machines):
    machine = machines.boot(args=['-no-reboot'])
    machine.console.send('port 1 0xcf9 6')
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': True, 'reason': 'guest-reset'}
    assert machine.wait() == 0


def pm_ports(console):
    facp = acpi_tables(console)['FACP']
    return struct.unpack_from('<I', facp, 56)[0], struct.unpack_from('<I', facp, 64)[0]


def test_sleep_state_5_shuts_down(machines):
    machine = machines.boot()
    _, control = pm_ports(machine.console)
    machine.console.send(f'port 2 {control} 0x2000')
    assert machine.qmp.event('SHUTDOWN')['data'] == {'guest': True, 'reason': 'guest-shutdown'}
    assert machine.wait() == 0


def test_no_shutdown_keeps_the_process(machines):
    machine = machines.boot(args=['-no-shutdown'])
    _, control = pm_ports(machine.console)
    machine.console.send(f'port 2 {control} 0x2000')
    machine.qmp.event('SHUTDOWN')
    machine.qmp.event('STOP')
    assert machine.qmp.command('query-status')['status'] == 'shutdown'
    assert machine.quit() == 0


def test_power_button_is_seen_by_the_guest(machines):
    machine = machines.boot()
    events, _ = pm_ports(machine.console)
    assert read_port(machine.console, 2, events) & 0x100 == 0
    machine.qmp.command('system_powerdown')
    machine.qmp.event('POWERDOWN')
    assert read_port(machine.console, 2, events) & 0x100
    write_port(machine.console, 2, events, 0x100)
    assert read_port(machine.console, 2, events) & 0x100 == 0


def test_pm_timer_runs_at_3_58_mhz(machines):
    machine = machines.boot()
    facp = acpi_tables(machine.console)['FACP']
    port, = struct.unpack_from('<I', facp, 76)

    def reading():
        """The clock before and after the timer is read, and the timer."""
        before = machine.console.fields('kvmclock')['ns']
        timer = read_port(machine.console, 4, port)
        return before, timer, machine.console.fields('kvmclock')['ns']
    first = last = reading()
    while last[0] - first[2] < 200_000_000:
        last = reading()
    least, most = ((last[i] - first[2 - i]) * 3.579545e-3 for i in (0, 2))
    ticks = (last[1] - first[1]) % (1 << 24)
    ticks += (int(most) - ticks) // (1 << 24) * (1 << 24) if most > ticks else 0
    assert 0.99 * least <= ticks <= 1.01 * most


@pytest.mark.parametrize('cpus', [1, 4])
def test_acpi_tables(machines, cpus):
    machine = machines.boot(cpus=cpus)
    tables = acpi_tables(machine.console)
    assert {'FACP', 'APIC', 'DSDT', 'WAET'} <= set(tables)
    madt, at, enabled = tables['APIC'], 44, 0
    while at < len(madt):
        kind, length = madt[at], madt[at + 1]
        enabled += kind == 0 and madt[at + 4] & 1
        at += length
    assert enabled == cpus
    assert b'_PRT' in tables['DSDT'] and b'_S5_' in tables['DSDT']


def test_smbios_is_found(machines, folder):
    uuid = '00112233-4455-6677-8899-aabbccddeeff'
    machine = machines.boot(args=['-uuid', uuid])
    machine.qmp.command('pmemsave', val=0xf0000, size=0x10000, filename=str(folder / 'area'))
    area = (folder / 'area').read_bytes()
    at = area.find(b'_SM3_')
    at = at if at >= 0 else area.find(b'_SM_')
    assert at >= 0 and at % 16 == 0
    assert dump(machine.console, 0xf0000 + at, 16) == area[at:at + 16]
    assert sum(area[at:at + area[at + (6 if area[at + 3] == ord('3') else 5)]]) % 256 == 0
    assert machine.qmp.command('query-uuid') == {'UUID': uuid}


def test_fw_cfg_by_port(machines):
    machine = machines.boot(cpus=3)
    assert fw_cfg_read(machine.console, 0, 4) == b'QEMU'
    assert int.from_bytes(fw_cfg_read(machine.console, 5, 2), 'little') == 3
    count = int.from_bytes(fw_cfg_read(machine.console, 0x19, 4), 'big')
    assert 0 < count < 100
    assert fw_cfg_read(machine.console, 0xffff, 2) == b'\0\0'


def test_fw_cfg_by_dma(machines):
    """An access structure at 4 MiB asks for the signature at 5 MiB."""
    machine = machines.boot()
    console = machine.console
    access, buffer = 4 << 20, 5 << 20
    words = struct.unpack('<IIII', struct.pack('>IIQ', 0 << 16 | 0x8 | 0x2, 4, buffer))
    for i, word in enumerate(words):
        console.command(f'mmio {access + 4 * i} {word}')
    write_port(console, 4, 0x514, 0)
    write_port(console, 4, 0x518, int.from_bytes(access.to_bytes(4, 'big'), 'little'))
    assert dump(console, access, 4) == b'\0\0\0\0'
    assert dump(console, buffer, 4) == b'QEMU'


def test_real_time_clock_tells_utc(machines):
    machine = machines.boot()

    def register(index):
        write_port(machine.console, 1, 0x70, index)
        value = read_port(machine.console, 1, 0x71)
        return value >> 4, value & 15

    values = [a * 10 + b for a, b in map(register, (9, 8, 7, 4, 2, 0))]
    told = datetime.datetime(2000 + values[0], *values[1:])
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    assert abs((now - told).total_seconds()) < 5


def test_debug_exit_gives_the_exit_status(machines):
    machine = machines.boot(args=['-device', 'isa-debug-exit,iobase=0xf4,iosize=4'])
    machine.console.send('port 4 0xf4 3')
    assert machine.wait() == 7


def test_debug_console_writes_to_its_chardev(machines, folder):
    path = folder / 'out'
    machine = machines.boot(args=['-chardev', f'file,id=dbg,path={path}', '-device', 'isa-debugcon,iobase=0xe9,chardev=dbg'])
    for char in b'cowbird':
        write_port(machine.console, 1, 0xe9, char)
    assert read_port(machine.console, 1, 0xe9) == 0xe9
    assert path.read_bytes() == b'cowbird'


def test_pvpanic_reports_a_panic(machines):
    machine = machines.boot(args=['-device', 'pvpanic', '-action', 'panic=pause'])
    assert read_port(machine.console, 1, 0x505) & 1
    machine.console.send('port 1 0x505 1')
    assert machine.qmp.event('GUEST_PANICKED')['data']['action'] == 'pause'
    machine.qmp.event('STOP')
    assert machine.qmp.command('query-status')['status'] == 'guest-panicked'


def test_nmi_reaches_the_guest(machines):
    machine = machines.boot()
    machine.qmp.command('inject-nmi')
    with pytest.raises(vmlib.GuestDied, match='vector=2'):
        while True:
            machine.console.read_line()


def test_pci_host_and_south_bridge_are_there(machines):
    machine = machines.boot()

    def config(device, function=0, register=0):
        write_port(machine.console, 4, 0xcf8, 0x80000000 | device << 11 | function << 8 | register)
        return read_port(machine.console, 4, 0xcfc)

    assert config(0) == 0x12378086
    assert config(1) == 0x70008086
    assert config(1, 3) == 0x71138086
    assert config(31) == 0xffffffff


def test_unassigned_memory_and_ports_read_as_ones(machines):
    machine = machines.boot()
    assert read_port(machine.console, 4, 0xc000) == 0xffffffff
    assert machine.console.fields('mmio 0xe0100000')['value'] == 0xffffffff
    machine.console.command('mmio 0xe0100000 5')
