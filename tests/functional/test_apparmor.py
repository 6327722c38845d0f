# The AppArmor rules in scripts/apparmor, put into Debian's profiles: they parse, and they allow every file that a VMM opens.
#
# The rules are held against the files by this test's own reading of AppArmor's patterns, since a kernel without
# AppArmor cannot be asked.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import vm as vmlib

RULES = vmlib.ROOT / 'scripts/apparmor'
DEBIAN = Path('/etc/apparmor.d')
PROFILE = 'libvirt-00000000-0000-0000-0000-000000000001'
TEMPLATES = '/var/lib/libvirt/cowbird'
MIB = 1 << 20


@pytest.fixture
def profiles(folder):
    """A copy of Debian's profiles with our rules in them, and the profile of a domain as libvirt makes it."""
    needed = (DEBIAN / 'libvirt/TEMPLATE.qemu', DEBIAN / 'abstractions/base')
    if not shutil.which('apparmor_parser', path='/usr/sbin') or not all(path.exists() for path in needed):
        pytest.skip('needs the packages apparmor and libvirt-daemon-system: scripts/setup --tests installs them')
    base = folder / 'apparmor.d'
    shutil.copytree(DEBIAN, base, symlinks=True)
    shutil.copy(RULES / 'cowbird', base / 'abstractions')
    for name, text in (('abstractions/libvirt-qemu', 'include <abstractions/cowbird>\n'),
                       ('usr.sbin.libvirtd', (RULES / 'usr.sbin.libvirtd').read_text())):
        (base / 'local' / name).write_text(text)
    (base / 'libvirt' / PROFILE).write_text((base / 'libvirt/TEMPLATE.qemu').read_text().replace('LIBVIRT_TEMPLATE', PROFILE))
    return base


def parser(base, *words):
    return subprocess.run(['/usr/sbin/apparmor_parser', '-Q', '-K', '--base', base, *words], cwd=base, capture_output=True,
                          text=True, timeout=60)


@pytest.mark.parametrize('name', [f'libvirt/{PROFILE}', 'usr.sbin.libvirtd'])
def test_profiles_parse(profiles, name):
    done = parser(profiles, name)
    assert done.returncode == 0, done.stderr


def test_a_mistake_in_the_rules_is_seen(profiles):
    with open(profiles / 'abstractions/cowbird', 'a') as rules:
        rules.write('  /dev/kvm rwmixz,\n')
    assert parser(profiles, f'libvirt/{PROFILE}').returncode != 0


def pattern(text, variables):
    """A regular expression for a path pattern of AppArmor."""
    while (found := re.search(r'@\{(\w+)\}', text)):
        values = [value.rstrip('/') if value != '/' else '' for value in variables[found[1]]]
        text = text.replace(found[0], f'{{{",".join(values)}}}' if len(values) > 1 else values[0])
    marks = {'{': '(?:', '}': ')', ',': '|', '?': '[^/]'}
    depth, out = 0, []
    for part in re.findall(r'\*\*|\[[^]]*\]|\\.|.', text):
        depth += (part == '{') - (part == '}')
        if part in ('**', '*'):
            out.append('.*' if part == '**' else '[^/]*')
        elif part[0] == '[' or part in marks and (part != ',' or depth > 0):
            out.append(marks.get(part, part))
        else:
            out.append(re.escape(part))
    return re.compile(''.join(out) + r'\Z')


def file_rules(base):
    """(compiled pattern, permissions) of every file rule of the domain's profile."""
    done = parser(base, '-D', 'variables', f'libvirt/{PROFILE}')
    lines = done.stdout + done.stderr
    variables = {name: re.findall(r'"([^"]*)"', values) for name, values in re.findall(r'^@(\w+) = (.*)$', lines, re.MULTILINE)}
    text = parser(base, '-p', f'libvirt/{PROFILE}').stdout
    rules = re.findall(r'^\s*(?:owner\s+)?([/@]\S*)\s+([rwkmlixpPuUcC]+)\s*(?:->[^,]*)?,', text, re.MULTILINE)
    assert len(rules) > 100
    return [(pattern(path, variables), permissions) for path, permissions in rules]


CALL = re.compile(r'^\d+ +(open|openat|linkat|unlink|rename|execve)\((.*)\) += (\d+)')


def opened(trace, folder, binary):
    """(path, permission) of every call that succeeded, as if files were where an administrator has them."""
    for line in trace.read_text(errors='replace').splitlines():
        if not (call := CALL.match(line)):
            continue
        paths = re.findall(r'"([^"]*)"', call[2])
        path = paths[-1] if call[1] == 'linkat' else paths[0]
        if path.startswith(('/proc/self/fd/', '/tmp/')) or '.so' in path or path == str(vmlib.guest_elf()):
            continue  # what has been opened; sockets of the test; libraries (abstractions/base); the kernel (virt-aa-helper)
        path = path.replace('/proc/self/', '/proc/4711/').replace(str(folder), TEMPLATES).replace(binary, '/usr/bin/cowbird-system-x86_64')
        if 'O_TMPFILE' in call[2]:
            path += '/#1'  # how the kernel names such a file
        elif path == TEMPLATES:
            path += '/'
        kind = {'linkat': 'l', 'unlink': 'w', 'rename': 'w', 'execve': 'm'}.get(call[1])
        yield path, kind or ('w' if re.search(r'O_(WRONLY|RDWR)', call[2]) else 'r')


def test_rules_allow_what_a_clone_does(machines, profiles, folder):
    strace = shutil.which('strace')
    if not strace:
        pytest.skip('needs strace: scripts/setup --tests installs it')
    wanted = set()

    def run(number, incoming, mode=None):
        trace = folder / f'trace-{number}'
        wrapper = [strace, '-D', '-f', '-q', '-e', 'trace=%file', '-s', '512', '-o', trace]
        options = {'memory': '64M', 'wrapper': wrapper,
                   'args': ['-object', 'rng-random,id=r0,filename=/dev/urandom', '-device', 'virtio-rng-pci,rng=r0',
                            '-device', 'virtio-balloon-pci']}
        machine = machines.restore(incoming, mode, **options) if incoming else machines.boot(**options)
        machine.console.command(f'write {number} {16 * MIB} {8 * MIB} 1')
        machine.save(folder / f'state-{number}', mode='full' if mode in (None, 'copy') else 'incremental')
        machine.qmp.command('query-ram-restore')
        machine.quit()
        wanted.update(opened(trace, folder, machine.binary))

    run(1, None)
    run(2, folder / 'state-1', 'copy-on-write')
    run(3, folder / 'state-2', 'auto')
    run(4, folder / 'state-2', 'copy')
    assert ('/proc/4711/pagemap', 'r') in wanted and ('/dev/kvm', 'w') in wanted
    rules = file_rules(profiles)
    forbidden = {(path, kind) for path, kind in wanted
                 if not any(kind in permissions and rule.match(path) for rule, permissions in rules)}
    assert not forbidden
