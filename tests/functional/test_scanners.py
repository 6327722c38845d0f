# The three ways of finding written pages select the same ones, and all of them: with holes, swap, KSM and huge pages.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import subprocess
import tempfile
from pathlib import Path

import host_memory
import pytest
import vm as vmlib

MIB, GIB = 1 << 20, 1 << 30
SCANNERS = ['scan', 'bit61', 'kpageflags']
IDLE_PAGES = 512  # an idle guest and its start write less
SEED, WRITTEN = 7, 70
STEP, ZERO_STEP = 3, 5


def places_of(memory):
    """Ranges below and above the hole, at the ends of RAM: start and length."""
    size = int(memory[:-1]) * GIB
    low = min(size, 0xe0000000 if size < 0xe0000000 else 0xc0000000)
    places = [(4 * MIB, 8 * MIB), (low - 16 * MIB, 8 * MIB)]
    if size > low:
        places += [(4 * GIB, 8 * MIB), (4 * GIB + size - low - 8 * MIB, 8 * MIB)]
    return places


def equal(first, second):
    return subprocess.run([vmlib.snap_path(), 'compare', first, second], capture_output=True, timeout=120).returncode == 0


class Base:
    """A stopped guest that has touched some places of its RAM, saved with each scanner."""

    def __init__(self, folder, memory):
        self.places = places_of(memory)
        self.path, self.shifted = folder / f'base-{memory}', folder / f'shifted-{memory}'
        self.options = {'memory': memory, 'timeout': 120}
        with vmlib.Vm(**self.options) as machine:
            machine.console.ready()
            for start, length in self.places:
                machine.console.fill(SEED, start, length)
            files = []
            for name in SCANNERS:
                files.append(folder / f'base-{memory}-{name}')
                assert machine.save(files[-1], ram_scan=name)['ram']['scan-path'] == name
            # Guest memory then begins at a multiple of 2 MiB in the file, as huge pages need it.
            assert machine.migrate(f'file:{self.shifted},offset=1M')['status'] == 'completed'
        self.all_equal = all(equal(files[0], file) for file in files[1:])
        files[0].rename(self.path)
        for file in files[1:]:
            file.unlink()


@pytest.fixture(scope='module')
def bases():
    """One for each size of memory, made when first asked for."""
    made = {}
    with tempfile.TemporaryDirectory(prefix='cowbird-test-', dir='/var/tmp') as name:
        def get(memory):
            if memory not in made:
                made[memory] = Base(Path(name), memory)
            return made[memory]
        yield get


