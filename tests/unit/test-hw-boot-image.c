/*
 * Tests of kernel images: both protocols, placement, and hostile files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/boot-image.h"
#include "hw/i386/linux-boot.h"
#include "memory/guest-access.h"
#include "util/le.h"
#include "util/units.h"

#include <elf.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

static char *write_file(const void *data, size_t len)
{
    char *path = NULL;
    int fd = g_file_open_tmp("kernel-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, data, len), ==, (ssize_t)len);
    close(fd);
    return path;
}

static void remove_file(char *path)
{
    g_unlink(path);
    g_free(path);
}

/* ---- images ---- */

#define BZ_SIZE (5 * 512 + 8192)

static uint8_t *make_bzimage(void)
{
    uint8_t *p = g_malloc0(BZ_SIZE);

    p[0x1f1] = 4;
    put_le32(p + 0x1f4, 8192 / 16);
    put_le16(p + 0x1fe, 0xaa55);
    p[0x201] = 0x66;
    memcpy(p + 0x202, "HdrS", 4);
    put_le16(p + 0x206, 0x20f);
    p[0x211] = 1;
    put_le32(p + 0x22c, 0x7fffffff);
    put_le32(p + 0x230, 0x200000);
    p[0x234] = 1;
    put_le16(p + 0x236, 3);
    put_le32(p + 0x238, 2047);
    put_le64(p + 0x258, 16 * MiB);
    put_le32(p + 0x260, 4 * MiB);
    memset(p + 5 * 512, 0xcc, 8192);
    return p;
}

#define ELF_SIZE 8192
#define ELF_NOTES 512

static void put_phdr(uint8_t *p, uint32_t type, uint64_t offset, uint64_t paddr, uint64_t filesz,
                     uint64_t memsz)
{
    put_le32(p, type);
    put_le64(p + 8, offset);
    put_le64(p + 24, paddr);
    put_le64(p + 32, filesz);
    put_le64(p + 40, memsz);
    put_le64(p + 48, 4);
}

static uint8_t *make_elf(void)
{
    uint8_t *p = g_malloc0(ELF_SIZE);

    memcpy(p, ELFMAG, SELFMAG);
    p[EI_CLASS] = ELFCLASS64;
    p[EI_DATA] = ELFDATA2LSB;
    put_le16(p + 18, EM_X86_64);
    put_le64(p + 32, 64);
    put_le16(p + 54, 56);
    put_le16(p + 56, 2);
    put_phdr(p + 64, PT_LOAD, 4096, 1 * MiB, 4096, 8192);
    put_phdr(p + 64 + 56, PT_NOTE, ELF_NOTES, 0, 40, 0);
    /* Another note first. */
    put_le32(p + ELF_NOTES, 4);
    put_le32(p + ELF_NOTES + 4, 4);
    put_le32(p + ELF_NOTES + 8, 1);
    memcpy(p + ELF_NOTES + 12, "Xen", 4);
    put_le32(p + ELF_NOTES + 20, 4);
    put_le32(p + ELF_NOTES + 24, 4);
    put_le32(p + ELF_NOTES + 28, 18);
    memcpy(p + ELF_NOTES + 32, "Xen", 4);
    put_le32(p + ELF_NOTES + 36, 1 * MiB + 16);
    memset(p + 4096, 0xcc, 4096);
    return p;
}

/* ---- guest memory ---- */

typedef struct Ram {
    RamList *list;
    AddressMap *map;
} Ram;

static Ram ram_new(uint64_t size)
{
    Ram r = { ram_list_new(), address_map_new("memory", 40) };
    RamBlock *block = ram_list_add(r.list, ram_block_new_anonymous("ram", size, NULL), NULL);

    g_assert_true(address_map_add_ram(r.map, 0, block, 0, size, false, NULL));
    return r;
}

static void ram_free(Ram r)
{
    address_map_free(r.map);
    ram_list_free(r.list);
}

static uint8_t ram_byte(Ram r, uint64_t gpa)
{
    uint8_t b;

    g_assert_true(guest_read(r.map, gpa, &b, 1));
    return b;
}

static LinuxBoot *boot_of(const char *kernel, const char *initrd, const char *cmdline,
                          uint64_t ram_end, GError **errp)
{
    return linux_boot_new(
        &(LinuxBootConfig){
            .kernel = kernel, .initrd = initrd, .cmdline = cmdline, .ram_end = ram_end },
        errp);
}

