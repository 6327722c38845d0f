# What virsh save, managed save and snapshot write of a clone: its own pages, and what a restore does with them.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import struct

import pytest
from template import Template, expect_early_end, libvirt_folder
from daemon import VirshError

MIB = 1 << 20
WRITTEN = 8 * MIB
FORMS = [pytest.param([], id='raw'), pytest.param(['--bypass-cache'], id='bypass-cache'),
         pytest.param(['--image-format', 'sparse'], id='sparse', marks=pytest.mark.needs_libvirt(11)),
         pytest.param(['--image-format', 'sparse', '--bypass-cache'], id='sparse-bypass', marks=pytest.mark.needs_libvirt(11))]


@pytest.fixture(scope='module')
def template(module_domain, workdir):
    return Template(module_domain, libvirt_folder(workdir, 'increments'))


@pytest.fixture(scope='module')
def clone(template):
    """One clone for the tests of this file; each leaves it running or brings it back."""
    return template.clone('increment').define()


@pytest.fixture
def running(clone, template):
    """The clone as the template is, but for 8 MiB."""
    if clone.state() != 'shut off':
        clone.destroy()
    clone.start()
    clone.console.command(f'write 60 {32 * MIB} {WRITTEN}')
    return clone


def check(clone, template):
    clone.check(60, 32 * MIB, WRITTEN)
    clone.check(template.seed, 32 * MIB + WRITTEN)


def bytes_of_ours(path):
    """Beyond libvirt's header."""
    with open(path, 'rb') as file:
        head = file.read(92)
    return os.stat(path).st_blocks * 512 - 92 - struct.unpack_from('<5I', head, 16)[1]


def bypasses(words):
    return [word for word in words if word == '--bypass-cache']


@pytest.mark.parametrize('words', FORMS)
def test_save_and_restore_over_the_same_file(running, template, workdir, words):
    path = workdir / 'increment.save'
    for turn in range(3):
        running.console.command(f'write {70 + turn} {(64 + 4 * turn) * MIB} {4 * MIB}')
        running.save(path, *words)
        assert bytes_of_ours(path) < WRITTEN + 4 * MIB * (turn + 1) + 4 * MIB
        running.restore(path, *bypasses(words))
        block = next(b for b in running.qmp('query-ram-restore')['blocks'] if b['block'] == 'pc.ram')
        assert block['mode'] == 'copy-on-write' and block['file'] == str(template.path), block
    for turn in range(3):
        running.check(70 + turn, (64 + 4 * turn) * MIB, 4 * MIB)
    running.check(60, 32 * MIB, WRITTEN)
    running.check(template.seed, 76 * MIB)
    path.unlink()


def test_managed_save_and_start(running, template):
    for _ in range(2):
        running.virsh('managedsave', timeout=60)
        running.close_console()
        assert running.state() == 'shut off'
        path = running.lv.inside(f'/var/lib/libvirt/qemu/save/{running.name}.save')
        assert bytes_of_ours(path) < WRITTEN + 4 * MIB
        running.start()
        assert not path.exists()
    check(running, template)


@pytest.mark.parametrize('live', [False, True], ids=['stopped', 'live'])
def test_memory_snapshot(running, template, workdir, live):
    path = workdir / f'{running.name}.memory'
    running.virsh('snapshot-create-as', f'snap-{live}', '--memspec', f'file={path},snapshot=external',
                  *(['--live'] if live else []), timeout=60)
    assert running.state() == 'running'
    assert bytes_of_ours(path) < WRITTEN + 4 * MIB
    check(running, template)
    running.virsh('snapshot-delete', f'snap-{live}', '--metadata')
    running.destroy()
    # Its layout is that of a save file.
    running.restore(path)
    check(running, template)
    path.unlink()


def test_compressed(running, template, workdir):
    running.lv.configure(save_image_format='gzip')
    try:
        running.save(workdir / 'packed')
        running.restore(workdir / 'packed')
    finally:
        running.lv.configure(save_image_format=None)
    check(running, template)
    (workdir / 'packed').unlink()


@pytest.mark.parametrize('words', FORMS[:2])
def test_missing_template_is_one_error(running, template, workdir, words):
    expect_early_end(running.lv)
    path = workdir / 'orphan.save'
    running.save(path)
    with template.away() as elsewhere:
        with pytest.raises(VirshError) as failure:
            running.restore(path, *words)
        text = str(failure.value)
        assert text.count(str(template.path)) == 1 and 'No such file' in text, text
        assert running.state() == 'shut off' and path.exists() and elsewhere.exists()
    # Nothing is lost.
    running.restore(path, *words)
    check(running, template)
    path.unlink()


def test_template_found_by_ram_parent(template, running, workdir, domain):
    path = workdir / 'moved.save'
    running.save(path)
    with template.away() as elsewhere:
        xml = running.virsh('dumpxml').replace(f'file:{template.path}', 'defer').replace(
            'migration.ram-save-mode=incremental', f'migration.ram-parent={elsewhere}')
        edited = workdir / 'moved.xml'
        edited.write_text(xml)
        running.restore(path, '--xml', edited)
        check(running, template)
        running.destroy()
    path.unlink()


@pytest.mark.parametrize('words', FORMS[:2])
def test_changed_template_is_one_error(running, template, workdir, words):
    expect_early_end(running.lv)
    path = workdir / 'changed.save'
    running.save(path)
    with template.away() as kept:
        template.path.write_bytes(kept.read_bytes()[:-5000])
        with pytest.raises(VirshError) as failure:
            running.restore(path, *words)
        assert str(template.path) in str(failure.value)
        assert running.state() == 'shut off' and path.exists()
        template.path.unlink()
    running.restore(path, *words)
    check(running, template)
    path.unlink()


def test_save_is_refused_when_the_template_has_been_removed(running, template, workdir):
    """The state would be lost: nobody could ever restore it."""
    kept = template.folder / 'kept'
    kept.write_bytes(template.path.read_bytes())
    os.chown(kept, template.path.stat().st_uid, template.path.stat().st_gid)
    template.path.unlink()
    try:
        with pytest.raises(VirshError, match='has been removed.*ram-save-mode=full'):
            running.save(workdir / 'refused.save')
        assert running.state() == 'running'
        check(running, template)
        running.qmp('migrate-set-parameters', ram_save_mode='full')
        running.save(workdir / 'whole.save')
        running.restore(workdir / 'whole.save')
        check(running, template)
        running.destroy()
    finally:
        kept.rename(template.path)
    (workdir / 'whole.save').unlink()
