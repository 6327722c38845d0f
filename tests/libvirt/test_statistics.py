# What virsh tells of a running domain, and the limits it sets: a command a test. They share two domains, which nobody ends.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import time

import pytest
from daemon import VirshError, wait_until
from expected import fields, has_lines, prints

MIB = 1 << 20


@pytest.fixture(scope='module')
def shared(module_domain):
    """256 MiB, two CPUs, balloon started by its driver."""
    machine = module_domain.boot('stats', memory='256M', vcpus=2)
    machine.console.command('balloon-start')
    return machine


@pytest.fixture(scope='module')
def bare(module_domain):
    """Without balloon, rng and agent."""
    return module_domain.boot('stats-bare', memory='128M', balloon=False, rng=False, agent=False)


# What it is

def test_dominfo(shared):
    text = shared.virsh('dominfo')
    prints('\n'.join(line for line in text.splitlines() if 'Autostart Once' not in line), f'''
        Id: <n>
        Name: {shared.name}
        UUID: {shared.uuid}
        OS Type: hvm
        State: running
        CPU(s): 2
        CPU time: <t>
        Max memory: 262144 KiB
        Used memory: 262144 KiB
        Persistent: yes
        Autostart: disable
        Managed save: no
        Security model: none
        Security DOI: 0''')


def test_domid(shared):
    assert int(shared.virsh('domid')) > 0


def test_domuuid(shared):
    assert shared.virsh('domuuid').strip() == shared.uuid


def test_domname(shared):
    assert shared.lv.virsh('domname', shared.uuid).strip() == shared.name


def test_list(shared):
    has_lines(shared.lv.virsh('list'), f'<n> {shared.name} running')


def test_domstate_with_reason(shared):
    assert shared.virsh('domstate', '--reason').strip() == 'running (booted)'


def test_domcontrol(shared):
    assert shared.virsh('domcontrol').strip() == 'ok'


def test_dumpxml_has_what_was_asked_for(shared):
    text = shared.virsh('dumpxml')
    for part in ('<memory unit=\'KiB\'>262144</memory>', '<memballoon model=\'virtio\'>', '<rng model=\'virtio\'>',
                 '<source path=\'/dev/pts/', 'state=\'disconnected\'', '<alias name=\'virtio-serial0\'/>'):
        assert part in text, part


def test_domblklist(shared):
    prints(shared.virsh('domblklist'), 'Target Source\n-----<any>')


def test_domiflist(shared):
    prints(shared.virsh('domiflist'), 'Interface Type Source Model MAC\n-----<any>')


def test_domblkstat_of_no_disk(shared):
    with pytest.raises(VirshError, match='invalid path: vda'):
        shared.virsh('domblkstat', 'vda')


def test_domjobinfo(shared):
    prints(shared.virsh('domjobinfo'), 'Job type: None')


def test_domjobabort_without_job(shared):
    with pytest.raises(VirshError, match='no job is active'):
        shared.virsh('domjobabort')


def test_screenshot(shared):
    with pytest.raises(VirshError, match='no screens to take screenshot from'):
        shared.virsh('screenshot')


# CPUs

def test_vcpuinfo(shared):
    text = shared.virsh('vcpuinfo')
    has_lines(text, 'VCPU: 0\nVCPU: 1\nState: running\nCPU time: <t>\nCPU Affinity: <word>')
    assert text.count('State:') == 2


def test_vcpucount(shared):
    prints(shared.virsh('vcpucount'), 'maximum config 2\nmaximum live 2\ncurrent config 2\ncurrent live 2')


def affinity(thread):
    with open(f'/proc/{thread}/status') as status:
        return next(line.split()[1] for line in status if line.startswith('Cpus_allowed_list'))


def threads(machine):
    return [cpu['thread-id'] for cpu in machine.qmp('query-cpus-fast')]


def test_vcpupin_shows(shared):
    has_lines(shared.virsh('vcpupin'), 'VCPU CPU Affinity\n0 <word>\n1 <word>')


def test_vcpupin_binds_the_thread_of_the_cpu(shared):
    shared.virsh('vcpupin', '--vcpu', '1', '--cpulist', '0', '--live')
    assert affinity(threads(shared)[1]) == '0'
    assert affinity(threads(shared)[0]) != '0' or affinity(1) == '0'
    has_lines(shared.virsh('vcpupin'), '1 0')
    shared.virsh('vcpupin', '--vcpu', '1', '--cpulist', '0-1', '--live')
    shared.console.command('smp')


