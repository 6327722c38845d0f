# What all tests with libvirt share: one libvirt for the whole run, domains that are removed, file systems, what the log may say.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'lib')]
import vm as vmlib  # noqa: E402
from daemon import open_libvirt, wanted_version  # noqa: E402
from domain import Domain  # noqa: E402


def pytest_addoption(parser):
    parser.addoption('--long', action='store_true', help='run the long form of tests that have one')


def pytest_report_header(config):
    return f'VMM: {vmlib.vmm_path()}; libvirt {wanted_version()}'


def pytest_configure(config):
    config.addinivalue_line('markers', 'needs_libvirt(major): the test needs that version of libvirt or a later one')


def pytest_collection_modifyitems(items):
    """The test of the log looks at what all the others left there."""
    items.sort(key=lambda item: item.path.name == 'test_log.py')


def pytest_runtest_setup(item):
    for mark in item.iter_markers('needs_libvirt'):
        if wanted_version() < mark.args[0]:
            pytest.skip(f'needs libvirt {mark.args[0]}; this run has {wanted_version()} (COWBIRD_LIBVIRT)')


@pytest.fixture(scope='session')
def long(request):
    return request.config.getoption('--long')


@pytest.fixture(scope='session')
def workdir():
    """A folder that user libvirt-qemu may enter, with the VMM as `vmm` and the guest as `guest` in it; removed at the end."""
    with tempfile.TemporaryDirectory(prefix='cowbird-test-libvirt-', dir=os.environ.get('COWBIRD_TEST_DIR', '/var/tmp')) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for source, copy in ((vmlib.vmm_path(), 'cowbird-system-x86_64'), (vmlib.guest_elf(), 'guest.elf')):
            shutil.copyfile(source, folder / copy)
            (folder / copy).chmod(0o755)
        yield folder


@pytest.fixture(scope='session')
def emulator(workdir):
    return workdir / 'cowbird-system-x86_64'


@pytest.fixture(scope='session')
def kernel(workdir):
    return workdir / 'guest.elf'


def skip_without_libvirt():
    if os.geteuid() != 0:
        pytest.skip('a libvirtd of its own needs root')
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        pytest.skip('no /dev/kvm')
    if wanted_version() == 9 and not shutil.which('libvirtd', path='/usr/sbin'):
        pytest.skip('libvirtd is missing: scripts/setup --tests installs it')


@pytest.fixture(scope='session')
def lv(workdir):
    """The one libvirt of this run. A test that changes its configuration sets it back."""
    skip_without_libvirt()
    try:
        libvirt = open_libvirt(workdir)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    yield libvirt
    libvirt.stop()
    keep = os.environ.get('COWBIRD_KEEP_LIBVIRT_LOG')
    if keep:
        shutil.copytree(libvirt.state / 'log', keep, dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def noted(request):
    """Complaints in the log are told with the name of the test that ran."""
    if 'lv' in request.fixturenames:
        request.getfixturevalue('lv').note(request.node.nodeid)


class Domains:
    """Makes domains and removes them all."""

    def __init__(self, lv, emulator, kernel):
        self.lv, self.defaults, self.all = lv, {'emulator': emulator, 'kernel': kernel}, []

    def __call__(self, name, **options):
        """A Domain that is not defined yet. Its name gets this process's number, since cgroups are everybody's."""
        made = Domain(self.lv, f'{name}-{os.getpid()}', **{**self.defaults, **options})
        self.all.append(made)
        return made

    def boot(self, name, **options):
        """A running domain whose guest answers."""
        return self(name, **options).boot()

    def finish(self):
        for made in self.all:
            made.destroy_undefine()
        self.all.clear()


@pytest.fixture
def domain(lv, emulator, kernel):
    """domain(NAME, **options of Domain) for one test."""
    group = Domains(lv, emulator, kernel)
    yield group
    group.finish()


@pytest.fixture(scope='module')
def module_domain(lv, emulator, kernel):
    """The same for the tests of a file that share domains."""
    group = Domains(lv, emulator, kernel)
    yield group
    group.finish()


class LoopDisk:
    """A file system in a file, mounted here and in libvirt's namespace, writable for everybody."""

    def __init__(self, lv, workdir, kind, megabytes):
        self.lv = lv
        self.path = Path(tempfile.mkdtemp(prefix=f'{kind}-', dir=workdir))
        self.image = self.path.with_suffix('.image')
        with open(self.image, 'wb') as image:
            image.truncate(megabytes << 20)
        maker = ['mkfs.xfs', '-q'] if kind == 'xfs' else ['mkfs.ext4', '-q', '-F', '-m', '0']
        subprocess.run([*maker, self.image], check=True)
        self.device = subprocess.run(['losetup', '-f', '--show', self.image], check=True, capture_output=True,
                                     text=True).stdout.strip()
        subprocess.run(['mount', self.device, self.path], check=True)
        self.path.chmod(0o777)
        lv.run_inside(['mount', self.device, self.path])

    def close(self):
        self.lv.run_inside(['umount', '-l', self.path], check=False)
        subprocess.run(['umount', '-l', self.path], check=True)
        subprocess.run(['losetup', '-d', self.device], check=True)
        self.image.unlink()
        self.path.rmdir()


@pytest.fixture
def make_disk(lv, workdir):
    """make_disk('xfs' | 'ext4', MEGABYTES) -> LoopDisk; unmounted after the test, whose domains are removed before."""
    disks = []

    def make(kind, megabytes):
        disks.append(LoopDisk(lv, workdir, kind, megabytes))
        return disks[-1]

    yield make
    for disk in disks:
        disk.close()


def session_disk(lv, workdir, kind):
    disk = LoopDisk(lv, workdir, kind, 4096)
    yield disk.path
    disk.close()


@pytest.fixture(scope='session')
def xfs_dir(lv, workdir):
    """An XFS with reflink, 4 GiB (sparse)."""
    yield from session_disk(lv, workdir, 'xfs')


@pytest.fixture(scope='session')
def ext4_dir(lv, workdir):
    """An ext4, 4 GiB (sparse)."""
    yield from session_disk(lv, workdir, 'ext4')