static void test_bzimage(void)
{
    g_autofree uint8_t *image = make_bzimage();
    char *path = write_file(image, BZ_SIZE), *initrd = write_file("initrd!", 7);
    E820Table e820 = { 0 };
    Ram ram = ram_new(64 * MiB);
    g_autoptr(GError) err = NULL;
    LinuxBoot *boot = boot_of(path, initrd, "console=ttyS0", 64 * MiB, &err);
    VcpuBoot regs;
    uint32_t at;

    g_assert_no_error(err);
    e820_add(&e820, 0, 64 * MiB, E820_RAM);
    g_assert_true(linux_boot_load(boot, ram.map, &e820, 0xf1234, &regs, &err));
    g_assert_cmpint(regs.mode, ==, VCPU_BOOT_LINUX64);
    g_assert_cmphex(regs.rip, ==, 16 * MiB + 0x200);
    g_assert_cmphex(ram_byte(ram, 16 * MiB), ==, 0xcc);
    g_assert_true(guest_read_le32(ram.map, regs.rsi + 0x218, &at));
    g_assert_cmphex(at, ==, 64 * MiB - 4096);
    g_assert_cmpint(ram_byte(ram, at), ==, 'i');
    g_assert_true(guest_read_le32(ram.map, regs.rsi + 0x228, &at));
    g_assert_cmpint(ram_byte(ram, at), ==, 'c');
    g_assert_true(guest_read_le32(ram.map, regs.rsi + 0x70, &at));
    g_assert_cmphex(at, ==, 0xf1234);
    g_assert_cmpint(ram_byte(ram, regs.rsi + 0x1e8), ==, 1);
    /* A small machine: as low as its alignment lets it. */
    linux_boot_free(boot);
    boot = boot_of(path, NULL, NULL, 8 * MiB, &err);
    g_assert_true(linux_boot_load(boot, ram.map, &e820, 0, &regs, &err));
    g_assert_cmphex(regs.rip, ==, 2 * MiB + 0x200);
    linux_boot_free(boot);
    ram_free(ram);
    remove_file(path);
    remove_file(initrd);
}

static void test_pvh(void)
{
    g_autofree uint8_t *image = make_elf();
    char *path = write_file(image, ELF_SIZE);
    E820Table e820 = { 0 };
    Ram ram = ram_new(16 * MiB);
    g_autoptr(GError) err = NULL;
    LinuxBoot *boot = boot_of(path, NULL, "x", 16 * MiB, &err);
    uint8_t dirt[4096];
    VcpuBoot regs;
    uint32_t magic;

    g_assert_no_error(err);
    memset(dirt, 0xee, sizeof(dirt));
    g_assert_true(guest_write(ram.map, 1 * MiB + 4096, dirt, sizeof(dirt)));
    e820_add(&e820, 0, 16 * MiB, E820_RAM);
    g_assert_true(linux_boot_load(boot, ram.map, &e820, 0, &regs, &err));
    g_assert_cmpint(regs.mode, ==, VCPU_BOOT_PVH32);
    g_assert_cmphex(regs.rip, ==, 1 * MiB + 16);
    g_assert_cmphex(ram_byte(ram, 1 * MiB), ==, 0xcc);
    g_assert_cmphex(ram_byte(ram, 1 * MiB + 4096), ==, 0); /* bss, after a reset too */
    g_assert_true(guest_read_le32(ram.map, regs.rbx, &magic));
    g_assert_cmphex(magic, ==, 0x336ec578);
    linux_boot_free(boot);
    ram_free(ram);
    remove_file(path);
}

/* ---- refusals ---- */

static void refused(const char *kernel, const char *initrd, const char *cmdline, uint64_t ram_end,
                    const char *part)
{
    g_autoptr(GError) err = NULL;
    LinuxBoot *boot = boot_of(kernel, initrd, cmdline, ram_end, &err);

    g_assert_null(boot);
    g_assert_nonnull(err);
    g_assert_nonnull(strstr(err->message, part));
}

static void refused_image(const uint8_t *image, size_t len, const char *part)
{
    char *path = write_file(image, len);

    refused(path, NULL, NULL, 64 * MiB, part);
    remove_file(path);
}

