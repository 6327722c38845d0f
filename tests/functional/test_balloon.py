# Memory that the guest gives back, by the balloon or by free page reporting: gone from the host, zero when it is used again,
# never read from the snapshot again, right in the next increment. On copy-on-write clones, page by page.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import fcntl
import subprocess
import time
from pathlib import Path

import pytest
import vm as vmlib
from balloon_vm import (BALLOON, CHUNK, MIB, PAGE, REPORTING, anonymous, boot, cached_pages, classes, do, forget_cached, mapped_file,
                        ram_base, release, rollup, save_and_check)
from host_memory import need_root

HOW = pytest.mark.parametrize('how', ['report', 'inflate'])
START, LENGTH = 32 * MIB, 64 * MIB
END = START + LENGTH


@pytest.fixture
def clone(machines, saved_balloon):
    return machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)


def check_around(machine, seed, start=START, end=END):
    machine.console.verify(seed, 0, start)
    machine.console.verify(seed, end)


@HOW
def test_released_memory_is_zero_and_stays_so(machines, saved_balloon, folder, clone, how):
    release(clone, how, START, LENGTH)
    clone.console.verify(0, START, LENGTH)
    check_around(clone, saved_balloon.seed)
    info = clone.save_increment(folder / 'increment')
    assert info['ram']['written-bytes'] < 2 * MIB
    machines.end(clone)
    for mode in ('copy-on-write', 'copy', 'auto'):
        again = machines.restore(folder / 'increment', mode, **saved_balloon.options)
        again.console.verify(0, START, LENGTH)
        check_around(again, saved_balloon.seed)
        machines.end(again)


