# What the host does to memory of a VMM, on purpose: swap, merging of equal pages (KSM), a tmpfs of huge pages. Needs root.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import ctypes
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

KSM = Path('/sys/kernel/mm/ksm')
SYS_PROCESS_MADVISE, MADV_PAGEOUT = 440, 21
PR_SET_MEMORY_MERGE = 67
_libc = ctypes.CDLL(None, use_errno=True)


class Iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]


def mappings_of(pid, path):
    """(start, length) of the process's mappings of that file."""
    lines = Path(f'/proc/{pid}/maps').read_text().splitlines()
    spans = [re.match(r'([0-9a-f]+)-([0-9a-f]+)', line) for line in lines if line.endswith(f' {path}')]
    return [(int(m[1], 16), int(m[2], 16) - int(m[1], 16)) for m in spans]


def page_out(pid, spans):
    """Ask the kernel to write these pages to swap now."""
    pidfd = os.pidfd_open(pid)
    try:
        for start, length in spans:
            done = 0
            while done < length:
                iov = Iovec(start + done, min(length - done, 1 << 30))
                n = _libc.syscall(SYS_PROCESS_MADVISE, pidfd, ctypes.byref(iov), ctypes.c_size_t(1), MADV_PAGEOUT, 0)
                if n <= 0:
                    pytest.skip(f'process_madvise: {os.strerror(ctypes.get_errno())}')
                done += n
    finally:
        os.close(pidfd)


def need_root():
    if os.geteuid() != 0:
        pytest.skip('needs root')


@contextlib.contextmanager
def swap_file(folder, megabytes=512):
    need_root()
    path = Path(folder) / 'swap'
    with open(path, 'wb') as file:
        os.fchmod(file.fileno(), 0o600)
        os.posix_fallocate(file.fileno(), 0, megabytes << 20)
    subprocess.run(['mkswap', path], check=True, capture_output=True)
    if subprocess.run(['swapon', path], capture_output=True).returncode != 0:
        pytest.skip('no swap file can be used here')
    try:
        yield
    finally:
        subprocess.run(['swapoff', path], check=True)
        path.unlink()


@contextlib.contextmanager
def merging():
    """The kernel looks for equal pages, quickly."""
    need_root()
    if not KSM.exists():
        pytest.skip('this kernel has no KSM')
    wanted = {'pages_to_scan': '20000', 'sleep_millisecs': '5', 'run': '1'}
    before = {name: (KSM / name).read_text() for name in wanted}
    try:
        for name, value in wanted.items():
            (KSM / name).write_text(value)
        yield
    finally:
        for name, value in before.items():
            (KSM / name).write_text(value)


def ask_for_merging():
    """In the child, before exec: all its memory may be merged (Linux 6.4)."""
    _libc.prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0)


def wait_merged(pid, pages, timeout=120):
    """Until so many pages of the process are merged with others."""
    deadline = time.monotonic() + timeout
    path = Path(f'/proc/{pid}/ksm_merging_pages')
    while int(path.read_text()) < pages:
        assert time.monotonic() < deadline, f'KSM has merged {path.read_text().strip()} of {pages} pages'
        time.sleep(0.05)


@contextlib.contextmanager
def huge_tmpfs(megabytes=512):
    need_root()
    with tempfile.TemporaryDirectory(prefix='cowbird-huge-') as name:
        options = f'huge=always,size={megabytes}m'
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', name], capture_output=True).returncode != 0:
            pytest.skip('no tmpfs with huge pages here')
        try:
            yield Path(name)
        finally:
            subprocess.run(['umount', name], check=True)


def huge_mapped_kib(pid, path):
    """How much of the file the process has mapped by huge pages."""
    total, inside = 0, False
    for line in Path(f'/proc/{pid}/smaps').read_text().splitlines():
        if re.match(r'[0-9a-f]+-[0-9a-f]+ ', line):
            inside = line.endswith(f' {path}')
        elif inside and line.startswith(('ShmemPmdMapped:', 'FilePmdMapped:')):
            total += int(line.split()[1])
    return total
