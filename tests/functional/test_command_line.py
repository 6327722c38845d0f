# The command line: what is refused and how, forms that mean the same, and what a program like libvirt asks at first.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import os
import subprocess

import pytest
import vm as vmlib

BASE = ['-no-user-config', '-nodefaults', '-display', 'none', '-S']


def run(*arguments, stdin=subprocess.DEVNULL, env=None, preexec=None):
    return subprocess.run([str(vmlib.vmm_path()), *BASE, *arguments], stdin=stdin, capture_output=True, text=True,
                          timeout=120, env=env, preexec_fn=preexec)


# Arguments, and words that the message must have: the culprit, and the nearest valid name or the remedy.
BAD = [
    (['-nodefault'], ['-nodefault', 'nodefaults']),
    (['disk.img'], ['disk.img']),
    (['-m'], ['-m', 'SIZE']),
    (['-m', '1'], ['RAM', 'MiB']),
    (['-m', '-5'], ['-5']),
    (['-m', '512x'], ['512x']),
    (['-m', '90000000'], ['RAM']),
    (['-m', '512,slots=2,maxmem=1G'], ['cannot be added later']),
    (['-machine', 'pc-i440fx-9'], ['pc-i440fx-8.2']),
    (['-machine', 'pc,pitt=off'], ['pitt', "'pit'"]),
    (['-machine', 'pc,usb=on'], ['usb=off']),
    (['-machine', 'pc,kernel-irqchip=off'], ['kernel-irqchip=on']),
    (['-machine', 'pc,dump-guest-core=maybe'], ['dump-guest-core', 'maybe']),
    (['-machine', 'pc,memory-backend=nowhere'], ['nowhere', '-object']),
    (['-machine', 'none', '-kernel', 'x'], ['none', 'RAM']),
    (['-cpu', 'hots'], ['hots', "'host'"]),
    (['-cpu', 'host,+avx9'], ['avx9', 'avx']),
    (['-accel', 'xen'], ['xen', 'kvm']),
    (['-accel', 'tcg'], ['tcg', 'kvm']),
    (['-smp', '300'], ['300', '255']),
    (['-smp', '2,maxcpus=4'], ['maxcpus']),
    (['-smp', '3,sockets=2,cores=1,threads=1'], ['3']),
    (['-smp', 'cpu=2'], ['cpu', 'cpus']),
    (['-kernel', '/nonexistent/kernel'], ['/nonexistent/kernel', 'No such file']),
    (['-kernel', '/etc/passwd'], ['/etc/passwd', 'bzImage']),
    (['-append', 'x'], ['-kernel']),
    (['-device', 'isa-seriel'], ['isa-seriel', 'isa-serial']),
    (['-device', 'isa-serial,iobas=1'], ['iobas', 'iobase']),
    (['-device', 'isa-serial,chardev=nix'], ['nix']),
    (['-device', '{"driver":"isa-serial","index":-1}'], ['index', '-1']),
    (['-device', 'isa-serial,bus=pci.0'], ['pci.0']),
    (['-device', 'isa-serial,id=9x'], ['9x']),
    (['-device', 'isa-serial,id=a', '-device', 'isa-serial,id=a'], ["'a'", 'in use']),
    (['-device', '{"driver":"isa-serial","id":"a\\u0000b"}'], ["'id'", 'NUL']),
    (['-device', '{"driver":"virtio-serial-pci\\u0000x"}'], ["'driver'", 'NUL']),
    (['-device', 'virtio-serial-pci', '-device', '{"driver":"virtserialport","name":"a\\u0000b"}'], ["'name'", 'NUL']),
    (['-device', '{"driver":"virtio-balloon-pci","guest-stats-polling-interval":null}'], ['=null', 'seconds']),
    (['-object', 'memory-backend-rom,id=a,size=1M'], ['memory-backend-rom', 'memory-backend-ram']),
    (['-object', 'memory-backend-ram,id=a'], ['size']),
    (['-object', 'memory-backend-file,id=a,size=1M'], ['mem-path']),
    (['-object', 'memory-backend-ram,id=a,size=64M', '-machine', 'memory-backend=a', '-m', '128'], ["'a'", '-m']),
    (['-global', 'isa-serial'], ['DRIVER.PROPERTY=VALUE']),
    (['-global', 'isa-seriel.irq=1'], ['isa-seriel']),
    (['-global', 'isa-serial.irk=1'], ['irk', 'irq']),
    (['-global', 'migration.ram-scam=scan'], ['ram-scam', 'ram-scan']),
    (['-global', 'migration.ram-scan=bit62'], ['bit62', 'bit61']),
    (['-serial', 'stdin'], ['stdin', 'stdio']),
    (['-chardev', 'sokcet,id=a'], ['sokcet', 'socket']),
    (['-chardev', 'socket,id=a,path=/nonexistent/a,server=on,wait=off'], ['/nonexistent/a']),
    (['-mon', 'chardev=nix,mode=control'], ['nix']),
    (['-mon', 'chardev=nix,mode=readline'], ['readline', 'control']),
    (['-qmp', 'unix:/nonexistent/a,server=on,wait=off'], ['/nonexistent/a']),
    (['-monitor', 'stdio'], ['-qmp']),
    (['-display', 'gtk'], ['gtk', 'none']),
    (['-uuid', '12'], ["'12'"]),
    (['-rtc', 'base=noon'], ['noon', 'utc']),
    (['-rtc', 'clock=sun'], ['sun', 'host']),
    (['-boot', 'once=d'], ['-kernel']),
    (['-boot', 'cd'], ['-kernel']),
    (['-action', 'panic=cry'], ['cry', 'pause']),
    (['-overcommit', 'cpu-pm=on'], ['cpu-pm']),
    (['-msg', 'timestamp=perhaps'], ['perhaps']),
    (['-add-fd', 'fd=99,set=1'], ['99']),
    (['-d', 'migratoin'], ['migratoin', 'migration']),
    (['-D', '/nonexistent/log'], ['/nonexistent/log']),
    (['-machine', 'none', '-pidfile', '/nonexistent/pid'], ['/nonexistent/pid']),
    (['-name', 'debug-threads=off'], ['debug-threads']),
]