static void test_refusals(void)
{
    g_autofree uint8_t *bz = make_bzimage(), *elf = make_elf();
    g_autofree char *long_line = g_strnfill(3000, 'x');
    uint8_t zeros[2048] = { 0 };
    char *bz_path, *elf_path, *initrd = write_file(zeros, sizeof(zeros)),
                              *empty = write_file("", 0);

    refused("/nonexistent/kernel", NULL, NULL, 64 * MiB, "/nonexistent/kernel");
    refused("/dev/null", NULL, NULL, 64 * MiB, "regular file");
    refused_image(zeros, 10, "too short");
    refused_image(zeros, sizeof(zeros), "neither");
    refused_image(bz, BZ_SIZE - 64, "truncated");
    refused_image(elf, 5000, "truncated");
    bz_path = write_file(bz, BZ_SIZE);
    elf_path = write_file(elf, ELF_SIZE);
    refused(bz_path, NULL, NULL, 5 * MiB, "does not fit");
    refused(elf_path, NULL, NULL, 1 * MiB, "does not fit");
    refused(bz_path, initrd, long_line, 64 * MiB, "command line");
    refused(bz_path, "/nonexistent/initrd", NULL, 64 * MiB, "initrd");
    refused(bz_path, empty, NULL, 64 * MiB, "initrd");
    refused(elf_path, initrd, NULL, 1 * MiB + 8192, "initrd");
    put_le16(bz + 0x206, 0x20b);
    refused_image(bz, BZ_SIZE, "64-bit");
    elf[64 + 56] = 0; /* no notes */
    refused_image(elf, ELF_SIZE, "PVH");
    remove_file(bz_path);
    remove_file(elf_path);
    remove_file(initrd);
    remove_file(empty);
}

static void test_hostile_elf(void)
{
    static const struct {
        unsigned at;
        uint64_t value;
    } cases[] = {
        { 32, UINT64_MAX }, /* program headers outside the file */
        { 32, UINT64_MAX - 100 },
        { 64 + 8, UINT64_MAX - 4095 },    /* segment's offset overflows */
        { 64 + 32, UINT64_MAX },          /* its size */
        { 64 + 40, UINT64_MAX },          /* its memory */
        { 64 + 24, UINT64_MAX - 100 },    /* its address */
        { 64 + 24, 4096 },                /* below 1 MiB */
        { 64 + 56 + 8, UINT64_MAX - 10 }, /* notes outside the file */
        { ELF_NOTES, UINT64_MAX },        /* name and contents of a note without end */
        { ELF_NOTES + 20, 0xfffffff0fffffff0 },
        { ELF_NOTES + 36, 0x40000000 }, /* entry outside the segments */
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree uint8_t *elf = make_elf();

        put_le64(elf + cases[i].at, cases[i].value);
        refused_image(elf, ELF_SIZE, "kernel");
    }
}

/* Random changes of valid images: accepted or refused, but every accepted number lies inside the file. */
static void test_random_images(void)
{
    for (unsigned i = 0; i < 3000; i++) {
        g_autofree uint8_t *image = i % 2 ? make_elf() : make_bzimage();
        size_t len = i % 2 ? ELF_SIZE : BZ_SIZE;
        char *path;
        g_autoptr(GError) err = NULL;
        BootImage parsed;
        FILE *f;

        for (unsigned n = 0; n < 4; n++) {
            unsigned start = i % 2 ? 0 : 0x1f1, span = i % 2 ? 600 : 0x80;

            image[start + (unsigned)g_test_rand_int_range(0, (int)span)] =
                (uint8_t)g_test_rand_int();
        }
        if (i % 7 == 0) {
            len = (size_t)g_test_rand_int_range(0, (int)len);
        }
        path = write_file(image, len);
        f = fopen(path, "r");
        if (boot_image_parse(&parsed, fileno(f), path, &err)) {
            for (unsigned s = 0; s < parsed.n_segments; s++) {
                g_assert_cmpuint(parsed.segments[s].file_offset, <=, len);
                g_assert_cmpuint(parsed.segments[s].file_size, <=,
                                 len - parsed.segments[s].file_offset);
                g_assert_cmpuint(parsed.segments[s].file_size, <=, parsed.segments[s].mem_size);
            }
            linux_boot_free(boot_of(path, NULL, NULL, 64 * MiB, NULL));
        } else {
            g_assert_nonnull(err);
        }
        fclose(f);
        remove_file(path);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/boot-image/bzimage", test_bzimage);
    g_test_add_func("/boot-image/pvh", test_pvh);
    g_test_add_func("/boot-image/refusals", test_refusals);
    g_test_add_func("/boot-image/hostile-elf", test_hostile_elf);
    g_test_add_func("/boot-image/random", test_random_images);
    return g_test_run();
}
