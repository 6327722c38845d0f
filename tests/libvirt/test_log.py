# The daemon's log of the whole run has no warning and no error that Cowbird caused. Runs last (conftest.py).
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

# What libvirt says on its own account, and why.
HARMLESS = {
    r"Unable to find 'dnsmasq' binary": 'no virtual networks are used',
    r'Unable to get system bus connection': 'no D-Bus here',
    r'DBus not available, disabling firewalld': 'no D-Bus here',
    r'Failed to get udev device for syspath': 'no udev here',
    r'Child process \(\S*/dmidecode .*\) unexpected exit status': 'no firmware tables on this host',
    r'Configured security driver "none" disables': 'daemon.py asks for it',
    r'getaddrinfo failed for': 'the name of this machine stands in no table',
    r'is tainted: (host-cpu|custom-argv|custom-monitor)': 'libvirt notes what the test wants of it',
    r"'/sys/fs/cgroup/\S+/cgroup\.threads': No such file": 'of version 2, looked for in version 1 at every reconnect, QEMU or not',
    r'Make forcefull daemon shutdown': 'libvirt 11.3 gives a thread of its own 30 s to end',
    r'virNetSocketReadWire:\d+ : (End of file|Cannot recv data)': 'a virsh that a test ended, or one of a daemon that ended',
}


def unexplained(lv, mark=0):
    """The complaints that neither libvirt's surroundings nor a test accounts for, a line each, with the test that ran."""
    found = []
    for level, text, test in lv.complaints(mark):
        known = any(re.search(pattern, text) for pattern in HARMLESS) or any(part in text for part in lv.expected)
        if not known:
            found.append(f'{test}: {level}: {text}')
    return found


def test_log_has_no_complaint_of_ours(lv):
    assert lv.log_mark() > 0
    left = unexplained(lv)
    assert not left, '\n'.join(left)


def test_a_complaint_would_be_found(lv):
    """An emulator that is no emulator leaves an error in the log, and the list of what is harmless does not hide it."""
    mark, expected = lv.log_mark(), list(lv.expected)
    lv.virsh('domcapabilities', '--emulatorbin', '/bin/false', check=False)
    provoked = [line for line in lv.expected if line not in expected]
    lv.expected = expected
    try:
        assert unexplained(lv, mark)
    finally:
        lv.expected = expected + provoked
