/*
 * Tests of what describes the board: AML encoding, ACPI tables, the table loader, SMBIOS.
 *
 * With iasl installed the tables are disassembled as well.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/firmware/fw-cfg.h"
#include "hw/i386/acpi-loader.h"
#include "hw/i386/acpi-tables.h"
#include "hw/i386/boot-tables.h"
#include "hw/i386/smbios.h"
#include "hw/misc/vmgenid.h"
#include "util/le.h"

#include "hw-fixture.h"

#include <glib/gstdio.h>

static uint8_t sum_of(const uint8_t *p, size_t len)
{
    uint8_t sum = 0;

    while (len--) {
        sum = (uint8_t)(sum + *p++);
    }
    return sum;
}

/* ---- AML ---- */

static void check_bytes(GByteArray *out, const char *hex)
{
    g_autoptr(GString) got = g_string_new(NULL);

    for (guint i = 0; i < out->len; i++) {
        g_string_append_printf(got, "%02x", out->data[i]);
    }
    g_assert_cmpstr(got->str, ==, hex);
    g_byte_array_set_size(out, 0);
}

static void test_aml(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    Aml a;

    aml_init(&a, out);
    aml_int(&a, 0);
    aml_int(&a, 1);
    aml_int(&a, 0x12);
    aml_int(&a, 0x1234);
    aml_int(&a, 0x12345678);
    aml_int(&a, 0x123456789a);
    check_bytes(out, "00010a120b34120c785634120e9a78563412000000");
    aml_eisa_id(&a, "PNP0A03");
    check_bytes(out, "0c41d00a03");
    aml_path(&a, "\\_SB.PCI0.ISA");
    check_bytes(out, "5c2f035f53425f504349304953415f");
    aml_begin_scope(&a, "\\_SB");
    aml_end(&a);
    check_bytes(out, "10065c5f53425f");
    aml_begin_package(&a, 2);
    aml_int(&a, 5);
    aml_string(&a, "x");
    aml_end(&a);
    check_bytes(out, "120702"
                     "0a05"
                     "0d7800");
    aml_finish(&a);
}

/* The length of a package at the limits of its encodings. */
static void test_package_length(void)
{
    static const unsigned sizes[] = { 0, 50, 60, 61, 62, 63, 64, 4000, 4090, 4095, 4096, 70000 };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(GByteArray) out = g_byte_array_new();
        unsigned extra, len;
        Aml a;

        aml_init(&a, out);
        aml_begin_if(&a);
        for (unsigned n = 0; n < sizes[i]; n++) {
            aml_int(&a, 0);
        }
        aml_end(&a);
        aml_finish(&a);
        extra = out->data[1] >> 6;
        len = extra ? out->data[1] & 15 : out->data[1] & 63;
        for (unsigned n = 0; n < extra; n++) {
            len |= (unsigned)out->data[2 + n] << (4 + 8 * n);
        }
        g_assert_cmpuint(len, ==, out->len - 1);
        g_assert_cmpuint(len, ==, sizes[i] + 1 + extra);
    }
}

/* ---- ACPI ---- */

static AcpiTables *make_tables(unsigned n_cpus)
{
    static uint32_t ids[300];
    AcpiConfig config = {
        .n_cpus = n_cpus,
        .apic_ids = ids,
        .pci_low = { .base = 0xc0000000, .size = 0x3ec00000 },
        .pci_high = { .base = 0x800000000, .size = 0x800000000 },
        .s4 = true,
        .rtc = true,
        .fw_cfg = true,
        .vmgenid = true,
        .pvpanic = 0x505,
        .n_serial = 1,
        .serial = { { 0x3f8, 4 } },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(ids); i++) {
        ids[i] = i;
    }
    return acpi_tables_new(&config);
}

