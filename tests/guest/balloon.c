/*
 * The balloon driver of the test guest: inflate, deflate, free page reporting, statistics, poison.
 *
 * virtio 1.2, 5.5. Pages in the balloon are known only to the test; this driver keeps their number for the device.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/balloon.h"
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"

#define CONFIG_TARGET 0
#define CONFIG_ACTUAL 1
#define CONFIG_POISON 3
#define MAX_STATS 16
#define FEATURES_BALLOON                                                           \
    (FEATURE(F_MUST_TELL_HOST) | FEATURE(F_STATS_VQ) | FEATURE(F_DEFLATE_ON_OOM) | \
     FEATURE(F_PAGE_POISON) | FEATURE(F_REPORTING))

static Ring rings[BALLOON_RINGS] __attribute__((aligned(4096)));
Virtio balloon_device = { .type = 5, .max_rings = BALLOON_RINGS, .rings = rings };

static uint32_t pfns[BALLOON_BATCH];
static RingDesc pieces[REPORT_PIECES] __attribute__((aligned(16)));
static struct __attribute__((packed)) {
    uint16_t tag;
    uint64_t value;
} stats[MAX_STATS];
static bool stats_given;
static uint64_t balloon_size; /* pages */

static volatile uint32_t *config(unsigned word)
{
    return (volatile uint32_t *)balloon_device.config + word;
}

/* Queues are numbered without gaps: the hint and statistics queues exist only if offered. */
static unsigned report_queue(void)
{
    return 2u + ((balloon_device.offered & FEATURE(F_STATS_VQ)) != 0) +
           ((balloon_device.offered & FEATURE(F_FREE_PAGE_HINT)) != 0);
}

VirtioResult balloon_start(uint64_t wanted, uint32_t poison)
{
    Virtio *dev = &balloon_device;
    VirtioResult result = virtio_begin(dev, wanted & (FEATURES_BALLOON | FEATURES_TRANSPORT));

    if (result != VIRTIO_DONE) {
        return result;
    }
    if ((dev->features & FEATURE(F_PAGE_POISON)) != 0) {
        *config(CONFIG_POISON) = poison;
    }
    result = ring_start(dev, BALLOON_INFLATE);
    if (result == VIRTIO_DONE) {
        result = ring_start(dev, BALLOON_DEFLATE);
    }
    if (result == VIRTIO_DONE && (dev->features & FEATURE(F_STATS_VQ)) != 0) {
        result = ring_start(dev, BALLOON_STATS);
    }
    if (result == VIRTIO_DONE && (dev->features & FEATURE(F_REPORTING)) != 0) {
        result = ring_start(dev, report_queue());
    }
    stats_given = false;
    balloon_size = 0;
    return result == VIRTIO_DONE ? virtio_go(dev) : result;
}

static VirtioResult send_pfns(unsigned queue, unsigned count)
{
    uint32_t length;

    if (count == 0) {
        return VIRTIO_DONE;
    }
    ring_set_desc(&rings[queue], 0, &(RingDesc){ (uintptr_t)pfns, 4 * count, 0, 0 });
    return ring_do(&balloon_device, queue, &length);
}

static VirtioResult send_range(BalloonJob *job, uint64_t first, uint64_t end)
{
    uint64_t origin = job->start / 4096;
    unsigned used = 0;
    VirtioResult result = VIRTIO_DONE;

    for (uint64_t n = first; n < end && result == VIRTIO_DONE; n++) {
        if ((n - origin) % job->step == 0) {
            pfns[used++] = (uint32_t)n;
            job->ret_pages++;
        }
        if (used == job->batch || (n + 1 == end && used > 0)) {
            result = send_pfns(job->queue, used);
            job->ret_buffers++;
            used = 0;
        }
    }
    return result;
}

VirtioResult balloon_pages(BalloonJob *job)
{
    VirtioResult result = VIRTIO_DONE;
    uint64_t first, end;

    job->ret_pages = job->ret_buffers = 0;
    if (!balloon_device.started) {
        return VIRTIO_ABSENT;
    }
    for (unsigned i = 0; i < memory_map_usable_count() && result == VIRTIO_DONE; i++) {
        if (work_clip(i, job->start, job->length, &first, &end)) {
            result = send_range(job, first, end);
        }
    }
    if (job->queue == BALLOON_INFLATE) {
        balloon_size += job->ret_pages;
    } else {
        balloon_size -= job->ret_pages < balloon_size ? job->ret_pages : balloon_size;
    }
    *config(CONFIG_ACTUAL) = (uint32_t)balloon_size;
    return result;
}

static VirtioResult send_pieces(unsigned queue, unsigned count)
{
    bool indirect = (balloon_device.features & FEATURE(F_INDIRECT_DESC)) != 0;
    uint32_t length;

    for (unsigned i = 0; i < count; i++) {
        pieces[i].flags = (uint16_t)(DESC_WRITE | (i + 1 < count ? DESC_NEXT : 0));
        pieces[i].next = (uint16_t)(i + 1);
        ring_set_desc(&rings[queue], i, &pieces[i]);
    }
    if (indirect) {
        RingDesc table = { (uintptr_t)pieces, (uint32_t)(count * sizeof(pieces[0])), DESC_INDIRECT,
                           0 };

        ring_set_desc(&rings[queue], 0, &table);
    }
    return ring_do(&balloon_device, queue, &length);
}

