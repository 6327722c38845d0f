# The traps of releasing memory (T1 to T12), each as a guest on a copy-on-write clone meets it. The memory engine's own tests of
# the same names are in tests/unit.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import errno
import socket
from pathlib import Path

import pytest
import vm as vmlib
from balloon_vm import CHUNK, FREE_PAGE_HINT, MIB, MUST_TELL_HOST, PAGE, PAGE_POISON, classes, do, release, save_and_check
from fail_calls import FailCalls
from host_memory import need_root

START, LENGTH = 32 * MIB, 16 * MIB
HOW = pytest.mark.parametrize('how', ['report', 'inflate'])
ALL = 0xffffffff | 1 << 32


@pytest.fixture
def clone(machines, saved_balloon):
    return machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)


@HOW
def test_t01_old_bytes_do_not_come_back(machines, saved_balloon, folder, clone, how):
    """Neither those of the snapshot nor those written since; less than a chunk is left alone."""
    clone.console.command(f'write 50 {START} {LENGTH // 2}')
    release(clone, how, START, LENGTH)
    clone.console.verify(0, START, LENGTH)
    clone.console.command(f'write 51 {START + LENGTH} {2 * CHUNK}')
    do(clone, f'report {START + LENGTH + PAGE} {CHUNK - 2 * PAGE}')
    do(clone, f'report {START + LENGTH + CHUNK + CHUNK // 2} {CHUNK // 2}')
    clone.console.verify(51, START + LENGTH, 2 * CHUNK)
    save_and_check(clone, folder / 'increment')
    machines.end(clone)
    again = machines.restore(folder / 'increment', **saved_balloon.options)
    again.console.verify(0, START, LENGTH)
    again.console.verify(51, START + LENGTH, 2 * CHUNK)


