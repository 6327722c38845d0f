# How libvirt confines the emulator - user, capabilities, /dev, control groups, filter of system calls - and that a domain's life fits in it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import re
from pathlib import Path

import pytest

SANDBOX = 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'
CAP_SYS_RESOURCE = 24
LOCKED = '<memtune><hard_limit unit="MiB">1024</hard_limit></memtune><memoryBacking><locked/></memoryBacking>'


@pytest.fixture(scope='module')
def confined(module_domain):
    """A running domain whose memory is full of known pages; `pages` is how many."""
    made = module_domain.boot('confined', memory='96M', vcpus=2)
    made.pages = made.fill(5)
    return made


def status(task):
    """The fields of /proc/.../status."""
    return dict(line.split(':\t', 1) for line in (task / 'status').read_text().splitlines())


def threads(domain):
    return [status(task) for task in Path(f'/proc/{domain.pid()}/task').iterdir()]


def user_of_emulator(lv):
    """libvirt-qemu's number, which can be another one in another Debian."""
    line = next(line for line in lv.inside('/etc/passwd').read_text().splitlines() if line.startswith('libvirt-qemu:'))
    return int(line.split(':')[2])


def test_libvirt_asks_for_the_sandbox(confined):
    words = Path(f'/proc/{confined.pid()}/cmdline').read_text().split('\0')
    assert words[words.index('-sandbox') + 1] == SANDBOX


def test_every_thread_is_filtered(confined):
    found = threads(confined)
    assert len(found) >= 4
    assert {(t['Seccomp'], t['NoNewPrivs']) for t in found} == {('2', '1')}


def test_user_without_capabilities(confined, lv):
    user = user_of_emulator(lv)
    for thread in threads(confined):
        assert set(thread['Uid'].split()) == {str(user)}
        assert thread['Gid'].split()[0] != '0' and '0' not in thread['Groups'].split()
        assert int(thread['CapEff'], 16) == int(thread['CapPrm'], 16) == 0


def test_devices_it_sees(confined):
    seen = set(os.listdir(f'/proc/{confined.pid()}/root/dev'))
    assert {'kvm', 'null', 'urandom'} <= seen  # and, of libvirt 11's, userfaultfd
    assert not seen & {'mem', 'loop0', 'fuse', 'net'}


def test_threads_are_in_their_groups(confined):
    """The groups of <cputune>: emulator and vcpuN; libvirt puts threads there by the numbers query-cpus-fast gives."""
    groups = {}
    for task in Path(f'/proc/{confined.pid()}/task').iterdir():
        text = (task / 'cgroup').read_text()
        groups[(task / 'comm').read_text().strip()] = set(re.findall(r'/(emulator|vcpu\d+)$', text, re.MULTILINE))
    if not any(groups.values()):
        pytest.skip('libvirt has no control groups here')
    vcpus = {name: found for name, found in groups.items() if name.startswith('CPU ')}
    assert [found for _, found in sorted(vcpus.items())] == [{'vcpu0'}, {'vcpu1'}]
    # KVM's own thread is a child of the vCPU that ran first.
    others = {name: found for name, found in groups.items() if name not in vcpus and not name.startswith('kvm-nx-')}
    assert set(map(frozenset, others.values())) == {frozenset({'emulator'})}, others


def test_no_program_starts(confined, lv, workdir):
    confined.qmp('migrate-set-capabilities', capabilities=[{'capability': 'mapped-ram', 'state': False}])
    confined.qmp('migrate', uri=f'exec:cat > {workdir}/leak')
    while (info := confined.qmp('query-migrate'))['status'] not in ('completed', 'failed'):
        pass
    assert info['status'] == 'failed' and 'spawn=deny' in info['error-desc']
    assert confined.state() == 'running'
    assert not (workdir / 'leak').exists()


def test_saved_and_restored_within(confined, workdir):
    """pagemap, leases and mappings work for this user in this sandbox; nothing of the memory is lost."""
    path = workdir / 'confined.save'
    confined.save(path)
    confined.restore(path)
    assert confined.check(5) == confined.pages
    assert {(t['Seccomp'], t['NoNewPrivs']) for t in threads(confined)} == {('2', '1')}
    assert 'pagemap_anon:' in confined.log()
    path.unlink()


def test_locked_memory(domain):
    """<locked/>: libvirt raises the limit, and the memory is there at once."""
    if not int(status(Path('/proc/self'))['CapEff'], 16) >> CAP_SYS_RESOURCE & 1:
        pytest.skip('root may not raise limits of resources here')
    locked = domain.boot('locked', memory='64M', elements=LOCKED)
    assert int(status(Path(f'/proc/{locked.pid()}'))['VmLck'].split()[0]) >= 64 << 10
