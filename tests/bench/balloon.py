# What becomes of guest memory that is given back: whether it leaves the host, and what using it again costs.
#
# Two policies are compared: the balloon's debug property x-discard-policy=dontneed shows the bytes of the file again, which
# is what others do; remap, the default, puts anonymous memory over them.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import re
import statistics
import time

from clones import XfsLoop, drop_from_cache, enter, memory_cgroup, running_clone
from common import GIB, MIB, BenchError, Figure, Skipped, interleave, median_ratio, parts_of, program, run, spread, vmlib

CLONES = 16
BLOCK = 64
LIMIT = 1536            # MiB that the control group may use: 16 blocks in use, as many VMMs, and some of the file
MEMORY = 2 * LIMIT      # the file is as large as the guest
FILLED = MEMORY - 96
FIRST, APART = 128, 172  # MiB: where the first clone's block lies, and each next one's
REFAULT_ROUNDS = 3
RELEASE_MEMORY, RELEASE_FILLED, RELEASED = 2048, 2000, 1024
POLICIES = ('dontneed', 'remap')


def device(policy='remap'):
    return ['-device', f'virtio-balloon-pci,id=balloon0,free-page-reporting=on,page-poison=off,x-discard-policy={policy}']


def balloon_clone(snapshot, memory_mib, policy, **options):
    """A clone whose guest has started its driver."""
    vm = running_clone(snapshot, memory_mib, device(policy), **options)
    try:
        answer = vm.console.command('balloon-start')
        if 'failed=' in answer:
            raise BenchError(f'the guest does not start the balloon: {answer}')
    except BaseException:
        vm.close()
        raise
    return vm


def check_churn(text):
    fields = vmlib.parse_fields(text)
    if fields['wrong'] or 'failed' in fields or not fields['blocks']:
        raise BenchError(f'the guest says: {text}')
    return fields


# Reading the file again

def limit_memory(group):
    if not group:
        raise Skipped('a memory control group is needed, hence root and the memory controller')
    v1, v2 = group / 'memory.limit_in_bytes', group / 'memory.max'
    limit = v1 if v1.exists() else v2
    if not limit.exists():
        raise Skipped(f'{group} has no memory limit: the memory controller is not enabled')
    limit.write_text(str(LIMIT * MIB))


def start_churn(number, vm, mode):
    vm.console.send(f'balloon-churn {FIRST + number * APART}m {BLOCK}m {BLOCK}m {mode}')
    line = vm.console.read_line()
    if line != 'ok begin':
        raise BenchError(f'the guest says: {line}')


