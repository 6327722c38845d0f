# Unmodified Debian kernels under stock KVM: boot, serial console, save, restore, ACPI power button, balloon.
#
# Stock KVM runs inside a QEMU TCG machine (l1-run), so this works on any host. The steps are in
# linux_scenario.py and linux_balloon_scenario.py, which run there, two machines at a time.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from linux_guest import initramfs  # noqa: E402

LIMIT = 900     # seconds for one machine; 60 to 120 are usual on two idle processors
AT_ONCE = 2     # each of them is busy on one processor
# A kernel and the programs of its root file system.
ROOTS = {'cloud': ('cloud', []), 'generic': ('generic', []), 'stress': ('generic', ['/usr/bin/stress-ng'])}
# The generic kernel alone has a driver for the VM generation.
JOBS = {
    **{f'generic-balloon-{option or "plain"}': ('stress', 'linux_balloon_scenario.py', [f'--append={option}'])
       for option in ('', 'init_on_free=1', 'page_poison=1')},
    **{f'{flavour}-{cpus}': (flavour, 'linux_scenario.py', ['--cpus', str(cpus), *extra])
       for flavour, extra in (('cloud', []), ('generic', ['--vmgenid'])) for cpus in (1, 4)},
}


def l1_run(work, *command):
    """Run a command on stock KVM; returns its output and fails with it.

    The machine has one CPU: with two, guests of four vCPUs now and then wait for minutes for an interrupt, under
    Debian's own QEMU as well, because TCG loses it between its threads. One is not slower.
    """
    result = subprocess.run([HERE / 'l1-run', '-c', '1', '-t', str(LIMIT), '-w', work, '--', *command],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    assert result.returncode == 0, f'exit status {result.returncode}:\n{result.stdout}'
    return result.stdout


@pytest.fixture(scope='module')
def kernels(tmp_path_factory):
    """By the names of ROOTS: a Debian kernel (fetched on first use) and a root file system."""
    found = {}
    for name, (flavour, programs) in ROOTS.items():
        folder = Path(subprocess.run([HERE / 'debian-kernel', flavour], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.strip())
        found[name] = (next(folder.glob('boot/vmlinuz-*')),
                       initramfs(tmp_path_factory.mktemp(name) / 'initramfs', folder, *programs))
    return found


def copy_programs(work):
    """Only the work folder is sure to be seen inside: /tmp, for one, is another one there."""
    for source in [*HERE.glob('linux_*.py'), HERE.parent / 'lib' / 'qmp.py']:
        target = work / source.relative_to(HERE.parent)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    return work / 'nested'


def run_job(job, vmm, kernels, work):
    root, script, arguments = job
    scripts = copy_programs(work)
    vmm, kernel, initrd = (shutil.copy(path, work) for path in (vmm, *kernels[root]))
    return l1_run(work, '/usr/bin/python3', '-B', scripts / script, '--vmm', vmm, '--kernel', kernel, '--initrd', initrd,
                  *arguments)


@pytest.fixture(scope='module')
def outputs(request, vmm, kernels, tmp_path_factory):
    """By name: what each job that was asked for prints, when it is there."""
    asked = [item.callspec.params['name'] for item in request.session.items if item.module is request.module]
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {name: pool.submit(run_job, JOBS[name], vmm, kernels, tmp_path_factory.mktemp(name)) for name in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize('name', JOBS)
def test_debian_kernel(outputs, name):
    output = outputs[name].result()
    assert 'scenario: passed' in output, output
    print(output)
