# A guest saved to a file and restored: every page, every register, every device, in every mode and memory layout.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import re
import subprocess
import time

import pytest
import vm as vmlib
from conftest import make_saved

GIB = 1 << 30
MODES = ['auto', 'copy', 'copy-on-write']


def snap(*arguments):
    return subprocess.run([vmlib.snap_path(), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def region_flags(pid, file_name=None, minimum=0):
    """VmFlags of the process's mappings of that file, or of anonymous ones of at least that size."""
    found, name, size = [], None, 0
    with open(f'/proc/{pid}/smaps') as smaps:
        for line in smaps:
            head = re.match(r'([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)', line)
            if head:
                size, name = int(head[2], 16) - int(head[1], 16), head[3]
            elif line.startswith('VmFlags:'):
                if (file_name and name == str(file_name)) or (not file_name and not name and size >= minimum):
                    found.append(set(line.split()[1:]))
    return found


@pytest.mark.parametrize('mode', MODES)
def test_every_page_and_time_go_on(machines, saved, mode):
    machine = machines.restore(saved.path, mode, **saved.options)
    assert machine.console.command('ping') == 'pong'
    assert machine.console.verify(saved.seed) == saved.pages
    ticks = machine.console.fields('ticks')['ticks']
    while machine.console.fields('ticks')['ticks'] == ticks:
        pass
    machine.console.fill(99)
    assert machine.console.verify(99) == saved.pages
    block = machine.restored_blocks()['pc.ram']
    assert block['mode'] == ('copy' if mode == 'copy' else 'copy-on-write')
    assert block['private-pages'] >= saved.pages


@pytest.mark.parametrize('mode', MODES)
def test_incoming_later(machines, saved, mode):
    machine = machines.start(incoming='defer', **saved.options)
    assert machine.qmp.command('query-status')['status'] == 'inmigrate'
    machine.set_parameters(ram_restore_mode=mode)
    machine.set_capabilities(events=True)
    machine.qmp.command('migrate-incoming', uri=f'file:{saved.path}')
    vmlib.wait_restored(machine)
    machine.cont()
    assert machine.console.verify(saved.seed) == saved.pages


def test_restored_memory_lacks_huge_page_advice(machines, saved):
    machine = machines.restore(saved.path, 'copy-on-write', **saved.options)
    flags = region_flags(machine.pid, saved.path)
    assert flags
    for flag in flags:
        assert 'hg' not in flag
        assert {'nr', 'dd', 'dc'} <= flag, 'NORESERVE, DONTDUMP, DONTFORK'


def test_untouched_clone_has_almost_no_memory_of_its_own(machines, saved):
    machine = machines.restore(saved.path, 'copy-on-write', **saved.options)
    assert machine.console.command('ping') == 'pong'
    assert machine.restored_blocks()['pc.ram']['private-pages'] < 64


def test_saved_running_runs_again(machines, folder):
    machine = machines.filled(memory='160M')
    assert machine.migrate(f'file:{folder}/s')['status'] == 'completed'
    assert machine.qmp.command('query-status')['status'] == 'postmigrate'
    machines.end(machine)
    again = machines.restore(folder / 's', memory='160M', run=False)
    assert again.qmp.command('query-status')['status'] == 'running'
    assert again.console.verify(7)


def test_saved_paused_stays_paused(machines, saved):
    machine = machines.restore(saved.path, run=False, **saved.options)
    assert machine.qmp.command('query-status')['status'] == 'paused'


def test_guest_goes_on_after_a_save(machines, folder):
    machine = machines.filled(memory='160M')
    machine.save(folder / 's')
    machine.cont()
    assert machine.console.verify(7) == machine.pages
    machine.console.fill(8)
    machine.save(folder / 's')
    machine.cont()
    assert machine.console.verify(8) == machine.pages
    again = machines.restore(folder / 's', memory='160M')
    assert again.console.verify(8) == machine.pages


def test_registers_and_clock_go_on(machines, folder):
    machine = machines.boot(memory='160M')
    machine.console.command('simd-set 77')
    machine.console.command('wrmsr 0xc0000102 0x123456789')
    begin, clock = time.monotonic_ns(), machine.console.fields('kvmclock')['ns']
    ticks = machine.console.fields('ticks')['ticks']
    machine.save(folder / 's')
    machines.end(machine)
    again = machines.restore(folder / 's', memory='160M')
    assert again.console.fields('simd-check 77')['wrong'] == 0
    assert again.console.fields('rdmsr 0xc0000102')['value'] == 0x123456789
    assert clock < again.console.fields('kvmclock')['ns'] < clock + time.monotonic_ns() - begin + 100_000_000
    assert again.console.fields('ticks')['ticks'] >= ticks


@pytest.mark.parametrize('mode', ['copy', 'copy-on-write'])
def test_all_processors_go_on(machines, saved_smp, mode):
    machine = machines.restore(saved_smp.path, mode, **saved_smp.options)
    assert machine.console.fields('smp')['cpus'] == 4
    assert machine.console.verify(saved_smp.seed) == saved_smp.pages
    machine.console.fill(31)
    assert machine.console.verify(31) == saved_smp.pages


def test_processors_at_work_while_saved(machines, folder):
    """Saved in the middle of a loop that checks itself: not one page is torn."""
    machine = machines.boot(memory='160M')
    machine.console.begin(f'churn {16 << 20} {64 << 20}')
    for _ in range(3):
        machine.save(folder / 's')
        machine.cont()
    assert machine.console.end()['wrong'] == 0
    again = machines.restore(folder / 's', memory='160M')
    result = again.console.end()
    assert result['wrong'] == 0 and result['rounds'] > 0


@pytest.mark.parametrize('memory', ['3G', '4G', '5G'])
def test_layouts_with_a_hole(machines, folder, memory):
    """The region below the hole, the one above it, and their ends."""
    size = int(memory[:-1]) * GIB
    machine = machines.boot(memory=memory, timeout=120)
    low = min(size, 0xe0000000 if size < 0xe0000000 else 0xc0000000)
    places = [(2 << 20, 32 << 20), (low - (64 << 20), 60 << 20)]
    if size > low:
        places += [(4 * GIB, 32 << 20), (4 * GIB + size - low - (32 << 20), 32 << 20)]
    for start, length in places:
        machine.console.fill(7, start, length)
    # In the middle, never written.
    places.append((low // 2, 64 << 20))
    hashes = [machine.console.hash(start, length) for start, length in places]
    info = machine.save(folder / 's')
    assert info['ram']['data-pages'] * 4096 < 512 << 20
    machines.end(machine)
    assert (folder / 's').stat().st_blocks * 512 < 512 << 20, 'untouched pages are holes'
    for mode in ('copy-on-write', 'copy'):
        again = machines.restore(folder / 's', mode, memory=memory, timeout=120)
        assert [again.console.hash(start, length) for start, length in places] == hashes
        for start, length in places[:-1]:
            again.console.verify(7, start, length)
        again.console.verify(0, *places[-1])
        machines.end(again)


def test_zero_pages_become_holes(machines, folder):
    machine = machines.filled(memory='160M')
    machine.console.command(f'zero {32 << 20} {64 << 20}')
    info = machine.save(folder / 's')
    assert info['ram']['zero-pages'] >= (64 << 20) // 4096
    assert (folder / 's').stat().st_blocks * 512 < 110 << 20
    again = machines.restore(folder / 's', memory='160M')
    assert again.console.verify(0, 32 << 20, 64 << 20) == (64 << 20) // 4096
    assert again.console.verify(7, 96 << 20)


def test_file_holds_the_pages_the_guest_wrote(saved):
    """The oracle on the host reads guest RAM at its fixed place in the file."""
    offset = int(re.search(r'"pages-offset": (\d+)', snap('info', saved.path).stdout)[1])
    done = subprocess.run([vmlib.build_dir() / 'tests/guest/page-oracle', 'verify', str(saved.seed), saved.path,
                           str(offset + (2 << 20)), str(2 << 20), str(64 << 20)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert offset % (1 << 20) == 0


def test_file_at_an_unaligned_offset(machines, folder):
    """libvirt's header comes first; the mapped region is still aligned and its bytes stay."""
    path = folder / 's'
    path.write_bytes(b'header' * 2000)
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    assert machine.migrate(f'file:{path},offset=12000')['status'] == 'completed'
    machines.end(machine)
    assert path.read_bytes()[:12000] == b'header' * 2000
    again = machines.track(vmlib.Vm(incoming=f'file:{path},offset=12000', memory='160M'))
    vmlib.wait_restored(again)
    again.cont()
    assert again.restored_blocks()['pc.ram']['mode'] == 'copy-on-write'
    assert again.console.verify(7) == machine.pages


@pytest.mark.parametrize('direct', [False, True])
@pytest.mark.parametrize('channels', [1, 4])
def test_parallel_and_direct_writers(machines, folder, direct, channels):
    machine = machines.filled(memory='160M')
    machine.set_capabilities(multifd=channels > 1)
    machine.save(folder / 's', multifd_channels=channels, direct_io=direct)
    machines.end(machine)
    again = machines.restore(folder / 's', memory='160M')
    assert again.console.verify(7) == machine.pages


def test_fd_given_by_getfd(machines, folder):
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    fd = os.open(folder / 's', os.O_RDWR | os.O_CREAT, 0o600)
    machine.qmp.command('getfd', fdname='out', fds=[fd])
    assert machine.migrate('fd:out')['status'] == 'completed'
    machines.end(machine)
    os.lseek(fd, 0, os.SEEK_SET)
    again = machines.track(vmlib.Vm(incoming=f'fd:{fd}', memory='160M', pass_fds=[fd]))
    os.close(fd)
    vmlib.wait_restored(again)
    again.cont()
    assert again.console.verify(7) == machine.pages


@pytest.mark.parametrize('flags', [os.O_RDWR, os.O_RDWR | os.O_DIRECT])
def test_fdset(machines, folder, flags):
    """libvirt's sparse format: add-fd, then file:/dev/fdset/N with an offset."""
    path = folder / 's'
    path.write_bytes(b'x' * 4096)
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    fds = [os.open(path, os.O_RDWR)] + ([os.open(path, flags)] if flags & os.O_DIRECT else [])
    for fd in fds:
        machine.qmp.command('add-fd', {'fdset-id': 5}, fds=[fd])
        os.close(fd)
    info = machine.migrate('file:/dev/fdset/5,offset=4096', direct_io=len(fds) > 1)
    assert info['status'] == 'completed', info
    machines.end(machine)
    fd = os.open(path, os.O_RDONLY)
    again = machines.track(vmlib.Vm(incoming='file:/dev/fdset/3,offset=4096', memory='160M', pass_fds=[fd],
                                    args=['-add-fd', f'set=3,fd={fd}']))
    os.close(fd)
    vmlib.wait_restored(again)
    again.cont()
    assert again.console.verify(7) == machine.pages


def test_append_mode_fd_is_refused(machines, folder):
    machine = machines.boot(memory='160M')
    fd = os.open(folder / 's', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    machine.qmp.command('getfd', fdname='out', fds=[fd])
    os.close(fd)
    machine.set_capabilities(events=True, mapped_ram=True)
    try:
        machine.qmp.command('migrate', uri='fd:out')
        text = machine.end_migrate()['error-desc']
    except vmlib.QmpError as error:
        text = error.desc
    assert 'append' in text.lower()
    assert machine.console.command('ping') == 'pong'


def test_progress_can_be_read(machines, folder):
    machine = machines.filled(memory='512M')
    machine.begin_migrate(f'file:{folder}/s', max_bandwidth=64 << 20)
    seen = set()
    while (info := machine.qmp.command('query-migrate'))['status'] not in ('completed', 'failed'):
        if 'ram' in info:
            seen.add(info['ram']['transferred'])
            assert info['ram']['total'] >= 512 << 20
        if len(seen) > 3:
            break
    assert len(seen) > 2, 'no progress was to be seen'
    machine.set_parameters(max_bandwidth=0)
    assert machine.end_migrate()['status'] == 'completed'


def test_cancel_leaves_guest_and_old_file(machines, saved, folder):
    path = saved.copy(folder / 's')
    before = path.stat()
    machine = machines.filled(memory='160M', seed=12)
    machine.begin_migrate(f'file:{path}', max_bandwidth=8 << 20)
    machine.qmp.event('MIGRATION', status='active')
    machine.qmp.command('migrate_cancel')
    assert machine.end_migrate()['status'] == 'cancelled'
    assert os.listdir(folder) == ['s']
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert machine.qmp.command('query-status')['running']
    assert machine.console.verify(12) == machine.pages
    assert machine.migrate(f'file:{path}', max_bandwidth=0)['status'] == 'completed'


def test_reflinked_full_snapshot_of_a_clone(machines, xfs):
    """On XFS a full snapshot of a clone shares the base's extents and is whole by itself."""
    base = make_saved(xfs)
    clone = machines.restore(base.path, 'copy-on-write', **base.options)
    clone.console.command(f'write 50 {64 << 20} {32 << 20} 2')
    used = os.statvfs(xfs)
    info = clone.save(xfs / 'second')
    after = os.statvfs(xfs)
    assert (used.f_bfree - after.f_bfree) * used.f_bsize < 40 << 20
    assert info['ram']['written-bytes'] < 40 << 20
    machines.end(clone)
    base.path.unlink()
    again = machines.restore(xfs / 'second', **base.options)
    again.console.verify(50, 64 << 20, 32 << 20, 2)
    again.console.verify_others(7, 64 << 20, 32 << 20, 2)
    again.console.verify(7, 96 << 20)


def test_full_snapshot_of_a_clone_without_reflink(machines, saved, folder):
    clone = machines.restore(saved.path, 'copy-on-write', **saved.options)
    clone.console.command(f'write 50 {64 << 20} {32 << 20} 2')
    clone.console.command(f'zero {100 << 20} {8 << 20}')
    clone.save(folder / 'second')
    machines.end(clone)
    again = machines.restore(folder / 'second', **saved.options)
    again.console.verify(50, 64 << 20, 32 << 20, 2)
    again.console.verify_others(7, 64 << 20, 32 << 20, 2)
    again.console.verify(0, 100 << 20, 8 << 20)
    again.console.verify(7, 108 << 20)


def test_pmemsave_agrees_with_the_guest(machines, saved, folder):
    machine = machines.restore(saved.path, **saved.options)
    machine.qmp.command('pmemsave', val=32 << 20, size=16 << 20, filename=str(folder / 'pages'))
    done = subprocess.run([vmlib.build_dir() / 'tests/guest/page-oracle', 'verify', str(saved.seed), folder / 'pages', '0',
                           str(32 << 20), str(16 << 20)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('backend, kind', [
    ('memory-backend-ram,id=m,size=160M,share=on', 'share'), ('memory-backend-memfd,id=m,size=160M', 'memfd'),
    ('memory-backend-ram,id=m,size=160M,prealloc=on', 'prealloc'), ('memory-backend-ram,id=m,size=160M,merge=on', 'merge')])
def test_memory_that_cannot_be_mapped_is_copied_and_says_why(machines, saved, backend, kind):
    options = dict(saved.options, machine='pc,memory-backend=m', args=['-object', backend])
    machine = machines.restore(saved.path, 'copy-on-write', **options)
    block, = machine.restored_blocks().values()
    assert block['mode'] == 'copy' and kind in block['reason'].lower()
    assert machine.console.verify(saved.seed) == saved.pages
    machines.end(machine)
    with pytest.raises(vmlib.VmFailed) as failure:
        machines.restore(saved.path, 'copy-on-write', **dict(
            options, args=['-object', backend, '-global', 'migration.ram-restore-fallback=off']))
    assert failure.value.status == 1 and kind in failure.value.stderr.lower()


def test_generation_id_is_new_after_a_restore(machines, folder):
    arguments = ['-device', 'vmgenid,guid=11223344-5566-7788-99aa-bbccddeeff00']
    guid = bytes.fromhex('44332211665588' '7799aabbccddeeff00')
    machine = machines.boot(memory='160M', args=arguments)
    machine.qmp.command('pmemsave', val=0, size=160 << 20, filename=str(folder / 'ram'))
    at = (folder / 'ram').read_bytes().find(guid)
    assert at > 0, 'the GUID is not in guest memory'
    machine.save(folder / 's')
    machines.end(machine)
    seen = {guid}
    for _ in range(2):
        again = machines.restore(folder / 's', memory='160M', args=['-device', 'vmgenid,guid=auto'])
        seen.add(bytes.fromhex(again.console.command(f'dump {at} 16')))
        machines.end(again)
    assert len(seen) == 3
