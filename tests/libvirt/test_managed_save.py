# virsh managedsave and the start that restores it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

SEED = 5


@pytest.fixture(scope='module')
def guest(module_domain):
    made = module_domain.boot('managed', memory='256M')
    made.pages = made.fill(SEED, 0, '64m')
    return made


def file_of(guest):
    return guest.lv.inside(f'/var/lib/libvirt/qemu/save/{guest.name}.save')


def managed_save(guest, *words):
    text = guest.virsh('managedsave', *words)
    guest.close_console()
    assert f"Domain '{guest.name}' state saved by libvirt" in text
    assert guest.state() == 'shut off' and file_of(guest).exists()


def assert_same(guest):
    assert guest.state() == 'running'
    assert guest.console.verify(SEED, 0, guest.pages * 4096 + (2 << 20)) == guest.pages


@pytest.mark.parametrize('words', [[], ['--bypass-cache']], ids=['cached', 'bypass'])
def test_managed_save_and_start(guest, words):
    managed_save(guest, *words)
    assert f"Domain '{guest.name}' started" in guest.virsh('start', *words)
    assert not file_of(guest).exists(), 'libvirt removes it once the domain runs'
    assert_same(guest)


def test_again_at_once(guest):
    """The file it was started from is gone, or about to be replaced."""
    for _ in range(3):
        managed_save(guest)
        guest.start()
    assert_same(guest)


def test_paused(guest):
    managed_save(guest, '--paused')
    guest.start()
    assert guest.state() == 'paused'
    guest.virsh('resume')
    assert_same(guest)


def test_dumpxml_and_dominfo(guest):
    managed_save(guest)
    assert 'Managed save:   yes' in guest.virsh('dominfo')
    assert f'<name>{guest.name}</name>' in guest.virsh('managedsave-dumpxml')
    guest.start()
    assert 'Managed save:   no' in guest.virsh('dominfo')
    assert_same(guest)


def test_remove(guest):
    managed_save(guest)
    assert 'Removed managedsave image' in guest.virsh('managedsave-remove')
    assert not file_of(guest).exists()
    guest.start()
    guest.console.command('ping')
    guest.pages = guest.fill(SEED, 0, '64m')


@pytest.mark.needs_libvirt(11)
def test_sparse(guest, lv):
    lv.configure(save_image_format='sparse')
    try:
        managed_save(guest)
        guest.start()
        assert guest.qmp('query-ram-restore')['blocks'][0]['mode'] == 'copy-on-write'
        assert_same(guest)
        managed_save(guest)
        guest.start()
        assert_same(guest)
    finally:
        lv.configure(save_image_format=None)


def test_force_boot(guest):
    managed_save(guest)
    guest.virsh('start', '--force-boot')
    assert guest.console.fields(f'verify {SEED} 4m 4m')['wrong'] > 0, 'the guest booted afresh'
