# A driver that does what none should: the device ignores it or asks for a reset, the VM goes on, other memory stays as it is.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import pytest
from balloon_vm import CHUNK, MIB, PAGE, classes, do, release

START, LENGTH = 32 * MIB, 16 * MIB
DONE, TIMEOUT, NEEDS_RESET = 0, 1, 2
NEXT, WRITE, INDIRECT = 1, 2, 4
INFLATE, DEFLATE, STATS, REPORT = range(4)
RING = 128
QUICK = 2000000000  # cycles


@pytest.fixture
def clone(machines, saved_balloon):
    return machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)


@pytest.fixture(autouse=True)
def still_well(clone, saved_balloon):
    """After each test the device can be started again and works, and memory that was not given up is as it was."""
    yield
    do(clone, 'balloon-start')
    clone.console.verify(saved_balloon.seed, 0, START)
    clone.console.verify(saved_balloon.seed, START + LENGTH)
    for how in ('report', 'inflate'):
        clone.console.command(f'write 50 {START} {LENGTH}')
        release(clone, how, START, LENGTH)
        clone.console.verify(0, START, LENGTH)


def outcome(clone, queue):
    """What came of the buffer offered last; the device keeps one with statistics until it wants more."""
    result = clone.console.fields(f'vq-wait 0 {queue} {QUICK if queue != STATS else QUICK // 20}').get('failed', 0)
    return DONE if queue == STATS and result == TIMEOUT else result


def offer(clone, queue, descriptors, head=0):
    for i, (address, length, flags, following) in enumerate(descriptors):
        clone.console.command(f'vq-desc 0 {queue} {i} {address} {length} {flags} {following}')
    clone.console.command(f'vq-offer 0 {queue} {head}')
    return outcome(clone, queue)