@pytest.mark.parametrize('arguments,words', BAD, ids=[' '.join(a)[:60] for a, _ in BAD])
def test_refused_with_the_reason(arguments, words):
    done = run(*arguments)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith('cowbird-system-x86_64: ')
    for word in words:
        assert word in last, last


@pytest.mark.parametrize('option', ['-version', '-help', '--help', '-h'])
def test_words_about_itself(option):
    done = run(option)
    assert done.returncode == 0
    assert done.stdout
    assert not done.stderr


@pytest.mark.parametrize('arguments,words', [
    (['-machine', 'help'], ['pc-i440fx-8.2', 'none']),
    (['-cpu', 'help'], ['host', 'max', 'avx2']),
    (['-device', 'help'], ['isa-serial']),
    (['-device', 'isa-serial,help'], ['iobase=<uint32>']),
    (['-object', 'help'], ['memory-backend-file']),
    (['-d', 'help'], ['startup']),
])
def test_help_about_values(arguments, words):
    done = run(*arguments)
    assert done.returncode == 0
    for word in words:
        assert word in done.stdout


def qmp_words(*arguments, commands):
    """What a monitor on stdio answers to commands."""
    text = ''.join(json.dumps(c) + '\n' for c in [{'execute': 'qmp_capabilities'}, *commands, {'execute': 'quit'}])
    done = subprocess.run([str(vmlib.vmm_path()), *BASE, '-qmp', 'stdio', *arguments], input=text, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()[2:]]
    return [reply for reply in replies if 'event' not in reply][:-1]


@pytest.mark.parametrize('arguments', [
    ['-m', '192'],
    ['-m', 'size=196608k'],
    ['-m', '{"size":201326592}'],
    ['-object', 'memory-backend-ram,id=pc.ram,size=192M', '-machine', 'pc,memory-backend=pc.ram'],
    ['-object', '{"qom-type":"memory-backend-memfd","id":"ram0","size":201326592,"share":true}',
     '-machine', '{"type":"pc","memory-backend":"ram0"}', '-m', '192'],
])
def test_forms_of_memory_size(arguments):
    kernel = ['-kernel', str(vmlib.guest_elf())]
    get = {'execute': 'query-ram-restore'}
    reply, = qmp_words(*arguments, *kernel, commands=[get])
    assert [(b['block'], b['size']) for b in reply['return']['blocks']] in ([('pc.ram', 192 << 20)], [])
    objects = {'execute': 'qom-list', 'arguments': {'path': '/objects'}}
    names = [p['name'] for p in qmp_words(*arguments, *kernel, commands=[objects])[0]['return'] if p['type'].startswith('child<')]
    assert len(names) == 1
    size = {'execute': 'qom-get', 'arguments': {'path': f'/objects/{names[0]}', 'property': 'size'}}
    assert qmp_words(*arguments, *kernel, commands=[size])[0]['return'] == 192 << 20


def test_globals_set_defaults_and_devices_override_them():
    get = [{'execute': 'qom-get', 'arguments': {'path': f'/machine/peripheral/{name}', 'property': 'irq'}} for name in 'ab']
    replies = qmp_words('-kernel', str(vmlib.guest_elf()), '-global', 'isa-serial.irq=10', '-device', 'isa-serial,id=a',
                        '-device', '{"driver":"isa-serial","id":"b","irq":11}', commands=get)
    assert [reply['return'] for reply in replies] == [10, 11]


