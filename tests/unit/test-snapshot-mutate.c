/*
 * Snapshot files with hostile lengths, offsets and counts under a right checksum: refused, or read within bounds.
 *
 * Each round changes a few bytes outside page data, mends the checksum and does everything a reader does.
 * COWBIRD_MUTATIONS and COWBIRD_MUTATION_SEED choose how many rounds there are and which.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/snapshot-fixture.h"

#include <stdlib.h>

#include "migration/chain-map.h"
#include "migration/flatten.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamList, ram_list_free)

#define RAM_SIZE (2 * MiB)

/* What lies in one file outside page data: [start, end) twice, head and tail. */
typedef struct Sample {
    char *path;
    uint64_t head_end; /* 0: nothing to change before the data */
    uint64_t tail_start;
    uint64_t size;
} Sample;

typedef struct World {
    char *folder;
    Sample full, delta;
    GRand *rand;
    unsigned opened, refused;
} World;

static unsigned rounds(void)
{
    const char *text = g_getenv("COWBIRD_MUTATIONS");

    return text ? strtoul(text, NULL, 10) : 150;
}

static uint32_t seed(void)
{
    const char *text = g_getenv("COWBIRD_MUTATION_SEED");

    return text ? strtoul(text, NULL, 10) : 1;
}

static SnapshotChain *open_chain(const char *path, GError **errp)
{
    g_autoptr(FdStore) fds = fd_store_new();
    SnapshotFile *tip = fixture_open(path, errp);

    return tip ? snapshot_chain_open(tip, NULL, fds, errp) : NULL;
}

/* Data begins after the heads; what follows it begins with the RAM section's end or footer. */
static void measure(Sample *s)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(SnapshotFile) file = fixture_open(s->path, &err);
    const SnapshotBlock *first, *last;

    g_assert_no_error(err);
    first = g_ptr_array_index(file->blocks, 0);
    last = g_ptr_array_index(file->blocks, file->blocks->len - 1);
    s->size = file->end;
    if (file->kind == SNAPSHOT_FULL) {
        s->head_end = first->pages_offset;
        s->tail_start = last->pages_offset + last->length;
    } else {
        s->head_end = 2048;
        s->tail_start = s->size - file->info.tail_length - 300;
    }
}

static void world_init(World *w)
{
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(SnapshotFile) parent = NULL;
    g_autoptr(GError) err = NULL;
    FixtureSave save;

    *w = (World){ .folder = fixture_folder(), .rand = g_rand_new_with_seed(seed()) };
    w->full.path = g_build_filename(w->folder, "full", NULL);
    w->delta.path = g_build_filename(w->folder, "delta", NULL);
    fixture_write(ram, 3, 1);
    save = (FixtureSave){ .ram = ram, .path = w->full.path };
    fixture_save(&save, &err);
    g_assert_no_error(err);
    parent = fixture_open(w->full.path, &err);
    g_assert_no_error(err);
    fixture_write(ram, 50, 2);
    save = (FixtureSave){ .ram = ram, .path = w->delta.path, .parent = parent };
    fixture_save(&save, &err);
    g_assert_no_error(err);
    measure(&w->full);
    measure(&w->delta);
}

static void world_clear(World *w)
{
    g_rand_free(w->rand);
    fixture_remove_folder(w->folder);
    g_free(w->full.path);
    g_free(w->delta.path);
    g_free(w->folder);
}

static uint64_t hostile_number(GRand *rand)
{
    static const uint64_t numbers[] = {
        0,
        1,
        7,
        4095,
        4096,
        4097,
        64 * KiB,
        MiB,
        2 * MiB,
        3 * MiB,
        INT32_MAX,
        UINT32_MAX,
        1ull << 32,
        1ull << 47,
        1ull << 48,
        INT64_MAX,
        1ull << 63,
        UINT64_MAX,
        UINT64_MAX - 4095,
        UINT64_MAX - MiB + 1,
        2 * MiB - 4096,
        2 * MiB + 4096,
    };

    return numbers[g_rand_int_range(rand, 0, G_N_ELEMENTS(numbers))];
}

/* Heads are where the numbers are: most changes fall near the beginning or just after the data. */
static uint64_t place(World *w, const Sample *s)
{
    uint64_t at;

    switch (g_rand_int_range(w->rand, 0, 4)) {
    case 0:
        at = g_rand_int_range(w->rand, 0, MIN(s->head_end, 300));
        break;
    case 1:
        at = g_rand_int_range(w->rand, 0, s->head_end);
        break;
    case 2:
        at = s->tail_start + g_rand_int_range(w->rand, 0, 300);
        break;
    default:
        at = s->tail_start + g_rand_int_range(w->rand, 0, s->size - s->tail_start);
        break;
    }
    return MIN(at, s->size - 1);
}

