# The harness itself: what a killed test run leaves, and that two libvirts do not see each other.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import subprocess
import sys
from pathlib import Path

from daemon import open_libvirt, still_there, wait_until

# Starts a libvirt and a domain in it, tells the processes and waits to be killed.
SCRIPT = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from daemon import open_libvirt
from domain import Domain
lv = open_libvirt(sys.argv[2])
machine = Domain(lv, sys.argv[5], sys.argv[3], sys.argv[4], memory='64M').define().start()
print(json.dumps([lv.keeper.pid, machine.pid(), *lv.pids.values()]), flush=True)
time.sleep(600)
"""


def test_a_killed_run_leaves_no_daemon_and_no_emulator(lv, workdir, emulator, kernel):
    words = [Path(__file__).parent, workdir, emulator, kernel, f'killed-{os.getpid()}']
    child = subprocess.Popen([sys.executable, '-c', SCRIPT, *map(str, words)], stdout=subprocess.PIPE, text=True)
    pids = json.loads(child.stdout.readline())
    assert len(pids) == 4 and all(still_there(pid) for pid in pids)
    child.kill()
    child.wait()
    child.stdout.close()
    wait_until(lambda: not any(still_there(pid) for pid in pids), 'keeper, daemons and emulator end')


def test_two_libvirts_have_nothing_in_common(lv, workdir, domain):
    machine = domain('alone').define()
    with open_libvirt(workdir) as other:
        assert other.virsh('list', '--all', '--name').strip() == ''
        assert machine.name in lv.virsh('list', '--all', '--name')
        assert other.inside('/etc/libvirt').stat().st_ino != lv.inside('/etc/libvirt').stat().st_ino


def test_a_killed_daemon_is_started_again_and_knows_its_domains(lv, domain):
    machine = domain('kept').define()
    lv.restart_daemon(kill=True)
    assert machine.state() == 'shut off'


def test_configure_restarts_only_for_what_is_new(lv):
    pid = lv.pids['libvirtd']
    lv.configure(**lv.qemu_conf)
    assert lv.pids['libvirtd'] == pid
    lv.configure(max_core='unlimited')
    assert lv.pids['libvirtd'] != pid
    lv.configure(max_core=None)
    assert 'max_core' not in lv.inside('/etc/libvirt/qemu.conf').read_text()