@HOW
def test_reused_memory_is_right_in_the_next_increment(machines, saved_balloon, folder, clone, how):
    clone.console.command(f'write 50 {START} {LENGTH}')
    release(clone, how, START, LENGTH)
    clone.console.command(f'write 51 {START} {LENGTH // 2} 3')
    expected = clone.console.hash()
    save_and_check(clone, folder / 'increment')
    machines.end(clone)
    for mode in ('copy-on-write', 'copy'):
        again = machines.restore(folder / 'increment', mode, **saved_balloon.options)
        assert again.console.hash() == expected
        again.console.verify(51, START, LENGTH // 2, 3)
        assert classes(again, START, LENGTH, 0, 51) == {0: 2 * LENGTH // 3 // PAGE + 1 + LENGTH // 6 // PAGE, 51: (LENGTH // 2 // PAGE + 2) // 3}
        machines.end(again)


@HOW
def test_released_memory_is_never_read_from_the_file_again(machines, saved_balloon, folder, how):
    path = saved_balloon.copy(folder / 'base')
    clone = machines.restore(path, 'copy-on-write', **saved_balloon.options)
    base, offset = ram_base(clone, path)
    clone.console.command(f'touch {START} {LENGTH}')
    assert cached_pages(path, offset + START, LENGTH) == LENGTH // PAGE
    release(clone, how, START, LENGTH)
    assert mapped_file(clone, base, START, LENGTH) == {''}
    forget_cached(path)
    assert cached_pages(path, offset + START, LENGTH) == 0
    clone.console.command(f'touch {START} {LENGTH // 2}')
    clone.console.command(f'write 9 {START + LENGTH // 4} {3 * LENGTH // 4}')
    clone.console.verify(9, START + LENGTH // 4, 3 * LENGTH // 4)
    release(clone, how, START, LENGTH)
    clone.console.verify(0, START, LENGTH)
    assert cached_pages(path, offset + START, LENGTH) == 0


@HOW
def test_released_memory_leaves_the_host(clone, how):
    clone.console.command(f'write 9 {START} {LENGTH}')
    full, resident = anonymous(clone.pid), rollup(clone.pid, 'Rss')
    assert full > LENGTH
    if how == 'report':
        do(clone, f'report {START} {LENGTH}')
    else:
        do(clone, f'inflate {START} {LENGTH}')
    assert full - anonymous(clone.pid) > 0.99 * LENGTH
    assert resident - rollup(clone.pid, 'Rss') > 0.99 * LENGTH
    assert clone.restored_blocks()['pc.ram']['chunks-released'] == LENGTH // CHUNK
    release(clone, how, START, LENGTH)
    clone.console.verify(0, START, LENGTH)


def test_size_of_the_balloon(machines, saved_balloon, folder, clone):
    size = 160 * MIB
    assert clone.qmp.command('query-balloon') == {'actual': size}
    clone.qmp.command('balloon', value=size - LENGTH)
    assert clone.console.fields('balloon-config')['target'] == LENGTH // PAGE
    do(clone, f'inflate {START} {LENGTH}')
    assert clone.qmp.event('BALLOON_CHANGE')['data'] == {'actual': size - LENGTH}
    assert clone.qmp.command('query-balloon') == {'actual': size - LENGTH}
    clone.save_increment(folder / 'increment')
    machines.end(clone)
    again = machines.restore(folder / 'increment', **saved_balloon.options)
    assert again.qmp.command('query-balloon') == {'actual': size - LENGTH}
    assert again.console.fields('balloon-config')['target'] == LENGTH // PAGE
    do(again, f'deflate {START} {LENGTH}')
    assert again.qmp.command('query-balloon') == {'actual': size}


@pytest.mark.parametrize('value', [160 * MIB + 1, 1 << 40, (1 << 63) - 1])
def test_target_larger_than_memory(clone, value):
    clone.qmp.command('balloon', value=64 * MIB)
    clone.qmp.command('balloon', value=value)
    assert clone.console.fields('balloon-config')['target'] == 0


@pytest.mark.parametrize('value', [0, -1])
def test_target_that_is_no_size(clone, value):
    with pytest.raises(vmlib.QmpError):
        clone.qmp.command('balloon', value=value)
    assert clone.console.fields('balloon-config')['target'] == 0


def test_partly_inflated_chunk_has_live_neighbours(machines, saved_balloon, folder, clone):
    seed = saved_balloon.seed
    clone.console.command(f'write 50 {START} {4 * CHUNK}')
    do(clone, f'inflate {START} {8 * CHUNK} 2')
    clone.console.verify_others(50, START, 4 * CHUNK, 2)
    clone.console.verify_others(seed, START + 4 * CHUNK, 4 * CHUNK, 2)
    clone.save_increment(folder / 'increment')
    clone.cont()
    clone.console.verify_others(50, START, 4 * CHUNK, 2)
    # The other half fills the chunks.
    do(clone, f'inflate {START + PAGE} {6 * CHUNK - PAGE} 2')
    clone.console.verify(0, START, 6 * CHUNK)
    clone.console.verify_others(seed, START + 6 * CHUNK, 2 * CHUNK, 2)
    machines.end(clone)
    again = machines.restore(folder / 'increment', **saved_balloon.options)
    again.console.verify_others(50, START, 4 * CHUNK, 2)
    again.console.verify_others(seed, START + 4 * CHUNK, 4 * CHUNK, 2)
    check_around(again, seed, START, START + 8 * CHUNK)


def test_partly_inflated_without_poison_shows_only_what_it_may(machines, saved_balloon, folder, clone):
    """Without PAGE_POISON the snapshot's bytes may come back in single pages, and are then what the increment has."""
    do(clone, 'balloon-start 0x1ffffffef')
    clone.console.command(f'write 50 {START} {4 * CHUNK}')
    do(clone, f'inflate {START} {4 * CHUNK} 3')
    clone.console.verify_others(50, START, 4 * CHUNK, 3)
    found = classes(clone, START, 4 * CHUNK, 50, saved_balloon.seed, 0)
    assert None not in found
    expected = clone.console.hash()
    clone.save_increment(folder / 'increment')
    machines.end(clone)
    assert machines.restore(folder / 'increment', **saved_balloon.options).console.hash() == expected


def test_same_page_twice(clone, saved_balloon):
    clone.console.command(f'write 50 {START} {CHUNK}')
    pfn = START // PAGE
    do(clone, f'balloon-pfn 0 {" ".join([str(pfn)] * 100)}')
    for _ in range(6):
        do(clone, f'balloon-pfn 0 {" ".join([str(pfn + i % 2) for i in range(100)])}')
    clone.console.verify(50, START + 2 * PAGE, CHUNK - 2 * PAGE)
    do(clone, f'inflate {START} {CHUNK - PAGE}')
    clone.console.verify(50, START + CHUNK - PAGE, PAGE)
    do(clone, f'inflate {START} {CHUNK - PAGE}')
    clone.console.verify(50, START + CHUNK - PAGE, PAGE)
    do(clone, f'balloon-pfn 0 {pfn + 511}')
    clone.console.verify(0, START, CHUNK)
    do(clone, f'balloon-pfn 1 {" ".join([str(pfn)] * 100)}')
    clone.console.command(f'write 51 {START} {PAGE}')
    do(clone, f'inflate {START + PAGE} {CHUNK - PAGE}')
    clone.console.verify(51, START, PAGE)
    check_around(clone, saved_balloon.seed, START, START + CHUNK)


def test_deflated_page_is_no_part_of_a_full_chunk(clone):
    """Balloon compaction: one page comes out, another goes in."""
    clone.console.command(f'write 50 {START} {CHUNK}')
    do(clone, f'inflate {START} {CHUNK // 2}')
    do(clone, f'deflate {START + 8 * PAGE} {PAGE}')
    clone.console.command(f'write 51 {START + 8 * PAGE} {PAGE}')
    do(clone, f'inflate {START + CHUNK // 2} {CHUNK // 2}')
    clone.console.verify(51, START + 8 * PAGE, PAGE)
    do(clone, f'inflate {START + 8 * PAGE} {PAGE}')
    clone.console.verify(0, START, CHUNK)


def test_increments_of_a_balloon(machines, saved_balloon, folder):
    """A chain in which each link releases what another wrote and writes what another released."""
    paths, hashes = [saved_balloon.copy(folder / 'base')], []
    for number in range(1, 5):
        clone = machines.restore(paths[-1], 'copy-on-write', **saved_balloon.options)
        at = START + 6 * number * MIB
        clone.console.command(f'write {60 + number} {at} {30 * MIB} {number}')
        do(clone, f'report {at + 8 * MIB} {10 * MIB}')
        do(clone, f'inflate {at + 20 * MIB} {8 * MIB}')
        if number % 2:
            do(clone, f'deflate {at + 20 * MIB} {8 * MIB}')
            clone.console.command(f'write {70 + number} {at + 21 * MIB} {5 * MIB}')
        hashes.append(clone.console.hash())
        paths.append(folder / f'increment-{number}')
        save_and_check(clone, paths[-1])
        machines.end(clone)
    for path, expected in zip(paths[1:], hashes):
        for mode in ('copy-on-write', 'copy'):
            again = machines.restore(path, mode, **saved_balloon.options)
            assert again.console.hash() == expected
            machines.end(again)
    flat = folder / 'flat'
    subprocess.run([vmlib.snap_path(), 'flatten', paths[-1], '-o', flat], check=True, capture_output=True, timeout=120)
    assert machines.restore(flat, **saved_balloon.options).console.hash() == hashes[-1]


def test_full_snapshot_of_a_clone_with_released_memory(machines, saved_balloon, folder, clone):
    clone.console.command(f'write 50 {START} {2 * LENGTH // 3}')
    release(clone, 'report', START, LENGTH)
    clone.console.command(f'write 51 {START + 3 * CHUNK} {CHUNK} 5')
    expected = clone.console.hash()
    clone.save(folder / 'full')
    machines.end(clone)
    assert (folder / 'full').stat().st_blocks * 512 < Path(saved_balloon.path).stat().st_blocks * 512 - LENGTH + 2 * MIB
    assert machines.restore(folder / 'full', **saved_balloon.options).console.hash() == expected


@HOW
@pytest.mark.parametrize('mode', ['full', 'incremental'])
def test_releasing_while_saves_run(machines, saved_balloon, folder, clone, how, mode):
    """The guest goes on releasing and rewriting until the save stops it, and again after it."""
    clone.console.begin(f'balloon-churn {START} {LENGTH // 4} {2 * MIB} {how}')
    for number in range(3):
        time.sleep(0.1)
        info = clone.migrate(f'file:{folder}/{number}', ram_save_mode=mode)
        assert info['status'] == 'completed', info
        again = machines.restore(folder / str(number), **saved_balloon.options)
        time.sleep(0.05)
        result = again.console.end()
        assert result['wrong'] == 0 and result['blocks'] > 0, result
        check_around(again, saved_balloon.seed, START, START + LENGTH // 4)
        machines.end(again)
        if clone.qmp.command('query-status')['status'] != 'running':
            clone.cont()
    result = clone.console.end()
    assert result['wrong'] == 0 and result['blocks'] > 0 and 'failed' not in result, result


@contextlib.contextmanager
def map_limit(value):
    """The limit is the whole machine's: a lock keeps another test from putting back what this one has set."""
    path = Path('/proc/sys/vm/max_map_count')
    need_root()
    with open(path, encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = path.read_text()
        try:
            path.write_text(str(value))
        except OSError as error:
            pytest.skip(f'max_map_count cannot be set here: {error}')
        try:
            yield
        finally:
            path.write_text(before)


def mappings(machine):
    """As the kernel counts them: the page of vsyscall is shown but no mapping of the process."""
    return sum('[vsyscall]' not in line for line in Path(f'/proc/{machine.pid}/maps').read_text().splitlines())


# A thread that starts, or the C library, may map a little after the balloon has counted.
MAPPED_MEANWHILE = 8


def test_few_mappings_allowed(machines, folder):
    """With max_map_count at 2,000 a guest of 5 GiB that releases every other chunk gets no more than 1,500."""
    machine = machines.boot(memory='5G', args=BALLOON)
    machine.console.fill(7, 0, 256 * MIB)
    do(machine, 'balloon-start')
    machine.save(folder / 'base')
    machines.end(machine)
    with map_limit(2000):
        clone = machines.restore(folder / 'base', 'copy-on-write', memory='5G', args=BALLOON)
        do(clone, f'report {4 << 30} {2 << 30} {CHUNK} {2 * CHUNK}')
        do(clone, f'report {64 * MIB} {(3 << 30) - 64 * MIB} {CHUNK} {2 * CHUNK}')
        block = clone.restored_blocks()['pc.ram']
        assert block['left-over-budget'] > 0 and block['chunks-released'] > 500, block
        assert mappings(clone) <= 1500 + MAPPED_MEANWHILE
        # A chunk that could not be released is unchanged, also for the next increment.
        expected = clone.console.hash(0, 512 * MIB)
        clone.save_increment(folder / 'increment')
        clone.cont()
        # Filling the gaps makes room again.
        do(clone, f'report {4 << 30} {2 << 30}')
        clone.console.verify(0, 4 << 30, 64 * MIB)
        assert mappings(clone) <= 1500 + MAPPED_MEANWHILE
        machines.end(clone)
        again = machines.restore(folder / 'increment', memory='5G', args=BALLOON)
        assert again.console.hash(0, 512 * MIB) == expected


BACKENDS = {
    'anonymous': ('memory-backend-ram,id=ram0,size=160M', 0),
    'memfd': ('memory-backend-memfd,id=ram0,size=160M,share=on', 0),
    'file': ('memory-backend-file,id=ram0,size=160M,share=on,mem-path={}/ram', 0),
    'private-file': ('memory-backend-file,id=ram0,size=160M,share=off,mem-path={}/ram', None),
    'hugetlb': ('memory-backend-memfd,id=ram0,size=160M,share=on,hugetlb=on,hugetlbsize=2M', 0),
}


@contextlib.contextmanager
def huge_pages(count):
    path = Path('/proc/sys/vm/nr_hugepages')
    need_root()
    before = path.read_text()
    try:
        path.write_text(str(int(before) + count))
        if int(path.read_text()) < int(before) + count:
            pytest.skip('the host has no huge pages to give')
        yield
    finally:
        path.write_text(before)


@HOW
@pytest.mark.parametrize('kind', BACKENDS)
def test_back_ends(machines, folder, kind, how):
    """A guest that was not restored: every back end that can gives pages back, one by one too."""
    text, released = BACKENDS[kind]
    with contextlib.ExitStack() as stack:
        if kind == 'hugetlb':
            stack.enter_context(huge_pages(84))
        machine = boot(machines, machine='pc,memory-backend=ram0', args=['-object', text.format(folder)])
        release(machine, how, START, LENGTH)
        machine.console.verify(7 if released is None else released, START, LENGTH)
        check_around(machine, 7)
        machine.console.command(f'write 50 {START} {LENGTH}')
        assert None not in classes(machine, START, LENGTH, 50)
        do(machine, f'inflate {START + PAGE} {40 * PAGE}')
        machine.console.verify(50, START, PAGE)
        machine.console.verify(50, START + 41 * PAGE, LENGTH - 41 * PAGE)
        assert None not in classes(machine, START, CHUNK, 50, 0)
        expected = machine.console.hash()
        machine.save(folder / 'saved')
        machines.end(machine)
        again = machines.restore(folder / 'saved', memory='160M', args=BALLOON)
        assert again.console.hash() == expected


@HOW
@pytest.mark.parametrize('mode', ['copy', 'auto', 'copy-on-write'])
def test_restore_modes(machines, saved_balloon, folder, how, mode):
    clone = machines.restore(saved_balloon.path, mode, **saved_balloon.options)
    release(clone, how, START, LENGTH)
    clone.console.verify(0, START, LENGTH)
    check_around(clone, saved_balloon.seed)
    clone.console.command(f'write 50 {START} {LENGTH} 2')
    expected = clone.console.hash()
    clone.save(folder / 'full')
    machines.end(clone)
    assert machines.restore(folder / 'full', mode, **saved_balloon.options).console.hash() == expected


def test_no_balloon(machines, saved):
    clone = machines.restore(saved.path, **saved.options)
    for command in ({'name': 'query-balloon'}, {'name': 'balloon', 'value': 64 * MIB}):
        with pytest.raises(vmlib.QmpError) as failure:
            clone.qmp.command(**command)
        assert failure.value.error_class == 'DeviceNotActive'


def test_statistics(machines):
    machine = boot(machines)
    path = '/machine/peripheral/balloon0'

    def stats():
        return machine.qmp.command('qom-get', path=path, property='guest-stats')
    machine.qmp.command('qom-set', path=path, property='guest-stats-polling-interval', value=1)
    do(machine, 'balloon-stats 10 1000')
    do(machine, 'balloon-stats 10 2000')
    do(machine, 'balloon-stats 3 3000')
    assert machine.qmp.command('qom-get', path=path, property='guest-stats-polling-interval') == 1
    after = stats()
    assert after['last-update'] > 0
    assert after['stats']['stat-swap-in'] in (2000, 3000)
    assert after['stats']['stat-free-memory'] in (2004, 2 ** 64 - 1)
    assert {'stat-swap-out', 'stat-major-faults', 'stat-minor-faults', 'stat-total-memory', 'stat-available-memory',
            'stat-disk-caches', 'stat-htlb-pgalloc', 'stat-htlb-pgfail'} < set(after['stats'])


def test_reporting_can_be_left_out(machines):
    machine = machines.boot(args=['-device', 'virtio-balloon-pci,id=balloon0'])
    offered = do(machine, 'balloon-start')['offered']
    assert offered & REPORTING == 0
    assert machine.console.fields(f'report {START} {CHUNK}')['failed'] == 3
