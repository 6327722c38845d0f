/*
 * Recognising kernels: the bzImage header and the ELF note of PVH, both with every number checked.
 *
 * Sources: Linux Documentation/arch/x86/boot.rst (setup header), the ELF specification, and Xen's
 * public/elfnote.h (note 18, PHYS32_ENTRY).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/boot-image.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/io.h"
#include "util/le.h"

#define XEN_ELFNOTE_PHYS32_ENTRY 18
#define PVH_NOTE_BYTES_MAX (64 * 1024)
#define LOWEST_SEGMENT 0x100000

typedef struct ImageFile {
    int fd;
    const char *name;
    uint64_t size;
} ImageFile;

static bool image_read(const ImageFile *file, void *buf, uint64_t offset, uint64_t len,
                       const char *what, GError **errp)
{
    if (offset > file->size || len > file->size - offset) {
        error_set(errp,
                  "kernel '%s' is truncated: %s needs bytes %" G_GUINT64_FORMAT
                  " to %" G_GUINT64_FORMAT ", the file has %" G_GUINT64_FORMAT,
                  file->name, what, offset, offset + len, file->size);
        return false;
    }
    return pread_full(file->fd, buf, len, (off_t)offset, errp);
}

/* ---- bzImage ---- */

/* Offsets in the first sector, from boot.rst. */
enum {
    HDR_SETUP_SECTS = 0x1f1,
    HDR_SYSSIZE = 0x1f4,
    HDR_BOOT_FLAG = 0x1fe,
    HDR_JUMP_LEN = 0x201,
    HDR_MAGIC = 0x202,
    HDR_VERSION = 0x206,
    HDR_LOADFLAGS = 0x211,
    HDR_INITRD_MAX = 0x22c,
    HDR_ALIGNMENT = 0x230,
    HDR_RELOCATABLE = 0x234,
    HDR_XLOADFLAGS = 0x236,
    HDR_CMDLINE_SIZE = 0x238,
    HDR_PREF_ADDRESS = 0x258,
    HDR_INIT_SIZE = 0x260,
};
#define XLF_KERNEL_64 1
#define LOADED_HIGH 1

static bool bzimage_is_bootable(const ImageFile *file, const uint8_t *sector, GError **errp)
{
    unsigned version = get_le16(sector + HDR_VERSION);

    if (version < 0x20c || !(get_le16(sector + HDR_XLOADFLAGS) & XLF_KERNEL_64) ||
        !(sector[HDR_LOADFLAGS] & LOADED_HIGH)) {
        error_set(errp,
                  "kernel '%s' has no 64-bit entry point (boot protocol %u.%02u): "
                  "use a 64-bit Linux of version 3.8 or later",
                  file->name, version >> 8, version & 0xff);
        return false;
    }
    return true;
}

static bool bzimage_place(BootImage *image, const ImageFile *file, const uint8_t *sector,
                          GError **errp)
{
    uint64_t setup = ((sector[HDR_SETUP_SECTS] ? sector[HDR_SETUP_SECTS] : 4) + 1) * 512;
    uint64_t body = (uint64_t)get_le32(sector + HDR_SYSSIZE) * 16;
    uint64_t have = file->size > setup ? file->size - setup : 0;
    BootSegment *seg = &image->segments[0];

    /* The size is rounded up to 16 bytes, the file need not be. */
    if (body < 1024 || body > have + 15) {
        error_set(errp,
                  "kernel '%s' is truncated: its header promises %" G_GUINT64_FORMAT
                  " bytes after the setup code, the file has %" G_GUINT64_FORMAT,
                  file->name, body, have);
        return false;
    }
    seg->file_offset = setup;
    seg->file_size = MIN(body, have);
    seg->mem_size = MAX(get_le32(sector + HDR_INIT_SIZE), seg->file_size);
    image->n_segments = 1;
    return true;
}

static bool bzimage_parse(BootImage *image, const ImageFile *file, const uint8_t *sector,
                          GError **errp)
{
    unsigned end = HDR_MAGIC + sector[HDR_JUMP_LEN];
    uint32_t alignment = get_le32(sector + HDR_ALIGNMENT);

    if (!bzimage_is_bootable(file, sector, errp) || !bzimage_place(image, file, sector, errp)) {
        return false;
    }
    image->kind = BOOT_IMAGE_LINUX64;
    image->protocol = get_le16(sector + HDR_VERSION);
    image->setup_header_len =
        CLAMP(end, HDR_INIT_SIZE + 4, BOOT_SETUP_HEADER_END) - BOOT_SETUP_HEADER_START;
    memcpy(image->setup_header, sector + BOOT_SETUP_HEADER_START, image->setup_header_len);
    image->pref_address = get_le64(sector + HDR_PREF_ADDRESS);
    if (sector[HDR_RELOCATABLE] && alignment && !(alignment & (alignment - 1))) {
        image->alignment = alignment;
    }
    image->cmdline_max = get_le32(sector + HDR_CMDLINE_SIZE);
    image->initrd_max = get_le32(sector + HDR_INITRD_MAX);
    return true;
}

