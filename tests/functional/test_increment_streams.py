# Increments through libvirt's pipe and into its files, over plain QMP: the template is all they rest on.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess

import pytest
import vm as vmlib
from libvirt_save import Restore, Save, len_of_header

MIB = 1 << 20
COW = ['-global', 'migration.ram-restore-mode=copy-on-write', '-global', 'migration.ram-save-mode=incremental']
FORMS = [('raw', False), ('raw', True), ('sparse', False), ('sparse', True)]
IDS = ['raw', 'raw-bypass', 'sparse', 'sparse-bypass']
forms = pytest.mark.parametrize('fmt, bypass', FORMS, ids=IDS)


def data_bytes(path):
    return path.stat().st_blocks * 512 - len_of_header(path)


def start_clone(machines, template, saved):
    clone = machines.start(incoming=f'file:{template}', args=['-S', *COW], **saved.options)
    vmlib.wait_restored(clone)
    clone.cont()
    return clone


def save(machines, clone, path, fmt='raw', bypass=False):
    """As virsh save does it, to the end of the process."""
    job = Save(clone, path, fmt, bypass_cache=bypass)
    info = job.run()
    assert job.seen == ['setup', 'active', 'completed']
    job.terminate()
    machines.end(clone)
    return info


def restore(machines, path, saved, fmt='raw', bypass=False, args=(), **options):
    return Restore(machines.start, path, fmt, bypass, args=[*COW, *args], **{**saved.options, **options}).machine


@pytest.fixture
def template(saved, folder):
    return saved.copy(folder / 'template')


@pytest.fixture
def increment(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    save(machines, clone, folder / 'increment')
    return folder / 'increment'


@forms
def test_saved_again_and_again_over_the_same_file(machines, saved, template, folder, fmt, bypass):
    clone, path = start_clone(machines, template, saved), folder / 'increment'
    for turn in range(3):
        clone.console.command(f'write {60 + turn} {(32 + turn) * MIB} {4 * MIB}')
        clone.console.command(f'zero {(48 + 8 * turn) * MIB} {5 * MIB}')
        expected = clone.console.hash()
        info = save(machines, clone, path, fmt, bypass)
        # The very file that it was restored from is written again: nothing may rest on it.
        assert data_bytes(path) < 12 * MIB
        assert info['ram']['zero-pages'] >= 5 * 256
        clone = restore(machines, path, saved, fmt, bypass)
        assert clone.console.hash() == expected
        block = clone.restored_blocks()['pc.ram']
        assert block['mode'] == 'copy-on-write', block
        assert block['file'] == str(template)
        assert block['chunks-released'] >= 1
    assert clone.console.verify(62, 34 * MIB, 4 * MIB) == 1024
    clone.console.verify(60, 32 * MIB, MIB)


@forms
def test_file_removed_as_libvirt_does_with_a_managed_save(machines, saved, template, folder, fmt, bypass):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    save(machines, clone, folder / 'one', fmt, bypass)
    clone = restore(machines, folder / 'one', saved, fmt, bypass)
    (folder / 'one').unlink()
    clone.console.command(f'write 61 {40 * MIB} {4 * MIB}')
    save(machines, clone, folder / 'two', fmt, bypass)
    again = restore(machines, folder / 'two', saved, fmt, bypass)
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(61, 40 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 44 * MIB)


@pytest.mark.parametrize('mode', ['auto', 'copy'])
def test_other_restore_modes(machines, saved, template, increment, mode):
    again = Restore(machines.start, increment, args=['-global', f'migration.ram-restore-mode={mode}'], **saved.options).machine
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 36 * MIB)
    assert again.restored_blocks()['pc.ram']['mode'] == ('copy' if mode == 'copy' else 'copy-on-write')