def churn(context, xfs, snapshot, mode, policy):
    """MiB read from the file's device from the first clone's start on, those before the churn, and blocks that were reused."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(memory_cgroup())
        limit_memory(group)
        drop_from_cache(snapshot)
        before = xfs.bytes_read()
        clones = [stack.enter_context(balloon_clone(snapshot, MEMORY, policy, preexec=enter(group))) for _ in range(CLONES)]
        started = xfs.bytes_read()
        for number, vm in enumerate(clones):
            start_churn(number, vm, mode)
        time.sleep(context.churn_seconds)
        read = xfs.bytes_read() - before
        for vm in clones:
            vm.console.send('')
        ends = [check_churn(vm.console.wait_for('end', 300)) for vm in clones]
    blocks = sum(end['blocks'] for end in ends)
    return {'read': read / MIB, 'start': (started - before) / MIB, 'blocks': blocks,
            'cycles': sum(end['write-cycles'] for end in ends) / blocks / 1e6}


def make_file(context, stack):
    """The file system with only the file on it, and the file."""
    with contextlib.ExitStack() as check, memory_cgroup() as group:
        limit_memory(group)
        check.close()
    xfs = stack.enter_context(XfsLoop(context.work, (MEMORY + 512) * MIB))
    snapshot = context.snapshots.ticking(MEMORY, FILLED, xfs.folder, device())
    stack.callback(context.snapshots.drop, snapshot)
    return xfs, snapshot


def refault(name, mode):
    def measure(context):
        with contextlib.ExitStack() as stack:
            xfs, snapshot = make_file(context, stack)
            context.touch(2 * LIMIT * MIB)
            samples = {policy: [] for policy in POLICIES}
            for _ in range(REFAULT_ROUNDS):
                for policy in POLICIES:
                    samples[policy].append(churn(context, xfs, snapshot, mode, policy))
        read = {policy: [sample['read'] for sample in values] for policy, values in samples.items()}
        parts = {'unit': f'MiB read by {CLONES} clones in {context.churn_seconds} s', **parts_of(read, 1)}
        for policy, values in samples.items():
            parts[f'{policy} at start'] = spread([sample['start'] for sample in values], 1)
            parts[f'{policy} blocks reused'] = spread([sample['blocks'] for sample in values], 0)
            parts[f'{policy} Mcycles/block'] = spread([sample['cycles'] for sample in values], 0)
        ratio = statistics.median(read['dontneed']) / max(statistics.median(read['remap']), 1)
        return Figure(name, ratio, 'x', parts, None, f'file {MEMORY} MiB, control group {LIMIT} MiB, blocks of {BLOCK} MiB')
    return measure


balloon_refault_fpr = refault('balloon_refault_fpr', 'report')
balloon_refault_inflate = refault('balloon_refault_inflate', 'inflate')


# Using it again

def write_reused(vm, snapshot):
    """Millions of cycles that the guest takes to write a block that it has just given back; the file is cold."""
    drop_from_cache(snapshot)
    _, end = vm.console.command(f'balloon-churn {FIRST}m {BLOCK}m {BLOCK}m report 1', 300)
    return check_churn(end)['write-cycles'] / 1e6


def balloon_reuse_fault(context):
    with contextlib.ExitStack() as stack:
        xfs = stack.enter_context(XfsLoop(context.work, GIB))
        snapshot = context.snapshots.ticking(512, 480, xfs.folder, device())
        stack.callback(context.snapshots.drop, snapshot)
        context.touch(2 * GIB)
        vms = {policy: stack.enter_context(balloon_clone(snapshot, 512, policy)) for policy in POLICIES}
        floor = program('floor-touch')
        samples = interleave({**{policy: lambda vm=vm: write_reused(vm, snapshot) for policy, vm in vms.items()},
                              'floor-touch': lambda: int(run(floor, BLOCK)) / 1e6})
    return Figure('balloon_reuse_fault', median_ratio(samples, 'dontneed', 'remap'), 'x',
                  {'unit': f'million cycles to write {BLOCK} MiB', **parts_of(samples)},
                  'floor-touch: a process writes as much new anonymous memory')


# Giving it back

def private_memory(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith('RssAnon:'))


def inflate_written(snapshot):
    """Per cent of an inflated GiB that leaves the host, and how long the guest takes for it."""
    with balloon_clone(snapshot, RELEASE_MEMORY, 'remap') as vm:
        vm.console.fill(11, '16m', f'{RELEASE_FILLED}m', timeout=120)
        before = private_memory(vm.pid)
        start = time.monotonic()
        answer = vm.console.command(f'inflate 512m {RELEASED}m', 120)
        took = time.monotonic() - start
        if 'failed=' in answer:
            raise BenchError(f'the guest says: {answer}')
        return 100 * (before - private_memory(vm.pid)) / RELEASED, took


def balloon_release(context):
    snapshot = context.snapshots.ticking(RELEASE_MEMORY, RELEASE_FILLED, None, device())
    context.touch(RELEASE_MEMORY * MIB + 2 * GIB)
    samples = [inflate_written(snapshot) for _ in range(5)]
    shares = [share for share, _ in samples]
    return Figure('balloon_release', statistics.median(shares), '%',
                  {'unit': f'% of {RELEASED} MiB', 'released': spread(shares, 2), 'seconds': spread([took for _, took in samples])})


def balloon_vmas(context):
    output = run(program('balloon-vmas'))
    found = dict(re.findall(r'(\S+)=(\S+)', output))
    if 'ratio' not in found:
        raise BenchError(f'balloon-vmas prints no ratio: {output.strip()}')
    return Figure('balloon_vmas', float(found.pop('ratio')), 'x', {'unit': 'the most seen', **found})
