# Rounds of random inflating, deflating, reporting, writing, saving and restoring against a model of every page.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import time

import vm as vmlib
from balloon_model import PAGE, Model, Worker
from balloon_vm import BALLOON, boot

MEMORY = '48M'
FIRST, END = (2 << 20) // PAGE, (48 << 20) // PAGE
SEED = 61
CHAIN = 6  # files at most; then a full snapshot
WORK = ('inflate', 'inflate', 'deflate', 'report', 'report', 'write', 'write', 'write', 'fill_slowly')


class Soak:
    """A guest, its model, and the files it was saved to, each with what the guest was then."""

    def __init__(self, machines, folder, rng):
        self.machines, self.folder, self.rng = machines, folder, rng
        self.machine = boot(machines, MEMORY, SEED)
        self.first_pages()
        self.worker = Worker(rng, Model(self.first, self.end, SEED))
        self.chain, self.count, self.restores, self.incremental = [], 0, 0, False
        self.save()
        self.restore()

    def first_pages(self):
        """The usable memory lies in one piece from 2 MiB on; its end is the machine's."""
        self.first, self.end = FIRST, FIRST + self.machine.pages
        assert self.end <= END

    def save(self):
        """An increment, or a full snapshot that begins a new chain; the guest stays stopped."""
        self.count += 1
        path = self.folder / f'{self.count}.snap'
        if self.incremental and len(self.chain) < CHAIN:
            self.machine.save_increment(path)
            self.chain.append((path, self.worker.model.copy()))
        else:
            self.machine.save(path)
            self.forget()
            self.chain, self.incremental = [(path, self.worker.model.copy())], False
            self.chain[0][1].released.clear()
        self.worker.log.append(f'save {path.name}')

    def forget(self):
        """A file may be removed under a running guest."""
        for path, _ in self.chain:
            path.unlink()

    def restore(self):
        """The last file that was saved, or now and then one before it; everything is compared."""
        if len(self.chain) > 1 and self.rng.random() < 0.2:
            self.chain.pop()[0].unlink()
        path, model = self.chain[-1]
        mode = self.rng.choice(('copy-on-write',) * 6 + ('auto', 'copy'))
        self.machines.end(self.machine)
        self.machine = self.machines.restore(path, mode, memory=MEMORY, args=BALLOON)
        self.worker.model = model.copy()
        self.worker.log = [f'restore {path.name} {mode}']
        self.restores += 1
        self.incremental = mode != 'copy'  # a copy knows no pages written since
        self.worker.model.check(self.machine)

    def round(self):
        chance = self.rng.random()
        if chance < 0.08:
            self.save()
            self.restore() if self.rng.random() < 0.7 else self.machine.cont()
        elif chance < 0.10:
            self.restore()
        elif chance < 0.12:
            self.worker.reset(self.machine)
        elif self.worker.model.fragments() > 120:
            self.worker.model.check(self.machine)
            self.worker.tidy(self.machine)
        else:
            getattr(self.worker, self.rng.choice(WORK))(self.machine)
            if self.rng.random() < 0.25:
                self.worker.model.check(self.machine)


def test_soak(machines, folder, rng, long):
    soak = Soak(machines, folder, rng)
    begin = time.monotonic()
    for number in range(10000 if long else 1000):
        try:
            soak.round()
        except (AssertionError, vmlib.GuestError, vmlib.GuestDied) as error:
            raise AssertionError(f'round {number}, after {soak.restores} restores: {error}; before: {soak.worker.log[-12:]}') from error
    soak.worker.model.check(soak.machine)
    print(f'{number + 1} rounds, {soak.restores} restores, {time.monotonic() - begin:.1f} s')