def test_emulatorpin(shared):
    shared.virsh('emulatorpin', '--cpulist', '0', '--live')
    has_lines(shared.virsh('emulatorpin'), 'emulator: CPU Affinity\n*: 0')
    assert affinity(shared.pid()) == '0'
    shared.virsh('emulatorpin', '--cpulist', '0-1', '--live')


def test_setvcpus_is_refused(shared):
    with pytest.raises(VirshError, match='hotpluggable vcpus'):
        shared.virsh('setvcpus', '--count', '1', '--live')
    prints(shared.virsh('vcpucount', '--live', '--current'), '2')


def test_iothreadinfo(shared):
    assert 'No IOThreads found for the domain' in shared.virsh('iothreadinfo')


# Limits of cgroups, where our threads must be where libvirt looks for them

def test_schedinfo_shows(shared):
    has_lines(shared.virsh('schedinfo'), 'Scheduler : posix\ncpu_shares : <n>\nvcpu_quota : -1\nemulator_quota : -1')


@pytest.mark.parametrize('setting', ['cpu_shares=512', 'vcpu_quota=50000', 'emulator_quota=50000', 'global_quota=150000'])
def test_schedinfo_sets(shared, setting):
    name, value = setting.split('=')
    shared.virsh('schedinfo', '--set', setting, '--live')
    has_lines(shared.virsh('schedinfo'), f'{name} : {value}')
    shared.virsh('schedinfo', '--set', f'{name}={"1024" if name == "cpu_shares" else "-1"}', '--live')
    shared.console.command('smp')


def test_blkiotune(shared):
    shared.virsh('blkiotune', '--weight', '500', '--live')
    has_lines(shared.virsh('blkiotune'), 'weight : 500')


def test_memtune(shared):
    shared.virsh('memtune', '--hard-limit', '1G', '--live')
    has_lines(shared.virsh('memtune'), 'hard_limit : 1048576\nsoft_limit : unlimited')


def test_numatune(shared):
    has_lines(shared.virsh('numatune'), 'numa_mode : strict')


LIMITS = """
    <iothreads>1</iothreads>
    <cputune><shares>700</shares><vcpupin vcpu="0" cpuset="0"/><vcpupin vcpu="1" cpuset="0"/><emulatorpin cpuset="0"/>
      <iothreadpin iothread="1" cpuset="0"/></cputune>
    <blkiotune><weight>300</weight></blkiotune>"""


@pytest.fixture(scope='module')
def limited(module_domain):
    """A domain whose XML has the limits from the start."""
    return module_domain.boot('stats-limits', memory='128M', vcpus=2, elements=LIMITS)


def test_limits_of_the_xml(limited):
    assert [affinity(thread) for thread in (*threads(limited), limited.pid())] == ['0'] * 3
    has_lines(limited.virsh('schedinfo'), 'cpu_shares : 700')
    has_lines(limited.virsh('blkiotune'), 'weight : 300')


def iothreads(machine):
    return {thread['id']: thread['thread-id'] for thread in machine.qmp('query-iothreads')}


def test_iothreadinfo_and_iothreadpin(limited):
    has_lines(limited.virsh('iothreadinfo'), '1 0')
    assert affinity(iothreads(limited)['iothread1']) == '0'
    limited.virsh('iothreadpin', '1', '0-1', '--live')
    has_lines(limited.virsh('iothreadinfo'), '1 0-1')
    assert affinity(iothreads(limited)['iothread1']) != '0' or affinity(1) == '0'


def test_iothreadadd_and_iothreaddel(limited):
    limited.virsh('iothreadadd', '7', '--live')
    assert set(iothreads(limited)) == {'iothread1', 'iothread7'}
    has_lines(limited.virsh('iothreadinfo'), '7 <word>')
    limited.virsh('iothreaddel', '7', '--live')
    assert set(iothreads(limited)) == {'iothread1'}


# Memory

def test_dommemstat_with_what_the_guest_tells(shared):
    shared.virsh('dommemstat', '--period', '1', '--live')
    for _ in range(2):
        shared.console.command(f'balloon-stats 10 {MIB}')
    found = fields(shared.virsh('dommemstat'))
    assert found['actual'] == '262144' and int(found['rss']) > 1000
    assert found['swap_in'] == found['unused'] == found['available'] == found['usable'] == found['disk_caches'] == '1024'
    assert found['major_fault'] == str(MIB + 2)
    assert abs(int(found['last_update']) - time.time()) < 60
    shared.virsh('dommemstat', '--period', '0', '--live')


def test_dommemstat_without_balloon(bare):
    found = fields(bare.virsh('dommemstat'))
    assert set(found) == {'rss'} and int(found['rss']) > 1000