def test_machine_cannot_be_changed_once_it_runs():
    change = {'execute': 'qom-set', 'arguments': {'path': '/machine', 'property': 'pit', 'value': False}}
    reply, = qmp_words('-kernel', str(vmlib.guest_elf()), commands=[change])
    assert 'in use' in reply['error']['desc']


def test_objects_come_and_go():
    add = {'execute': 'object-add', 'arguments': {'qom-type': 'memory-backend-ram', 'id': 'm', 'size': 1 << 20}}
    again = dict(add)
    gone = {'execute': 'object-del', 'arguments': {'id': 'm'}}
    used = {'execute': 'object-del', 'arguments': {'id': 'pc.ram'}}
    replies = qmp_words('-kernel', str(vmlib.guest_elf()), commands=[add, again, gone, gone, used])
    assert [list(reply)[0] for reply in replies] == ['return', 'error', 'return', 'error', 'error']
    assert 'in use' in replies[4]['error']['desc']


def test_inherited_descriptor_goes_into_its_set():
    read, write = os.pipe()
    text = '{"execute":"qmp_capabilities"}{"execute":"query-fdsets"}{"execute":"quit"}'
    done = subprocess.run([str(vmlib.vmm_path()), *BASE, '-machine', 'none', '-qmp', 'stdio',
                           '-add-fd', f'fd={read},set=3,opaque=a pipe'],
                          input=text, capture_output=True, text=True, timeout=120, pass_fds=[read])
    os.close(read)
    os.close(write)
    sets = json.loads(done.stdout.splitlines()[2])['return']
    assert [s['fdset-id'] for s in sets] == [3]
    assert sets[0]['fds'][0]['opaque'] == 'a pipe'


# contract.md §1.2: the questions in their order, and what of the answers decides.
DEVICES = ['virtio-blk-pci', 'scsi-hd', 'ide-hd', 'PIIX4_PM', 'kvm-pit', 'ICH9-LPC', 'virtio-balloon-pci',
           'virtio-balloon-ccw', 'virtio-balloon-device', 'usb-host']
OBJECTS = ['memory-backend-file', 'memory-backend-memfd', 'max-x86_64-cpu', 'none-machine', 'generic-pc-machine',
           'no-such-type']


def test_first_questions_of_libvirt():
    plain = ['query-version', 'query-target', 'query-qmp-schema', 'query-commands', 'query-kvm', 'qom-list-types']
    commands = [{'execute': c} for c in plain]
    commands += [{'execute': 'device-list-properties', 'arguments': {'typename': t}} for t in DEVICES]
    commands += [{'execute': 'qom-list-properties', 'arguments': {'typename': t}} for t in OBJECTS]
    commands += [{'execute': c} for c in ['query-machines', 'query-command-line-options', 'query-migrate-capabilities']]
    replies = qmp_words('-machine', 'none,accel=kvm:tcg', commands=commands)
    version, target, schema, names, kvm, types = [reply['return'] for reply in replies[:6]]
    assert (version['qemu']['major'], version['qemu']['minor']) >= (6, 2)
    assert isinstance(version['package'], str)
    assert target == {'arch': 'x86_64'}
    assert {e['name'] for e in schema if e['meta-type'] == 'command'} == {n['name'] for n in names}
    assert kvm == {'enabled': True, 'present': True}
    assert 'isa-serial' in {t['name'] for t in types}
    assert 'tcg-accel' not in {t['name'] for t in types}
    for reply in replies[6:6 + len(DEVICES)]:
        assert 'return' in reply or reply['error']['class'] == 'DeviceNotFound'
    for reply in replies[6 + len(DEVICES):-3]:
        assert isinstance(reply['return'], list)
    machines, options, capabilities = [reply['return'] for reply in replies[-3:]]
    pc = next(m for m in machines if m.get('alias') == 'pc')
    assert pc['default-ram-id'] == 'pc.ram' and pc['hotpluggable-cpus'] is False
    assert {'machine', 'smp', 'boot', 'rtc'} <= {o['option'] for o in options}
    assert 'mapped-ram' in {c['capability'] for c in capabilities}


@pytest.mark.skipif(os.geteuid() != 0, reason='needs to become another user')
def test_without_permission_for_kvm():
    """The probe tells the truth, a machine with memory is refused with the file's name."""
    def become_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    if os.stat('/dev/kvm').st_mode & 0o006:
        pytest.skip('/dev/kvm is open to everybody here')
    done = run('-m', '64', preexec=become_nobody)
    assert done.returncode == 1
    assert '/dev/kvm' in done.stderr