class Clone:
    """A clone that has read all places, and written and zeroed pages between others."""

    def __init__(self, machines, base, scanner, file=None, suffix='', **options):
        self.base, self.file = base, file or base.path
        arguments = ['-global', f'migration.ram-scan={scanner}']
        self.machine = machines.restore(f'{self.file}{suffix}', 'copy-on-write', args=arguments, **base.options, **options)
        for start, length in base.places:
            self.machine.console.verify(SEED, start, length)
        self.huge_kib = host_memory.huge_mapped_kib(self.machine.pid, self.file)
        for start, length in base.places:
            self.machine.console.command(f'write {WRITTEN} {start} {length} {STEP}')
            self.machine.console.command(f'zero {start} {length // 2} {ZERO_STEP}')
        self.hashes = hashes_of(self.machine, base)
        pages = sum(length // 4096 for _, length in base.places)
        self.pages_written = pages // STEP
        self.most_pages = pages // STEP + pages // ZERO_STEP + IDLE_PAGES

    def span(self):
        return host_memory.mappings_of(self.machine.pid, self.file)

    def save_with_each(self, folder, before=lambda: None):
        """Increments of the stopped guest, one by each scanner; before() comes before each."""
        files, counts, infos = [], [], []
        self.machine.qmp.command('stop')
        for name in SCANNERS:
            before()
            files.append(folder / f'increment-{name}')
            infos.append(self.machine.save_increment(files[-1], ram_scan=name)['ram'])
            assert infos[-1]['scan-path'] == name
            counts.append(infos[-1]['data-pages'] + infos[-1]['zero-pages'])
        assert len(set(counts)) == 1, f'pages selected by {SCANNERS}: {counts}'
        assert self.pages_written <= counts[0] <= self.most_pages
        return files, infos


def hashes_of(machine, base):
    return [machine.console.hash(start, length) for start, length in base.places]


def assert_restored(machines, base, clone, files):
    assert all(equal(files[0], file) for file in files[1:])
    machines.end(clone.machine)
    again = machines.restore(files[0], **base.options)
    assert hashes_of(again, base) == clone.hashes
    machines.end(again)


each_layout = pytest.mark.parametrize('memory', ['3G', '4G', '5G'])


@each_layout
def test_full_saves_are_equal(bases, memory):
    assert bases(memory).all_equal


@each_layout
@pytest.mark.parametrize('scanner', SCANNERS)
def test_increment(machines, bases, folder, memory, scanner):
    """As the program is started with the scanner; files are restored, one by one."""
    base = bases(memory)
    clone = Clone(machines, base, scanner)
    assert clone.machine.save_increment(folder / 'i')['ram']['scan-path'] == scanner
    assert_restored(machines, base, clone, [folder / 'i'])


@each_layout
def test_swapped(machines, bases, folder, memory):
    base = bases(memory)
    with host_memory.swap_file(folder):
        clone = Clone(machines, base, 'auto')
        files, infos = clone.save_with_each(folder, lambda: host_memory.page_out(clone.machine.pid, clone.span()))
        for info in infos:
            assert info['swapped-pages'] > clone.pages_written // 2, 'most pages were in swap'
        assert_restored(machines, base, clone, files)
        machines.finish()


@each_layout
def test_merged(machines, bases, folder, memory):
    """Two clones that wrote the same: their pages become the same read-only pages."""
    base = bases(memory)
    with host_memory.merging():
        twins = [Clone(machines, base, 'auto', preexec=host_memory.ask_for_merging) for _ in range(2)]
        for twin in twins:
            host_memory.wait_merged(twin.machine.pid, twin.pages_written // 2)
        for number, twin in enumerate(twins):
            (folder / str(number)).mkdir()
            files, _ = twin.save_with_each(folder / str(number))
            assert_restored(machines, base, twin, files)


@each_layout
def test_base_in_huge_pages(machines, bases, folder, memory):
    """Pages that are only read are mapped 2 MiB at a time; they are not taken for written ones."""
    base = bases(memory)
    with host_memory.huge_tmpfs() as huge:
        subprocess.run(['cp', '--sparse=always', base.shifted, huge / 'base'], check=True)
        clone = Clone(machines, base, 'auto', huge / 'base', ',offset=1M')
        assert clone.huge_kib >= 4096, 'the file was mapped by huge pages before it was written'
        files, _ = clone.save_with_each(folder)
        assert_restored(machines, base, clone, files)
        machines.finish()


@each_layout
def test_chain_of_three(machines, bases, folder, memory):
    """Each increment is saved by a clone of the one before, with another scanner."""
    base = bases(memory)
    path, expected = base.path, []
    for number, scanner in enumerate(SCANNERS):
        args = ['-global', f'migration.ram-scan={scanner}']
        machine = machines.restore(path, 'copy-on-write', args=args, **base.options)
        for start, length in base.places:
            machine.console.command(f'write {number + 90} {start + number * MIB} {4 * MIB} {number + 1}')
            machine.console.command(f'zero {start + (number + 3) * MIB} {2 * MIB} {number + 2}')
        expected.append(hashes_of(machine, base))
        path = folder / f'increment-{number}'
        assert machine.save_increment(path)['ram']['scan-path'] == scanner
        machines.end(machine)
    for mode in ('copy-on-write', 'copy'):
        for number in range(len(SCANNERS)):
            again = machines.restore(folder / f'increment-{number}', mode, **base.options)
            assert hashes_of(again, base) == expected[number]
            machines.end(again)
