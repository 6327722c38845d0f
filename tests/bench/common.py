# What every benchmark needs: the built programs, a work folder, rounds of interleaved samples, and the result.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/lib'))

import vm as vmlib  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
ROUNDS = 7


class BenchError(Exception):
    """A figure cannot be measured here; the text says why."""


class Skipped(BenchError):
    """Something the figure needs is missing on this host."""


@dataclasses.dataclass
class Figure:
    """One line of the report. parts: medians and spread of what the ratio is made of; floor: what the bare program does."""
    name: str
    ratio: float
    unit: str
    parts: dict
    floor: object = None
    note: str = ''

    def to_json(self):
        return json.dumps({'name': self.name, 'ratio': round(self.ratio, 4), 'unit': self.unit, 'parts': self.parts,
                           'floor': self.floor, 'note': self.note})


def program(name):
    path = vmlib.build_dir() / 'tests/bench' / f'bench-{name}'
    if not path.exists():
        raise BenchError(f'{path} is not built; run scripts/setup, or set COWBIRD_BUILD to the build folder')
    return str(path)


def run(*command, **options):
    """The standard output of a command that has to succeed."""
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode:
        raise BenchError(f'{Path(str(command[0])).name}: status {result.returncode}: {result.stderr.strip()[-600:]}')
    return result.stdout


class WorkFolder:
    """A folder below $TMPDIR or /var/tmp that is removed at the end, whatever happens."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix='cowbird-bench-', dir=os.environ.get('TMPDIR') or '/var/tmp'))

    def __truediv__(self, name):
        return self.path / name

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def interleave(variants, rounds=ROUNDS):
    """Call each of {name: function} once a round; returns {name: [samples]}. The first round warms up and is dropped."""
    samples = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, function in variants.items():
            value = function()
            if number > 0:
                samples[name].append(value)
    return samples


def spread(samples, digits=3):
    """Median, least and greatest of the samples."""
    return {'median': round(statistics.median(samples), digits), 'min': round(min(samples), digits),
            'max': round(max(samples), digits), 'n': len(samples)}


def parts_of(samples, digits=3):
    return {name: spread(values, digits) for name, values in samples.items()}


def median_ratio(samples, above, below):
    return statistics.median(samples[above]) / statistics.median(samples[below])


def touch_host_memory(size):
    """Host memory that is used for the first time is several times slower: use as much of it as will be needed, once."""
    available = next(int(line.split()[1]) * 1024 for line in open('/proc/meminfo') if line.startswith('MemAvailable'))
    run(program('touch-memory'), max(min(size, available - 2 * GIB), 0) // MIB)


def read_through(path):
    """Bring a file into the page cache."""
    with open(path, 'rb', buffering=0) as file:
        buffer = bytearray(8 * MIB)
        while file.readinto(buffer):
            pass
