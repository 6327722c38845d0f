#!/usr/bin/python3
# What is asked of a Debian kernel's balloon: no page goes wrong while memory comes and goes on a restored guest.
#
# Runs where /dev/kvm runs any guest: under l1-run, or on ordinary KVM. One line for each step; exit status 0 when all
# went well.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import linux_balloon as lb  # noqa: E402
from linux_guest import TIMEOUT, LinuxGuest, file_sum  # noqa: E402
from linux_scenario import APPEND, step  # noqa: E402

MEMORY = 320    # MiB
LEAST = 208     # MiB that the balloon leaves
HELD, BLOCKS = 16, 12
STRESS = 32     # MiB of stress-ng


class Scenario:
    def __init__(self, args, folder):
        self.args, self.folder = args, Path(folder)
        self.numbers = random.Random(args.seed)
        self.known = ''  # what the kernel complains of before there is any load

    def make(self, name, **options):
        devices = lb.devices(self.folder / f'{name}.port')
        return LinuxGuest(self.args.vmm, self.folder, name, self.args.kernel, self.args.initrd,
                          f'{APPEND} {self.args.append}', memory=MEMORY, args=devices, timeout=TIMEOUT, **options)

    def boot(self):
        path = self.folder / 'saved'
        with self.make('first') as guest:
            guest.boot()
            assert guest.run("dmesg | grep -c 'Free page reporting enabled'") == '1\n'
            self.known = guest.complaints()
            lb.check_statistics(guest, TIMEOUT)
            guest.save(path)
            guest.quit()
        return path

    def restore(self, name, path):
        guest = self.make(name, incoming=True)
        try:
            guest.restore(path, 'copy-on-write')
        except BaseException:
            guest.kill()
            raise
        return guest

    def start_load(self, guest):
        lb.start_churn(guest, HELD, BLOCKS, 3)
        guest.run(f'stress-ng --vm 1 --vm-bytes {STRESS}m --verify --timeout 1d --temp-path /tmp --oom-avoid '
                  '</dev/null >/tmp/stress 2>&1 & stress=$!')

    def end_load(self, guest):
        lb.stop_churn(guest)
        checked = lb.end_churn(guest)
        output = guest.run('kill -INT $stress; wait $stress; result=$?; cat /tmp/stress; test $result = 0', check=False)
        assert 'successful run completed' in output and 'fail' not in output, output
        return checked

    def move_balloon(self, guest, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lb.balloon(guest, self.numbers.randrange(LEAST, MEMORY + 1))
            time.sleep(self.numbers.uniform(1, 4))

    def run(self):
        start = time.monotonic()
        path = self.boot()
        before = file_sum(path)
        step('boot, statistics, save', start)
        guest = self.restore('clone', path)
        try:
            self.start_load(guest)
            self.move_balloon(guest, self.args.seconds)
            step('balloon moves under load', start)
            increment = self.folder / 'increment'
            guest.save(increment, 'full' if guest.is_qemu else 'incremental')
            guest.quit()
            guest = self.restore('second', increment)
            self.move_balloon(guest, self.args.seconds / 2)
            checked = self.end_load(guest)
            assert checked > 10000
            lb.balloon_to(guest, MEMORY, TIMEOUT)
            lb.check_log(guest, self.known)
            guest.quit()
        finally:
            guest.kill()
        assert file_sum(path) == before, 'a clone has written to the file'
        step(f'increment, {checked} pages checked', start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--vmm', required=True)
    parser.add_argument('--kernel', required=True)
    parser.add_argument('--initrd', required=True)
    parser.add_argument('--append', default='')
    parser.add_argument('--seconds', type=float, default=30)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Scenario(args, folder).run()
    print('scenario: passed')


if __name__ == '__main__':
    main()
