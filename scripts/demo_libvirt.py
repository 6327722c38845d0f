#!/usr/bin/python3
# The main job under libvirt, shown: a domain is defined, saved and restored by virsh, and eight domains are cloned from one file.
#
# Uses the libvirtd that runs on this machine; if none answers, one of its own, with everything it writes in a private mount
# namespace, is started by hand and ended again.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import argparse
import contextlib
import os
import pwd
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests/lib'), str(ROOT / 'tests/libvirt')]
import vm as vmlib  # noqa: E402
from daemon import Libvirt, MachineLibvirt, VirshError, wait_until  # noqa: E402
from demo_report import MIB, Report, own_memory  # noqa: E402
from domain import Domain  # noqa: E402

SEED, SECOND_SEED = 42, 1000
# The region that clones write.
WRITE_START, WRITE_LENGTH = 32 * MIB, 32 * MIB
VMM_USER = 'libvirt-qemu'


class Timer:
    def __enter__(self):
        self.begin = time.monotonic()
        return self

    def __exit__(self, *exc):
        self.seconds = time.monotonic() - self.begin


class Demo:
    """The domains of one run, all of which are removed at its end."""

    def __init__(self, lv, folder, memory, report):
        self.lv, self.folder, self.memory, self.report = lv, folder, memory, report
        self.stack = contextlib.ExitStack()

    def domain(self, name, **options):
        made = Domain(self.lv, f'cowbird-demo-{os.getpid()}-{name}', self.folder / 'cowbird-system-x86_64',
                      self.folder / 'guest.elf', memory=self.memory, **options)
        self.stack.callback(made.destroy_undefine)
        return made


def copy_programs(folder):
    """To where the user of the domains may read them."""
    folder.chmod(0o755)
    for source, name in ((vmlib.vmm_path(), 'cowbird-system-x86_64'), (vmlib.guest_elf(), 'guest.elf')):
        shutil.copyfile(source, folder / name)
        (folder / name).chmod(0o755)


def show_start(demo):
    machine = demo.domain('first')
    machine.define()
    with Timer() as timer:
        machine.start()
    demo.report.row('virsh start', timer.seconds)
    pages = machine.fill(SEED)
    demo.report.say(f'domain {machine.name} runs, defined by ordinary XML; its guest has filled {pages} pages')
    return machine, pages


def show_save_and_restore(demo, machine, pages):
    path = demo.folder / 'first.save'
    with Timer() as timer:
        machine.save(path)
    demo.report.row('virsh save', timer.seconds, path.stat().st_blocks * 512)
    with Timer() as timer:
        machine.restore(path)
    demo.report.row('virsh restore', timer.seconds, memory=own_memory(machine.pid()))
    assert machine.check(SEED) == pages
    demo.report.say(f'saved and restored by virsh: all {pages} pages are right')
    path.unlink()


def show_managed_save(demo, machine, pages):
    with Timer() as timer:
        machine.virsh('managedsave')
    machine.close_console()
    demo.report.row('virsh managedsave', timer.seconds)
    with Timer() as timer:
        machine.start()
    demo.report.row('virsh start after it', timer.seconds)
    assert machine.check(SEED) == pages


def make_template(demo, machine):
    """A snapshot file that belongs to the user of the VMM, who can therefore hold a lease on it: docs/libvirt.rst."""
    folder = demo.folder / 'templates'
    folder.mkdir()
    shutil.chown(folder, VMM_USER)
    path = folder / 'template.snap'
    machine.virsh('suspend')
    machine.qmp('migrate-set-capabilities', capabilities=[{'capability': 'mapped-ram', 'state': True}])
    with Timer() as timer:
        machine.qmp('migrate', uri=f'file:{path}')
        wait_until(lambda: machine.qmp('query-migrate').get('status') in ('completed', 'failed'), 'the template is written')
    info = machine.qmp('query-migrate')
    assert info['status'] == 'completed', info
    demo.report.row('template by qemu-monitor-command', timer.seconds, info['ram']['written-bytes'])
    machine.destroy()
    return path


def show_clones(demo, template, pages, count):
    clones, times = [], []
    for number in range(count):
        clone = demo.domain(f'clone{number}', extra_args=['-incoming', f'file:{template}'])
        clone.define()
        with Timer() as timer:
            clone.start()
        times.append(timer.seconds)
        clones.append(clone)
    memory = statistics.median(own_memory(clone.pid()) for clone in clones)
    demo.report.row(f'{count} clones, virsh start, median', statistics.median(times), memory=memory)
    for number, clone in enumerate(clones):
        assert clone.check(SEED) == pages
        clone.console.command(f'write {SECOND_SEED + number} {WRITE_START} {WRITE_LENGTH}')
    for number, clone in enumerate(clones):
        clone.check(SECOND_SEED + number, WRITE_START, WRITE_LENGTH)
        clone.check(SEED, WRITE_START + WRITE_LENGTH)
    modes = {clone.qmp('query-ram-restore')['blocks'][0]['mode'] for clone in clones}
    demo.report.say(f'{count} clones ({", ".join(sorted(modes))}): each has verified {pages} pages, written '
                    f'{WRITE_LENGTH // MIB} MiB of its own, and sees none of the others\' writes')
    demo.report.row('the same after each has written', memory=statistics.median(own_memory(clone.pid()) for clone in clones))


def open_libvirt(folder):
    machine = MachineLibvirt(folder)
    if machine.answers():
        print('  the libvirtd of this machine is used')
        return contextlib.nullcontext(machine)
    print('  no libvirtd answers on this machine: one is started by hand, in a mount namespace of its own')
    return Libvirt(folder)


def parse():
    parser = argparse.ArgumentParser(prog='demo --libvirt', description='Show domains saved, restored and cloned by virsh.')
    parser.add_argument('--memory', default='512M', help='guest RAM (512M)')
    parser.add_argument('--clones', type=int, default=8, help='clones (8)')
    return parser.parse_args()


def check_host():
    if os.geteuid() != 0:
        sys.exit('demo: qemu:///system and a libvirtd of its own need root')
    if not os.path.exists('/usr/sbin/libvirtd'):
        sys.exit('demo: libvirtd is missing; scripts/setup --libvirt installs it')
    try:
        pwd.getpwnam(VMM_USER)
    except KeyError:
        sys.exit(f'demo: there is no user {VMM_USER}; is libvirt-daemon-system installed?')


def main():
    arguments = parse()
    check_host()
    report = Report()
    print(f'Cowbird under libvirt: domains with {arguments.memory} of RAM')
    with tempfile.TemporaryDirectory(prefix='cowbird-demo-', dir='/var/tmp') as name:
        folder = Path(name)
        copy_programs(folder)
        with open_libvirt(folder) as lv:
            report.say(f'libvirt {".".join(map(str, lv.version))}')
            demo = Demo(lv, folder, arguments.memory, report)
            with demo.stack:
                machine, pages = show_start(demo)
                show_save_and_restore(demo, machine, pages)
                show_managed_save(demo, machine, pages)
                show_clones(demo, make_template(demo, machine), pages, arguments.clones)
    report.print_table()


try:
    main()
except VirshError as error:
    sys.exit(f'demo: {error}')
