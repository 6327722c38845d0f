/*
 * A kernel file looked at from outside: which protocol starts it, which bytes go where.
 *
 * Nothing is loaded here and no guest memory is touched; every number of the file is checked against
 * the file's own length, so a hostile image can only be refused.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef HW_I386_BOOT_IMAGE_H
#define HW_I386_BOOT_IMAGE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum BootImageKind {
    BOOT_IMAGE_LINUX64, /* bzImage, 64-bit Linux boot protocol */
    BOOT_IMAGE_PVH,     /* ELF with a XEN_ELFNOTE_PHYS32_ENTRY note */
} BootImageKind;

#define BOOT_IMAGE_MAX_SEGMENTS 16
/* The part of the first sector that the Linux protocol hands back in boot_params. */
#define BOOT_SETUP_HEADER_START 0x1f1
#define BOOT_SETUP_HEADER_END 0x280

typedef struct BootSegment {
    uint64_t file_offset;
    uint64_t file_size; /* bytes taken from the file */
    uint64_t gpa;       /* where they go; for LINUX64 decided at load time */
    uint64_t mem_size;  /* bytes the image needs there; the rest is zero */
} BootSegment;

typedef struct BootImage {
    BootImageKind kind;
    unsigned n_segments;
    BootSegment segments[BOOT_IMAGE_MAX_SEGMENTS];
    uint64_t entry; /* PVH: physical entry point */

    /* LINUX64 only */
    uint8_t setup_header[BOOT_SETUP_HEADER_END - BOOT_SETUP_HEADER_START];
    unsigned setup_header_len;
    uint16_t protocol;
    uint64_t pref_address;
    uint32_t alignment;   /* 0: the image cannot be moved */
    uint32_t cmdline_max; /* bytes, without the final zero */
    uint64_t initrd_max;  /* highest address an initrd may occupy */
} BootImage;

/* Look at the file behind fd (a regular file); name is for messages. */
bool boot_image_parse(BootImage *ret, int fd, const char *name, GError **errp);

#endif
