# External snapshots with memory of a domain without disks, live ones too, and dump without --memory-only.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest

SEED = 11


def migration_statuses(lv, mark):
    return [m['data']['status'] for _, _, m in lv.qmp_log(mark) if m.get('event') == 'MIGRATION']


def events(lv, mark):
    return [m['event'] for _, kind, m in lv.qmp_log(mark) if kind == 'event']


@pytest.fixture(scope='module')
def guest(module_domain):
    made = module_domain.boot('snapshot', memory='256M')
    made.pages = made.fill(SEED, 0, '64m')
    return made


def assert_same(guest):
    assert guest.state() == 'running'
    assert guest.console.verify(SEED, 0, guest.pages * 4096 + (2 << 20)) == guest.pages


def snapshot(guest, name, path, *words):
    mark = guest.lv.log_mark()
    text = guest.virsh('snapshot-create-as', name, '--memspec', f'file={path},snapshot=external', *words)
    assert f'Domain snapshot {name} created' in text
    assert migration_statuses(guest.lv, mark) == ['setup', 'active', 'completed']
    return mark


def test_create(guest, workdir):
    mark = snapshot(guest, 'first', workdir / 'first.mem')
    assert_same(guest)
    sent = [m['execute'] for _, kind, m in guest.lv.qmp_log(mark) if kind == 'send']
    assert sent.index('stop') < sent.index('migrate') < sent.index('cont')


def test_create_live(guest, workdir):
    """The guest is stopped by the emulator, at the end, and goes on."""
    guest.console.begin('churn 128m 16m')
    mark = snapshot(guest, 'live', workdir / 'live.mem', '--live')
    names = events(guest.lv, mark)
    assert 'STOP' in names and 'RESUME' in names
    sent = [m['execute'] for _, kind, m in guest.lv.qmp_log(mark) if kind == 'send']
    assert 'stop' not in sent and 'cont' in sent
    assert guest.console.end()['wrong'] == 0
    assert_same(guest)


def event_second(lv, mark, name, status=None):
    """When the first such event came, by the emulator's own clock."""
    for _, kind, m in lv.qmp_log(mark):
        if kind == 'event' and m['event'] == name and status in (None, m.get('data', {}).get('status')):
            return m['timestamp']['seconds'] + m['timestamp']['microseconds'] / 1e6
    raise AssertionError(f'no {name}')


def test_pause_of_a_live_snapshot(guest, workdir):
    """Most is sent while the guest runs, and the downtime told is the time that the guest stood."""
    mark = guest.lv.log_mark()
    guest.virsh('snapshot-create-as', 'pause', '--memspec', f'file={workdir}/pause.mem,snapshot=external', '--live')
    guest.virsh('snapshot-delete', 'pause', '--metadata')
    active = event_second(guest.lv, mark, 'MIGRATION', 'active')
    stop = event_second(guest.lv, mark, 'STOP')
    completed = event_second(guest.lv, mark, 'MIGRATION', 'completed')
    infos = [m['return'] for _, _, m in guest.lv.qmp_log(mark) if isinstance(m.get('return'), dict) and 'downtime' in m['return']]
    told = infos[-1]['downtime'] / 1000
    print(f'active to STOP {stop - active:.3f} s, STOP to completed {completed - stop:.3f} s, told {told:.3f} s')
    assert abs(told - (completed - stop)) < 0.05
    assert completed - stop < stop - active
    assert_same(guest)


def test_list(guest):
    text = guest.virsh('snapshot-list', '--tree')
    assert text.split() == ['first', '|', '+-', 'live']
    rows = guest.virsh('snapshot-list').splitlines()
    assert [row.split()[0] for row in rows[2:]] == ['first', 'live']
    assert all(row.split()[-1] == 'running' for row in rows[2:])


def test_info(guest):
    info = dict(re.findall(r'^(\S+):\s+(.*\S)\s*$', guest.virsh('snapshot-info', 'live'), re.M))
    assert info['State'] == 'running' and info['Location'] == 'external' and info['Parent'] == 'first'


def test_dumpxml(guest, workdir):
    assert f"<memory snapshot='external' file='{workdir}/live.mem'/>" in guest.virsh('snapshot-dumpxml', 'live')


@pytest.mark.needs_libvirt(11)
def test_revert(guest):
    guest.fill(SEED + 1, 0, '16m')
    guest.virsh('snapshot-revert', 'live')
    guest.close_console()
    # It was saved in the middle of this.
    assert guest.console.log[-1].startswith('ok') or guest.console.end()['wrong'] == 0
    assert_same(guest)


@pytest.mark.needs_libvirt(11)
def test_delete(guest):
    guest.virsh('snapshot-delete', 'live')
    assert 'live' not in guest.virsh('snapshot-list', '--name').split()


def test_delete_metadata(guest, workdir):
    guest.virsh('snapshot-delete', 'first', '--metadata')
    assert 'first' not in guest.virsh('snapshot-list', '--name').split()
    assert (workdir / 'first.mem').exists()


def test_memory_of_a_snapshot_is_a_save_file(guest, workdir):
    """It can be restored as one; 9.0 has no other way back."""
    guest.virsh('snapshot-create-as', 'plain', '--memspec', f'file={workdir}/plain.mem,snapshot=external')
    guest.virsh('snapshot-delete', 'plain', '--metadata')
    guest.fill(SEED + 1, 0, '16m')
    guest.destroy()
    guest.restore(workdir / 'plain.mem')
    assert_same(guest)


def test_live_snapshot_onto_the_file_it_was_restored_from(guest, workdir):
    """That file is in use perhaps; nothing of the guest may be lost."""
    path = workdir / 'plain.mem'
    guest.virsh('snapshot-create-as', 'onto', '--memspec', f'file={path},snapshot=external', '--live')
    assert_same(guest)
    guest.virsh('snapshot-delete', 'onto', '--metadata')
    guest.destroy()
    guest.restore(path)
    assert_same(guest)


def test_dump_by_migration(guest, workdir):
    """virsh dump without --memory-only: a file of the form of a save, the guest goes on."""
    path = workdir / 'dump'
    assert f"Domain '{guest.name}' dumped to {path}" in guest.virsh('dump', path)
    assert_same(guest)
    assert path.stat().st_size > guest.pages * 4096


def test_dump_live(guest, workdir):
    mark = guest.lv.log_mark()
    guest.virsh('dump', workdir / 'dump-live', '--live')
    assert 'stop' not in [m.get('execute') for _, _, m in guest.lv.qmp_log(mark)]
    assert_same(guest)
