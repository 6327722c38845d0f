# Devices that Cowbird does not have: one clear message in virsh's error and, if the emulator was started, in the domain's log.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest

from daemon import VirshError
from template import expect_early_end

DISK = '<disk type="file" device="{device}"><driver name="qemu" type="raw"/><source file="{file}"/>' \
       '<target dev="{target}" bus="{bus}"/></disk>'

# Name: devices, words of the message.
CASES = {
    'video-vga': ('<video><model type="vga"/></video>', r"video.*vga|vga.*not supported"),
    'video-virtio': ('<video><model type="virtio"/></video>', r"video|virtio-gpu"),
    'graphics-vnc': ('<graphics type="vnc"/>', r'vnc|graphics|video'),
    'usb': ('<controller type="usb" model="qemu-xhci"/>', r'usb|xhci'),
    'tpm': ('<tpm model="tpm-tis"><backend type="emulator"/></tpm>', r'tpm|TPM'),
    'scsi': ('<controller type="scsi" model="virtio-scsi"/>', r'scsi'),
    'disk-virtio': (DISK.format(device='disk', file='{image}', target='vda', bus='virtio'), r'no disks'),
    'disk-ide': (DISK.format(device='disk', file='{image}', target='hda', bus='ide'), r'no disks|[Ii][Dd][Ee]'),
    'cdrom': (DISK.format(device='cdrom', file='{image}', target='hda', bus='ide'), r'no disks|[Ii][Dd][Ee]'),
    'floppy': (DISK.format(device='floppy', file='{image}', target='fda', bus='fdc'), r'no disks|fdc|floppy'),
    'net': ('<interface type="user"><model type="virtio"/></interface>', r'network'),
    'net-e1000': ('<interface type="user"><model type="e1000"/></interface>', r'network|e1000'),
    'sound': ('<sound model="ich6"/>', r'sound|intel-hda'),
    'watchdog': ('<watchdog model="i6300esb" action="reset"/>', r'watchdog|i6300esb'),
    'vsock': ('<vsock model="virtio"><cid auto="yes"/></vsock>', r'vsock'),
    'shared-folder': ('<filesystem type="mount"><source dir="/tmp"/><target dir="x"/></filesystem>',
                      r'filesystem|fsdev|folders|9p'),
    'hyperv': ('', r'hv-|[Hh]yper-?[Vv]'),
}
HYPERV = '<features><acpi/><hyperv><relaxed state="on"/></hyperv></features>'


@pytest.fixture(scope='module')
def image(workdir):
    path = workdir / 'PROBE.image'
    path.write_bytes(b'\0' * (1 << 20))
    path.chmod(0o666)
    return path


@pytest.fixture(scope='module', autouse=True)
def announced(lv):
    """What libvirt logs when an emulator ends early, and of a display for which it adds a card that it then finds odd."""
    expect_early_end(lv)
    lv.expect_complaint('with PCI address 0000:00:02.0 should not have a PCI address')


def explanations(log):
    """What the emulator itself said, without the lines of libvirt around it."""
    return [line for line in log.splitlines() if re.search(r'cowbird-system-x86_64: (?!info: |warning: )', line)]


@pytest.mark.parametrize('name', CASES)
def test_one_clear_message(domain, image, name):
    devices, pattern = CASES[name]
    changes = (lambda xml: xml.replace('<features><acpi/></features>', HYPERV)) if name == 'hyperv' else None
    machine = domain(f'PROBE-bad-{name}', devices=devices.replace('{image}', str(image)), xml_changes=changes)
    try:
        with pytest.raises(VirshError) as failure:
            machine.define().start()
    finally:
        said = explanations(machine.log()) if machine.lv.inside(f'/var/log/libvirt/qemu/{machine.name}.log').exists() else []
    assert re.search(pattern, failure.value.stderr), failure.value.stderr
    assert 'unknown' not in failure.value.stderr.replace('unknown CPU', '')
    assert len(said) <= 1, said
    if said:
        assert re.search(pattern, said[0])


def test_other_machine_types(domain):
    """q35 is not there: libvirt says so before anything is started."""
    machine = domain('PROBE-q35', machine='q35')
    with pytest.raises(VirshError, match='q35'):
        machine.define().start()


def test_unknown_cpu_model(domain):
    machine = domain('PROBE-cpu', cpu='<cpu mode="custom" check="none"><model>Z80</model></cpu>')
    with pytest.raises(VirshError, match='Z80'):
        machine.define().start()


def test_nested_virtualisation_is_refused(domain):
    machine = domain('PROBE-nested', cpu='<cpu mode="host-passthrough"><feature policy="require" name="svm"/></cpu>')
    with pytest.raises(VirshError, match='virtual machines inside virtual machines'):
        machine.define().start()