VirtioResult balloon_report(uint64_t start, uint64_t length, uint64_t piece, uint64_t stride,
                            uint64_t *ret_pieces)
{
    unsigned queue = report_queue(), used = 0;
    VirtioResult result = VIRTIO_DONE;

    *ret_pieces = 0;
    if (!balloon_device.started || (balloon_device.features & FEATURE(F_REPORTING)) == 0) {
        return VIRTIO_ABSENT;
    }
    for (uint64_t at = 0; at < length && result == VIRTIO_DONE; at += stride) {
        uint64_t size = length - at < piece ? length - at : piece;

        pieces[used++] = (RingDesc){ start + at, (uint32_t)size, 0, 0 };
        ++*ret_pieces;
        if (used == REPORT_PIECES || length - at <= stride) {
            result = send_pieces(queue, used);
            used = 0;
        }
    }
    return result;
}

/* [FEATURES [POISON]] */
static void run_start(const Command *command, const uint64_t *arguments, unsigned count)
{
    VirtioResult result = balloon_start(count > 0 ? arguments[0] : UINT64_MAX,
                                        count > 1 ? (uint32_t)arguments[1] : 0);

    serial_put_hex_field("offered", balloon_device.offered);
    serial_put_hex_field("features", balloon_device.features);
    virtio_print_result(result);
}

/* START LENGTH [STEP [BATCH]] */
static void run_pages(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t batch = count > 3 ? arguments[3] : BALLOON_BATCH, before = read_tsc();
    BalloonJob job = {
        .queue = text_equal(command->name, "inflate") ? BALLOON_INFLATE : BALLOON_DEFLATE,
        .start = arguments[0],
        .length = arguments[1],
        .step = count > 2 && arguments[2] > 0 ? arguments[2] : 1,
        .batch = batch < 1 || batch > BALLOON_BATCH ? BALLOON_BATCH : (unsigned)batch,
    };
    VirtioResult result = balloon_pages(&job);

    serial_put_field("pages", job.ret_pages);
    serial_put_field("buffers", job.ret_buffers);
    serial_put_field("cycles", read_tsc() - before);
    virtio_print_result(result);
}

/* START LENGTH [PIECE [STRIDE]] */
static void run_report(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t piece = count > 2 && arguments[2] > 0 ? arguments[2] : 0x200000, before = read_tsc();
    uint64_t stride = count > 3 && arguments[3] > 0 ? arguments[3] : piece, count_of_pieces;
    VirtioResult result =
        balloon_report(arguments[0], arguments[1], piece, stride, &count_of_pieces);

    serial_put_field("pieces", count_of_pieces);
    serial_put_field("cycles", read_tsc() - before);
    virtio_print_result(result);
}

/* QUEUE PFN...: one buffer of any page numbers */
static void run_pfn(const Command *command, const uint64_t *arguments, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        pfns[i - 1] = (uint32_t)arguments[i];
    }
    virtio_print_result(arguments[0] > BALLOON_DEFLATE
                            ? VIRTIO_ABSENT
                            : send_pfns((unsigned)arguments[0], count - 1));
}

static void run_config(const Command *command, const uint64_t *arguments, unsigned count)
{
    if (!virtio_find(&balloon_device)) {
        virtio_print_result(VIRTIO_ABSENT);
        return;
    }
    if (count > 0) {
        balloon_size = arguments[0];
        *config(CONFIG_ACTUAL) = (uint32_t)balloon_size;
    }
    serial_put_field("target", *config(CONFIG_TARGET));
    serial_put_field("actual", *config(CONFIG_ACTUAL));
    serial_put_hex_field("poison", *config(CONFIG_POISON));
    serial_put_hex_field("status", balloon_device.common->status);
}

/* [COUNT BASE]: gives COUNT statistics, BASE + tag each, as soon as the device has given back the last buffer */
static void run_stats(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t tags = count > 0 && arguments[0] <= MAX_STATS ? arguments[0] : 10;
    Ring *ring = &rings[BALLOON_STATS];
    VirtioResult result = VIRTIO_DONE;
    uint32_t id, length;

    if (!balloon_device.started || (balloon_device.features & FEATURE(F_STATS_VQ)) == 0) {
        virtio_print_result(VIRTIO_ABSENT);
        return;
    }
    if (stats_given) {
        result = ring_wait(&balloon_device, ring, &id, &length);
    }
    if (result == VIRTIO_DONE) {
        for (uint64_t i = 0; i < tags; i++) {
            stats[i].tag = (uint16_t)i;
            stats[i].value = (count > 1 ? arguments[1] : 0) + i;
        }
        ring_set_desc(ring, 0,
                      &(RingDesc){ (uintptr_t)stats, (uint32_t)(tags * sizeof(stats[0])), 0, 0 });
        ring_offer(ring, 0);
        ring_kick(ring);
        stats_given = true;
    }
    serial_put_field("given", tags);
    virtio_print_result(result);
}

const Command balloon_commands[] = {
    { "balloon-start", 0, 2, run_start },
    { "inflate", 2, 4, run_pages },
    { "deflate", 2, 4, run_pages },
    { "report", 2, 4, run_report },
    { "balloon-pfn", 2, MAX_ARGUMENTS, run_pfn },
    { "balloon-config", 0, 1, run_config },
    { "balloon-stats", 0, 2, run_stats },
    { "balloon-churn", .run_text = balloon_run_churn },
    { "balloon-race", .run_text = balloon_run_race },
    { 0 },
};
