#!/usr/bin/python3
# The main job, shown: a guest is saved to a file, and the file is guest RAM of many clones.
#
# A guest boots under KVM, fills its memory, is saved over QMP, is restored as one and as sixteen copy-on-write clones; each
# proves its memory page by page, goes on, writes; one is saved as an increment, and the increment is restored; one gives
# memory back through its balloon.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'tests/lib'))
import vm as vmlib  # noqa: E402
from demo_report import MIB, Report, own_memory  # noqa: E402

SEED, SECOND_SEED = 42, 1000
# The region that clones write.
WRITE_START, WRITE_LENGTH = 32 * MIB, 32 * MIB
BALLOON = ['-device', 'virtio-balloon-pci,id=balloon0,free-page-reporting=on']


def restore_and_time(path, options, mode='copy-on-write'):
    """From before exec to the guest's first answer."""
    begin = time.monotonic()
    machine = vmlib.restore(path, mode, **options)
    machine.console.command('ping')
    return machine, time.monotonic() - begin


def make_base(path, options, report):
    begin = time.monotonic()
    with vmlib.Vm(**options) as machine:
        machine.console.ready()
        report.row('boot to the guest\'s first line', time.monotonic() - begin)
        begin = time.monotonic()
        pages = machine.console.fill(SEED)
        report.say(f'the guest has filled {pages} pages with data that does not compress')
        begin = time.monotonic()
        info = machine.save(path)
        report.row('full save', time.monotonic() - begin, info['ram']['written-bytes'])
        report.say(f'saved over QMP to {path}; pages found by {info["ram"]["scan-path"]} in {info["ram"]["scan-time-us"]} us')
        machine.quit()
    return pages


def show_eager_copy(path, options, pages, report):
    machine, seconds = restore_and_time(path, options, 'copy')
    with machine:
        report.row('restore, eager copy', seconds, memory=own_memory(machine.pid))
        assert machine.console.verify(SEED) == pages


def check_written_clone(machine, seed):
    machine.console.verify(seed, WRITE_START, WRITE_LENGTH)
    machine.console.verify(SEED, 0, WRITE_START)
    machine.console.verify(SEED, WRITE_START + WRITE_LENGTH)


def show_one_clone_and_increment(path, increment, options, pages, report):
    machine, seconds = restore_and_time(path, options)
    with machine:
        report.row('restore, copy-on-write', seconds, memory=own_memory(machine.pid))
        block = machine.restored_blocks()['pc.ram']
        assert block['mode'] == 'copy-on-write', block
        ticks = machine.console.fields('ticks')['ticks']
        assert machine.console.verify(SEED) == pages
        while machine.console.fields('ticks')['ticks'] <= ticks:
            pass
        report.say(f'one clone: all {pages} pages are right, and its clock ticks on')
        machine.console.command(f'write {SECOND_SEED} {WRITE_START} {WRITE_LENGTH}')
        begin = time.monotonic()
        info = machine.save_increment(increment)
        report.row(f'increment, {WRITE_LENGTH // MIB} MiB written', time.monotonic() - begin,
                   info['ram']['written-bytes'])
        machine.quit()
    machine, seconds = restore_and_time(increment, options)
    with machine:
        report.row('restore of the increment', seconds, memory=own_memory(machine.pid))
        check_written_clone(machine, SECOND_SEED)
        report.say('the increment is restored: written and unwritten pages are right')


def show_balloon(path, increment, options, report):
    """What the guest reports as free leaves the host, is zero afterwards, and is zero in the next snapshot."""
    with vmlib.restore(path, 'copy-on-write', **options) as machine:
        machine.console.command('balloon-start')
        machine.console.command(f'write {SECOND_SEED} {WRITE_START} {WRITE_LENGTH}')
        before = own_memory(machine.pid)
        begin = time.monotonic()
        machine.console.command(f'report {WRITE_START} {WRITE_LENGTH}')
        report.row(f'{WRITE_LENGTH // MIB} MiB written, then reported free', time.monotonic() - begin,
                   memory=own_memory(machine.pid))
        released = machine.restored_blocks()['pc.ram']['chunks-released']
        report.say(f'free page reporting: {before / MIB:.1f} MiB of its own became {own_memory(machine.pid) / MIB:.1f}, {released} chunks')
        check_written_clone(machine, 0)
        info = machine.save_increment(increment)
        report.row('increment after that', None, info['ram']['written-bytes'])
        machine.quit()
    with vmlib.restore(increment, 'copy-on-write', **options) as machine:
        check_written_clone(machine, 0)
        report.say('its increment is restored: what was given back is zero, all other pages are right')


def show_many_clones(path, options, pages, count, report):
    with contextlib.ExitStack() as stack:
        options = {**options, 'args': [*options['args'], '-global', 'migration.ram-restore-mode=copy-on-write']}
        begin = time.monotonic()
        clones = [stack.enter_context(vmlib.Vm(incoming=f'file:{path}', start=False, **options)) for _ in range(count)]
        for clone in clones:
            clone.spawn()
        times = []
        for clone in clones:
            clone.connect_all()
            vmlib.wait_restored(clone)
            clone.cont()
            clone.console.command('ping')
            times.append(time.monotonic() - begin)
        memory = statistics.median(own_memory(clone.pid) for clone in clones)
        report.row(f'{count} clones at once, median to first answer', statistics.median(times), memory=memory)
        for number, clone in enumerate(clones):
            assert clone.console.verify(SEED) == pages
            clone.console.command(f'write {SECOND_SEED + number} {WRITE_START} {WRITE_LENGTH}')
        for number, clone in enumerate(clones):
            check_written_clone(clone, SECOND_SEED + number)
        report.say(f'{count} clones: each has verified {pages} pages, written {WRITE_LENGTH // MIB} MiB '
                   'of its own, and sees none of the others\' writes')
        report.row('the same after each has written', memory=statistics.median(own_memory(clone.pid) for clone in clones))


def main():
    parser = argparse.ArgumentParser(prog='demo', description='Show a guest saved to a file and restored copy-on-write.')
    parser.add_argument('--memory', default='512M', help='guest RAM (512M)')
    parser.add_argument('--clones', type=int, default=16, help='clones at once (16)')
    arguments = parser.parse_args()
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        sys.exit('demo: /dev/kvm cannot be opened: load the kvm module, and join the group kvm')
    options = {'memory': arguments.memory, 'args': BALLOON}
    report = Report()
    print(f'Cowbird: a guest with {arguments.memory} of RAM')
    with tempfile.TemporaryDirectory(prefix='cowbird-demo-', dir='/var/tmp') as folder:
        base, increment = Path(folder) / 'base.snap', Path(folder) / 'increment.snap'
        pages = make_base(base, options, report)
        show_eager_copy(base, options, pages, report)
        show_one_clone_and_increment(base, increment, options, pages, report)
        show_balloon(base, Path(folder) / 'released.snap', options, report)
        show_many_clones(base, options, pages, arguments.clones, report)
    report.print_table()


main()
