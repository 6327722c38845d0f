#!/usr/bin/python3
# What is asked of a Debian kernel: boot, console, save, restore both ways, go on, power down.
#
# Runs where /dev/kvm runs any guest: under l1-run, or on ordinary KVM. One line for each step;
# exit status 0 when all went well.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import argparse
import difflib
import hashlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from linux_guest import LinuxGuest  # noqa: E402

# Nothing of the kernel's own comes between the lines that are read from the console.
APPEND = 'console=ttyS0 quiet loglevel=1 panic=-1'


def check_goes_on(guest, before, mode):
    """The guest is the one that was saved, and its time and processes go on."""
    count, uptime = guest.count(), guest.uptime()
    assert count >= before['count'], f'{mode}: the count went back: {count} < {before["count"]}'
    assert uptime >= before['uptime'], f'{mode}: uptime went back: {uptime} < {before["uptime"]}'
    assert uptime < before['uptime'] + 300, f'{mode}: uptime jumped: {before["uptime"]} -> {uptime}'
    assert guest.blob_sum() == before['sum'], f'{mode}: the file in tmpfs has changed'
    time.sleep(1)
    assert guest.count() > count, f'{mode}: the counting process stands still'
    assert guest.uptime() > uptime, f'{mode}: /proc/uptime stands still'
    complaints = guest.complaints()
    assert complaints == before['complaints'], f'{mode}: the kernel complains: {complaints}'


def check_mode(guest, mode):
    """The RAM really was restored the way that was asked for."""
    info = guest.qmp.command('query-ram-restore')
    modes = {block['mode'] for block in info['blocks'] if block['block'] == 'pc.ram'}
    assert modes == {mode}, f'{mode}: query-ram-restore says {info}'


def check_serial(guest):
    """Some 30 kB come through the serial port, and a long line goes in, without a wrong byte."""
    digest = guest.run('dmesg >/tmp/log; sha256sum </tmp/log').split()[0]
    text = guest.run('cat /tmp/log')
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        again = guest.run('cat /tmp/log')
        diff = '\n'.join(difflib.unified_diff(text.splitlines(), again.splitlines(), lineterm='', n=1))
        raise AssertionError(f'the console loses bytes, {len(text)} and {len(again)} came: {diff}')
    word = 'x' * 3000
    assert guest.run(f'echo {word}') == word + '\n', 'the console loses input'


def step(name, start):
    print(f'{name}: {time.monotonic() - start:.1f} s', flush=True)


def scenario(args, folder):
    def make(name, **kwargs):
        return LinuxGuest(args.vmm, folder, name, args.kernel, args.initrd, APPEND, cpus=args.cpus,
                          memory=args.memory, **kwargs)

    saved = Path(folder) / 'saved'
    start = time.monotonic()
    with make('first') as guest:
        guest.boot()
        step('boot', start)
        assert int(guest.run('nproc')) == args.cpus
        check_serial(guest)
        before = {'count': guest.count(), 'sum': guest.blob_sum(), 'uptime': guest.uptime(),
                  'forks': guest.forks_seen(), 'complaints': guest.complaints()}
        start = time.monotonic()
        guest.save(saved)
        step('save', start)
        guest.quit()
    for mode in ('copy-on-write', 'copy'):
        start = time.monotonic()
        with make(mode, incoming=True) as guest:
            guest.restore(saved, mode)
            check_goes_on(guest, before, mode)
            if not guest.is_qemu:
                check_mode(guest, mode)
                if args.vmgenid:
                    forks = guest.forks_seen() - before['forks']
                    assert forks == 1, f'{mode}: {forks} new VM generations seen, not 1'
            guest.power_down()
        step(f'restore {mode}', start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--vmm', required=True)
    parser.add_argument('--kernel', required=True)
    parser.add_argument('--initrd', required=True)
    parser.add_argument('--cpus', type=int, default=1)
    parser.add_argument('--memory', type=int, default=256, help='MiB')
    parser.add_argument('--vmgenid', action='store_true', help='the kernel has a driver for it')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scenario(args, folder)
    print('scenario: passed')


if __name__ == '__main__':
    main()
