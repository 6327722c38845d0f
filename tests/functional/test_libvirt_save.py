# Saving and restoring with the very commands and descriptors that libvirt uses, without libvirt.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import threading

import pytest
from libvirt_save import Restore, Save

PAIRS = [('raw', False, 1), ('raw', True, 1), ('sparse', False, 1), ('sparse', False, 4), ('sparse', True, 1), ('sparse', True, 3)]
NAMES = [f'{fmt}{"-bypass" if bypass else ""}-{channels}' for fmt, bypass, channels in PAIRS]


@pytest.mark.parametrize('fmt, bypass, channels', PAIRS, ids=NAMES)
def test_save_and_restore(machines, folder, fmt, bypass, channels):
    source = machines.filled(memory='160M')
    save = Save(source, folder / 's', fmt, bypass_cache=bypass, channels=channels)
    save.run()
    assert save.seen == ['setup', 'active', 'completed']
    save.terminate()
    machines.end(source)
    target = Restore(machines.start, folder / 's', fmt, bypass, channels, memory='160M').machine
    assert target.console.verify(7) == source.pages
    block = target.restored_blocks()['pc.ram']
    assert block['mode'] == ('copy' if fmt == 'raw' else 'copy-on-write'), block


def kernel_watches_writes():
    return tuple(int(n) for n in os.uname().release.split('-')[0].split('.')[:2]) >= (6, 7)


@pytest.mark.parametrize('reader', ['fast', 'slow'])
def test_live_snapshot_of_a_guest_that_writes(machines, folder, reader):
    """Memory is sent while the guest runs; it goes on afterwards, and so does what is restored, each with all it wrote."""
    source = machines.boot(memory='256M')
    static = source.console.fill(7, 0, '128m')
    source.console.begin('churn 160m 32m')
    save = Save(source, folder / 's', live=True, delay=threading.Event() if reader == 'slow' else None)
    save.begin()
    assert source.qmp.command('query-status')['running'] or not kernel_watches_writes()
    info = save.end()
    assert info['status'] == 'completed', info
    assert source.qmp.event('STOP')
    assert source.qmp.command('query-status')['status'] == 'postmigrate'
    if kernel_watches_writes():
        assert info['ram']['dirty-sync-count'] >= 1 and info['downtime'] < info['total-time']
    source.qmp.command('cont')
    ended = source.console.end()
    assert ended['wrong'] == 0
    assert source.console.verify(7, 0, static * 4096 + (2 << 20)) == static
    machines.end(source)
    target = Restore(machines.start, folder / 's', memory='256M').machine
    ended = target.console.end()
    assert ended['wrong'] == 0
    assert target.console.verify(7, 0, static * 4096 + (2 << 20)) == static


def test_live_snapshot_with_pages_that_become_zero(machines, folder):
    source = machines.filled(memory='160M')
    save = Save(source, folder / 's', live=True, delay=threading.Event())
    save.begin()
    source.console.command('zero 32m 32m')
    source.console.fill(9, 96 << 20, '8m')
    assert save.end()['status'] == 'completed'
    machines.end(source)
    target = Restore(machines.start, folder / 's', memory='160M').machine
    assert target.console.fields('verify 0 32m 32m')['wrong'] == 0
    assert target.console.fields('verify 9 96m 8m')['wrong'] == 0
    assert target.console.fields('verify 7 0 32m')['wrong'] == 0
    assert target.console.fields('verify 7 64m 32m')['wrong'] == 0


STRICT = ['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny']


@pytest.mark.parametrize('when', ['before', 'during'])
def test_live_snapshot_of_a_clone_whose_file_is_wanted(machines, folder, when):
    """Memory moves away from the file while it is watched, copied and written; nothing of it is lost, here or there."""
    source = machines.boot(memory='256M')
    static = source.console.fill(7, 0, '128m')
    source.save(folder / 'base')
    machines.end(source)
    clone = machines.restore(folder / 'base', 'copy-on-write', memory='256M', args=STRICT)
    clone.cont()
    clone.console.begin('churn 160m 32m')
    hurry = threading.Event()
    save = Save(clone, folder / 's', live=True, delay=hurry)
    if when == 'during':
        save.begin()
    with pytest.raises(BlockingIOError):
        os.open(folder / 'base', os.O_WRONLY | os.O_NONBLOCK)
    if when == 'before':
        save.begin()
    hurry.wait(0.5)
    hurry.set()
    assert save.end()['status'] == 'completed'
    clone.qmp.event('RAM_BASE_DETACHED')
    clone.cont()
    assert clone.console.end()['wrong'] == 0
    assert clone.console.verify(7, 0, static * 4096 + (2 << 20)) == static
    machines.end(clone)
    target = Restore(machines.start, folder / 's', memory='256M').machine
    assert target.console.end()['wrong'] == 0
    assert target.console.verify(7, 0, static * 4096 + (2 << 20)) == static


def test_increment_after_live_snapshots(machines, folder):
    """What was written before, during and after streams that were finished or given up is in the next increment."""
    source = machines.filled(memory='96M')
    source.save(folder / 'base')
    machines.end(source)
    clone = machines.restore(folder / 'base', 'copy-on-write', memory='96M')
    for turn, end in enumerate(['completed', 'cancelled', 'completed']):
        hurry = threading.Event()
        save = Save(clone, folder / f's{turn}', live=True, delay=hurry)
        clone.console.command(f'write {10 + turn} {(10 + 20 * turn) << 20} {2 << 20} 3')
        save.begin()
        clone.console.command(f'write {20 + turn} {(14 + 20 * turn) << 20} {2 << 20} 2')
        if end == 'cancelled':
            clone.qmp.command('migrate_cancel')
        hurry.set()
        assert save.end()['status'] == end
        if end == 'completed':
            clone.cont()
        clone.console.command(f'write {30 + turn} {(18 + 20 * turn) << 20} {2 << 20} 5')
    expected = clone.console.hash()
    assert clone.save_increment(folder / 'next')['ram']['written-bytes'] < 40 << 20
    machines.end(clone)
    for mode in ('copy', 'copy-on-write'):
        again = machines.restore(folder / 'next', mode, memory='96M')
        assert again.console.hash() == expected
        machines.end(again)


def test_live_snapshot_is_cancelled(machines, folder):
    """Then the guest has not been stopped at all."""
    source = machines.filled(memory='160M')
    save = Save(source, folder / 's', live=True, delay=threading.Event())
    save.begin()
    source.qmp.command('migrate_cancel')
    assert save.end()['status'] == 'cancelled'
    assert source.qmp.command('query-status')['running']
    if kernel_watches_writes():
        assert not [e for e in source.qmp.events if e['event'] == 'STOP']
    assert source.console.verify(7) == source.pages
