#!/usr/bin/python3
# Debian 13's libvirt and QEMU in a chroot, the second version that the tests run against.
#
# The chroot lies in COWBIRD_TRIXIE, or else in trixie/ of COWBIRD_CACHE (default /var/cache/cowbird). "trixie.py create" makes
# it with debootstrap from the machine's own Debian mirror: 700 MiB, some minutes. One that is there is used as it is.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import re
import subprocess
import sys
from pathlib import Path

import keeper

PACKAGES = """libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-daemon-log libvirt-daemon libvirt-clients
    qemu-system-x86 qemu-utils libglib2.0-0t64 libjson-c5 libseccomp2 python3-minimal
    bzip2 lzop xz-utils zstd""".split()
FALLBACK_MIRROR = 'http://deb.debian.org/debian'
ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'LC_ALL': 'C', 'DEBIAN_FRONTEND': 'noninteractive'}


def place():
    cache = os.environ.get('COWBIRD_CACHE', '/var/cache/cowbird')
    return Path(os.environ.get('COWBIRD_TRIXIE', f'{cache}/trixie'))


def path():
    """The chroot; FileNotFoundError, which says what to do, if there is none."""
    root = place()
    if not (root / 'usr/sbin/libvirtd').exists():
        raise FileNotFoundError(f'no libvirt 11 in {root}: make it with tests/libvirt/trixie.py create')
    return root


def mirror():
    """Where this machine's own Debian comes from, among other sources that it may have."""
    for source in [*Path('/etc/apt').glob('sources.list'), *Path('/etc/apt/sources.list.d').glob('*')]:
        for address in re.findall(r'^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s+)?)(https?://\S+)', source.read_text(), re.M):
            if address.rstrip('/').endswith('/debian'):
                return address
    return FALLBACK_MIRROR


def run(*words):
    subprocess.run([str(word) for word in words], check=True, env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL)


def fill(root):
    """All mounts are made in a namespace of this process and end with it."""
    keeper.enter_namespace()
    run('debootstrap', '--variant=minbase', '--include=ca-certificates,iproute2,procps', 'trixie', root, mirror())
    (root / 'etc/resolv.conf').write_text(Path('/etc/resolv.conf').read_text())
    for name in ('/proc', '/sys', '/dev'):
        keeper.mount('--rbind', name, f'{root}{name}')
    policy = root / 'usr/sbin/policy-rc.d'
    policy.write_text('#!/bin/sh\n# Packages start no service in here.\nexit 101\n')
    policy.chmod(0o755)
    run('chroot', root, 'apt-get', 'update', '-q')
    run('chroot', root, 'apt-get', 'install', '-q', '-y', '--no-install-recommends', *PACKAGES)


def create():
    """The name changes when everything is in it, so that a chroot that is there is complete."""
    root = place()
    if root.exists():
        sys.exit(f'{root} exists: use it, or remove it and make it anew')
    partial = root.with_suffix('.partial')
    if partial.exists():
        run('rm', '-rf', '--one-file-system', partial)
    partial.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        fill(partial)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f'the chroot was not made; what there is of it lies in {partial}')
    partial.rename(root)
    print(root)


def main():
    if sys.argv[1:] == ['create']:
        create()
    elif sys.argv[1:] == ['path']:
        try:
            print(path())
        except FileNotFoundError as error:
            sys.exit(str(error))
    else:
        sys.exit('usage: trixie.py create | path')


if __name__ == '__main__':
    main()
