# The CPU models as libvirt asks for them over QMP, held against what a machine started with them shows.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import pytest
import vm as vmlib

CPU = '/machine/unattached/device[0]'
NOT_FLAGS = {'vendor', 'family', 'model', 'stepping', 'model-id', 'migratable', 'kvm', 'pmu'}


@pytest.fixture(scope='module')
def idle():
    with vmlib.Vm(memory='16M', args=['-S'], serial=False) as machine:
        yield machine


def expand(machine, kind, name, **props):
    model = {'name': name, **({'props': {key.replace('_', '-'): value for key, value in props.items()}} if props else {})}
    return machine.qmp.command('query-cpu-model-expansion', type=kind, model=model)['model']


def flags_on(model):
    return {name for name, value in model['props'].items() if value is True}


def definitions(machine):
    return {entry['name']: entry for entry in machine.qmp.command('query-cpu-definitions')}


def test_definitions(idle):
    known = definitions(idle)
    assert {'host', 'max', 'base', 'qemu64', 'kvm64', 'Nehalem', 'EPYC', 'SapphireRapids'} <= set(known)
    for name in ('host', 'max'):
        assert known[name]['unavailable-features'] == [] and not known[name]['migration-safe']
    assert known['base']['static']
    for name, entry in known.items():
        assert entry['typename'] == f'{name}-x86_64-cpu' and not entry['deprecated']


def test_static_expansion(idle):
    """The model base, and every flag and number: expanding that once more changes nothing."""
    first = expand(idle, 'static', 'host')
    assert first['name'] == 'base' and len(flags_on(first)) > 20
    again = idle.qmp.command('query-cpu-model-expansion', type='static', model=first)['model']
    assert again == first
    assert not flags_on(expand(idle, 'static', 'base'))


def test_full_expansion(idle):
    for name in ('host', 'max', 'qemu64'):
        static, full = expand(idle, 'static', name), expand(idle, 'full', name)
        assert full['name'] == name
        assert set(static['props']) < set(full['props']) and flags_on(static) < flags_on(full)


def test_flags_added_and_taken_away(idle):
    host = flags_on(expand(idle, 'static', 'host'))
    flag = 'sse2' if 'sse2' in host else min(host)
    assert flags_on(expand(idle, 'static', 'host', **{flag: False})) == host - {flag}
    assert flags_on(expand(idle, 'static', 'base', **{flag: True})) == {flag}


def test_model_that_lacks_something_loses_it(idle):
    """What definitions call unavailable is not on in an expansion."""
    for name, entry in definitions(idle).items():
        assert not flags_on(expand(idle, 'static', name)) & set(entry['unavailable-features']), name


@pytest.mark.parametrize('arguments, words', [
    ({'type': 'static', 'model': {'name': 'nonsense'}}, 'nonsense'),
    ({'type': 'nonsense', 'model': {'name': 'host'}}, "'static', 'full'"),
    ({'type': 'full', 'model': {'name': 'host', 'props': {'nonsense': True}}}, 'nonsense'),
    ({'type': 'full', 'model': {'name': 'host', 'props': {'sse2': 'perhaps'}}}, 'sse2.*true or false'),
    ({'type': 'full', 'model': {'name': ''}}, "''"),
    ({'type': 'full', 'model': {}}, 'name'),
    ({'type': 'full'}, 'model'),
])
def test_refused(idle, arguments, words):
    with pytest.raises(vmlib.QmpError, match=words):
        idle.qmp.command('query-cpu-model-expansion', arguments)


@pytest.mark.parametrize('name', ['host', 'qemu64'])
def test_running_cpu_shows_what_was_foretold(machines, name):
    """Without check and enforce what the host lacks is left out, and named."""
    machine = machines.start(cpu=name, memory='16M', args=['-S'], serial=False)
    shown = {entry['name'] for entry in machine.qmp.command('qom-list', path=CPU) if entry['type'] == 'bool'}
    on = {flag for flag in shown - NOT_FLAGS if machine.qmp.command('qom-get', path=CPU, property=flag)}
    full = expand(machine, 'full', name)
    assert on == flags_on(full) - NOT_FLAGS
    lacking = machine.qmp.command('qom-get', path=CPU, property='unavailable-features')
    assert set(lacking) == set(definitions(machine)[name]['unavailable-features'])


def test_places_of_cpus(machines):
    """Each place is taken: none can be plugged in."""
    machine = machines.start(memory='16M', cpus='4,sockets=1,cores=2,threads=2', args=['-S'], serial=False)
    places = machine.qmp.command('query-hotpluggable-cpus')
    running = machine.qmp.command('query-cpus-fast')
    assert [(p['qom-path'], p['props']) for p in places] == [(c['qom-path'], c['props']) for c in running]
    assert {(p['props']['core-id'], p['props']['thread-id']) for p in places} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {(p['type'], p['vcpus-count']) for p in places} == {('host-x86_64-cpu', 1)}
    assert machine.qmp.command('query-machines')[0].get('hotpluggable-cpus', False) is False
