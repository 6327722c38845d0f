# Saving and restoring by virsh, ours beside QEMU's: the same guest, the same libvirt, rounds of both by turns.
#
# Measured is what is the emulator's: from the command `migrate` or `migrate-incoming` to the event MIGRATION completed, both as
# libvirt's log dates them. The whole time of virsh, which has libvirt's own share in it, is told beside.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import os
import shutil
import statistics
import sys
import time

from common import GIB, ROOT, BenchError, Figure, Skipped, interleave, median_ratio, parts_of, touch_host_memory, vmlib

sys.path.insert(0, str(ROOT / 'tests/libvirt'))
import trixie  # noqa: E402
from daemon import Libvirt  # noqa: E402
from domain import Domain, Pty  # noqa: E402

SEED = 7
ROUNDS = 5
MEMORY = '2G'
# Of the machine, written once before each sample: where it is a guest itself, its host may take free pages back (free page
# reporting), and getting them again costs seconds per GiB, at random moments, on whichever side.
HOST_MEMORY = 4 * GIB
FILLED_2G = 2000
PATIENCE = 180
QEMU = '/usr/bin/qemu-system-x86_64'
OURS_CPU = '<cpu mode="host-passthrough"/>'
# Without arch-capabilities, whose MSR not every KVM lets QEMU 7.2 write.
QEMU_CPU = '<cpu mode="host-passthrough"><feature policy="disable" name="arch-capabilities"/></cpu>'
UNIT = 'ms from the QMP command to MIGRATION completed'


@contextlib.contextmanager
def libvirt(context, major, **qemu_conf):
    """A Libvirt of that version; its `emulator` and `kernel` are copies that the domains' user may read."""
    if os.geteuid() != 0:
        raise Skipped('a libvirtd of its own needs root')
    if major == 9 and not os.path.exists('/usr/sbin/libvirtd'):
        raise Skipped('libvirtd is missing: scripts/setup --tests installs it')
    try:
        chroot = trixie.path() if major == 11 else None
    except FileNotFoundError as error:
        raise Skipped(str(error)) from None
    folder = context.work.path
    folder.chmod(0o755)
    for source in (vmlib.vmm_path(), vmlib.guest_elf()):
        shutil.copyfile(source, folder / source.name)
        (folder / source.name).chmod(0o755)
    with Libvirt(folder, chroot=chroot, **qemu_conf) as lv:
        lv.emulator, lv.kernel = folder / vmlib.vmm_path().name, folder / vmlib.guest_elf().name
        yield lv


def make_domain(lv, name, emulator, cpu, cmdline='', **options):
    return Domain(lv, f'bench-{name}-{os.getpid()}', emulator, lv.kernel, memory=MEMORY, cpu=cpu, cmdline=cmdline,
                  timeout=PATIENCE, **options)


def both(lv, cmdline):
    """QEMU's domain and ours, which differ in nothing else."""
    return {'qemu': make_domain(lv, 'qemu', QEMU, QEMU_CPU, cmdline),
            'cowbird': make_domain(lv, 'ours', lv.emulator, OURS_CPU, cmdline)}


def boot_filled(domain):
    """A running domain whose guest has done what stands on its command line."""
    domain.define().start(paused=True)
    pty = Pty(domain.virsh('ttyconsole').strip())
    try:
        domain.virsh('resume')
        vmlib.Console(pty, PATIENCE).wait_for('ok pages')
    finally:
        pty.close()


def event_time(message):
    return message['timestamp']['seconds'] + message['timestamp']['microseconds'] / 1e6


def migration_ms(lv, mark, command):
    """Milliseconds between the command and MIGRATION completed in what was logged since the mark. The log dates the command by
    a whole millisecond, the event has its own microseconds: what takes 1 ms may be counted as 2."""
    begin = None
    for when, _, message in lv.qmp_log(mark):
        if message.get('execute') == command:
            begin = when
        elif begin and message.get('event') == 'MIGRATION' and message['data']['status'] == 'completed':
            return (event_time(message) - begin) * 1000
    raise BenchError(f'the log of libvirt has no {command} that was completed')


def timed(lv, command, action, whole):
    """One sample; the whole time of virsh is added to the list, also in the round that is dropped."""
    touch_host_memory(HOST_MEMORY)
    mark, begin = lv.log_mark(), time.monotonic()
    action()
    whole.append((time.monotonic() - begin) * 1000)
    return migration_ms(lv, mark, command)


def figure(name, samples, whole):
    notes = [f'{side} {statistics.median(times[1:]):.0f}' for side, times in whole.items()]
    return Figure(name, median_ratio(samples, 'qemu', 'cowbird'), 'x', {'unit': UNIT, **parts_of(samples)},
                  note=f'the whole of virsh, median ms: {", ".join(notes)}')


@contextlib.contextmanager
def cleaned(domains, *files):
    try:
        yield
    finally:
        for domain in domains.values():
            domain.destroy_undefine()
        for path in files:
            path.unlink(missing_ok=True)


def measure_restore(name, lv):
    """Each side saves once and restores its own file again and again."""
    domains = both(lv, f'fill {SEED} 0 {FILLED_2G}m')
    files = {side: lv.folder / f'{side}.save' for side in domains}
    whole = {side: [] for side in domains}
    with cleaned(domains, *files.values()):
        for side, domain in domains.items():
            boot_filled(domain)
            domain.save(files[side])

        def sample(side):
            ms = timed(lv, 'migrate-incoming', lambda: domains[side].restore(files[side]), whole[side])
            domains[side].destroy()
            return ms

        samples = interleave({side: lambda side=side: sample(side) for side in domains}, ROUNDS)
    return figure(name, samples, whole)


def virsh_restore_raw_2g(context):
    """Debian 12's libvirt and QEMU 7.2; 2000 MiB of data."""
    with libvirt(context, 9) as lv:
        return measure_restore('virsh_restore_raw_2g', lv)


def virsh_restore_sparse_2g(context):
    """Debian 13's libvirt and QEMU 10; 2000 MiB of data."""
    with libvirt(context, 11, save_image_format='sparse') as lv:
        return measure_restore('virsh_restore_sparse_2g', lv)


def virsh_save_2g_touched_256m(context):
    """Debian 12's libvirt and QEMU 7.2; a domain of 2 GiB that has used 256 MiB."""
    with libvirt(context, 9) as lv:
        domains = both(lv, f'fill {SEED} 0 256m')
        path = lv.folder / 'touched.save'
        whole = {side: [] for side in domains}

        def sample(side):
            path.unlink(missing_ok=True)
            boot_filled(domains[side])
            return timed(lv, 'migrate', lambda: domains[side].save(path), whole[side])

        with cleaned(domains, path):
            samples = interleave({side: lambda side=side: sample(side) for side in domains}, ROUNDS)
        return figure('virsh_save_2g_touched_256m', samples, whole)