def wait_used(machine, memory):
    """dominfo shows what the last BALLOON_CHANGE said, of which there is one a second at most."""
    wait_until(lambda: fields(machine.virsh('dominfo'), ':')['Used memory'] == memory, f'{memory} are used', 10, pause=0.1)


def test_setmem(shared):
    shared.virsh('setmem', '--size', '200M', '--live')
    assert shared.console.fields('balloon-config')['target'] == 56 * 256
    shared.console.command(f'inflate {64 * MIB} {56 * MIB}')
    assert fields(shared.virsh('dommemstat'))['actual'] == '204800'
    wait_used(shared, '204800 KiB')
    has_lines(shared.virsh('dominfo'), 'Max memory: 262144 KiB')
    shared.virsh('setmem', '--size', '256M', '--live')
    shared.console.command(f'deflate {64 * MIB} {56 * MIB}')
    wait_used(shared, '262144 KiB')


def test_setmem_without_balloon_is_refused(bare):
    with pytest.raises(VirshError, match='balloon'):
        bare.virsh('setmem', '--size', '100M', '--live')


def test_setmaxmem_is_refused(shared):
    with pytest.raises(VirshError, match='cannot resize the maximum memory on an active domain'):
        shared.virsh('setmaxmem', '--size', '512M', '--live')


# domstats, group by group

def group(machine, name):
    text = machine.virsh('domstats', f'--{name}')
    assert text.splitlines()[0] == f"Domain: '{machine.name}'"
    return fields(text, '=')


def test_domstats_state(shared):
    assert group(shared, 'state') == {'state.state': '1', 'state.reason': '1'}


def test_domstats_cpu_total(shared):
    found = group(shared, 'cpu-total')
    assert int(found['cpu.time']) > 0
    assert int(found['cpu.haltpoll.success.time']) >= 0 and int(found['cpu.haltpoll.fail.time']) >= 0


def test_domstats_balloon(shared):
    found = group(shared, 'balloon')
    assert found['balloon.current'] == found['balloon.maximum'] == '262144'
    assert int(found['balloon.rss']) > 1000


def test_domstats_vcpu(shared):
    before = group(shared, 'vcpu')
    assert before['vcpu.current'] == before['vcpu.maximum'] == '2'
    assert before['vcpu.0.state'] == before['vcpu.1.state'] == '1'
    shared.console.command('ping')
    after = group(shared, 'vcpu')
    assert int(after['vcpu.0.exits.sum']) > int(before['vcpu.0.exits.sum'])
    assert after['vcpu.1.guest_mode.cur'] in ('yes', 'no')


def test_domstats_vm(shared):
    assert int(group(shared, 'vm')['vm.remote_tlb_flush.sum']) >= 0


def test_domstats_interface(shared):
    assert group(shared, 'interface') == {'net.count': '0'}


def test_domstats_block(shared):
    assert group(shared, 'block') == {'block.count': '0'}


def test_domstats_block_with_backing(shared):
    has_lines(shared.virsh('domstats', '--block', '--backing'), 'block.count=0')


def test_domstats_iothread(shared):
    assert group(shared, 'iothread') in ({}, {'iothread.count': '0'})


def test_domstats_perf(shared):
    assert group(shared, 'perf') == {}


def test_domstats_of_everything_of_two_domains(shared, bare):
    text = shared.lv.virsh('domstats', shared.name, bare.name)
    assert f"Domain: '{shared.name}'" in text and f"Domain: '{bare.name}'" in text
    assert text.count('dirtyrate.calc_status=') == 2


def test_domdirtyrate_calc(shared):
    """32 MiB rewritten all the time, in a second; about 16 of the 128 pages that are looked at lie there."""
    shared.console.begin(f'churn {64 * MIB} {32 * MIB}')
    text = shared.virsh('domdirtyrate-calc', '--seconds', '1')
    assert "Start to calculate domain's memory dirty rate successfully." in text
    assert group(shared, 'dirtyrate')['dirtyrate.calc_status'] == '1'
    wait_until(lambda: group(shared, 'dirtyrate')['dirtyrate.calc_status'] == '2', 'the dirty rate is measured', pause=0.2)
    shared.console.end()
    found = group(shared, 'dirtyrate')
    assert found['dirtyrate.calc_period'] == '1' and found['dirtyrate.calc_mode'] == 'page-sampling'
    assert 4 < int(found['dirtyrate.megabytes_per_second']) < 90


@pytest.mark.parametrize('mode', ['dirty-bitmap', 'dirty-ring'])
def test_domdirtyrate_calc_by_other_means_is_refused(shared, mode):
    with pytest.raises(VirshError, match='mode|supported'):
        shared.virsh('domdirtyrate-calc', '--seconds', '1', '--mode', mode)
