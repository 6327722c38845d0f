# Guests with a balloon: starting and restoring them, their commands, and what the host has of their memory.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import ctypes
import mmap
import os
import re
import subprocess
from pathlib import Path

import vm as vmlib

MIB = 1 << 20
CHUNK = 2 * MIB
PAGE = 4096
DEVICE = 'virtio-balloon-pci,id=balloon0,free-page-reporting=on,deflate-on-oom=on'
BALLOON = ('-device', DEVICE)
MUST_TELL_HOST, STATS_VQ, DEFLATE_ON_OOM, FREE_PAGE_HINT, PAGE_POISON, REPORTING = (1 << bit for bit in range(6))
VERSION_1 = 1 << 32
_libc = ctypes.CDLL(None, use_errno=True)


def do(machine, line, timeout=None):
    """A command of the guest's virtio drivers, which has to succeed; its numbers."""
    result = machine.console.fields(line, timeout)
    assert 'failed' not in result, f'{line}: {result}'
    return result


def failed(machine, line, timeout=None):
    """The number of the failure (tests/guest/README.rst); 0 if there was none."""
    return machine.console.fields(line, timeout).get('failed', 0)


def release(machine, how, start, length):
    """Give memory away and take it back at once: by a report, or by inflating and deflating."""
    if how == 'report':
        do(machine, f'report {start} {length}')
    else:
        do(machine, f'inflate {start} {length}')
        do(machine, f'deflate {start} {length}')


def classes(machine, start, length, *seeds):
    """{seed: number of pages} of a range; None counts what no seed wrote."""
    counts = {}
    for count, seed in re.findall(r'(\d+)\*(\d+|\?)', machine.console.command(f'classify {start} {length} ' + ' '.join(map(str, seeds)))):
        key = None if seed == '?' else int(seed)
        counts[key] = counts.get(key, 0) + int(count)
    return counts


def mappings(pid):
    """(start, end, file offset, path, {field: KiB}) of each of a process's mappings."""
    result = []
    for line in Path(f'/proc/{pid}/smaps').read_text().splitlines():
        head = re.match(r'([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s*(.*)', line)
        if head:
            result.append((int(head[1], 16), int(head[2], 16), int(head[3], 16), head[4], {}))
        elif field := re.match(r'(\w+):\s+(\d+) kB', line):
            result[-1][4][field[1]] = int(field[2])
    return result


def rollup(pid, *fields):
    """Sum in bytes of these fields over all mappings."""
    text = Path(f'/proc/{pid}/smaps_rollup').read_text()
    return sum(int(re.search(rf'^{field}:\s+(\d+)', text, re.M)[1]) << 10 for field in fields)


def anonymous(pid):
    return rollup(pid, 'Anonymous')


def ram_base(machine, path):
    """The address of guest RAM that is mapped from a snapshot, and the file offset that it has there."""
    block = machine.restored_blocks()['pc.ram']
    for start, _, offset, name, _ in mappings(machine.pid):
        if name == str(path) and offset == block['offset']:
            return start, offset
    raise AssertionError(f'{path} is not mapped')


def mapped_file(machine, base, start, length):
    """The paths that [start, start + length) of guest RAM is mapped from; '' for anonymous memory."""
    return {name for low, high, _, name, _ in mappings(machine.pid) if low < base + start + length and high > base + start}


def forget_cached(path):
    """Let the kernel drop what it has cached of a file and no process has mapped."""
    with open(path, 'rb') as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_pages(path, offset, length):
    """How many pages of that part of the file are in the page cache."""
    with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE) as view:
        state = (ctypes.c_ubyte * (length // PAGE))()
        hold = ctypes.c_char.from_buffer(view)
        try:
            if _libc.mincore(ctypes.c_void_p(ctypes.addressof(hold) + offset), ctypes.c_size_t(length), state) != 0:
                raise OSError(ctypes.get_errno(), 'mincore')
        finally:
            del hold
        return sum(value & 1 for value in state)


def boot(machines, memory='160M', seed=7, device=DEVICE, start='balloon-start', **options):
    """A running guest, its memory filled, its balloon started."""
    args = ['-device', device, *options.pop('args', ())]
    machine = machines.boot(memory=memory, args=args, **options)
    machine.pages = machine.console.fill(seed)
    do(machine, start)
    return machine


def save_and_check(machine, path, **parameters):
    """An increment of a clone; fails unless cowbird-snap finds it whole."""
    machine.save_increment(path, **parameters)
    done = subprocess.run([vmlib.snap_path(), 'check', path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