@pytest.mark.parametrize('poison', [0, 0xaa, 0xffffffff])
def test_t02_page_poison(clone, poison):
    """A value other than zero keeps every page as it is; zero releases."""
    features = do(clone, f'balloon-start {ALL:#x} {poison:#x}')['features']
    assert features & PAGE_POISON
    assert clone.console.fields('balloon-config')['poison'] == poison
    clone.console.command(f'write 50 {START} {LENGTH}')
    do(clone, f'report {START} {LENGTH}')
    clone.console.verify(50 if poison else 0, START, LENGTH)
    # Less than a chunk keeps its content in either case.
    clone.console.command(f'write 51 {START + LENGTH} {CHUNK}')
    do(clone, f'report {START + LENGTH + PAGE} {CHUNK // 2}')
    do(clone, f'inflate {START + LENGTH} {CHUNK // 2} 2')
    clone.console.verify(51, START + LENGTH + CHUNK // 2 + PAGE, CHUNK // 2 - PAGE)
    clone.console.verify_others(51, START + LENGTH, CHUNK // 2, 2)


def test_t03_pages_taken_back_untold(clone):
    """Without MUST_TELL_HOST the guest may use a page at any time after the reply."""
    assert do(clone, f'balloon-start {ALL & ~MUST_TELL_HOST:#x}')['features'] & MUST_TELL_HOST == 0
    for step in (1, 3):
        clone.console.command(f'write 50 {START} {CHUNK}')
        do(clone, f'inflate {START} {CHUNK // 2} {step}')
        clone.console.command(f'write 51 {START} {CHUNK // 2}')
        do(clone, f'inflate {START + CHUNK // 2} {CHUNK // 2}')
        clone.console.verify(51, START, CHUNK // 2)


def test_t03_deflated_before_the_reply(clone):
    """A page that was taken back is not released with the rest of its chunk, however close that follows."""
    for number in range(40):
        page = START + number * PAGE
        clone.console.command(f'write 50 {START} {CHUNK}')
        do(clone, f'inflate {START} {CHUNK - PAGE}')
        do(clone, f'deflate {page} {PAGE}')
        clone.console.command(f'write {60 + number} {page} {PAGE}')
        do(clone, f'inflate {START + CHUNK - PAGE} {PAGE}')
        clone.console.verify(60 + number, page, PAGE)
        do(clone, f'deflate {START} {CHUNK}')


@pytest.mark.parametrize('event', ['device reset', 'system reset', 'restore'])
def test_t04_pages_of_before_are_forgotten(machines, saved_balloon, folder, clone, event):
    """All pages but one are inflated, then the balloon starts anew: the last one does not fill the chunk."""
    do(clone, f'inflate {START} {CHUNK - PAGE}')
    if event == 'device reset':
        do(clone, 'balloon-start')
    elif event == 'system reset':
        clone.qmp.command('system_reset')
        clone.console.ready()
        do(clone, 'balloon-start')
    else:
        clone.save_increment(folder / 'increment')
        machines.end(clone)
        clone = machines.restore(folder / 'increment', **saved_balloon.options)
        # The balloon keeps its pages; the guest takes all but the last back.
        do(clone, f'deflate {START} {CHUNK - PAGE}')
    clone.console.command(f'write 50 {START} {CHUNK - PAGE}')
    do(clone, f'inflate {START + CHUNK - PAGE} {PAGE}')
    clone.console.verify(50, START, CHUNK - PAGE)


def test_t04_deflate_after_restore_is_harmless(machines, saved_balloon, folder, clone):
    do(clone, f'inflate {START} {LENGTH}')
    do(clone, f'inflate {START + LENGTH} {CHUNK} 2')
    clone.save_increment(folder / 'increment')
    machines.end(clone)
    clone = machines.restore(folder / 'increment', **saved_balloon.options)
    clone.console.verify(0, START, LENGTH)
    do(clone, f'deflate {START} {LENGTH}')
    do(clone, f'deflate {START + LENGTH} {CHUNK} 2')
    clone.console.verify(0, START, LENGTH)
    clone.console.verify_others(saved_balloon.seed, START + LENGTH, CHUNK, 2)
    clone.console.verify(saved_balloon.seed, START + LENGTH + CHUNK)
    clone.console.command(f'write 50 {START} {LENGTH + CHUNK}')
    release(clone, 'inflate', START, LENGTH)
    clone.console.verify(0, START, LENGTH)
    clone.console.verify(50, START + LENGTH, CHUNK)


@HOW
@pytest.mark.parametrize('written', [False, True])
def test_t05_released_chunk_is_zero(machines, saved_balloon, folder, clone, how, written):
    """In the next increment, in the one after it, and in a clone of either: nothing says "unchanged" of it."""
    if written:
        clone.console.command(f'write 50 {START} {LENGTH}')
    release(clone, how, START, LENGTH)
    save_and_check(clone, folder / 'first')
    machines.end(clone)
    clone = machines.restore(folder / 'first', 'copy-on-write', **saved_balloon.options)
    assert clone.restored_blocks()['pc.ram']['chunks-released'] >= LENGTH // CHUNK
    clone.console.command(f'write 51 {START + CHUNK} {PAGE}')
    save_and_check(clone, folder / 'second')
    machines.end(clone)
    again = machines.restore(folder / 'second', **saved_balloon.options)
    again.console.verify(51, START + CHUNK, PAGE)
    again.console.verify(0, START, CHUNK)
    again.console.verify(0, START + CHUNK + PAGE, LENGTH - CHUNK - PAGE)


@HOW
def test_t06_zero_pages_read_are_not_unchanged(machines, saved_balloon, folder, how):
    """With huge pages always on, reading released memory could map the huge zero page, which looks file-backed."""
    need_root()
    switch = Path('/sys/kernel/mm/transparent_hugepage/enabled')
    before = switch.read_text().split('[')[1].split(']')[0]
    try:
        switch.write_text('always')
        clone = machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)
        release(clone, how, START, LENGTH)
        clone.console.verify(0, START, LENGTH)
        save_and_check(clone, folder / 'increment')
    finally:
        switch.write_text(before)
    machines.end(clone)
    machines.restore(folder / 'increment', **saved_balloon.options).console.verify(0, START, LENGTH)


@HOW
def test_t07_released_after_an_increment(machines, saved_balloon, folder, clone, how):
    """Increments of one run: what is released between them, written before or not, is zero in the second only."""
    clone.console.command(f'write 50 {START} {LENGTH // 2}')
    clone.save_increment(folder / 'first')
    clone.cont()
    release(clone, how, START, LENGTH)
    clone.save_increment(folder / 'second')
    clone.cont()
    clone.console.command(f'write 52 {START} {LENGTH} 2')
    expected = clone.console.hash()
    clone.save_increment(folder / 'third')
    machines.end(clone)
    first = machines.restore(folder / 'first', **saved_balloon.options)
    first.console.verify(50, START, LENGTH // 2)
    first.console.verify(saved_balloon.seed, START + LENGTH // 2)
    machines.end(first)
    second = machines.restore(folder / 'second', **saved_balloon.options)
    second.console.verify(0, START, LENGTH)
    second.console.verify(saved_balloon.seed, START + LENGTH)
    machines.end(second)
    assert machines.restore(folder / 'third', **saved_balloon.options).console.hash() == expected


# A hole that stays when the file is all that can be mapped is another test's.
FAILURES = [(kind, once, after) for kind in ('map', 'hole') for once in (True, False) for after in range(3)
            if kind == 'map' or once or after == 2]


@pytest.mark.parametrize('kind, once, after', FAILURES)
def test_t08_mapping_fails(machines, saved_balloon, folder, kind, once, after):
    """Mapping anonymous memory is refused, the old mapping still there or, as before Linux 6.12, gone."""
    calls = FailCalls(folder)
    clone = machines.restore(saved_balloon.path, 'copy-on-write', env=calls.env, **saved_balloon.options)
    clone.console.command(f'write 50 {START} {LENGTH // 2}')
    calls.arm(kind, after, error=errno.ENOMEM, once=once)
    do(clone, f'report {START} {LENGTH}')
    assert calls.seen > 0
    calls.disarm()
    found = classes(clone, START, LENGTH, 50, saved_balloon.seed, 0)
    assert None not in found, found
    clone.console.verify(saved_balloon.seed, START + LENGTH)
    expected = clone.console.hash()
    save_and_check(clone, folder / 'increment')
    clone.cont()
    do(clone, f'report {START} {LENGTH}')
    clone.console.verify(0, START, LENGTH)
    machines.end(clone)
    assert machines.restore(folder / 'increment', **saved_balloon.options).console.hash() == expected


@pytest.mark.parametrize('kind', ['lost', 'hole'])
def test_t08_mapping_cannot_be_repaired(machines, saved_balloon, folder, kind):
    """Every attempt leaves a hole, or only the file could be mapped and the guest was promised zeros (PAGE_POISON): the VM
    stops and says so; the process lives."""
    calls = FailCalls(folder)
    clone = machines.restore(saved_balloon.path, 'copy-on-write', env=calls.env, **saved_balloon.options)
    calls.arm(kind, 0, error=errno.ENOMEM)
    clone.console.send(f'report {START} {LENGTH}')
    assert clone.qmp.event('RAM_LOST')['data']['block'] == 'pc.ram'
    assert clone.qmp.command('query-status')['status'] == 'io-error'
    calls.disarm()


def test_t09_on_demand_is_not_offered(machines, saved_balloon):
    """Remapping under userfaultfd would kill its registration: there is no such restore yet, and `auto` never takes one."""
    clone = machines.restore(saved_balloon.path, 'auto', **saved_balloon.options)
    assert all(block['mode'] != 'on-demand' for block in clone.restored_blocks().values())
    release(clone, 'report', START, LENGTH)
    clone.console.verify(0, START, LENGTH)


RANGES = {
    'beyond the end': (158 * MIB, 8 * MIB), 'far beyond': (1 << 40, CHUNK), 'the hole': (0xa0000, 0x60000), 'firmware': (0xf0000, 0x10000),
    'registers': (0xfec00000, CHUNK), 'odd addresses': (START + 5, CHUNK - 10), 'end of the address space': ((1 << 64) - PAGE, PAGE),
    'wraps': ((1 << 64) - PAGE, 2 * PAGE),
}


@pytest.mark.parametrize('name', RANGES)
def test_t10_bounds_of_reported_ranges(clone, saved_balloon, name):
    """Either ignored or the device asks for a reset; memory that was not whole in the range is untouched."""
    start, length = RANGES[name]
    outcome = clone.console.fields(f'report {start} {length} {length}').get('failed', 0)
    assert outcome in (0, 2)
    do(clone, 'balloon-start')
    clone.console.verify(saved_balloon.seed, 0, 156 * MIB)
    release(clone, 'report', START, LENGTH)
    clone.console.verify(0, START, LENGTH)


def test_t10_order_and_overlap_of_ranges(clone, saved_balloon):
    """One chain: out of order, overlapping, twice the same, less than a page."""
    ranges = [(START + 3 * CHUNK, CHUNK), (START, CHUNK), (START + CHUNK, 100), (START, 2 * CHUNK), (START, CHUNK)]
    for i, (start, length) in enumerate(ranges):
        clone.console.command(f'vq-desc 0 3 {i} {start} {length} {2 | (i + 1 < len(ranges))} {i + 1}')
    clone.console.command('vq-offer 0 3 0')
    do(clone, 'vq-wait 0 3')
    clone.console.verify(0, START, 2 * CHUNK)
    clone.console.verify(saved_balloon.seed, START + 2 * CHUNK, CHUNK)
    clone.console.verify(0, START + 3 * CHUNK, CHUNK)
    clone.console.verify(saved_balloon.seed, START + 4 * CHUNK)


def test_t11_no_free_page_hints(clone):
    assert do(clone, 'balloon-start')['offered'] & FREE_PAGE_HINT == 0


def test_t12_nothing_is_released_while_a_save_runs(machines, saved_balloon, folder, clone):
    """The guest reports all the time while a slow reader takes the save."""
    ours, theirs = socket.socketpair()
    clone.console.begin(f'balloon-churn {START} {LENGTH} {CHUNK} report')
    clone.qmp.command('getfd', fdname='out', fds=[theirs.fileno()])
    theirs.close()
    clone.begin_migrate('fd:out', mapped_ram=False)
    with open(folder / 'stream', 'wb') as file:
        while data := ours.recv(1 << 20):
            file.write(data)
    ours.close()
    assert clone.end_migrate()['status'] == 'completed'
    again = machines.start(incoming=f'exec:cat {folder}/stream', **saved_balloon.options)
    vmlib.wait_restored(again)
    again.cont()
    clone.cont()
    for machine in (again, clone):
        result = machine.console.end()
        assert result['wrong'] == 0 and 'failed' not in result, result
