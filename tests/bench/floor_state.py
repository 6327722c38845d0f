# The vCPU state of a snapshot as the bare floor-restore takes it: read by the file's own JSON description.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import re
import struct

from common import BenchError

MSRS_MAX = 256
REGS = 'rax rbx rcx rdx rsi rdi rsp rbp r8 r9 r10 r11 r12 r13 r14 r15 rip rflags'.split()
SEGMENTS = 'cs ds es fs gs ss tr ldt'.split()
SEGMENT_BYTES = 'type present dpl db s l g avl unusable'.split()


class Fields:
    """Reads one device's state, fields in the order of their description, big-endian."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def _one(self, field):
        if field['type'] == 'struct':
            return self.struct(field['struct'])
        size = field['size']
        value = self.data[self.at:self.at + size]
        self.at += size
        return value if field['type'] == 'buffer' else int.from_bytes(value, 'big')

    def struct(self, description):
        values = {}
        for field in description['fields']:
            name = field['name'].removeprefix('state.')
            if 'array_len' in field:
                values[name] = [self._one(field) for _ in range(field['array_len'])]
            elif 'index' in field:
                values.setdefault(name, []).append(self._one(field))
            else:
                values[name] = self._one(field)
        return values


def read_description(path):
    """The JSON that ends the file, and what is before it (at most a MiB): a byte 6 and the length stand before it."""
    with open(path, 'rb') as file:
        size = file.seek(0, 2)
        file.seek(max(size - (1 << 20), 0))
        tail = file.read()
    for match in re.finditer(rb'\x06(....)\{', tail, re.DOTALL):
        if match.end() - 1 + int.from_bytes(match[1], 'big') == len(tail):
            return json.loads(tail[match.end() - 1:]), tail[:match.start()]
    raise BenchError(f'{path}: no description at its end')


def vcpu_fields(path):
    description, data = read_description(path)
    device = next(d for d in description['devices'] if d['name'] == 'cpu' and d['instance_id'] == 0)
    at = data.rfind(b'\x03cpu' + struct.pack('>II', 0, device['version']))
    if at < 0:
        raise BenchError(f'{path}: no state of a vCPU')
    return Fields(data, at + 12).struct(device)


def pack_segment(segment):
    return struct.pack('<QIH', segment['base'], segment['limit'], segment['selector']) + bytes(
        segment[name] for name in SEGMENT_BYTES) + b'\0'


def pack_sregs(sregs):
    """struct kvm_sregs; the interrupt bitmap stays empty."""
    tables = b''.join(struct.pack('<QH6x', sregs[name]['base'], sregs[name]['limit']) for name in ('gdt', 'idt'))
    registers = [sregs[name] for name in ('cr0', 'cr2', 'cr3', 'cr4', 'cr8', 'efer', 'apic_base')]
    return b''.join(pack_segment(sregs[name]) for name in SEGMENTS) + tables + struct.pack('<7Q', *registers) + bytes(32)


def write_state(snapshot, path):
    """Write struct FloorState of floor-restore.c."""
    cpu = vcpu_fields(snapshot)
    msrs = cpu['msrs'][:MSRS_MAX]
    state = struct.pack('<18Q', *(cpu['regs'][name] for name in REGS)) + pack_sregs(cpu['sregs'])
    state += bytes(cpu['xsave'])[:4096].ljust(4096, b'\0') + cpu['lapic']
    state += struct.pack('<II', cpu['mp_state'], len(msrs))
    state += b''.join(struct.pack('<IIQ', msr['index'], 0, msr['data']) for msr in msrs).ljust(16 * MSRS_MAX, b'\0')
    path.write_bytes(state)
    return path
