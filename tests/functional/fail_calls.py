# Lets chosen system calls of a VMM fail or kill it (fail-calls.c is what is preloaded).
#
# SPDX-License-Identifier: GPL-2.0-or-later
import mmap
import struct

import vm as vmlib

WRITE, SYNC, READ, PLACE, MAP, HOLE, LOST = 1, 2, 4, 8, 16, 32, 64
KINDS = {'write': WRITE, 'sync': SYNC, 'read': READ, 'place': PLACE, 'any': WRITE | SYNC | PLACE,
         'map': MAP, 'hole': HOLE, 'lost': LOST}
LAYOUT = struct.Struct('=5i')


class FailCalls:
    """Counts and fails calls on files below `folder`/victim, or that map memory over memory, in the process started with `env`.

    'map': anonymous memory, the old mapping stays; 'hole': nothing is there then; 'lost': likewise, files too.
    """

    def __init__(self, folder):
        self.folder = folder / 'victim'
        self.folder.mkdir(exist_ok=True)
        path = folder / 'fail-calls'
        path.write_bytes(b'\0' * LAYOUT.size)
        with open(path, 'r+b') as file:
            self.control = mmap.mmap(file.fileno(), LAYOUT.size)
        self.env = {'LD_PRELOAD': str(vmlib.build_dir() / 'tests/functional/libfail-calls.so'), 'FAIL_CALLS': str(path)}

    def arm(self, kind, after, error=0, once=False):
        """From now on `after` calls work, the next (all further ones, unless once) fail with `error`; 0 kills."""
        self.control[:] = LAYOUT.pack(KINDS[kind], after, error, once, 0)

    def count(self, kind):
        """Count calls, let none fail."""
        self.arm(kind, 0x7fffffff, 1)

    def disarm(self):
        self.control[:] = b'\0' * LAYOUT.size

    @property
    def seen(self):
        return LAYOUT.unpack(self.control[:])[4]