PFNS = {
    'out of range': [160 * MIB // PAGE, 0x100000, 0xfffff], 'the greatest': [0xffffffff, 0xfffffffe], 'in the hole': [0xa0, 0xb8, 0xdf],
    'in ROM': [0xf0, 0xff, 0xfffff], 'registers': [0xfec00, 0xfee00, 0xfebff], 'mixed': [0xffffffff, START // PAGE, 0xa0, START // PAGE + 1],
}


@pytest.mark.parametrize('queue', [INFLATE, DEFLATE])
@pytest.mark.parametrize('name', PFNS)
def test_bad_page_numbers_are_ignored(clone, name, queue):
    do(clone, f'balloon-pfn {queue} {" ".join(map(str, PFNS[name]))}')


def test_bad_page_numbers_are_counted(clone):
    do(clone, 'balloon-pfn 0 0xffffffff 0x100000 0xa0')
    assert clone.qmp.command('qom-get', path='/machine/peripheral/balloon0', property='ignored-pages') >= 2


@pytest.mark.parametrize('queue', range(4))
def test_zero_length(clone, queue):
    flags = WRITE if queue == REPORT else 0
    assert offer(clone, queue, [(START, 0, flags, 0)]) in (DONE, NEEDS_RESET)


@pytest.mark.parametrize('queue', range(4))
@pytest.mark.parametrize('length', [0xffffffff, 0x80000000, 200 * MIB])
def test_huge_length(clone, saved_balloon, queue, length):
    """What is beyond the memory does not count; of a report, the 4 MiB that are memory may become zero."""
    flags = WRITE if queue == REPORT else 0
    assert offer(clone, queue, [(156 * MIB, length, flags, 0)]) in (DONE, NEEDS_RESET)
    if queue == REPORT:
        assert None not in classes(clone, 156 * MIB, 4 * MIB, saved_balloon.seed, 0)
        clone.console.command(f'write {saved_balloon.seed} {156 * MIB} {4 * MIB}')


@pytest.mark.parametrize('length', [1, 3, 5, 4097])
def test_odd_length(clone, length):
    clone.console.command(f'zero {START} {CHUNK}')
    assert offer(clone, INFLATE, [(START, length, 0, 0)]) in (DONE, NEEDS_RESET)


@pytest.mark.parametrize('queue', [INFLATE, DEFLATE, REPORT])
def test_wrong_direction(clone, queue):
    flags = 0 if queue == REPORT else WRITE
    assert offer(clone, queue, [(START, CHUNK, flags, 0)]) in (DONE, NEEDS_RESET)


@pytest.mark.parametrize('address', [160 * MIB, 1 << 40, (1 << 64) - 4, 0xfee00000, 0xa0000])
@pytest.mark.parametrize('queue', range(4))
def test_buffer_that_is_no_ram(clone, queue, address):
    flags = WRITE if queue == REPORT else 0
    assert offer(clone, queue, [(address, 4096, flags, 0)]) in (DONE, NEEDS_RESET)


def test_chain_of_many_descriptors(clone):
    """As many as the ring has, one page number in each; four of these fill a chunk."""
    clone.console.command(f'write 50 {START} {LENGTH}')
    for first in range(0, CHUNK // PAGE, RING):
        for i in range(RING):
            clone.console.command(f'mmio {START + LENGTH - PAGE + 4 * i} {START // PAGE + first + i}')
        clone.console.command(f'vq-chain 0 {INFLATE} {RING} {START + LENGTH - PAGE} 4 0')
        clone.console.command(f'vq-offer 0 {INFLATE} 0')
        assert outcome(clone, INFLATE) == DONE
    clone.console.verify(0, START, CHUNK)
    clone.console.verify(50, START + CHUNK, LENGTH - CHUNK - PAGE)


def test_report_of_many_descriptors(clone):
    clone.console.command(f'write 50 {START} {LENGTH}')
    clone.console.command(f'vq-chain 0 {REPORT} 8 {START} {CHUNK} {WRITE}')
    clone.console.command(f'vq-offer 0 {REPORT} 0')
    assert outcome(clone, REPORT) == DONE
    clone.console.verify(0, START, LENGTH)


LOOPS = {
    'to itself': [(START, 4, NEXT, 0)], 'of two': [(START, 4, NEXT, 1), (START, 4, NEXT, 0)], 'beyond the ring': [(START, 4, NEXT, 0xffff)],
    'indirect in indirect': [(START, 16, INDIRECT, 0)], 'indirect and next': [(START, 16, INDIRECT | NEXT, 1), (START, 4, 0, 0)],
    'indirect of odd size': [(START, 17, INDIRECT, 0)], 'indirect of no size': [(START, 0, INDIRECT, 0)],
    'huge indirect': [(START, 0xfffffff0, INDIRECT, 0)], 'indirect that is no RAM': [(1 << 40, 16, INDIRECT, 0)],
    'out after in': [(START, 4, WRITE | NEXT, 1), (START, 4, 0, 0)],
}


@pytest.mark.parametrize('queue', range(4))
@pytest.mark.parametrize('name', LOOPS)
def test_broken_chains(clone, name, queue):
    if name == 'indirect in indirect':
        for i, value in enumerate((START, 0, 16, INDIRECT)):
            clone.console.command(f'mmio {START + 4 * i} {value}')
    assert offer(clone, queue, LOOPS[name]) in (DONE, NEEDS_RESET)


@pytest.mark.parametrize('head', [128, 1000, 0xffff])
def test_head_beyond_the_ring(clone, head):
    assert offer(clone, INFLATE, [(START, 4, 0, 0)], head) == NEEDS_RESET


@pytest.mark.parametrize('index', [129, 1000, 0x8000, 0xffff])
def test_index_that_jumps(clone, index):
    do(clone, 'balloon-start')
    clone.console.command(f'vq-index 0 {INFLATE} {index}')
    assert outcome(clone, INFLATE) == NEEDS_RESET


@pytest.mark.parametrize('desc, driver, device', [
    (1 << 40, 1 << 41, 1 << 42), (0xfffffffffffff000,) * 3, (0xa0000,) * 3, (0xfee00000,) * 3, (0, 0, 0),
    (START + 1, START + 3, START + 5), (160 * MIB - 16,) * 3])
def test_rings_that_are_no_ram(clone, desc, driver, device):
    clone.console.command('virtio-status 0 0')
    for status in (1, 3):
        clone.console.command(f'virtio-status 0 {status}')
    clone.console.command('virtio-status 0 11')
    clone.console.command(f'vq-setup 0 0 128 {desc} {driver} {device}')
    clone.console.command('virtio-status 0 15')
    clone.console.command('vq-offer 0 0 0')
    clone.console.command('ping')
    clone.console.command('vq-offer 0 0 0')


@pytest.mark.parametrize('size', [0, 3, 100, 256, 0x8000, 0xffff])
def test_ring_sizes(clone, size):
    clone.console.command('virtio-status 0 0')
    clone.console.command('virtio-status 0 3')
    clone.console.command('virtio-status 0 11')
    clone.console.command(f'vq-setup 0 0 {size} {START} {START + CHUNK} {START + 2 * CHUNK}')
    clone.console.command('virtio-status 0 15')
    clone.console.command('vq-offer 0 0 0')
    assert clone.console.command('ping') == 'pong'


def test_ring_released_under_the_device(clone):
    """The used ring lies in a chunk that the guest reports as free."""
    clone.console.command('virtio-status 0 0')
    clone.console.command('virtio-status 0 3')
    clone.console.command('virtio-status 0 11')
    clone.console.command(f'zero {START} {CHUNK}')
    clone.console.command(f'vq-setup 0 0 128 {START} {START + PAGE * 4} {START + PAGE * 8}')
    do(clone, 'balloon-start')
    do(clone, f'report {START} {CHUNK}')
    clone.console.verify(0, START, CHUNK)


def test_reset_in_the_middle(clone):
    """Buffers still out when the reset comes: what the guest writes then stays."""
    assert do(clone, f'balloon-race {START} {LENGTH} 60', 60)['wrong'] == 0


def test_status_and_configuration_at_random(clone, rng):
    for _ in range(150):
        line = rng.choice((f'virtio-status 0 {rng.randrange(256)}', f'virtio-config 0 {4 * rng.randrange(8)} {rng.randrange(1 << 32)}',
                           f'vq-offer 0 {rng.randrange(4)} {rng.randrange(1 << 16)}', f'balloon-config {rng.randrange(1 << 32)}',
                           f'vq-desc 0 {rng.randrange(4)} {rng.randrange(128)} {START} {rng.choice((0, 4, 64))} {rng.randrange(8)} {rng.randrange(200)}',
                           f'vq-setup 0 {rng.randrange(70)} {1 << rng.randrange(12)} {START} {START + CHUNK} {START + 2 * CHUNK}'))
        clone.console.command(line)
    assert clone.console.command('ping') == 'pong'
