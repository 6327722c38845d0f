# A host that cannot run guests, or has too little of something: a clear error and exit status 1.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess

import pytest
import vm as vmlib

ARGUMENTS = ['-nodefaults', '-display', 'none', '-machine', 'pc', '-accel', 'kvm', '-m', '128M', '-S']


def failure_of(prefix, *arguments, **options):
    done = subprocess.run([*prefix, vmlib.vmm_path(), *ARGUMENTS, *arguments], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason='a mount namespace of one\'s own needs root')
def test_no_dev_kvm():
    text = failure_of(['unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /dev && exec "$0" "$@"'])
    assert '/dev/kvm' in text and 'No such file' in text


@pytest.mark.skipif(os.geteuid() != 0, reason='becoming another user needs root')
def test_no_permission(tmp_path_factory):
    text = failure_of(['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'])
    assert '/dev/kvm' in text and 'Permission denied' in text and 'kvm' in text


def test_kernel_that_is_none(folder):
    (folder / 'k').write_bytes(b'nothing like a kernel' * 1000)
    assert str(folder / 'k') in failure_of([], '-kernel', folder / 'k')
    (folder / 'k').write_bytes(b'')
    assert str(folder / 'k') in failure_of([], '-kernel', folder / 'k')
    assert '/nonexistent' in failure_of([], '-kernel', '/nonexistent')


@pytest.mark.parametrize('cut', [10, 1000, 400000])
def test_kernel_cut_short(folder, cut):
    for image in (vmlib.guest_elf(), vmlib.guest_bzimage()):
        (folder / 'k').write_bytes(image.read_bytes()[:cut])
        assert str(folder / 'k') in failure_of([], '-kernel', folder / 'k')


def test_initrd_that_does_not_fit(folder):
    with open(folder / 'i', 'wb') as file:
        file.truncate(200 << 20)
    assert str(folder / 'i') in failure_of([], '-kernel', vmlib.guest_elf(), '-initrd', folder / 'i')


def test_memory_that_cannot_be_reserved():
    text = failure_of([], preexec_fn=lambda: __import__('resource').setrlimit(__import__('resource').RLIMIT_AS, (64 << 20,) * 2))
    assert 'memory' in text.lower()
