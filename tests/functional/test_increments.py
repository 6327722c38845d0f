# Increments: chains against the guest's own hashes, and parents that are wrong, changed or missing.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess

import pytest
import vm as vmlib

MIB = 1 << 20


def snap(*arguments):
    return subprocess.run([vmlib.snap_path(), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def make_chain(machines, saved, folder, count=3):
    """Each link is written by a clone of the one before, which changes pages in its own way; hashes are the guest's."""
    base = saved.copy(folder / 'base')
    paths, hashes = [base], []
    for number in range(1, count + 1):
        clone = machines.restore(paths[-1], 'copy-on-write', **saved.options)
        start = (16 + 20 * number) * MIB
        clone.console.command(f'write {100 + number} {start} {30 * MIB} {number}')
        clone.console.command(f'zero {start + 8 * MIB} {5 * MIB} 3')
        # The hash is taken twice: taking it must not change what it covers.
        hashes.append(clone.console.hash())
        paths.append(folder / f'increment-{number}')
        info = clone.save_increment(paths[-1])
        assert info['ram']['written-bytes'] < 60 * MIB
        clone.cont()
        assert clone.console.hash() == hashes[-1]
        machines.end(clone)
    return paths, hashes


@pytest.mark.parametrize('mode', ['copy-on-write', 'copy', 'auto'])
def test_chain_of_three_equals_the_guests_hashes(machines, saved, folder, mode):
    paths, hashes = make_chain(machines, saved, folder)
    for path, expected in zip(paths[1:], hashes):
        again = machines.restore(path, mode, **saved.options)
        assert again.console.hash() == expected
        machines.end(again)
        assert snap('check', path).returncode == 0


def test_flattened_chain_is_a_whole_snapshot(machines, saved, folder):
    paths, hashes = make_chain(machines, saved, folder)
    done = snap('flatten', paths[-1], '-o', folder / 'flat')
    assert done.returncode == 0, done.stderr
    assert snap('compare', paths[-1], folder / 'flat').returncode == 0
    for path in paths:
        path.unlink()
    again = machines.restore(folder / 'flat', **saved.options)
    assert again.console.hash() == hashes[-1]


def test_full_snapshot_of_a_chain(machines, saved, folder):
    paths, hashes = make_chain(machines, saved, folder, 2)
    clone = machines.restore(paths[-1], **saved.options)
    clone.save(folder / 'full')
    machines.end(clone)
    for path in paths:
        path.unlink()
    again = machines.restore(folder / 'full', **saved.options)
    assert again.console.hash() == hashes[-1]


def test_second_increment_of_one_run_holds_both_changes(machines, saved, folder):
    base = saved.copy(folder / 'base')
    clone = machines.restore(base, **saved.options)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    clone.save_increment(folder / 'first')
    clone.cont()
    clone.console.command(f'write 61 {64 * MIB} {4 * MIB}')
    clone.save_increment(folder / 'second')
    machines.end(clone)
    again = machines.restore(folder / 'second', **saved.options)
    again.console.verify(60, 32 * MIB, 4 * MIB)
    again.console.verify(61, 64 * MIB, 4 * MIB)
    again.console.verify(saved.seed, 68 * MIB)


def test_idle_clone_has_a_tiny_increment(machines, saved, folder):
    clone = machines.restore(saved.path, **saved.options)
    ticks = clone.console.fields('ticks')['ticks']
    while clone.console.fields('ticks')['ticks'] < ticks + 25:
        pass
    clone.save_increment(folder / 'increment')
    assert (folder / 'increment').stat().st_blocks * 512 < 4 * MIB


def test_increment_with_several_processors(machines, saved_smp, folder):
    clone = machines.restore(saved_smp.path, **saved_smp.options)
    clone.console.command('smp')
    clone.console.command(f'write 60 {32 * MIB} {64 * MIB} 5')
    expected = clone.console.hash()
    clone.save_increment(folder / 'increment')
    machines.end(clone)
    again = machines.restore(folder / 'increment', **saved_smp.options)
    assert again.console.hash() == expected


@pytest.fixture
def increment(machines, saved, folder):
    base = saved.copy(folder / 'base')
    clone = machines.restore(base, **saved.options)
    clone.console.command(f'write 60 {32 * MIB} {4 * MIB}')
    clone.save_increment(folder / 'increment')
    machines.end(clone)
    return folder / 'increment'


def refused(machines, path, saved, text, **options):
    with pytest.raises(vmlib.VmFailed) as failure:
        machines.restore(path, **{**saved.options, **options})
    assert failure.value.status == 1
    assert text in failure.value.stderr, failure.value.stderr
    assert snap('check', path).returncode != 0


def test_missing_parent(machines, saved, folder, increment):
    (folder / 'base').rename(folder / 'elsewhere')
    refused(machines, increment, saved, 'base')
    again = machines.start(incoming='defer', **saved.options)
    again.set_parameters(ram_parent=[str(folder / 'elsewhere')])
    again.qmp.command('migrate-incoming', uri=f'file:{increment}')
    vmlib.wait_restored(again)
    again.cont()
    again.console.verify(60, 32 * MIB, 4 * MIB)


def test_folder_can_be_moved(machines, saved, folder, increment):
    (folder / 'moved').mkdir()
    for name in ('base', 'increment'):
        (folder / name).rename(folder / 'moved' / name)
    again = machines.restore(folder / 'moved/increment', **saved.options)
    again.console.verify(60, 32 * MIB, 4 * MIB)


def test_wrong_parent(machines, saved, folder, increment):
    other = machines.filled(memory='160M', seed=3)
    (folder / 'base').unlink()
    other.save(folder / 'base')
    refused(machines, increment, saved, 'base')


def test_parent_cut_short(machines, saved, folder, increment):
    os.truncate(folder / 'base', (folder / 'base').stat().st_size - 5000)
    refused(machines, increment, saved, 'base')


def test_increment_without_a_parent_is_refused(machines, folder):
    machine = machines.filled(memory='160M')
    machine.set_capabilities(events=True)
    machine.set_parameters(ram_save_mode='incremental')
    with pytest.raises(vmlib.QmpError, match='incremental|increment'):
        machine.qmp.command('migrate', uri=f'file:{folder}/s')
    assert os.listdir(folder) == []
    assert machine.console.command('ping') == 'pong'
