#!/usr/bin/python3
# Wrap the test guest's ELF as a bzImage, bootable by the 64-bit Linux boot protocol.
#
# The header is that of Documentation/arch/x86/boot.rst, protocol 2.15. There is no real-mode code: only loaders
# that enter the kernel in 32- or 64-bit mode can start it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import struct
import sys

SECTOR = 512
SETUP_SECTORS = 1
HEADER = 0x1F1
LOADED_HIGH = 0x01
XLF_KERNEL_64 = 0x01


def load_segment(elf):
    """The address, bytes and memory size of the only PT_LOAD segment."""
    program_headers, = struct.unpack_from('<Q', elf, 32)
    size, count = struct.unpack_from('<HH', elf, 54)
    for i in range(count):
        at = program_headers + i * size
        kind, _, offset, _, address, in_file, in_memory, _ = struct.unpack_from('<IIQQQQQQ', elf, at)
        if kind == 1:
            return address, elf[offset:offset + in_file], in_memory
    sys.exit('mkbzimage: no loadable segment')


def setup_header(address, payload_size, memory_size):
    """The boot sector and the setup sector, with the header in them."""
    setup = bytearray(SECTOR * (1 + SETUP_SECTORS))
    struct.pack_into('<B', setup, HEADER, SETUP_SECTORS)
    struct.pack_into('<I', setup, 0x1F4, (payload_size + 15) // 16)
    struct.pack_into('<H', setup, 0x1FE, 0xAA55)
    struct.pack_into('<BB', setup, 0x200, 0xEB, 0x66)  # jump over the header, to the hlt below
    struct.pack_into('<4sH', setup, 0x202, b'HdrS', 0x020F)
    struct.pack_into('<B', setup, 0x211, LOADED_HIGH)
    struct.pack_into('<I', setup, 0x214, address)
    struct.pack_into('<I', setup, 0x22C, 0x7FFFFFFF)  # initrd may lie as high as this
    struct.pack_into('<I', setup, 0x230, 0x100000)
    struct.pack_into('<BBH', setup, 0x234, 0, 20, XLF_KERNEL_64)
    struct.pack_into('<I', setup, 0x238, 511)  # length of the command line
    struct.pack_into('<Q', setup, 0x258, address)
    struct.pack_into('<I', setup, 0x260, memory_size)
    struct.pack_into('<BBB', setup, 0x268, 0xF4, 0xEB, 0xFD)  # hlt; jmp -3
    return bytes(setup)


def main():
    with open(sys.argv[1], 'rb') as file:
        address, payload, memory_size = load_segment(file.read())
    # The loader does not clear what lies behind the payload, so the zeros are part of it.
    payload = payload.ljust(memory_size, b'\0')
    with open(sys.argv[2], 'wb') as file:
        file.write(setup_header(address, len(payload), memory_size))
        file.write(payload)


main()