/* Follows the pointers of linked tables that lie at base; returns the table of that name. */
static const uint8_t *find_table(const AcpiTables *t, uint64_t base, const char *name, bool xsdt)
{
    const uint8_t *rsdp = t->blobs[ACPI_RSDP]->data, *tables = t->blobs[ACPI_TABLES]->data;
    const uint8_t *root = tables + (xsdt ? get_le64(rsdp + 24) : get_le32(rsdp + 16)) - base;
    unsigned size = xsdt ? 8 : 4;

    g_assert_cmpint(sum_of(rsdp, 20), ==, 0);
    g_assert_cmpint(sum_of(rsdp, 36), ==, 0);
    g_assert_cmpint(sum_of(root, get_le32(root + 4)), ==, 0);
    for (unsigned at = 36; at < get_le32(root + 4); at += size) {
        const uint8_t *table = tables + (xsdt ? get_le64(root + at) : get_le32(root + at)) - base;

        g_assert_cmpint(sum_of(table, get_le32(table + 4)), ==, 0);
        if (memcmp(table, name, 4) == 0) {
            return table;
        }
    }
    return NULL;
}

static void test_acpi(void)
{
    const uint64_t address[ACPI_BLOBS] = { 0xf5a00, 0x7ff0000, 0x7ffe000 };
    g_autoptr(AcpiTables) t = make_tables(4);
    const uint8_t *fadt, *dsdt, *madt, *facs;
    unsigned cpus = 0;

    acpi_tables_link(t, address);
    for (int xsdt = 0; xsdt < 2; xsdt++) {
        g_assert_nonnull(find_table(t, address[ACPI_TABLES], "WAET", xsdt));
        g_assert_nonnull(find_table(t, address[ACPI_TABLES], "APIC", xsdt));
    }
    fadt = find_table(t, address[ACPI_TABLES], "FACP", true);
    g_assert_cmpuint(get_le32(fadt + 4), ==, 244);
    dsdt = t->blobs[ACPI_TABLES]->data + get_le32(fadt + 40) - address[ACPI_TABLES];
    g_assert_cmpmem(dsdt, 4, "DSDT", 4);
    g_assert_cmpint(sum_of(dsdt, get_le32(dsdt + 4)), ==, 0);
    g_assert_cmpuint(get_le64(fadt + 140), ==, get_le32(fadt + 40));
    facs = t->blobs[ACPI_TABLES]->data + get_le32(fadt + 36) - address[ACPI_TABLES];
    g_assert_cmpmem(facs, 4, "FACS", 4);
    g_assert_cmpuint(get_le32(fadt + 36) % 64, ==, 0);
    /* The name of the generation id's address is the first thing in the DSDT. */
    g_assert_cmpmem(dsdt + 37, 4, "VGIA", 4);
    g_assert_cmphex(get_le32(dsdt + 42), ==, address[ACPI_VMGENID] + ACPI_VMGENID_OFFSET);
    madt = find_table(t, address[ACPI_TABLES], "APIC", true);
    for (unsigned at = 44; at < get_le32(madt + 4); at += madt[at + 1]) {
        g_assert_cmpuint(madt[at + 1], >=, 2);
        cpus += madt[at] == 0;
    }
    g_assert_cmpuint(cpus, ==, 4);
}

static void test_many_cpus(void)
{
    g_autoptr(AcpiTables) t = make_tables(300);
    const uint64_t address[ACPI_BLOBS] = { 0 };
    const uint8_t *madt;
    unsigned x2apic = 0;

    acpi_tables_link(t, address);
    madt = find_table(t, 0, "APIC", true);
    for (unsigned at = 44; at < get_le32(madt + 4); at += madt[at + 1]) {
        x2apic += madt[at] == 9;
    }
    g_assert_cmpuint(x2apic, ==, 45);
}

