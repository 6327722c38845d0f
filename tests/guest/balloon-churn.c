/*
 * Memory freed and used again, over and over: what a guest with free page reporting or a busy balloon does to its host.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/balloon.h"
#include "tests/guest/guest.h"
#include "tests/guest/pages.h"

#define CHUNK 0x200000ull
#define RACE_BATCH 32

typedef struct Churn {
    uint64_t start, length, block, rounds;
    bool report; /* else inflate and deflate */
    uint64_t blocks, wrong, free_cycles, write_cycles, slowest;
    VirtioResult result;
} Churn;

static bool take_number(char **text, uint64_t *ret_value)
{
    return text_number(text_word(text), ret_value);
}

static uint64_t count_wrong(uint64_t start, uint64_t length, uint64_t seed)
{
    uint64_t wrong = 0;

    for (uint64_t n = start / 4096; n < (start + length) / 4096; n++) {
        wrong += !page_is((uint64_t *)(n * 4096), seed, n);
    }
    return wrong;
}

static void write_pages(uint64_t start, uint64_t length, uint64_t seed)
{
    for (uint64_t n = start / 4096; n < (start + length) / 4096; n++) {
        page_write((uint64_t *)(n * 4096), seed, n);
    }
}

static VirtioResult free_block(const Churn *churn, uint64_t start)
{
    BalloonJob job = { BALLOON_INFLATE, start, churn->block, 1, BALLOON_BATCH, 0, 0 };
    uint64_t pieces;
    VirtioResult result;

    if (churn->report) {
        return balloon_report(start, churn->block, CHUNK, CHUNK, &pieces);
    }
    result = balloon_pages(&job);
    if (result == VIRTIO_DONE) {
        job.queue = BALLOON_DEFLATE;
        result = balloon_pages(&job);
    }
    return result;
}

static void churn_block(Churn *churn, uint64_t start, uint64_t round)
{
    uint64_t before, freed, written;

    if (round > 1) {
        churn->wrong += count_wrong(start, churn->block, round - 1);
    }
    before = read_tsc();
    churn->result = free_block(churn, start);
    freed = read_tsc();
    write_pages(start, churn->block, round);
    written = read_tsc() - freed;
    churn->free_cycles += freed - before;
    churn->write_cycles += written;
    churn->slowest = written > churn->slowest ? written : churn->slowest;
    churn->blocks++;
}

static uint64_t churn_rounds(Churn *churn)
{
    uint64_t round = 0, at;

    while (churn->result == VIRTIO_DONE && round < churn->rounds && !serial_has_news()) {
        round++;
        for (at = 0; at + churn->block <= churn->length && churn->result == VIRTIO_DONE;
             at += churn->block) {
            churn_block(churn, churn->start + at, round);
        }
    }
    if (round > 0 && churn->result == VIRTIO_DONE) {
        churn->wrong += count_wrong(churn->start, at, round);
    }
    return round;
}

/*
 * START LENGTH BLOCK report|inflate [ROUNDS]: each block is checked, freed and written again, round by round, until a line
 * arrives. The first round checks nothing.
 */
void balloon_run_churn(char *text)
{
    Churn churn = { .rounds = UINT64_MAX };
    uint64_t rounds;
    bool good = take_number(&text, &churn.start) && take_number(&text, &churn.length) &&
                take_number(&text, &churn.block) && churn.block >= 4096;
    const char *mode = text_word(&text);

    churn.report = text_equal(mode, "report");
    if (!good || (!churn.report && !text_equal(mode, "inflate"))) {
        serial_put_field("failed", VIRTIO_ABSENT);
        return;
    }
    take_number(&text, &churn.rounds);
    serial_put(" begin\n");
    rounds = churn_rounds(&churn);
    serial_put("end");
    serial_put_field("rounds", rounds);
    serial_put_field("blocks", churn.blocks);
    serial_put_field("wrong", churn.wrong);
    serial_put_field("free-cycles", churn.free_cycles);
    serial_put_field("write-cycles", churn.write_cycles);
    serial_put_field("slowest", churn.slowest);
    virtio_print_result(churn.result);
}

/* Offers as many inflate buffers as fit, without waiting for one. */
static void offer_all(uint64_t start, uint64_t length)
{
    static uint32_t pfns[RING_SIZE][RACE_BATCH];
    Ring *ring = &balloon_device.rings[BALLOON_INFLATE];
    uint64_t page = start / 4096, end = (start + length) / 4096;

    for (uint16_t i = 0; i < ring->size && page < end; i++) {
        unsigned used = 0;

        while (used < RACE_BATCH && page < end) {
            pfns[i][used++] = (uint32_t)page++;
        }
        ring_set_desc(ring, i, &(RingDesc){ (uintptr_t)pfns[i], 4 * used, 0, 0 });
        ring_offer(ring, i);
    }
    ring_kick(ring);
}

/*
 * START LENGTH ROUNDS: inflates the range and resets the device at once, in the middle of it. The pages are the guest's again
 * after the reset: what is then written must stay, through the next start too.
 */
void balloon_run_race(char *text)
{
    uint64_t start, length, rounds, wrong = 0, done = 0;
    VirtioResult result = VIRTIO_DONE;

    if (!take_number(&text, &start) || !take_number(&text, &length) ||
        !take_number(&text, &rounds)) {
        virtio_print_result(VIRTIO_ABSENT);
        return;
    }
    while (done < rounds && result == VIRTIO_DONE) {
        result = balloon_start(UINT64_MAX, 0);
        if (result != VIRTIO_DONE) {
            break;
        }
        wrong += done > 0 ? count_wrong(start, length, done) : 0;
        offer_all(start, length);
        for (uint64_t until = read_tsc() + page_mix(done) % 2000000; read_tsc() < until;) {
            __asm__ volatile("pause");
        }
        virtio_reset(&balloon_device);
        write_pages(start, length, ++done);
        wrong += count_wrong(start, length, done);
    }
    serial_put_field("rounds", done);
    serial_put_field("wrong", wrong);
    virtio_print_result(result);
}
