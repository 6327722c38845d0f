# What all functional tests share: virtual machines that are ended, files that are removed, errors of sanitizers that are seen.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'lib'))
import balloon_vm  # noqa: E402
import vm as vmlib  # noqa: E402

SANITIZER_MARKS = ('AddressSanitizer', 'LeakSanitizer', 'runtime error:', 'CRITICAL **')


def pytest_addoption(parser):
    parser.addoption('--long', action='store_true', help='run the long form of tests that have one')
    parser.addoption('--random-seed', type=int, default=None, help='repeat a run of the random tests')


def pytest_report_header(config):
    return f'VMM: {vmlib.vmm_path()}'


@pytest.fixture
def long(request):
    return request.config.getoption('--long')


@pytest.fixture
def rng(request):
    """Random numbers; the seed is shown when the test fails."""
    seed = request.config.getoption('--random-seed')
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 32)
    print(f'random seed: {seed} (repeat with --random-seed {seed})')
    return random.Random(seed)


@pytest.fixture
def folder():
    """An empty folder on a disk file system, removed at the end."""
    with tempfile.TemporaryDirectory(prefix='cowbird-test-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')) as name:
        yield Path(name)


def check_stderr(machine):
    text = machine.stderr()
    bad = [line for line in text.splitlines() if any(mark in line for mark in SANITIZER_MARKS)]
    assert not bad, f'the VMM complained: {text}'


class Machines:
    """Makes virtual machines and ends them all."""

    def __init__(self):
        self.all = []

    def track(self, machine):
        self.all.append(machine)
        return machine

    def start(self, **options):
        return self.track(vmlib.Vm(**options))

    def boot(self, **options):
        """A running guest that has said it is ready; `facts` is what it said."""
        machine = self.start(**options)
        machine.facts = machine.console.ready()
        return machine

    def filled(self, seed=7, **options):
        """A running guest whose memory is full of pages of that seed."""
        machine = self.boot(**options)
        machine.pages = machine.console.fill(seed)
        return machine

    def restore(self, path, mode=None, **options):
        return self.track(vmlib.restore(path, mode, **options))

    def end(self, machine):
        check_stderr(machine)
        machine.close()
        self.all.remove(machine)

    def finish(self):
        crashed = []
        for machine in self.all:
            status = machine.process and machine.process.poll()
            if status is not None and status < 0 and not getattr(machine, 'killed', False):
                crashed.append(f'status {status}: {machine.stderr()}')
            try:
                check_stderr(machine)
            except AssertionError as error:
                crashed.append(str(error))
            machine.close()
        self.all.clear()
        assert not crashed, '\n'.join(crashed)


@pytest.fixture
def machines():
    group = Machines()
    yield group
    group.finish()


class Saved:
    """A full snapshot of an idle guest whose memory was filled from `seed`."""

    def __init__(self, path, seed, pages, info, options):
        self.path, self.seed, self.pages, self.info, self.options = path, seed, pages, info, options

    def copy(self, path):
        """A copy of one's own, for tests that change the file."""
        shutil.copyfile(self.path, path)
        return path


def make_saved(folder, memory='160M', cpus=1, seed=7, args=(), prepare=()):
    """The guest has run the commands of `prepare` when it is saved."""
    path = Path(folder) / f'base-{memory}-{cpus}.snap'
    options = {'memory': memory, 'cpus': cpus, **({'args': args} if args else {})}
    with vmlib.Vm(**options) as machine:
        machine.console.ready()
        machine.console.command('smp')
        pages = machine.console.fill(seed)
        for line in prepare:
            machine.console.command(line)
        info = machine.save(path)
        machine.quit()
        check_stderr(machine)
    return Saved(path, seed, pages, info, options)


@pytest.fixture(scope='session')
def saved():
    """One snapshot of 160 MiB for all tests; never to be changed."""
    with tempfile.TemporaryDirectory(prefix='cowbird-test-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')) as name:
        yield make_saved(name)


@pytest.fixture(scope='session')
def saved_balloon():
    """The same with a balloon, whose driver has started."""
    with tempfile.TemporaryDirectory(prefix='cowbird-test-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')) as name:
        yield make_saved(name, args=balloon_vm.BALLOON, prepare=['balloon-start'])


@pytest.fixture(scope='session')
def saved_smp():
    with tempfile.TemporaryDirectory(prefix='cowbird-test-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')) as name:
        yield make_saved(name, cpus=4)


class Loop:
    """A file system in a file, mounted; its free space is known exactly."""

    def __init__(self, kind, megabytes):
        self.base = Path(tempfile.mkdtemp(prefix='cowbird-loop-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')))
        self.image, self.path = self.base / 'image', self.base / 'mnt'
        self.path.mkdir()
        with open(self.image, 'wb') as image:
            image.truncate(megabytes << 20)
        maker = ['mkfs.xfs', '-q'] if kind == 'xfs' else ['mkfs.ext4', '-q', '-F', '-m', '0']
        subprocess.run([*maker, self.image], check=True)
        done = subprocess.run(['mount', '-o', 'loop', self.image, self.path], capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(self.base)
            pytest.skip(f'no file system can be mounted from a file here: {done.stderr.strip()}')

    def close(self):
        subprocess.run(['umount', self.path], check=True)
        shutil.rmtree(self.base)


def make_loop(kind, megabytes):
    if os.geteuid() != 0:
        pytest.skip('mounting a file system needs root')
    loop = Loop(kind, megabytes)
    try:
        yield loop.path
    finally:
        loop.close()


@pytest.fixture
def xfs(machines):
    """An XFS of 1 GiB with reflink. Machines are ended first, since they hold its files."""
    for path in make_loop('xfs', 1024):
        yield path
        machines.finish()


@pytest.fixture
def small_disk(machines):
    """An ext4 with about 55 MiB of room."""
    for path in make_loop('ext4', 64):
        yield path
        machines.finish()
