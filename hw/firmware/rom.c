/*
 * Putting images into guest RAM, from memory or straight from a file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/firmware/rom.h"

#include "memory/guest-access.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#define PIECE (8 * MiB)
#define IOV_PER_PIECE 16

static bool not_ram(uint64_t gpa, uint64_t len, const char *what, GError **errp)
{
    error_set(errp,
              "cannot load %s: guest addresses 0x%" G_GINT64_MODIFIER "x to 0x%" G_GINT64_MODIFIER
              "x are not all RAM",
              what, gpa, gpa + len);
    return false;
}

bool rom_load(AddressMap *memory, uint64_t gpa, const void *data, size_t len, const char *what,
              GError **errp)
{
    return guest_write(memory, gpa, data, len) || not_ram(gpa, len, what, errp);
}

bool rom_clear(AddressMap *memory, uint64_t gpa, uint64_t len, const char *what, GError **errp)
{
    return len == 0 || guest_fill(memory, gpa, 0, len) || not_ram(gpa, len, what, errp);
}

static bool load_piece(AddressMap *memory, uint64_t gpa, int fd, uint64_t offset, uint64_t len,
                       const char *what, GError **errp)
{
    struct iovec iov[IOV_PER_PIECE];
    unsigned n;
    bool ok = true;

    if (!guest_map_iov(memory, gpa, len, true, iov, IOV_PER_PIECE, &n)) {
        return not_ram(gpa, len, what, errp);
    }
    for (unsigned i = 0; ok && i < n; i++) {
        ok = pread_full(fd, iov[i].iov_base, iov[i].iov_len, (off_t)offset, errp);
        offset += iov[i].iov_len;
    }
    guest_unmap_iov(memory, iov, n);
    if (!ok) {
        g_prefix_error(errp, "cannot load '%s': ", what);
    }
    return ok;
}

bool rom_load_file(AddressMap *memory, uint64_t gpa, int fd, uint64_t offset, uint64_t len,
                   const char *what, GError **errp)
{
    while (len) {
        uint64_t piece = MIN(len, PIECE);

        if (!load_piece(memory, gpa, fd, offset, piece, what, errp)) {
            return false;
        }
        gpa += piece;
        offset += piece;
        len -= piece;
    }
    return true;
}
