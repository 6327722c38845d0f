# What a running machine tells of itself: KVM's statistics, the dirty rate, disks and jobs that are not there, keys.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import time

import pytest
import vm as vmlib

MIB = 1 << 20
HALT_POLL = ['halt_poll_success_ns', 'halt_poll_fail_ns']


def values(result):
    return {s['name']: s['value'] for s in result['stats']}


def vcpu_path(i):
    return f'/machine/unattached/device[{i}]'


@pytest.fixture
def machine(machines):
    return machines.boot(cpus=2)


def test_statistics_of_the_machine(machine):
    results = machine.qmp.command('query-stats', target='vm')
    assert len(results) == 1 and results[0]['provider'] == 'kvm' and 'qom-path' not in results[0]
    assert values(results[0])['remote_tlb_flush'] >= 0


def test_statistics_of_each_cpu(machine):
    before = machine.qmp.command('query-stats', target='vcpu')
    assert [r['qom-path'] for r in before] == [vcpu_path(0), vcpu_path(1)]
    assert [r['qom-path'] for r in before] == [c['qom-path'] for c in machine.qmp.command('query-cpus-fast')]
    for _ in range(20):
        machine.console.command('ping')
    after = machine.qmp.command('query-stats', target='vcpu')
    assert values(after[0])['exits'] > values(before[0])['exits']


def test_statistics_by_name_as_libvirt_asks(machine):
    results = machine.qmp.command('query-stats', target='vcpu', providers=[{'provider': 'kvm', 'names': HALT_POLL}])
    assert [list(values(r)) for r in results] == [HALT_POLL, HALT_POLL]
    assert machine.qmp.command('query-stats', target='vcpu', providers=[{'provider': 'kvm', 'names': ['nonsense']}]) == []
    assert machine.qmp.command('query-stats', target='vcpu', providers=[]) == []


def test_statistics_of_one_cpu(machine):
    results = machine.qmp.command('query-stats', target='vcpu', vcpus=[vcpu_path(1)])
    assert [r['qom-path'] for r in results] == [vcpu_path(1)]
    assert machine.qmp.command('query-stats', target='vcpu', vcpus=['/nowhere']) == []


@pytest.mark.parametrize('arguments', [{}, {'target': 'nonsense'}, {'target': 'vm', 'vcpus': []}, {'target': 'vcpu', 'providers': [{}]},
                                       {'target': 'vm', 'providers': [{'provider': 'nonsense'}]}])
def test_statistics_bad_arguments(machine, arguments):
    with pytest.raises(vmlib.QmpError):
        machine.qmp.command('query-stats', arguments)


def test_schemas_describe_what_is_there(machine):
    schemas = {s['target']: s for s in machine.qmp.command('query-stats-schemas')}
    assert set(schemas) == {'vm', 'vcpu'}
    for target, schema in schemas.items():
        found = machine.qmp.command('query-stats', target=target)[0]['stats']
        assert [s['name'] for s in schema['stats']] == [s['name'] for s in found]
        for description, stat in zip(schema['stats'], found):
            histogram = description['type'].endswith('histogram')
            boolean = description.get('unit') == 'boolean'
            assert isinstance(stat['value'], list if histogram else bool if boolean else int), stat
            assert isinstance(stat['value'], bool) == boolean
    units = {s['name']: (s.get('unit'), s.get('base'), s['exponent']) for s in schemas['vcpu']['stats']}
    assert units['halt_poll_success_ns'] == ('seconds', 10, -9)
    assert units['exits'] == (None, None, 0)
    assert machine.qmp.command('query-stats-schemas', provider='kvm') == machine.qmp.command('query-stats-schemas')


def test_statistics_do_not_disturb_the_guest(machine):
    machine.console.begin(f'churn {16 * MIB} {16 * MIB}')
    for _ in range(200):
        machine.qmp.command('query-stats', target='vcpu')
    assert machine.console.end()['wrong'] == 0
    assert not [e for e in machine.qmp.events if e['event'] in ('STOP', 'RESUME')]


def test_machine_none_has_no_statistics(machines):
    machine = machines.start(machine='none', cpu=None, kernel='', serial=False, args=['-S'])
    assert machine.qmp.command('query-stats', target='vm') == []
    assert machine.qmp.command('query-stats-schemas') == []
    with pytest.raises(vmlib.QmpError, match='no memory'):
        machine.qmp.command('calc-dirty-rate', calc_time=1)


