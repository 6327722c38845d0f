# Unmodified Debian kernels under stock KVM: boot, serial console, save, restore, ACPI power button.
#
# Stock KVM runs inside a QEMU TCG machine (l1-run), so this works on any host. The steps are in
# linux_scenario.py, which runs there.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from linux_guest import initramfs  # noqa: E402

BUILD = Path(os.environ.get('COWBIRD_BUILD', HERE.parent.parent / 'build'))
VMM = os.environ.get('COWBIRD_VMM', BUILD / 'system' / 'cowbird-system-x86_64')
LIMIT = 900     # seconds for one machine; 60 to 90 are usual on two idle processors


def l1_run(work, *command):
    """Run a command on stock KVM; returns its output and fails with it.

    The machine has one CPU: with two, guests of four vCPUs now and then wait for minutes for an interrupt, under
    Debian's own QEMU as well, because TCG loses it between its threads. One is not slower.
    """
    result = subprocess.run([HERE / 'l1-run', '-c', '1', '-t', str(LIMIT), '-w', work, '--', *command],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    assert result.returncode == 0, f'exit status {result.returncode}:\n{result.stdout}'
    return result.stdout


@pytest.fixture(scope='module', params=['cloud', 'generic'])
def kernel(request, tmp_path_factory):
    """A Debian kernel (fetched on first use), its root file system, and its flavour."""
    flavour = request.param
    folder = Path(subprocess.run([HERE / 'debian-kernel', flavour], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout.strip())
    image = next(folder.glob('boot/vmlinuz-*'))
    return image, initramfs(tmp_path_factory.mktemp(flavour) / 'initramfs', folder), flavour


def copy_scenario(work):
    """Only the work folder is sure to be seen inside: /tmp, for one, is another one there."""
    for source in (HERE / 'linux_scenario.py', HERE / 'linux_guest.py', HERE.parent / 'lib' / 'qmp.py'):
        target = work / source.relative_to(HERE.parent)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    return work / 'nested' / 'linux_scenario.py'


@pytest.mark.parametrize('cpus', [1, 4])
def test_debian_kernel(kernel, cpus, tmp_path):
    image, initrd, flavour = kernel
    scenario = copy_scenario(tmp_path)
    vmm, image, initrd = (shutil.copy(path, tmp_path) for path in (VMM, image, initrd))
    # Of the two only the generic kernel has a driver for the VM generation.
    extra = ['--vmgenid'] if flavour == 'generic' else []
    output = l1_run(tmp_path, '/usr/bin/python3', '-B', scenario, '--vmm', vmm, '--kernel', image,
                    '--initrd', initrd, '--cpus', str(cpus), *extra)
    assert 'scenario: passed' in output, output
    print(output)