static void change(World *w, const Sample *s, uint8_t *bytes)
{
    uint64_t at = place(w, s), be = GUINT64_TO_BE(hostile_number(w->rand));
    size_t len = g_rand_boolean(w->rand) ? 8 : 4;

    switch (g_rand_int_range(w->rand, 0, 4)) {
    case 0:
        bytes[at] ^= 1u << g_rand_int_range(w->rand, 0, 8);
        break;
    case 1:
        bytes[at] = g_rand_int_range(w->rand, 0, 256);
        break;
    default:
        len = MIN(len, s->size - at);
        memcpy(bytes + at, (uint8_t *)&be + 8 - len, len);
        break;
    }
}

/* The reader says what the checksum should have been; that is how an attacker would find it, too. */
static SnapshotChain *open_with_right_checksum(const Sample *s, uint8_t *bytes, const char *path,
                                               GError **errp)
{
    static const char marker[] = "its contents have 0x";
    g_autoptr(GError) err = NULL;
    SnapshotChain *chain;
    const char *found;

    g_file_set_contents(path, (char *)bytes, s->size, NULL);
    chain = open_chain(path, &err);
    found = err ? strstr(err->message, marker) : NULL;
    if (chain) {
        return chain;
    }
    if (!found) {
        g_propagate_error(errp, g_steal_pointer(&err));
        return NULL;
    }
    for (uint64_t back = s->size - s->tail_start; back > 4; back--) {
        /* The place of the checksum: before the footer 7e 00 00 00 03 of the section "snapshot". */
        static const uint8_t footer[] = { 0x7e, 0, 0, 0, 3 };
        uint8_t *at = bytes + s->size - back;
        uint32_t be = GUINT32_TO_BE(strtoul(found + strlen(marker), NULL, 16));

        if (back > 9 && memcmp(at + 4, footer, sizeof(footer)) == 0) {
            memcpy(at, &be, sizeof(be));
            break;
        }
    }
    g_file_set_contents(path, (char *)bytes, s->size, NULL);
    return open_chain(path, errp);
}

/* What an incoming migration makes sure of before it asks for memory to be restored. */
static bool fits(const SnapshotChain *chain, RamList *ram)
{
    for (guint i = 0; i < chain->files->len; i++) {
        const SnapshotFile *file = g_ptr_array_index(chain->files, i);

        for (guint k = 0; k < file->blocks->len; k++) {
            const SnapshotBlock *block = g_ptr_array_index(file->blocks, k);
            const RamBlock *to = ram_list_find(ram, block->name);

            if (!to || to->size != block->length) {
                return false;
            }
        }
    }
    return true;
}

static void use(World *w, SnapshotChain *chain)
{
    g_autofree char *path = g_build_filename(w->folder, "flat", NULL);
    const SnapshotFile *tip = snapshot_chain_tip(chain);
    RestoreMode modes[] = { RESTORE_COPY, RESTORE_COPY_ON_WRITE };

    for (guint i = 0; i < tip->blocks->len; i++) {
        const SnapshotBlock *block = g_ptr_array_index(tip->blocks, i);
        g_autoptr(GArray) runs = chain_map_block((SnapshotFile *const *)chain->files->pdata,
                                                 chain->files->len, block->name);

        g_assert_nonnull(runs);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(modes); i++) {
        g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
        g_autoptr(GError) err = NULL;

        if (fits(chain, ram) && fixture_restore(ram, chain, modes[i], &err)) {
            g_byte_array_unref(fixture_copy(ram));
        }
    }
    /* Now and then, for it waits for the disk. */
    if (w->opened % 8 == 0 && snapshot_file_ram_size(tip) <= 64 * MiB) {
        g_autoptr(PublishTarget) target = publish_new_path(path, 0, false, NULL);

        snapshot_flatten(chain, target, NULL, NULL, NULL);
    }
}

static void mutate(World *w, const Sample *s)
{
    g_autofree char *path = g_build_filename(w->folder, "mutated", NULL);
    g_autofree char *original = NULL;
    gsize len;

    g_assert_true(g_file_get_contents(s->path, &original, &len, NULL));
    g_assert_cmpuint(len, ==, s->size);
    for (unsigned i = 0; i < rounds(); i++) {
        g_autofree uint8_t *bytes = g_memdup2(original, len);
        g_autoptr(SnapshotChain) chain = NULL;
        g_autoptr(GError) err = NULL;

        for (int n = g_rand_int_range(w->rand, 1, 4); n > 0; n--) {
            change(w, s, bytes);
        }
        chain = open_with_right_checksum(s, bytes, path, &err);
        g_assert_true(chain || (err && err->message[0]));
        if (chain) {
            w->opened++;
            use(w, chain);
        } else {
            w->refused++;
        }
    }
    g_test_message("%s: %u opened, %u refused", s->path, w->opened, w->refused);
}

static void test_full(void)
{
    World w;

    world_init(&w);
    mutate(&w, &w.full);
    world_clear(&w);
}

static void test_increment(void)
{
    World w;

    world_init(&w);
    mutate(&w, &w.delta);
    world_clear(&w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot/mutate/full", test_full);
    g_test_add_func("/snapshot/mutate/increment", test_increment);
    return g_test_run();
}
