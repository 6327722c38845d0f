/*
 * Direct kernel boot: placement of the images, and the structures of both protocols in low memory.
 *
 * Sources: Linux Documentation/arch/x86/boot.rst and zero-page.rst (64-bit protocol), Xen's
 * public/arch-x86/hvm/start_info.h (PVH).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/linux-boot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hw/firmware/rom.h"
#include "hw/i386/boot-image.h"
#include "memory/guest-access.h"
#include "util/error.h"
#include "util/io.h"
#include "util/le.h"
#include "util/units.h"
#include "util/uuid.h"

/* Low memory, all of it free again once the kernel has looked at it. */
#define GDT_ADDR 0x500
#define START_INFO_ADDR 0x6000 /* PVH: hvm_start_info, memory map, module */
#define ZERO_PAGE_ADDR 0x7000  /* LINUX64: boot_params */
#define SETUP_DATA_ADDR 0x8000
#define PAGE_TABLE_ADDR 0x9000 /* one PML4, one PDPT, four PDs: 4 GiB by 2 MiB pages */
#define CMDLINE_ADDR 0x20000
#define CMDLINE_ROOM 0x10000
#define KERNEL_LOWEST 0x100000

#define BOOT_CS 0x10
#define BOOT_DS 0x18
#define BOOT_TR 0x20
#define GDT_ENTRIES 5

struct LinuxBoot {
    BootImage image;
    char *kernel_name, *initrd_name, *cmdline;
    int kernel_fd, initrd_fd; /* initrd_fd: -1 = none */
    uint64_t kernel_end;      /* first byte after the kernel's own memory */
    uint64_t initrd_addr, initrd_size;
};

static int open_image(const char *what, const char *path, GError **errp)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot open %s '%s'", what, path);
    }
    return fd;
}

/* ---- placement ---- */

static bool place_linux64(LinuxBoot *boot, uint64_t ram_end, GError **errp)
{
    BootImage *image = &boot->image;
    BootSegment *seg = &image->segments[0];
    uint64_t at = image->pref_address, end;

    if (image->alignment && (at < KERNEL_LOWEST || at > ram_end || seg->mem_size > ram_end - at)) {
        at = ROUND_UP((uint64_t)KERNEL_LOWEST, (uint64_t)image->alignment);
    }
    if (at < KERNEL_LOWEST || __builtin_add_overflow(at, seg->mem_size, &end) || end > ram_end) {
        error_set(errp,
                  "kernel '%s' does not fit: it needs %" G_GUINT64_FORMAT
                  " MiB at %" G_GUINT64_FORMAT " MiB, guest RAM for it ends at %" G_GUINT64_FORMAT
                  " MiB; use a larger -m",
                  boot->kernel_name, DIV_ROUND_UP(seg->mem_size, MiB), at / MiB, ram_end / MiB);
        return false;
    }
    seg->gpa = at;
    boot->kernel_end = end;
    return true;
}

static bool place_pvh(LinuxBoot *boot, uint64_t ram_end, GError **errp)
{
    for (unsigned i = 0; i < boot->image.n_segments; i++) {
        const BootSegment *seg = &boot->image.segments[i];

        /* The sum was checked when the image was parsed. */
        if (seg->gpa + seg->mem_size > ram_end) {
            error_set(errp,
                      "kernel '%s' does not fit: it needs memory up to %" G_GUINT64_FORMAT
                      " MiB, guest RAM for it ends at %" G_GUINT64_FORMAT " MiB; use a larger -m",
                      boot->kernel_name, (seg->gpa + seg->mem_size) / MiB + 1, ram_end / MiB);
            return false;
        }
        boot->kernel_end = MAX(boot->kernel_end, seg->gpa + seg->mem_size);
    }
    return true;
}

