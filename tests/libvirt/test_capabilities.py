# What libvirt finds out about Cowbird, and every CPU mode and timer that it may ask for.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from daemon import VirshError, wanted_version
from domain import QmpFailed


@pytest.fixture(scope='module')
def capabilities(lv, emulator):
    """The document of domcapabilities, and what the daemon complained about meanwhile."""
    mark = lv.log_mark()
    text = lv.virsh('domcapabilities', '--emulatorbin', emulator, '--virttype', 'kvm')
    return ElementTree.fromstring(text), lv.complaints(mark)


def supported(root, path):
    return root.find(path).get('supported') == 'yes'


def mode(root, name):
    return root.find(f"./cpu/mode[@name='{name}']")


def test_probe_leaves_no_complaint(capabilities):
    assert not capabilities[1]


def test_machine_and_cpus(capabilities):
    root = capabilities[0]
    assert root.findtext('domain') == 'kvm'
    assert root.findtext('machine') == 'pc-i440fx-8.2'
    assert int(root.find('vcpu').get('max')) >= 64


def test_cpu_modes(capabilities):
    root = capabilities[0]
    for name in ('host-passthrough', 'maximum', 'host-model', 'custom'):
        assert mode(root, name).get('supported') == 'yes', name
    models = {model.text for model in mode(root, 'custom').findall('model')}
    assert {'qemu64', 'kvm64', 'core2duo', 'Nehalem', 'Haswell-noTSX', 'Skylake-Server', 'EPYC', 'EPYC-Milan'} <= models
    if wanted_version() >= 11:
        assert {'SapphireRapids', 'EPYC-Genoa'} <= models


def test_usable_models_lack_nothing(capabilities, domain):
    """A model is usable for libvirt if and only if Cowbird names no unavailable feature of it."""
    machine = domain('PROBE-definitions').define().start(paused=True)
    lacking = {entry['name']: entry['unavailable-features'] for entry in machine.qmp('query-cpu-definitions')}
    for model in mode(capabilities[0], 'custom').findall('model'):
        assert (model.get('usable') == 'yes') == (not lacking[model.text]), model.text


def test_devices(capabilities):
    root = capabilities[0]
    assert supported(root, './devices/rng')
    assert not supported(root, './devices/tpm')
    assert not supported(root, './features/sev')
    assert {value.text for value in root.findall("./devices/rng/enum[@name='backendModel']/value")} >= {'random', 'builtin'}
    assert {value.text for value in root.findall("./memoryBacking/enum[@name='sourceType']/value")} == {
        'file', 'anonymous', 'memfd'}


def test_version(domain):
    """Interface level 8.2.0 and a package string of our own."""
    machine = domain('PROBE-version').define().start(paused=True)
    version = machine.qmp('query-version')
    assert version['qemu'] == {'major': 8, 'minor': 2, 'micro': 0}
    assert re.fullmatch(r'cowbird-\d+\.\d+\.\d+', version['package'])


def command_line(machine):
    """The words of the running emulator."""
    with open(f'/proc/{machine.pid()}/cmdline', encoding='utf-8') as file:
        return file.read().split('\0')


def test_json_everywhere(domain):
    """The three witnesses of the schema: objects, devices and back ends come as JSON."""
    machine = domain('PROBE-json').define().start(paused=True)
    words = command_line(machine)
    for option in ('-object', '-device', '-audiodev'):
        values = [words[i + 1] for i, word in enumerate(words) if word == option]
        assert values
        for value in values:
            json.loads(value)
    assert words[words.index('-sandbox') + 1].startswith('on,')


CPUS = {
    'none': '',
    'passthrough': '<cpu mode="host-passthrough"/>',
    'passthrough-not-migratable': '<cpu mode="host-passthrough" migratable="off"/>',
    'host-model': '<cpu mode="host-model"/>',
    'maximum': '<cpu mode="maximum"/>',
    'custom-unchecked': '<cpu mode="custom" check="none"><model fallback="forbid">Nehalem</model></cpu>',
    'custom-other-vendor': '<cpu mode="custom" check="none"><model fallback="forbid">EPYC-Rome</model></cpu>',
    'features': '<cpu mode="host-passthrough"><feature policy="disable" name="x2apic"/>'
                '<feature policy="require" name="hypervisor"/></cpu>',
    'topology': '<cpu mode="host-passthrough"><topology sockets="1" dies="1" cores="2" threads="1"/></cpu>',
    'hidden': '<cpu mode="host-passthrough"/>',
}


@pytest.mark.parametrize('name', CPUS)
def test_cpu_mode_runs(domain, name):
    elements = '<features><acpi/><kvm><hidden state="on"/></kvm></features>'
    changes = (lambda xml: xml.replace('<features><acpi/></features>', elements)) if name == 'hidden' else None
    machine = domain.boot(f'PROBE-{name}', cpu=CPUS[name], vcpus=2, console=True, balloon=False, rng=False, agent=False,
                          xml_changes=changes)
    assert machine.state() == 'running'


