# Reading a dump in kdump's compressed format, flattened.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import struct
import zlib

BLOCK = 4096


def unflatten(path, out):
    """The file that the pieces of a flattened one make up."""
    with open(path, 'rb') as source, open(out, 'wb') as target:
        header = source.read(BLOCK)
        assert header[:16] == b'makedumpfile'.ljust(16, b'\0') and struct.unpack_from('>qq', header, 16) == (1, 1)
        while (place := struct.unpack('>qq', source.read(16))) != (-1, -1):
            target.seek(place[0])
            data = source.read(place[1])
            assert len(data) == place[1]
            target.write(data)
        assert source.read(1) == b''
    return out


class KdumpFile:
    def __init__(self, path, scratch):
        with open(unflatten(path, scratch), 'rb') as file:
            self.data = file.read()
        assert self.data[:8] == b'KDUMP   ' and struct.unpack_from('<i', self.data, 8) == (6,)
        assert self.data[12 + 4 * 65:].startswith(b'x86_64\0')
        status, size, sub, bitmaps = struct.unpack_from('<IIII', self.data, 424)
        self.cpus, = struct.unpack_from('<I', self.data, 460)
        self.notes, self.max_pfn = self._sub_header()
        assert (status, size) == (1, BLOCK)
        half = bitmaps // 2 * BLOCK
        at = (1 + sub) * BLOCK
        self.ram, self.stored = self.data[at:at + half], self.data[at + half:at + 2 * half]
        self.descriptors = at + 2 * half

    def _sub_header(self):
        offset, size = struct.unpack_from('<QQ', self.data, BLOCK + 48)
        max_pfn, = struct.unpack_from('<Q', self.data, BLOCK + 96)
        return self.data[offset:offset + size], max_pfn

    def pages(self):
        """{number: contents} of the pages that are not zero."""
        assert self.ram == self.stored
        found, zeros, at = {}, set(), self.descriptors
        for pfn in range(self.max_pfn):
            if not self.stored[pfn >> 3] >> (pfn & 7) & 1:
                continue
            offset, size, flags, _ = struct.unpack_from('<QIIQ', self.data, at)
            at += 24
            if offset in zeros:
                continue
            page = self.data[offset:offset + size]
            page = zlib.decompress(page) if flags == 1 else page
            assert len(page) == BLOCK
            if page.strip(b'\0'):
                found[pfn] = page
            else:
                zeros.add(offset)
        return found