# The dirty rate

def measure(machine, **arguments):
    """Begin a measurement of a second and wait for its end."""
    machine.qmp.command('calc-dirty-rate', calc_time=1, **arguments)
    begun = machine.qmp.command('query-dirty-rate')
    assert begun['status'] == 'measuring' and 'dirty-rate' not in begun
    deadline = time.monotonic() + 30
    while (info := machine.qmp.command('query-dirty-rate'))['status'] == 'measuring':
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert info['status'] == 'measured' and info['calc-time'] == 1 and info['mode'] == 'page-sampling'
    return info


def test_dirty_rate_before_any(machine):
    assert machine.qmp.command('query-dirty-rate') == {
        'status': 'unstarted', 'start-time': 0, 'calc-time': 0, 'sample-pages': 512, 'mode': 'page-sampling'}


def test_dirty_rate_of_an_idle_guest(machine):
    machine.console.fill(3)
    info = measure(machine)
    assert info['dirty-rate'] < 8
    assert abs(info['start-time'] - time.monotonic()) < 30


def test_dirty_rate_of_a_writing_guest(machine):
    """Half of memory is rewritten all the time: about 128 MiB a second, each page counted once."""
    machine.console.begin(f'churn {64 * MIB} {128 * MIB}')
    info = measure(machine, sample_pages=4096)
    machine.console.end()
    assert info['sample-pages'] == 4096
    assert 40 < info['dirty-rate'] < 160


def test_dirty_rate_of_new_pages(machine):
    """Pages that were not there at first count as well."""
    machine.qmp.command('calc-dirty-rate', calc_time=1, sample_pages=4096)
    time.sleep(0.2)
    machine.console.fill(3)
    while (info := machine.qmp.command('query-dirty-rate'))['status'] == 'measuring':
        time.sleep(0.05)
    assert 60 < info['dirty-rate'] < 270


def test_dirty_rate_reads_nothing_of_the_snapshot(machines, saved):
    """A clone's pages stay in the file: looking at them would load them."""
    clone = machines.restore(saved.path, 'copy-on-write', memory=saved.options['memory'])
    clone.console.command('ping')
    before = rss(clone)
    assert measure(clone, sample_pages=4096)['dirty-rate'] < 8
    assert rss(clone) - before < 512


def rss(machine):
    """Resident KiB of the VMM."""
    with open(f'/proc/{machine.pid}/status') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))


@pytest.mark.parametrize('arguments, word', [
    ({'calc-time': 0}, 'calc-time'), ({'calc-time': 61}, 'calc-time'), ({'calc-time': -1}, 'calc-time'),
    ({'calc-time': 1, 'sample-pages': 127}, 'sample-pages'), ({'calc-time': 1, 'sample-pages': 4097}, 'sample-pages'),
    ({'calc-time': 1, 'mode': 'dirty-ring'}, 'mode'), ({}, 'calc-time')])
def test_dirty_rate_bad_arguments(machine, arguments, word):
    with pytest.raises(vmlib.QmpError, match=word):
        machine.qmp.command('calc-dirty-rate', arguments)


def test_dirty_rate_one_at_a_time_and_quit_during_it(machine):
    machine.qmp.command('calc-dirty-rate', calc_time=60)
    with pytest.raises(vmlib.QmpError, match='already'):
        machine.qmp.command('calc-dirty-rate', calc_time=1)
    assert machine.quit() == 0


# What is not there

@pytest.mark.parametrize('command, arguments', [
    ('query-block', {}), ('query-blockstats', {}), ('query-blockstats', {'query-nodes': True}), ('query-named-block-nodes', {'flat': True}),
    ('query-block-jobs', {}), ('query-jobs', {})])
def test_no_disks_no_jobs(machine, command, arguments):
    assert machine.qmp.command(command, arguments) == []


@pytest.mark.parametrize('key', [{'type': 'number', 'data': 29}, {'type': 'qcode', 'data': 'ctrl'}])
def test_there_is_no_keyboard(machine, key):
    with pytest.raises(vmlib.QmpError, match='no keyboard'):
        machine.qmp.command('send-key', keys=[key])
    assert machine.console.command('ping') == 'pong'
