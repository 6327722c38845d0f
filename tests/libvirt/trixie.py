# Debian 13's libvirt and QEMU in a chroot, the second version that the tests run against.
#
# The chroot lies in COWBIRD_TRIXIE, or else in trixie/ of COWBIRD_CACHE (default /var/cache/cowbird). "trixie.py create" makes
# it from the machine's own Debian mirror, about 500 MiB, in some minutes; one that is complete is used as it is.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
from pathlib import Path


def path():
    """The chroot; FileNotFoundError, which says what to do, if there is none."""
    cache = os.environ.get('COWBIRD_CACHE', '/var/cache/cowbird')
    root = Path(os.environ.get('COWBIRD_TRIXIE', f'{cache}/trixie'))
    if not (root / 'usr/sbin/libvirtd').exists():
        raise FileNotFoundError(f'no libvirt 11 in {root}: make it with tests/libvirt/trixie.py create')
    return root