/* The disassembler understands every byte, and every name that is used is defined. */
static void test_iasl(void)
{
    g_autofree char *iasl = g_find_program_in_path("iasl");
    g_autofree char *dir = NULL, *aml = NULL, *dsl = NULL, *output = NULL, *text = NULL;
    const uint64_t address[ACPI_BLOBS] = { 0 };
    g_autoptr(AcpiTables) t = make_tables(4);
    const uint8_t *dsdt;
    int status;

    if (!iasl) {
        g_test_skip("iasl is not installed (Debian package acpica-tools)");
        return;
    }
    acpi_tables_link(t, address);
    dsdt = t->blobs[ACPI_TABLES]->data + get_le32(find_table(t, 0, "FACP", true) + 40);
    dir = g_dir_make_tmp("acpi-XXXXXX", NULL);
    aml = g_build_filename(dir, "dsdt.aml", NULL);
    dsl = g_build_filename(dir, "dsdt.dsl", NULL);
    g_assert_true(g_file_set_contents(aml, (const char *)dsdt, get_le32(dsdt + 4), NULL));
    g_assert_true(g_spawn_sync(NULL, (char *[]){ iasl, (char *)"-d", aml, NULL }, NULL, 0, NULL,
                               NULL, NULL, &output, &status, NULL));
    g_assert_cmpint(status, ==, 0);
    g_assert_nonnull(strstr(output, "Disassembly completed"));
    g_assert_true(g_file_get_contents(dsl, &text, NULL, NULL));
    g_assert_null(strstr(text, "External ("));
    g_assert_null(strstr(text, "Unknown"));
    g_assert_nonnull(strstr(text, "Notify (\\_SB.VGEN, 0x80)"));
    g_unlink(aml);
    g_unlink(dsl);
    g_rmdir(dir);
}

/* ---- the loader ---- */

static void read_fw_cfg(Board *b, uint8_t *to, unsigned size)
{
    for (unsigned n = 0; n < size; n++) {
        to[n] = (uint8_t)board_in(b, 0x511, 1);
    }
}

/* Select the loader's script in the directory; returns its size. */
static uint32_t select_loader_script(Board *b)
{
    uint32_t count = 0, size = 0;
    uint16_t key = 0;

    board_out(b, 0x510, 0x19, 2);
    for (int i = 0; i < 4; i++) {
        count = count << 8 | board_in(b, 0x511, 1);
    }
    g_assert_cmpuint(count, >=, 5);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t entry[64];

        read_fw_cfg(b, entry, sizeof(entry));
        if (strcmp((char *)entry + 8, ACPI_FILE_LOADER) == 0) {
            size = GUINT32_SWAP_LE_BE(get_le32(entry));
            key = GUINT16_SWAP_LE_BE(get_le16(entry + 4));
        }
    }
    g_assert_cmpuint(size % 128, ==, 0);
    g_assert_cmpuint(size, >, 0);
    board_out(b, 0x510, key, 2);
    return size;
}

static void obey_loader_command(AcpiTables *raw, const uint8_t c[128], const uint64_t *address)
{
    static const char *const names[] = { ACPI_FILE_RSDP, ACPI_FILE_TABLES, ACPI_FILE_VMGENID };
    unsigned at[2] = { 0, 0 };

    for (unsigned k = 0; k < 2; k++) {
        while (at[k] < 2 && strcmp((const char *)c + 4 + k * 56, names[at[k]]) != 0) {
            at[k]++;
        }
    }
    if (get_le32(c) == 2) {
        uint8_t *p = raw->blobs[at[0]]->data + get_le32(c + 116);

        if (c[120] == 8) {
            put_le64(p, get_le64(p) + address[at[1]]);
        } else {
            put_le32(p, get_le32(p) + (uint32_t)address[at[1]]);
        }
    } else if (get_le32(c) == 3) {
        uint8_t *data = raw->blobs[at[0]]->data;

        data[get_le32(c + 60)] = 0;
        data[get_le32(c + 60)] = (uint8_t)-sum_of(data + get_le32(c + 64), get_le32(c + 68));
    }
}

/* What firmware does with the script, for blobs at these places; it ends as acpi_tables_link does. */
static void test_loader(void)
{
    const uint64_t address[ACPI_BLOBS] = { 0xf0000, 0x100000, 0x200000 };
    Board *b = board_new(64 * MiB, NULL);
    g_autoptr(AcpiTables) raw = make_tables(2), linked = make_tables(2);
    g_autoptr(GError) err = NULL;
    uint32_t size;

    g_assert_true(acpi_loader_add_files(b->m->fw_cfg, raw, NULL, NULL, &err));
    size = select_loader_script(b);
    for (uint32_t i = 0; i < size / 128; i++) {
        uint8_t c[128];

        read_fw_cfg(b, c, sizeof(c));
        obey_loader_command(raw, c, address);
    }
    acpi_tables_link(linked, address);
    for (unsigned i = 0; i < 2; i++) {
        g_assert_cmpmem(raw->blobs[i]->data, raw->blobs[i]->len, linked->blobs[i]->data,
                        linked->blobs[i]->len);
    }
    board_free(b);
}