/* ---- ELF with a PVH note ---- */

/* One program header, from either class of ELF file. */
typedef struct ElfSegment {
    uint32_t type;
    uint64_t offset, paddr, filesz, memsz, align;
} ElfSegment;

typedef struct ElfFile {
    bool is64;
    uint64_t phoff;
    unsigned phnum, phentsize;
} ElfFile;

static bool elf_header(ElfFile *elf, const ImageFile *file, const uint8_t *head, GError **errp)
{
    uint16_t machine = get_le16(head + 18);

    elf->is64 = head[EI_CLASS] == ELFCLASS64;
    if ((head[EI_CLASS] != ELFCLASS64 && head[EI_CLASS] != ELFCLASS32) ||
        head[EI_DATA] != ELFDATA2LSB || (machine != EM_X86_64 && machine != EM_386)) {
        error_set(errp, "kernel '%s' is an ELF file, but not for x86", file->name);
        return false;
    }
    elf->phoff = elf->is64 ? get_le64(head + 32) : get_le32(head + 28);
    elf->phentsize = get_le16(head + (elf->is64 ? 54 : 42));
    elf->phnum = get_le16(head + (elf->is64 ? 56 : 44));
    if (elf->phentsize != (elf->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) ||
        elf->phnum == 0 || elf->phnum > 256) {
        error_set(errp, "kernel '%s' is an ELF file without usable program headers", file->name);
        return false;
    }
    return true;
}

static bool elf_segment(ElfSegment *seg, const ElfFile *elf, const ImageFile *file, unsigned i,
                        GError **errp)
{
    uint8_t p[sizeof(Elf64_Phdr)];
    uint64_t offset;

    if (__builtin_add_overflow(elf->phoff, (uint64_t)i * elf->phentsize, &offset)) {
        error_set(errp, "kernel '%s' has program headers outside the file", file->name);
        return false;
    }
    if (!image_read(file, p, offset, elf->phentsize, "an ELF program header", errp)) {
        return false;
    }
    seg->type = get_le32(p);
    if (elf->is64) {
        seg->offset = get_le64(p + 8);
        seg->paddr = get_le64(p + 24);
        seg->filesz = get_le64(p + 32);
        seg->memsz = get_le64(p + 40);
        seg->align = get_le64(p + 48);
    } else {
        seg->offset = get_le32(p + 4);
        seg->paddr = get_le32(p + 12);
        seg->filesz = get_le32(p + 16);
        seg->memsz = get_le32(p + 20);
        seg->align = get_le32(p + 28);
    }
    return true;
}

static bool elf_take_load(BootImage *image, const ElfSegment *seg, const ImageFile *file,
                          GError **errp)
{
    uint64_t end;

    if (seg->memsz == 0) {
        return true;
    }
    if (seg->filesz > seg->memsz || seg->offset > file->size ||
        seg->filesz > file->size - seg->offset) {
        error_set(errp,
                  "kernel '%s' is truncated or damaged: a segment takes %" G_GUINT64_FORMAT
                  " bytes at %" G_GUINT64_FORMAT " of a file of %" G_GUINT64_FORMAT,
                  file->name, seg->filesz, seg->offset, file->size);
        return false;
    }
    if (seg->paddr < LOWEST_SEGMENT || __builtin_add_overflow(seg->paddr, seg->memsz, &end)) {
        error_set(errp,
                  "kernel '%s' wants to be loaded at 0x%" G_GINT64_MODIFIER
                  "x: addresses below 1 MiB are the machine's own",
                  file->name, seg->paddr);
        return false;
    }
    if (image->n_segments == BOOT_IMAGE_MAX_SEGMENTS) {
        error_set(errp, "kernel '%s' has more than %d segments to load", file->name,
                  BOOT_IMAGE_MAX_SEGMENTS);
        return false;
    }
    image->segments[image->n_segments++] = (BootSegment){
        .file_offset = seg->offset,
        .file_size = seg->filesz,
        .gpa = seg->paddr,
        .mem_size = seg->memsz,
    };
    return true;
}