def test_bytes_written(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {64 * MIB}')
    info = save(machines, clone, folder / 'increment')
    pages = info['ram']['data-pages']
    assert 64 * 256 <= pages < 66 * 256
    assert (folder / 'increment').stat().st_size - len_of_header(folder / 'increment') <= 1.1 * 4096 * pages


def test_pages_far_apart_are_not_joined(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {32 * MIB} 2')
    info = save(machines, clone, folder / 'increment')
    pages = info['ram']['data-pages']
    assert (folder / 'increment').stat().st_size - len_of_header(folder / 'increment') <= 1.1 * 4096 * pages
    again = restore(machines, folder / 'increment', saved)
    again.console.verify(60, 32 * MIB, 32 * MIB, 2)
    again.console.verify_others(saved.seed, 32 * MIB, 32 * MIB, 2)


def test_stream_at_the_start_of_a_file_can_be_checked_and_mapped(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    clone.qmp.command('stop')
    info = clone.migrate(f'exec:cat > {folder}/increment', mapped_ram=False)
    assert info['status'] == 'completed', info
    machines.end(clone)
    checked = subprocess.run([vmlib.snap_path(), 'check', folder / 'increment'], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    again = machines.restore(folder / 'increment', 'copy-on-write', **saved.options)
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 36 * MIB)


def test_clone_of_a_clone_rests_on_both_files(machines, saved, template, folder):
    first = start_clone(machines, template, saved)
    first.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    first.save_increment(folder / 'middle')
    machines.end(first)
    clone = start_clone(machines, folder / 'middle', saved)
    clone.console.command(f'write 61 {40 * MIB} {4 * MIB}')
    save(machines, clone, folder / 'increment')
    again = restore(machines, folder / 'increment', saved)
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(61, 40 * MIB, 4 * MIB)
    # The next one may be written over none of them.
    again.qmp.command('stop')
    for name in ('template', 'middle'):
        with pytest.raises(vmlib.QmpError, match='in use'):
            again.qmp.command('migrate', uri=f'file:{folder}/{name}')


def restore_fails(machines, path, saved, fmt='raw', bypass=False, args=()):
    """The process stays alive and tells why, in one piece."""
    with pytest.raises(AssertionError) as failure:
        restore(machines, path, saved, fmt, bypass, args)
    machine = machines.all[-1]
    info = machine.qmp.command('query-migrate')
    assert info['status'] == 'failed', failure.value
    complaints = [line for line in machine.stderr().splitlines() if 'cannot load' in line]
    assert len(complaints) == 1 and info['error-desc'] in complaints[0]
    machines.end(machine)
    return info['error-desc']


@pytest.mark.parametrize('fmt, bypass', [('raw', False), ('raw', True)], ids=['file', 'pipe'])
def test_missing_template(machines, saved, template, increment, folder, fmt, bypass):
    template.rename(folder / 'elsewhere')
    assert str(template) in restore_fails(machines, increment, saved, fmt, bypass)
    # Nothing is lost: with the template found again the file is as good as ever.
    parent = ['-global', f'migration.ram-parent={folder}/elsewhere']
    again = restore(machines, increment, saved, fmt, bypass, args=parent)
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 36 * MIB)
    assert again.restored_blocks()['pc.ram']['file'] == f'{folder}/elsewhere'


@pytest.mark.parametrize('bypass', [False, True], ids=['file', 'pipe'])
def test_template_as_a_descriptor(machines, saved, template, increment, folder, bypass):
    template.rename(folder / 'elsewhere')
    fd = os.open(folder / 'elsewhere', os.O_RDONLY)
    try:
        again = restore(machines, increment, saved, 'raw', bypass,
                        args=['-add-fd', f'set=5,fd={fd}', '-global', 'migration.ram-parent=/dev/fdset/5'], more_fds=[fd])
    finally:
        os.close(fd)
    again.console.verify(60, 32 * MIB, 4 * MIB)


@pytest.mark.parametrize('bypass', [False, True], ids=['file', 'pipe'])
def test_changed_template(machines, saved, template, increment, folder, bypass):
    kept = (folder / 'kept')
    template.rename(kept)
    other = machines.filled(memory='160M', seed=3)
    other.save(template)
    machines.end(other)
    assert 'ram-parent' in restore_fails(machines, increment, saved, 'raw', bypass)
    template.write_bytes(kept.read_bytes()[:-5000])
    assert str(template) in restore_fails(machines, increment, saved, 'raw', bypass)
    kept.rename(template)
    again = restore(machines, increment, saved, 'raw', bypass)
    again.console.verify(60, 32 * MIB, 4 * MIB)


@pytest.mark.parametrize('how', ['removed', 'written to'])
def test_save_is_refused_when_the_template_has_gone(machines, saved, template, folder, how):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    if how == 'removed':
        template.unlink()
    else:
        os.utime(template, (1, 1))
    job = Save(clone, folder / 'increment')
    with pytest.raises(vmlib.QmpError, match='use ram-save-mode=full'):
        job.begin()
    # What libvirt does then.
    clone.cont()
    clone.console.verify(60, 32 * MIB, 4 * MIB)
    clone.set_parameters(ram_save_mode='full')
    save(machines, clone, folder / 'full')
    again = Restore(machines.start, folder / 'full', **saved.options).machine
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 36 * MIB)


def test_template_removed_while_an_increment_is_written(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {64 * MIB}')
    clone.qmp.command('stop')
    clone.set_capabilities(events=True)
    clone.set_parameters(max_bandwidth=64 * MIB)
    clone.qmp.command('migrate', uri=f'exec:cat > {folder}/increment')
    template.unlink()
    info = clone.end_migrate()
    assert info['status'] == 'failed' and 'removed' in info['error-desc'], info
    clone.cont()
    clone.console.verify(60, 32 * MIB, 64 * MIB)


def test_reader_that_leaves(machines, saved, template, folder):
    clone = start_clone(machines, template, saved)
    clone.console.command(f'write 60 {32 * MIB} {64 * MIB}')
    job = Save(clone, folder / 'increment', limit=8 * MIB)
    job.begin()
    assert job.end()['status'] == 'failed'
    clone.cont()
    clone.console.verify(60, 32 * MIB, 64 * MIB)
    save(machines, clone, folder / 'increment')
    restore(machines, folder / 'increment', saved).console.verify(60, 32 * MIB, 64 * MIB)


@pytest.mark.parametrize('bypass', [False, True], ids=['file', 'pipe'])
def test_damaged_files(machines, saved, increment, bypass, rng):
    """Every byte of the table and of the end counts; a file that is cut off anywhere is refused."""
    good = increment.read_bytes()
    start = len_of_header(increment)
    places = [start + 7, start + 200, len(good) - 20, *(rng.randrange(start, start + 400) for _ in range(3))]
    for place in places:
        increment.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1:])
        restore_fails(machines, increment, saved, 'raw', bypass)
    for length in (start, start + 30, start + (len(good) - start) // 2, len(good) - 1):
        increment.write_bytes(good[:length])
        restore_fails(machines, increment, saved, 'raw', bypass)


def test_clone_prestarted_and_loaded_later(machines, saved, template):
    """Only migrate-incoming and cont are on the critical path; eight clones of one file."""
    clones = [machines.start(incoming='defer', args=['-S', *COW], **saved.options) for _ in range(8)]
    for number, clone in enumerate(clones):
        clone.set_capabilities(events=True)
        clone.qmp.command('migrate-incoming', uri=f'file:{template}')
        vmlib.wait_restored(clone)
        clone.cont()
        clone.console.command(f'write {200 + number} {32 * MIB} {MIB}')
    for number, clone in enumerate(clones):
        clone.console.verify(200 + number, 32 * MIB, MIB)
        clone.console.verify(saved.seed, 33 * MIB, 4 * MIB)
        block = clone.restored_blocks()['pc.ram']
        assert block['mode'] == 'copy-on-write' and block['private-pages'] < 1024, block


def test_defer_wins_over_the_template(machines, saved, template, increment):
    """The XML of a clone has -incoming file:TEMPLATE, and virsh restore adds -incoming defer."""
    again = restore(machines, increment, saved, args=['-incoming', f'file:{template}'])
    again.console.verify(60, 32 * MIB, 4 * MIB)
    assert again.restored_blocks()['pc.ram']['file'] == str(template)