/* ---- SMBIOS ---- */

static void test_smbios(void)
{
    static const uint8_t guid[16] = { 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66,
                                      0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
    SmbiosConfig config = { "Board",      "8.2",      .below_4g = 3 * GiB, .above_4g = 61 * GiB,
                            .sockets = 2, .cores = 4, .threads = 8 };
    g_autoptr(SmbiosTables) t = NULL;
    uint8_t a21[SMBIOS_ANCHOR_21_SIZE], a30[SMBIOS_ANCHOR_30_SIZE];
    unsigned count = 0, devices = 0, at = 0;

    uuid_parse("00112233-4455-6677-8899-aabbccddeeff", &config.uuid);
    t = smbios_tables_new(&config);
    smbios_anchor_21(t, 0x1000, a21);
    smbios_anchor_30(t, 0x1000, a30);
    g_assert_cmpint(sum_of(a21, sizeof(a21)), ==, 0);
    g_assert_cmpint(sum_of(a21 + 16, 15), ==, 0);
    g_assert_cmpint(sum_of(a30, sizeof(a30)), ==, 0);
    while (at < t->bytes->len) {
        const uint8_t *s = t->bytes->data + at;

        if (s[0] == 1) {
            g_assert_cmpmem(s + 8, 16, guid, 16);
        }
        devices += s[0] == 17;
        count++;
        at += s[1];
        while (t->bytes->data[at] || t->bytes->data[at + 1]) {
            at++;
        }
        at += 2;
    }
    g_assert_cmpuint(at, ==, t->bytes->len);
    g_assert_cmpuint(count, ==, t->count);
    g_assert_cmpuint(devices, ==, 4);
}

/* ---- all of it in a board's RAM ---- */

static void test_board_tables(void)
{
    Board *b = board_new(64 * MiB, NULL);
    g_autoptr(GError) err = NULL;
    Device *vmgenid = device_create(b->m, TYPE_VMGENID, NULL, &err, "guid",
                                    "00112233-4455-6677-8899-aabbccddeeff", NULL);
    BootTables *t = boot_tables_new(b->pc);
    uint8_t rsdp[36], anchor[5], id[4];

    g_assert_nonnull(vmgenid);
    g_assert_true(boot_tables_load(t, &err));
    g_assert_no_error(err);
    g_assert_true(guest_read(b->m->memory, boot_tables_rsdp(t), rsdp, sizeof(rsdp)));
    g_assert_cmpmem(rsdp, 8, "RSD PTR ", 8);
    g_assert_cmpint(sum_of(rsdp, 36), ==, 0);
    g_assert_true(guest_read(b->m->memory, 0xf5a40, anchor, sizeof(anchor)));
    g_assert_cmpmem(anchor, 5, "_SM3_", 5);
    g_assert_cmphex(boot_tables_base(t), <, 64 * MiB);
    for (uint64_t at = boot_tables_base(t); at < 64 * MiB; at += 4096) {
        guest_read(b->m->memory, at + ACPI_VMGENID_OFFSET, id, sizeof(id));
        if (get_le32(id) == 0x00112233) {
            break;
        }
        g_assert_cmphex(at + 4096, <, 64 * MiB);
    }
    boot_tables_free(t);
    board_free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tables/aml", test_aml);
    g_test_add_func("/tables/package-length", test_package_length);
    g_test_add_func("/tables/acpi", test_acpi);
    g_test_add_func("/tables/many-cpus", test_many_cpus);
    g_test_add_func("/tables/iasl", test_iasl);
    g_test_add_func("/tables/loader", test_loader);
    g_test_add_func("/tables/smbios", test_smbios);
    g_test_add_func("/tables/board", test_board_tables);
    return g_test_run();
}