@pytest.mark.parametrize('check', ['partial', 'full'])
def test_checked_custom_model(domain, capabilities, check):
    """A model of which nothing is missing starts; one that lacks features is refused with their names."""
    models = mode(capabilities[0], 'custom').findall('model')
    for wanted in ('yes', 'no'):
        names = [model.text for model in models if model.get('usable') == wanted and model.text != 'kvm64']
        if not names:
            continue
        cpu = f'<cpu mode="custom" match="exact" check="{check}"><model fallback="forbid">{names[0]}</model></cpu>'
        machine = domain(f'PROBE-check-{check}-{wanted}', cpu=cpu, console=False).define()
        if wanted == 'yes':
            machine.start(paused=True)
        elif check == 'full':
            with pytest.raises(VirshError, match="doesn't match specification: .*missing features: "):
                machine.start(paused=True)


def test_checked_custom_model_that_the_host_can(domain):
    """Take away what the host lacks, and the same model passes the full check."""
    probe = domain('PROBE-lacking').define().start(paused=True)
    lacking = {entry['name']: entry['unavailable-features'] for entry in probe.qmp('query-cpu-definitions')}
    probe.destroy()
    features = ''.join(f'<feature policy="disable" name="{name}"/>' for name in ['svm', *lacking['qemu64']])
    features += '<feature policy="require" name="x2apic"/><feature policy="require" name="hypervisor"/>'
    cpu = f'<cpu mode="custom" match="exact" check="full"><model fallback="forbid">qemu64</model>{features}</cpu>'
    machine = domain.boot('PROBE-full', cpu=cpu)
    assert machine.state() == 'running'
    assert machine.qmp('qom-get', path='/machine/unattached/device[0]', property='unavailable-features') == []


def test_features_of_the_running_domain(domain):
    """libvirt writes what it learns of the CPU into the live XML, which is what a saved domain is restored with."""
    cpu = '<cpu mode="custom" match="exact" check="partial"><model fallback="forbid">qemu64</model></cpu>'
    for name, words in (('host-model', '<cpu mode="host-model"/>'), ('partial', cpu.replace('partial', 'none'))):
        machine = domain(f'PROBE-live-{name}', cpu=words).define().start(paused=True)
        live = ElementTree.fromstring(machine.virsh('dumpxml')).find('cpu')
        disabled = {feature.get('name') for feature in live.findall('feature') if feature.get('policy') == 'disable'}
        assert not disabled & {'fpu', 'tsc', 'msr', 'pae', 'apic', 'sse2', 'lm', 'nx'}


def test_host_model_is_saved_and_restored(domain, workdir):
    machine = domain.boot('PROBE-save', memory='64M', cpu='<cpu mode="host-model"/>')
    machine.fill(3)
    machine.save(workdir / 'PROBE.save')
    machine.restore(workdir / 'PROBE.save')
    machine.check(3)


def test_expansion_of_the_model_that_runs(domain):
    machine = domain('PROBE-expansion').define().start(paused=True)
    reply = machine.qmp('query-cpu-model-expansion', type='static', model={'name': 'host'})
    assert reply['model']['name'] == 'base'
    assert reply['model']['props']['sse2'] is True and reply['model']['props']['svm'] is False
    # What an expansion says can be given back, and means the same.
    again = machine.qmp('query-cpu-model-expansion', type='static', model=reply['model'])
    assert again == reply
    with pytest.raises(QmpFailed, match="unknown CPU model 'hots'"):
        machine.qmp('query-cpu-model-expansion', type='full', model={'name': 'hots'})


TIMERS = {
    'rtc-catchup': '<timer name="rtc" tickpolicy="catchup"/>',
    'rtc-guest': '<timer name="rtc" track="guest"/>',
    'pit-delay': '<timer name="pit" tickpolicy="delay"/>',
    'no-hpet': '<timer name="hpet" present="no"/>',
    'kvmclock': '<timer name="kvmclock" present="yes"/>',
    'no-kvmclock': '<timer name="kvmclock" present="no"/>',
}


@pytest.mark.parametrize('name', TIMERS)
def test_timer(domain, name):
    machine = domain.boot(f'PROBE-{name}', elements=f'<clock offset="utc">{TIMERS[name]}</clock>')
    assert machine.state() == 'running'


@pytest.mark.parametrize('pm', ['<pm><suspend-to-mem enabled="no"/><suspend-to-disk enabled="no"/></pm>',
                                '<pm><suspend-to-disk enabled="yes"/></pm>'], ids=['off', 'disk-on'])
def test_power_management(domain, pm):
    assert domain.boot('PROBE-pm', elements=pm).state() == 'running'


def test_without_acpi(domain):
    machine = domain.boot('PROBE-no-acpi', xml_changes=lambda xml: xml.replace('<features><acpi/></features>', ''))
    assert machine.state() == 'running'


@pytest.mark.parametrize('backing', ['<source type="memfd"/><access mode="shared"/>', '<source type="file"/>',
                                     '<source type="anonymous"/>', '<nosharepages/>'],
                         ids=['memfd', 'file', 'anonymous', 'nosharepages'])
def test_memory_backing(domain, backing):
    machine = domain.boot('PROBE-memory', memory='64M', elements=f'<memoryBacking>{backing}</memoryBacking>')
    assert machine.state() == 'running'
