# What every page of a guest with a balloon may hold, kept by the test, and random work on such a guest.
#
# A page has a set of contents it may have: the seed it was written from, after a release zero, and where the device may
# do either (a page in the balloon whose chunk is not full) more than one. What is found is what must stay.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

from balloon_vm import CHUNK, MUST_TELL_HOST, PAGE, PAGE_POISON, do

CHUNK_PAGES = CHUNK // PAGE
QUARTER = CHUNK_PAGES // 4
SLOW = 8
SEEDS = 60  # written in turn; a guest's command takes no more numbers than 126
ZERO = frozenset((0,))
ALL_FEATURES = (1 << 33) - 1


class Model:
    """Of the pages [first, end) of guest memory."""

    def __init__(self, first, end, seed):
        self.first, self.end = first, end
        self.may = [frozenset((seed,))] * (end - first)
        self.at_restore = self.may  # what the file it was restored from has
        self.inside = bytearray(end - first)  # in the balloon
        self.pending = {}  # of chunks that are not full: the pages that the device knows to be in the balloon
        self.released = set()  # chunks that are anonymous memory since; a full snapshot ends that
        self.told = True  # the guest tells before it uses a page of the balloon again: only then full chunks are released

    def copy(self):
        other = Model.__new__(Model)
        other.first, other.end, other.told = self.first, self.end, self.told
        other.may, other.inside = list(self.may), bytearray(self.inside)
        other.at_restore, other.pending, other.released = other.may[:], {}, set(self.released)
        return other

    def written(self, page, seed):
        self.may[page - self.first] = frozenset((seed,))

    def inflated(self, pages):
        """The device may drop a page at once, and a chunk as soon as it is full."""
        for page in pages:
            i, chunk = page - self.first, page // CHUNK_PAGES
            self.inside[i] = 1
            if self.may[i] != ZERO:
                self.may[i] = self.may[i] | self.at_restore[i] | ZERO
            known = self.pending.setdefault(chunk, set())
            known.add(page)
            if len(known) == CHUNK_PAGES and self.told:
                del self.pending[chunk]
                self.become_zero(chunk)

    def become_zero(self, chunk):
        self.released.add(chunk)
        at = chunk * CHUNK_PAGES - self.first
        self.may[at:at + CHUNK_PAGES] = [ZERO] * CHUNK_PAGES

    def deflated(self, pages):
        for page in pages:
            self.inside[page - self.first] = 0
            self.pending.get(page // CHUNK_PAGES, set()).discard(page)

    def reported(self, page, count):
        """Whole chunks become zero; of others the pages are left alone, or zero where memory is anonymous."""
        end = page + count
        while page < end:
            chunk, stop = page // CHUNK_PAGES, min(end, (page // CHUNK_PAGES + 1) * CHUNK_PAGES)
            if stop - page == CHUNK_PAGES:
                self.become_zero(chunk)
            else:
                for i in range(page - self.first, stop - self.first):
                    self.may[i] = self.may[i] | ZERO
            page = stop

    def device_reset(self, told):
        self.told = told
        self.inside = bytearray(len(self.inside))
        self.pending = {}

    def seeds(self):
        return sorted(set().union(*set(self.may)))

    def check(self, machine, page=None, count=None):
        """Every page is what it may be; that is what it has to be from now on."""
        page = self.first if page is None else page
        count = self.end - page if count is None else count
        answer = machine.console.command(f'classify {page * PAGE} {count * PAGE} ' + ' '.join(map(str, self.seeds())))
        at, wrong = page, []
        for length, seed in re.findall(r'(\d+)\*(\d+|\?)', answer):
            found = None if seed == '?' else frozenset((int(seed),))
            for i in range(at - self.first, at - self.first + int(length)):
                if found is None or not found <= self.may[i]:
                    wrong.append(f'page {i + self.first:#x} is {seed}, may be {sorted(self.may[i])}, inside={self.inside[i]}')
                else:
                    self.may[i] = found
            at += int(length)
        assert at == page + count, f'{at - page} of {count} pages were looked at'
        assert not wrong, f'{len(wrong)} wrong pages: {"; ".join(wrong[:4])}'

    def fragments(self):
        return sum(a != b for a, b in zip(self.may, self.may[1:]))


class Worker:
    """Random work on a guest and the same on its model."""

    def __init__(self, rng, model):
        self.rng, self.model, self.seed, self.log = rng, model, 1, []

    def say(self, machine, line):
        self.log.append(line)
        return do(machine, line)

    def span(self):
        """(first page, number of pages): whole chunks or anything, behind the chunks that are filled slowly."""
        model, rng = self.model, self.rng
        begin = -(-model.first // CHUNK_PAGES) + SLOW
        if rng.random() < 0.6:
            chunks = rng.randint(1, 4)
            return rng.randrange(begin, model.end // CHUNK_PAGES - chunks + 1) * CHUNK_PAGES, chunks * CHUNK_PAGES
        count = rng.choice((1, 2, rng.randint(3, 100), rng.randint(100, 1100)))
        return rng.randrange(begin * CHUNK_PAGES, model.end - count + 1), count

    def fill_slowly(self, machine):
        """Quarters of a chunk go in, come out and are written until it has been full, or for some time."""
        begin = -(-self.model.first // CHUNK_PAGES)
        for chunk in range(begin, begin + SLOW):
            if chunk not in self.model.released:
                break
        for _ in range(12):
            quarter = self.rng.randrange(4)
            span = chunk * CHUNK_PAGES + quarter * QUARTER, self.rng.randint(1, min(2, 4 - quarter)) * QUARTER
            work = self.rng.choice((self.inflate, self.inflate, self.inflate, self.deflate, self.write))
            work(machine, span)
            if work == self.deflate:
                self.write(machine, span)
            if chunk in self.model.released:
                break
        self.model.check(machine, chunk * CHUNK_PAGES, CHUNK_PAGES)

    def usable_runs(self, page, count):
        """(first, end) of the runs of pages of a span that the guest may use: not in the balloon, or with no need to tell."""
        if not self.model.told:
            return [(page, page + count)]
        inside, first, runs, begin = self.model.inside, self.model.first, [], None
        for p in range(page, page + count):
            if not inside[p - first]:
                begin = p if begin is None else begin
            elif begin is not None:
                runs.append((begin, p))
                begin = None
        return runs + ([(begin, page + count)] if begin is not None else [])

    def write(self, machine, span=None):
        runs = self.usable_runs(*(span or self.span()))
        self.seed = self.seed % SEEDS + 1
        for begin, end in self.rng.sample(runs, min(len(runs), 4)):
            step = 2 if end - begin <= 40 and self.rng.random() < 0.3 else 1
            self.say(machine, f'write {self.seed} {begin * PAGE:#x} {(end - begin) * PAGE:#x} {step}')
            for page in range(begin, end, step):
                self.model.written(page, self.seed)

    def inflate(self, machine, span=None):
        page, count = span or self.span()
        step = 2 if count <= 60 and self.rng.random() < 0.5 else 1
        batch = self.rng.choice((256, 256, 100, 512 if count > 100 else 7))
        self.say(machine, f'inflate {page * PAGE:#x} {count * PAGE:#x} {step} {batch}')
        self.model.inflated(range(page, page + count, step))

    def deflate(self, machine, span=None):
        page, count = span or self.span()
        self.say(machine, f'deflate {page * PAGE:#x} {count * PAGE:#x}')
        self.model.deflated(range(page, page + count))

    def report(self, machine):
        page, count = self.span()
        self.say(machine, f'report {page * PAGE:#x} {count * PAGE:#x}')
        # Pieces of 2 MiB from the first page on, each on its own.
        for at in range(page, page + count, CHUNK_PAGES):
            self.model.reported(at, min(CHUNK_PAGES, page + count - at))

    def reset(self, machine):
        without = self.rng.choice((0, 0, 0, PAGE_POISON, MUST_TELL_HOST, PAGE_POISON | MUST_TELL_HOST))
        self.say(machine, f'balloon-start {ALL_FEATURES & ~without:#x}')
        self.model.device_reset(not without & MUST_TELL_HOST)

    def tidy(self, machine):
        """Take everything back and write it anew, so that answers stay short."""
        first, count = self.model.first, self.model.end - self.model.first
        self.say(machine, f'deflate {first * PAGE:#x} {count * PAGE:#x}')
        self.model.deflated(range(first, first + count))
        begin = first
        while begin < self.model.end:
            self.seed = self.seed % SEEDS + 1
            end = min(self.model.end, begin + self.rng.randint(1000, 4000))
            self.say(machine, f'write {self.seed} {begin * PAGE:#x} {(end - begin) * PAGE:#x}')
            for page in range(begin, end):
                self.model.written(page, self.seed)
            begin = end