/* As high as the protocol allows, away from the kernel. */
static bool place_initrd(LinuxBoot *boot, uint64_t ram_end, GError **errp)
{
    uint64_t top = ram_end;
    struct stat st;

    if (fstat(boot->initrd_fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        error_set(errp, "initrd '%s' is not a regular file with contents", boot->initrd_name);
        return false;
    }
    boot->initrd_size = (uint64_t)st.st_size;
    if (boot->image.kind == BOOT_IMAGE_LINUX64) {
        top = MIN(top, boot->image.initrd_max + 1);
    }
    top = ROUND_DOWN(top, 4 * KiB);
    if (boot->initrd_size > top ||
        ROUND_DOWN(top - boot->initrd_size, 4 * KiB) < boot->kernel_end) {
        error_set(errp,
                  "initrd '%s' of %" G_GUINT64_FORMAT
                  " MiB does not fit between the kernel, which ends at %" G_GUINT64_FORMAT
                  " MiB, and %" G_GUINT64_FORMAT " MiB; use a larger -m",
                  boot->initrd_name, DIV_ROUND_UP(boot->initrd_size, MiB),
                  DIV_ROUND_UP(boot->kernel_end, MiB), top / MiB);
        return false;
    }
    boot->initrd_addr = ROUND_DOWN(top - boot->initrd_size, 4 * KiB);
    return true;
}

static bool check_cmdline(const LinuxBoot *boot, GError **errp)
{
    size_t len = strlen(boot->cmdline), max = CMDLINE_ROOM - 1;

    if (boot->image.kind == BOOT_IMAGE_LINUX64) {
        max = MIN(max, boot->image.cmdline_max);
    }
    if (len > max) {
        error_set(errp, "the kernel command line has %zu bytes, kernel '%s' takes at most %zu", len,
                  boot->kernel_name, max);
        return false;
    }
    return true;
}

LinuxBoot *linux_boot_new(const LinuxBootConfig *config, GError **errp)
{
    g_autoptr(LinuxBoot) boot = g_new0(LinuxBoot, 1);

    boot->initrd_fd = -1;
    boot->kernel_name = g_strdup(config->kernel);
    boot->initrd_name = g_strdup(config->initrd);
    boot->cmdline = g_strdup(config->cmdline ? config->cmdline : "");
    boot->kernel_fd = open_image("kernel", config->kernel, errp);
    if (boot->kernel_fd < 0 ||
        !boot_image_parse(&boot->image, boot->kernel_fd, config->kernel, errp) ||
        !check_cmdline(boot, errp)) {
        return NULL;
    }
    if (!(boot->image.kind == BOOT_IMAGE_LINUX64 ? place_linux64(boot, config->ram_end, errp)
                                                 : place_pvh(boot, config->ram_end, errp))) {
        return NULL;
    }
    if (config->initrd) {
        boot->initrd_fd = open_image("initrd", config->initrd, errp);
        if (boot->initrd_fd < 0 || !place_initrd(boot, config->ram_end, errp)) {
            return NULL;
        }
    }
    return g_steal_pointer(&boot);
}

void linux_boot_free(LinuxBoot *boot)
{
    if (boot) {
        close_fd(&boot->kernel_fd);
        close_fd(&boot->initrd_fd);
        g_free(boot->kernel_name);
        g_free(boot->initrd_name);
        g_free(boot->cmdline);
        g_free(boot);
    }
}

/* ---- filling guest RAM ---- */

static bool load_images(const LinuxBoot *boot, AddressMap *memory, GError **errp)
{
    for (unsigned i = 0; i < boot->image.n_segments; i++) {
        const BootSegment *seg = &boot->image.segments[i];
        bool clear = boot->image.kind == BOOT_IMAGE_PVH;

        if (!rom_load_file(memory, seg->gpa, boot->kernel_fd, seg->file_offset, seg->file_size,
                           boot->kernel_name, errp)) {
            return false;
        }
        /* A bzImage clears its own memory. */
        if (clear && !rom_clear(memory, seg->gpa + seg->file_size, seg->mem_size - seg->file_size,
                                boot->kernel_name, errp)) {
            return false;
        }
    }
    return boot->initrd_fd < 0 || rom_load_file(memory, boot->initrd_addr, boot->initrd_fd, 0,
                                                boot->initrd_size, boot->initrd_name, errp);
}

/* Flat segments; code is 64-bit or 32-bit as the protocol starts. */
static bool load_gdt(AddressMap *memory, bool code64, GError **errp)
{
    uint8_t gdt[GDT_ENTRIES * 8] = { 0 };

    put_le64(gdt + BOOT_CS, code64 ? 0x00af9b000000ffff : 0x00cf9b000000ffff);
    put_le64(gdt + BOOT_DS, 0x00cf93000000ffff);
    put_le64(gdt + BOOT_TR, 0x00008b0000000067);
    return rom_load(memory, GDT_ADDR, gdt, sizeof(gdt), "the boot GDT", errp);
}

static bool load_page_tables(AddressMap *memory, GError **errp)
{
    const size_t len = 6 * 4096;
    g_autofree uint8_t *tables = g_malloc0(len);
    const uint64_t present_writable = 3, large = 0x80;

    put_le64(tables, (PAGE_TABLE_ADDR + 4096) | present_writable);
    for (unsigned i = 0; i < 4; i++) {
        put_le64(tables + 4096 + i * 8, (PAGE_TABLE_ADDR + (2 + i) * 4096) | present_writable);
    }
    for (uint64_t i = 0; i < 2048; i++) {
        put_le64(tables + 2 * 4096 + i * 8, (i << 21) | present_writable | large);
    }
    return rom_load(memory, PAGE_TABLE_ADDR, tables, len, "the boot page tables", errp);
}

static bool load_cmdline(const LinuxBoot *boot, AddressMap *memory, GError **errp)
{
    return rom_load(memory, CMDLINE_ADDR, boot->cmdline, strlen(boot->cmdline) + 1,
                    "the kernel command line", errp);
}

/* One setup_data node: 32 random bytes to seed the kernel's generator, new at every boot. */
static bool load_random_seed(AddressMap *memory, GError **errp)
{
    enum { SETUP_RNG_SEED = 9 };
    uint8_t node[16 + 32] = { 0 };
    Uuid random[2] = { uuid_generate(), uuid_generate() };

    put_le32(node + 8, SETUP_RNG_SEED);
    put_le32(node + 12, sizeof(random));
    memcpy(node + 16, random, sizeof(random));
    return rom_load(memory, SETUP_DATA_ADDR, node, sizeof(node), "the random seed", errp);
}

static bool load_zero_page(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                           uint64_t rsdp, GError **errp)
{
    g_autofree uint8_t *zp = g_malloc0(4096);
    unsigned n = MIN(e820->count, 128u);

    memcpy(zp + BOOT_SETUP_HEADER_START, boot->image.setup_header, boot->image.setup_header_len);
    put_le64(zp + 0x70, rsdp);
    zp[0x1e8] = (uint8_t)n;
    put_le16(zp + 0x1fa, 0xffff); /* video mode: as it is */
    zp[0x210] = 0xff;             /* a boot loader without a number of its own */
    put_le32(zp + 0x214, (uint32_t)boot->image.segments[0].gpa);
    put_le32(zp + 0x218, (uint32_t)boot->initrd_addr);
    put_le32(zp + 0x21c, (uint32_t)boot->initrd_size);
    put_le32(zp + 0x228, CMDLINE_ADDR);
    put_le64(zp + 0x250, SETUP_DATA_ADDR);
    e820_encode(e820, zp + 0x2d0);
    return rom_load(memory, ZERO_PAGE_ADDR, zp, 4096, "boot_params", errp);
}

static bool load_linux64(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                         uint64_t rsdp, VcpuBoot *ret, GError **errp)
{
    if (!load_gdt(memory, true, errp) || !load_page_tables(memory, errp) ||
        !load_random_seed(memory, errp) || !load_zero_page(boot, memory, e820, rsdp, errp)) {
        return false;
    }
    *ret = (VcpuBoot){
        .mode = VCPU_BOOT_LINUX64,
        .rip = boot->image.segments[0].gpa + 0x200,
        .rsi = ZERO_PAGE_ADDR,
        .cr3 = PAGE_TABLE_ADDR,
        .gdt_base = GDT_ADDR,
        .gdt_limit = GDT_ENTRIES * 8 - 1,
        .cs = BOOT_CS,
        .ds = BOOT_DS,
    };
    return true;
}

/* hvm_start_info, then the memory map, then the one module. */
static bool load_start_info(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                            uint64_t rsdp, GError **errp)
{
    enum { INFO = 0, MAP = 64, MAP_ENTRY = 24, MODULE = MAP + E820_MAX * MAP_ENTRY };
    uint8_t info[MODULE + 32] = { 0 };
    bool has_initrd = boot->initrd_size != 0;

    put_le32(info, 0x336ec578); /* XEN_HVM_START_MAGIC_VALUE */
    put_le32(info + 4, 1);      /* version with a memory map */
    put_le32(info + 12, has_initrd);
    put_le64(info + 16, has_initrd ? START_INFO_ADDR + MODULE : 0);
    put_le64(info + 24, CMDLINE_ADDR);
    put_le64(info + 32, rsdp);
    put_le64(info + 40, START_INFO_ADDR + MAP);
    put_le32(info + 48, e820->count);
    for (unsigned i = 0; i < e820->count; i++) {
        put_le64(info + MAP + i * MAP_ENTRY, e820->entries[i].base);
        put_le64(info + MAP + i * MAP_ENTRY + 8, e820->entries[i].size);
        put_le32(info + MAP + i * MAP_ENTRY + 16, e820->entries[i].type);
    }
    put_le64(info + MODULE, boot->initrd_addr);
    put_le64(info + MODULE + 8, boot->initrd_size);
    return rom_load(memory, START_INFO_ADDR, info, sizeof(info), "hvm_start_info", errp);
}

static bool load_pvh(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                     uint64_t rsdp, VcpuBoot *ret, GError **errp)
{
    if (!load_gdt(memory, false, errp) || !load_start_info(boot, memory, e820, rsdp, errp)) {
        return false;
    }
    *ret = (VcpuBoot){
        .mode = VCPU_BOOT_PVH32,
        .rip = boot->image.entry,
        .rbx = START_INFO_ADDR,
        .gdt_base = GDT_ADDR,
        .gdt_limit = GDT_ENTRIES * 8 - 1,
        .cs = BOOT_CS,
        .ds = BOOT_DS,
        .tr = BOOT_TR,
    };
    return true;
}

bool linux_boot_load(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                     uint64_t rsdp, VcpuBoot *ret_registers, GError **errp)
{
    if (!load_images(boot, memory, errp) || !load_cmdline(boot, memory, errp)) {
        return false;
    }
    return boot->image.kind == BOOT_IMAGE_LINUX64
               ? load_linux64(boot, memory, e820, rsdp, ret_registers, errp)
               : load_pvh(boot, memory, e820, rsdp, ret_registers, errp);
}
