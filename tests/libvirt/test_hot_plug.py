# Channels that come and go while the guest runs, and devices that cannot.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import xml.etree.ElementTree as ElementTree

import pytest

from daemon import VirshError, wait_until

CHANNEL = '<channel type="unix"><target type="virtio" name="org.cowbird.{}"/></channel>'


@pytest.fixture(scope='module')
def machine(module_domain):
    return module_domain.boot('PROBE-plug')


def channels(machine):
    return [entry['name'] for entry in machine.qmp('qom-list', path='/machine/peripheral')
            if entry['type'] == 'child<virtserialport>']


def change(machine, workdir, command, xml):
    path = workdir / f'{machine.name}-device.xml'
    path.write_text(xml)
    return machine.virsh(command, path)


def live_channel(machine, name):
    """The element as libvirt has completed it, which is what detach-device compares with."""
    for element in ElementTree.fromstring(machine.virsh('dumpxml')).iter('channel'):
        if element.find('target').get('name') == name:
            return ElementTree.tostring(element, encoding='unicode')
    raise AssertionError(f'no channel {name}')


@pytest.mark.parametrize('name', ['one', 'two'])
def test_channel_comes_and_goes(machine, workdir, name):
    before, chardevs = channels(machine), machine.qmp('query-chardev')
    assert 'Device attached successfully' in change(machine, workdir, 'attach-device', CHANNEL.format(name))
    assert len(channels(machine)) == len(before) + 1
    assert len(machine.qmp('query-chardev')) == len(chardevs) + 1
    assert f'org.cowbird.{name}' in machine.virsh('dumpxml')
    change(machine, workdir, 'detach-device', live_channel(machine, f'org.cowbird.{name}'))
    wait_until(lambda: channels(machine) == before, 'the channel has gone')
    wait_until(lambda: len(machine.qmp('query-chardev')) == len(chardevs), 'its character device has gone')
    machine.console.command('smp')


def test_saved_with_a_channel_that_came_later(domain, workdir):
    plugged = domain.boot('PROBE-plug-save', memory='64M')
    change(plugged, workdir, 'attach-device', CHANNEL.format('later'))
    plugged.fill(5)
    plugged.save(workdir / 'PROBE-plug.save')
    plugged.restore(workdir / 'PROBE-plug.save')
    plugged.check(5)
    assert len(channels(plugged)) == 2


@pytest.mark.parametrize('xml, words', [
    ('<rng model="virtio"><backend model="random">/dev/urandom</backend></rng>', 'running machine'),
    ('<interface type="user"><model type="virtio"/></interface>', 'network'),
], ids=['rng', 'net'])
def test_what_cannot_be_added(machine, workdir, xml, words):
    with pytest.raises(VirshError, match=words):
        change(machine, workdir, 'attach-device', xml)
    assert machine.state() == 'running'


def test_what_cannot_be_removed(machine, workdir):
    with pytest.raises(VirshError, match='stays as long as the machine does'):
        change(machine, workdir, 'detach-device',
               '<rng model="virtio"><backend model="random">/dev/urandom</backend></rng>')
