# scripts/demo --libvirt shows everything, with a libvirtd that runs already and with one of its own.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess
from pathlib import Path

import pytest
import vm as vmlib
from daemon import ENVIRONMENT, wanted_version

DEMO = Path(__file__).resolve().parents[2] / 'scripts/demo_libvirt.py'
ROWS = ['virsh start', 'virsh save', 'virsh restore', 'virsh managedsave', '2 clones, virsh start, median']
pytestmark = pytest.mark.skipif(wanted_version() != 9, reason='the demonstration uses the libvirt of the machine')


def run_demo(*wrapper):
    line = [*wrapper, '/usr/bin/python3', DEMO, '--memory', '64M', '--clones', '2']
    environment = {**ENVIRONMENT, 'COWBIRD_BUILD': str(vmlib.build_dir().resolve()), 'COWBIRD_VMM': str(vmlib.vmm_path().resolve())}
    done = subprocess.run([str(word) for word in line], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for row in ROWS:
        assert f'\n  {row} ' in done.stdout
    assert '2 clones (copy-on-write): each has verified' in done.stdout
    return done.stdout


def leftovers():
    return {name for name in os.listdir('/var/tmp') if name.startswith('cowbird-demo-')}


def test_with_a_libvirtd_that_runs(lv):
    before = leftovers()
    output = run_demo('nsenter', '-t', lv.keeper.pid, '-m')
    assert 'the libvirtd of this machine is used' in output
    assert 'cowbird-demo' not in lv.virsh('list', '--all', '--name')
    assert leftovers() <= before


def test_with_one_started_by_hand(lv):
    """Nothing answers where no socket is: /run/libvirt is empty for it."""
    before = leftovers()
    output = run_demo('unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /run/libvirt && exec "$@"', 'sh')
    assert 'one is started by hand' in output
    assert leftovers() <= before
