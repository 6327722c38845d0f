# Reading an ELF core file of a guest: memory by physical address, notes, registers.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import struct
from collections import namedtuple

PT_LOAD, PT_NOTE = 1, 4
NT_PRSTATUS = 1
# Order of the registers in NT_PRSTATUS (System V ABI, struct user_regs_struct), and where they begin.
GREGS = ('r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs rflags rsp ss fs_base gs_base ds es fs '
         'gs').split()
GREGS_AT, PID_AT = 112, 32

Segment = namedtuple('Segment', 'offset address filled length')
Note = namedtuple('Note', 'name type desc')


class CoreFile:
    """What is in the file; a file that is not whole is an error."""

    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as file:
            header = file.read(64)
            assert header[:7] == b'\x7fELF\x02\x01\x01', header[:16]
            kind, machine = struct.unpack_from('<HH', header, 16)
            assert (kind, machine) == (4, 62), (kind, machine)      # ET_CORE, EM_X86_64
            table, = struct.unpack_from('<Q', header, 32)
            size, count = struct.unpack_from('<HH', header, 54)
            assert size == 56 and count < 0xffff
            file.seek(table)
            entries = [struct.unpack('<IIQQQQQQ', file.read(size)) for _ in range(count)]
            file.seek(0, 2)
            end = file.tell()
            self.segments = [Segment(e[2], e[4], e[5], e[6]) for e in entries if e[0] == PT_LOAD]
            notes = [e for e in entries if e[0] == PT_NOTE]
            assert len(notes) == 1 and all(s.offset + s.filled <= end for s in self.segments)
            file.seek(notes[0][2])
            self.notes = list(self._parse_notes(file.read(notes[0][5])))
        for one, other in zip(self.segments, self.segments[1:]):
            assert one.address + one.length <= other.address, 'segments overlap'

    @staticmethod
    def _parse_notes(data):
        at = 0
        while at < len(data):
            name_size, desc_size, kind = struct.unpack_from('<III', data, at)
            name = data[at + 12:at + 12 + name_size].rstrip(b'\0').decode()
            at += 12 + (name_size + 3 & ~3)
            yield Note(name, kind, data[at:at + desc_size])
            at += desc_size + 3 & ~3

    def length(self):
        """Bytes of physical memory in it."""
        return sum(s.length for s in self.segments)

    def registers(self):
        """For each CPU a dict of the general registers."""
        return [dict(zip(GREGS, struct.unpack_from('<27Q', n.desc, GREGS_AT))) for n in self.notes
                if (n.name, n.type) == ('CORE', NT_PRSTATUS)]

    def pids(self):
        return [struct.unpack_from('<I', n.desc, PID_AT)[0] for n in self.notes if (n.name, n.type) == ('CORE', NT_PRSTATUS)]

    def pages(self):
        """{number: contents} of the pages that are not zero."""
        found = {}
        with open(self.path, 'rb') as source:
            for s in self.segments:
                source.seek(s.offset)
                for at in range(s.address, s.address + s.filled, 4096):
                    page = source.read(4096)
                    if page.strip(b'\0'):
                        found[at >> 12] = page
        return found

    def write_image(self, path):
        """Physical memory as a file in which an address is an offset; holes where it is zero or no RAM."""
        with open(self.path, 'rb') as source, open(path, 'wb') as out:
            for s in self.segments:
                source.seek(s.offset)
                out.seek(s.address)
                left = s.filled
                while left:
                    data = source.read(min(left, 1 << 20))
                    out.write(data)
                    left -= len(data)
                out.truncate(s.address + s.length)
        return path