/* Find the PVH entry among the notes; a malformed list simply ends the search. */
static bool pvh_entry_in_notes(const uint8_t *notes, uint64_t len, uint64_t align,
                               uint64_t *ret_entry)
{
    uint64_t pad = align == 8 ? 7 : 3;
    uint64_t pos = 0;

    while (len - pos >= 12) {
        uint64_t namesz = get_le32(notes + pos);
        uint64_t descsz = get_le32(notes + pos + 4);
        uint32_t type = get_le32(notes + pos + 8);
        uint64_t name = pos + 12;
        uint64_t desc = (name + namesz + pad) & ~pad;
        uint64_t next = (desc + descsz + pad) & ~pad;

        if (desc + descsz > len) {
            return false;
        }
        if (type == XEN_ELFNOTE_PHYS32_ENTRY && namesz == 4 &&
            memcmp(notes + name, "Xen", 4) == 0 && (descsz == 4 || descsz == 8)) {
            *ret_entry = descsz == 8 ? get_le64(notes + desc) : get_le32(notes + desc);
            return true;
        }
        if (next > len) {
            return false;
        }
        pos = next;
    }
    return false;
}

static bool elf_take_notes(BootImage *image, const ElfSegment *seg, const ImageFile *file,
                           bool *found, GError **errp)
{
    uint64_t len = MIN(seg->filesz, PVH_NOTE_BYTES_MAX);
    g_autofree uint8_t *notes = g_malloc(len + 1);

    if (!image_read(file, notes, seg->offset, len, "an ELF note", errp)) {
        return false;
    }
    *found = *found || pvh_entry_in_notes(notes, len, seg->align, &image->entry);
    return true;
}

/* The entry point is run with 32-bit addresses, so it must be loaded, and below 4 GiB. */
static bool pvh_entry_is_loaded(const BootImage *image)
{
    for (unsigned i = 0; i < image->n_segments; i++) {
        const BootSegment *seg = &image->segments[i];

        if (image->entry >= seg->gpa && image->entry - seg->gpa < seg->file_size) {
            return image->entry <= UINT32_MAX;
        }
    }
    return false;
}

static bool elf_parse(BootImage *image, const ImageFile *file, const uint8_t *head, GError **errp)
{
    bool found = false;
    ElfFile elf;

    if (!elf_header(&elf, file, head, errp)) {
        return false;
    }
    for (unsigned i = 0; i < elf.phnum; i++) {
        ElfSegment seg;

        if (!elf_segment(&seg, &elf, file, i, errp) ||
            (seg.type == PT_LOAD && !elf_take_load(image, &seg, file, errp)) ||
            (seg.type == PT_NOTE && !elf_take_notes(image, &seg, file, &found, errp))) {
            return false;
        }
    }
    image->kind = BOOT_IMAGE_PVH;
    if (!found) {
        error_set(errp,
                  "kernel '%s' is an ELF file without a PVH entry point: build it with "
                  "CONFIG_PVH=y or use its bzImage",
                  file->name);
        return false;
    }
    if (!pvh_entry_is_loaded(image)) {
        error_set(errp,
                  "kernel '%s' has its PVH entry point 0x%" G_GINT64_MODIFIER
                  "x outside its segments",
                  file->name, image->entry);
        return false;
    }
    return true;
}

bool boot_image_parse(BootImage *ret, int fd, const char *name, GError **errp)
{
    BootImage image = { 0 };
    ImageFile file = { .fd = fd, .name = name };
    uint8_t head[1024];
    struct stat st;
    bool ok;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        error_set(errp, "kernel '%s' is not a regular file", name);
        return false;
    }
    file.size = (uint64_t)st.st_size;
    if (file.size < sizeof(head)) {
        error_set(errp, "kernel '%s' is too short to be one (%" G_GUINT64_FORMAT " bytes)", name,
                  file.size);
        return false;
    }
    if (!image_read(&file, head, 0, sizeof(head), "the header", errp)) {
        return false;
    }
    if (memcmp(head, ELFMAG, SELFMAG) == 0) {
        ok = elf_parse(&image, &file, head, errp);
    } else if (get_le16(head + HDR_BOOT_FLAG) == 0xaa55 &&
               memcmp(head + HDR_MAGIC, "HdrS", 4) == 0) {
        ok = bzimage_parse(&image, &file, head, errp);
    } else {
        error_set(errp,
                  "kernel '%s' is neither a Linux bzImage nor an ELF file with a PVH entry point",
                  name);
        ok = false;
    }
    if (ok) {
        *ret = image;
    }
    return ok;
}
