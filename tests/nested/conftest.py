# What the tests with Linux guests share: the programs, and the Linux guest of tests/linux-guest.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from linux_guest import TIMEOUT, LinuxGuest, initramfs  # noqa: E402

LINUX_GUEST = HERE.parent / 'linux-guest'
BUILD = Path(os.environ.get('COWBIRD_BUILD', HERE.parent.parent / 'build'))


@pytest.fixture(scope='session')
def vmm():
    return Path(os.environ.get('COWBIRD_VMM', BUILD / 'system' / 'cowbird-system-x86_64'))


class Linux:
    """The kernel (built on first use) and its root file system; makes guests of them."""

    def __init__(self, vmm, folder):
        out = subprocess.run([LINUX_GUEST / 'build'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.vmm, self.kernel = vmm, Path(out) / 'vmlinux'
        self.initrd = initramfs(folder / 'initramfs', None)
        self.cmdline = (LINUX_GUEST / 'cmdline').read_text().strip()

    def make(self, folder, name, memory, append='', initrd=None, **options):
        return LinuxGuest(self.vmm, folder, name, self.kernel, initrd or self.initrd, f'{self.cmdline} {append}'.strip(),
                          memory=memory, timeout=TIMEOUT, **options)


@pytest.fixture(scope='session')
def linux(vmm, tmp_path_factory):
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        pytest.skip('no /dev/kvm')
    return Linux(vmm, tmp_path_factory.mktemp('linux'))
