# virsh save and restore in every form that libvirt has for them: raw, compressed, sparse, past the page cache.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest

SEED = 7
NEEDS_11 = pytest.mark.needs_libvirt(11)
ENDS = ('completed', 'failed', 'cancelled')


def migration_statuses(lv, mark):
    """Of the MIGRATION events in the log of the QMP traffic."""
    return [m['data']['status'] for _, _, m in lv.qmp_log(mark) if m.get('event') == 'MIGRATION']


def commands(lv, mark):
    return [m['execute'] for _, direction, m in lv.qmp_log(mark) if 'execute' in m]


@pytest.fixture(scope='module')
def guest(module_domain):
    """One running domain for the tests of this file: each saves and restores it."""
    made = module_domain.boot('save-basic', memory='256M')
    made.pages = made.fill(SEED, 0, '64m')
    return made


@pytest.fixture(scope='module')
def small_guest(module_domain):
    """One with little to compress."""
    made = module_domain.boot('save-small', memory='64M')
    made.pages = made.fill(SEED, 0, '6m')
    return made


def assert_same(guest):
    assert guest.state() == 'running'
    assert guest.console.verify(SEED, 0, guest.pages * 4096 + (2 << 20)) == guest.pages


def round_trip(guest, path, save_words=(), restore_words=()):
    """Save and restore; both with the events that libvirt waits for, in their order."""
    lv = guest.lv
    mark = lv.log_mark()
    assert f'Domain \'{guest.name}\' saved to {path}' in guest.save(path, *save_words)
    assert migration_statuses(lv, mark) == ['setup', 'active', 'completed']
    mark = lv.log_mark()
    assert f'Domain restored from {path}' in guest.restore(path, *restore_words)
    assert migration_statuses(lv, mark) == ['setup', 'active', 'completed']
    assert_same(guest)
    return {block['block']: block for block in guest.qmp('query-ram-restore')['blocks']}['pc.ram']


@pytest.fixture
def image_format(lv):
    """Sets save_image_format in qemu.conf for one test."""
    yield lambda name: lv.configure(save_image_format=name)
    lv.configure(save_image_format=None)


def test_raw(guest, workdir):
    block = round_trip(guest, workdir / 'raw')
    assert block['mode'] == 'copy' and 'sequential' in block['reason']


def test_raw_bypass_cache(guest, workdir):
    round_trip(guest, workdir / 'raw-direct', ['--bypass-cache'], ['--bypass-cache'])


@pytest.mark.parametrize('kind', ['gzip', 'lzop', 'xz', 'bzip2', pytest.param('zstd', marks=NEEDS_11)])
def test_compressed(small_guest, workdir, image_format, kind):
    if small_guest.lv.run_inside(['sh', '-c', f'command -v {kind}'], check=False).returncode:
        pytest.skip(f'{kind} is not installed')
    image_format(kind)
    round_trip(small_guest, workdir / f'compressed-{kind}')


@NEEDS_11
@pytest.mark.parametrize('bypass', [False, True], ids=['cached', 'bypass'])
@pytest.mark.parametrize('channels', [1, 3])
def test_sparse(guest, workdir, channels, bypass):
    words = ['--parallel-channels', channels] + (['--bypass-cache'] if bypass else [])
    block = round_trip(guest, workdir / f'sparse-{channels}-{bypass}', ['--image-format', 'sparse', *words], words)
    assert block['mode'] == 'copy-on-write'


def test_verbose(guest, workdir):
    path = workdir / 'verbose'
    process = guest.lv.popen_virsh('save', guest.name, str(path), '--verbose')
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and 'saved to' in out
    shown = [float(n) for n in re.findall(r'Save: \[ *([\d.]+) ?%\]', err)]
    guest.close_console()
    guest.restore(path)
    assert shown and shown[-1] == 100 and shown == sorted(shown), err
    assert_same(guest)


def test_paused_stays_paused(guest, workdir):
    path = workdir / 'paused'
    guest.save(path, '--paused')
    guest.restore(path)
    assert guest.state() == 'paused'
    guest.virsh('resume')
    assert_same(guest)
    guest.save(path)
    guest.restore(path, '--paused')
    assert guest.state() == 'paused'
    guest.virsh('resume')
    assert_same(guest)


def test_running_wins_over_what_the_file_says(guest, workdir):
    path = workdir / 'running'
    guest.save(path, '--paused')
    guest.restore(path, '--running')
    assert_same(guest)


def test_save_image_commands(guest, workdir):
    path = workdir / 'image'
    guest.save(path)
    xml = guest.lv.virsh('save-image-dumpxml', path)
    assert f'<name>{guest.name}</name>' in xml
    changed = workdir / 'changed.xml'
    changed.write_text(xml)
    assert 'State file' in guest.lv.virsh('save-image-define', path, changed)
    guest.restore(path)
    assert_same(guest)


def test_job_figures(guest, workdir):
    """domjobinfo --completed after a restore and save: what libvirt read from query-migrate."""
    path = workdir / 'figures'
    guest.virsh('suspend')
    guest.virsh('resume')
    mark = guest.lv.log_mark()
    guest.save(path)
    infos = [m['return'] for _, _, m in guest.lv.qmp_log(mark) if isinstance(m.get('return'), dict) and 'ram' in m['return']]
    ram = infos[-1]['ram']
    assert infos[-1]['status'] == 'completed'
    assert ram['total'] >= 256 << 20 and ram['remaining'] == 0
    assert ram['transferred'] >= ram['normal'] * 4096 >= guest.pages * 4096
    assert infos[-1]['downtime'] <= infos[-1]['total-time']
    guest.restore(path)
    assert_same(guest)


def test_restored_guest_is_saved_over_its_own_file(guest, workdir):
    """Ten times: at once after the restore, running and paused, without libvirt's knowing that the file is in use."""
    path = workdir / 'over'
    guest.save(path)
    for i in range(10):
        paused = i % 2
        guest.restore(path, *(['--paused'] if paused else []))
        if not paused:
            assert guest.fill(SEED + i, 4 << 20, '1m')
            assert guest.fill(SEED, 4 << 20, '1m')
        guest.save(path, '--running')
    guest.restore(path)
    assert_same(guest)
