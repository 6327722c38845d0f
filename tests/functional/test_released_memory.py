# Memory that a guest gave back, through what else happens to the memory of a clone: a reset of the machine, detaching from the
# file, saving and restoring in every mode; and what query-ram-restore says of it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import pytest
from balloon_vm import CHUNK, MIB, PAGE, do, release, save_and_check

START, LENGTH = 32 * MIB, 16 * MIB


@pytest.fixture
def clone(machines, saved_balloon):
    return machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)


def main_block(machine):
    return machine.restored_blocks()['pc.ram']


def test_statistics(clone):
    before = main_block(clone)
    assert before['chunks-released'] == before['released-bytes'] == 0 and before['mappings'] == 1
    for number in range(4):
        release(clone, 'report', START + 2 * number * CHUNK, CHUNK)
    after = main_block(clone)
    assert after['chunks-released'] == 4 and after['released-bytes'] == 4 * CHUNK
    assert after['mappings'] == 9
    clone.console.command(f'write 50 {START} {LENGTH}')
    release(clone, 'report', START, LENGTH)
    again = main_block(clone)
    assert again['chunks-released'] == LENGTH // CHUNK and again['released-bytes'] == 4 * CHUNK + LENGTH
    assert again['mappings'] == 3
    assert again['left-over-budget'] == again['left-busy'] == again['left-inhibited'] == 0


def test_chunks_that_were_used_in_between_merge(clone):
    """Written while they had no released neighbour: the kernel would keep plain mappings apart."""
    for first in (0, 2, 1, 6, 4, 3, 7, 5):
        release(clone, 'report', START + first * CHUNK, CHUNK)
        clone.console.command(f'write {50 + first} {START + first * CHUNK} {CHUNK}')
    assert main_block(clone)['mappings'] == 3
    for first in range(8):
        clone.console.verify(50 + first, START + first * CHUNK, CHUNK)


@pytest.mark.parametrize('mode', ['copy', 'copy-on-write'])
def test_reset_keeps_the_map(machines, saved_balloon, folder, clone, mode):
    """A reset leaves memory as it is, anonymous where it was released, so the next increment is right."""
    release(clone, 'report', START, LENGTH)
    clone.console.command(f'write 50 {START + CHUNK} {CHUNK} 3')
    clone.qmp.command('system_reset')
    clone.console.ready()
    assert main_block(clone)['chunks-released'] == LENGTH // CHUNK
    clone.console.verify(0, START, CHUNK)
    clone.console.verify(50, START + CHUNK, CHUNK, 3)
    clone.console.verify_others(0, START + CHUNK, CHUNK, 3)
    do(clone, 'balloon-start')
    clone.console.command(f'write 51 {START + 3 * CHUNK} {PAGE}')
    expected = clone.console.hash()
    save_and_check(clone, folder / 'increment')
    machines.end(clone)
    again = machines.restore(folder / 'increment', mode, **saved_balloon.options)
    assert again.console.hash() == expected
    assert main_block(again)['chunks-released'] == (0 if mode == 'copy' else LENGTH // CHUNK)
    again.console.verify(51, START + 3 * CHUNK, PAGE)
    again.console.verify(0, START + 4 * CHUNK, LENGTH - 4 * CHUNK)


def test_full_snapshot_of_a_clone(machines, saved_balloon, folder, clone):
    """Released chunks are holes in it, and anonymous again in its clones; what was written to one is there."""
    release(clone, 'report', START, LENGTH)
    clone.console.command(f'write 50 {START + CHUNK} {PAGE}')
    expected = clone.console.hash()
    clone.save(folder / 'full')
    machines.end(clone)
    again = machines.restore(folder / 'full', 'copy-on-write', **saved_balloon.options)
    assert again.console.hash() == expected
    # All but the chunk with a page, which the file has.
    assert main_block(again)['chunks-released'] == LENGTH // CHUNK - 1
    again.console.command(f'write 51 {START} {PAGE}')
    expected = again.console.hash()
    save_and_check(again, folder / 'increment')
    machines.end(again)
    assert machines.restore(folder / 'increment', **saved_balloon.options).console.hash() == expected


def test_detach_keeps_released_memory(machines, saved_balloon, folder):
    """Chunks are released before, while and after memory becomes independent of the file; then the file may go."""
    path = saved_balloon.copy(folder / 'base')
    clone = machines.restore(path, 'copy-on-write', **saved_balloon.options)
    release(clone, 'report', START, LENGTH)
    clone.console.command(f'write 50 {START + CHUNK} {CHUNK} 2')
    clone.console.begin(f'balloon-churn {START + 2 * LENGTH} {LENGTH} {CHUNK} report')
    clone.qmp.command('ram-detach')
    result = clone.console.end()
    assert result['wrong'] == 0, result
    release(clone, 'report', START + LENGTH, LENGTH)
    path.write_bytes(b'')
    clone.console.verify(0, START, CHUNK)
    clone.console.verify(50, START + CHUNK, CHUNK, 2)
    clone.console.verify_others(0, START + CHUNK, CHUNK, 2)
    clone.console.verify(0, START + 2 * CHUNK, 2 * LENGTH - 2 * CHUNK)
    expected = clone.console.hash()
    clone.save(folder / 'full')
    machines.end(clone)
    assert machines.restore(folder / 'full', **saved_balloon.options).console.hash() == expected
