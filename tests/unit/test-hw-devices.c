/*
 * Tests of the smaller devices: power management, fw_cfg, generation id, keyboard controller, panic and debug ports.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/firmware/fw-cfg.h"
#include "hw/i386/acpi-tables.h"
#include "hw/misc/debug-exit.h"
#include "hw/misc/pvpanic.h"
#include "hw/misc/vmgenid.h"
#include "util/le.h"

#include "hw-fixture.h"

#include "hw/char/debugcon.h"

#define PM PCI_DEVFN(1, 3)
#define SCI ACPI_SCI_IRQ

/* With the PM ports where firmware would put them. */
static Board *start(void)
{
    Board *b = board_new(64 * MiB, NULL);

    board_config_out(b, PM, 0x40, 0x600, 4);
    board_config_out(b, PM, 0x80, 1, 1);
    return b;
}

/* ---- power management ---- */

static void test_pm_mapping(void)
{
    Board *b = board_new(64 * MiB, NULL);

    g_assert_cmphex(board_in(b, 0x600, 2), ==, 0xffff);
    board_config_out(b, PM, 0x40, 0xb000, 4);
    board_config_out(b, PM, 0x80, 1, 1);
    g_assert_cmphex(board_config_in(b, PM, 0x40, 4), ==, 0xb001);
    g_assert_cmphex(board_in(b, 0xb000, 2), ==, 0);
    board_config_out(b, PM, 0x40, 0x3c0, 4); /* over the serial port */
    g_assert_cmphex(board_in(b, 0x3fd, 1), ==, 0x60);
    board_config_out(b, PM, 0x80, 0, 1);
    g_assert_cmphex(board_in(b, 0xb000, 2), ==, 0xffff);
    board_free(b);
}

static void test_power_button(void)
{
    Board *b = start();

    board_out(b, 0xb2, ACPI_ENABLE_VALUE, 1);
    g_assert_cmphex(board_in(b, 0x604, 2), ==, 1);
    board_out(b, 0x602, 0x100, 2);
    irq_pulse(&b->m->power_button);
    g_assert_cmpint(b->levels[SCI], ==, 1);
    g_assert_cmphex(board_in(b, 0x600, 2), ==, 0x100);
    board_out(b, 0x600, 0x100, 2);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    board_out(b, 0xb2, ACPI_DISABLE_VALUE, 1);
    irq_pulse(&b->m->power_button);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    board_free(b);
}

static void test_sleep(void)
{
    Board *b = start();

    board_out(b, 0x604, 1 << 13 | 1 << 10, 2); /* S3: not offered */
    board_settle(b);
    g_assert_cmpuint(b->shutdowns, ==, 0);
    board_out(b, 0x604, 1 << 13 | ACPI_SLEEP_S4 << 10, 2);
    board_settle(b);
    g_assert_cmpuint(b->shutdowns, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(b->events, 0), ==, "SUSPEND_DISK");
    board_out(b, 0x605, 1 << 5, 1); /* S5, by the high byte alone */
    board_settle(b);
    g_assert_cmpuint(b->shutdowns, ==, 2);
    board_free(b);
}

static void test_pm_timer(void)
{
    Board *b = start();
    uint32_t before = board_in(b, 0x608, 4);

    vm_clock_advance(b->m->clock, CLOCK_NS_PER_SECOND);
    g_assert_cmpuint(board_in(b, 0x608, 4) - before, ==, 3579545);
    board_out(b, 0x600, 1, 2);
    board_out(b, 0x604, 1, 2);
    board_out(b, 0x602, 1, 2);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    vm_clock_advance(b->m->clock, 5 * CLOCK_NS_PER_SECOND); /* the top bit changes every 2.34 s */
    g_assert_cmpint(b->levels[SCI], ==, 1);
    board_out(b, 0x600, 1, 2);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    g_assert_cmpuint(board_in(b, 0x608, 4), <, 1 << 24);
    board_free(b);
}

static void test_gpe(void)
{
    Board *b = start();

    board_out(b, 0x604, 1, 2);
    irq_pulse(&b->m->generation_changed);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    board_out(b, ACPI_GPE_BASE + 2, 1 << ACPI_VMGENID_GPE, 1);
    g_assert_cmpint(b->levels[SCI], ==, 1);
    g_assert_cmphex(board_in(b, ACPI_GPE_BASE, 2), ==, 1 << ACPI_VMGENID_GPE);
    board_out(b, ACPI_GPE_BASE, 1 << ACPI_VMGENID_GPE, 1);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    board_free(b);
}

static void test_pm_state(void)
{
    Board *a = start(), *b = board_new(64 * MiB, NULL);
    g_autoptr(GError) err = NULL;

    board_out(a, 0x604, 1, 2);
    board_out(a, 0x602, 0x100, 2);
    irq_pulse(&a->m->power_button);
    vm_clock_advance(a->m->clock, 12345678);
    board_copy_state(a, b, &err);
    g_assert_no_error(err);
    g_assert_cmpint(b->levels[SCI], ==, 1);
    g_assert_cmphex(board_in(b, 0x600, 2), ==, 0x100);
    g_assert_cmpuint(board_in(b, 0x608, 4), ==, board_in(a, 0x608, 4));
    board_free(a);
    board_free(b);
}

/* ---- fw_cfg ---- */

static bool dma(Board *b, uint32_t control, uint32_t len, uint64_t at)
{
    uint8_t request[16], reply[4];

    put_le32(request, GUINT32_SWAP_LE_BE(control));
    put_le32(request + 4, GUINT32_SWAP_LE_BE(len));
    put_le64(request + 8, GUINT64_SWAP_LE_BE(at));
    g_assert_true(guest_write(b->m->memory, 0x1000, request, sizeof(request)));
    board_out(b, 0x518, GUINT32_SWAP_LE_BE(0x1000), 4);
    g_assert_true(guest_read(b->m->memory, 0x1000, reply, sizeof(reply)));
    return get_le32(reply) == 0;
}

static void written(void *opaque, const uint8_t *data, size_t len)
{
    memcpy(opaque, data, len);
}

static void test_fw_cfg(void)
{
    Board *b = start();
    uint8_t back[8], note[4] = { 0 };
    g_autoptr(GError) err = NULL;

    fw_cfg_add_u16(b->m->fw_cfg, FW_CFG_NB_CPUS, 0x1234);
    board_out(b, 0x510, FW_CFG_SIGNATURE, 2);
    for (const char *p = "QEMU"; *p; p++) {
        g_assert_cmpuint(board_in(b, 0x511, 1), ==, (unsigned char)*p);
    }
    g_assert_cmpint(board_in(b, 0x511, 1), ==, 0); /* behind the end */
    g_assert_cmphex(board_in(b, 0x514, 4), ==, 0x554d4551);
    g_assert_true(dma(b, FW_CFG_NB_CPUS << 16 | 8 | 2, 8, 0x2000));
    g_assert_true(guest_read(b->m->memory, 0x2000, back, 8));
    g_assert_cmphex(get_le64(back), ==, 0x1234);

    g_assert_true(fw_cfg_add_writable_file(b->m->fw_cfg, "etc/note", note, 4, written, note, &err));
    g_assert_true(dma(b, FW_CFG_FILE_FIRST << 16 | 8 | 16, 4, 0x2000));
    g_assert_cmphex(get_le32(note), ==, 0x1234);
    g_assert_false(dma(b, FW_CFG_FILE_FIRST << 16 | 8 | 16, 5, 0x2000)); /* longer than it is */
    g_assert_false(dma(b, FW_CFG_NB_CPUS << 16 | 8 | 16, 1, 0x2000));    /* not writable */
    g_assert_false(dma(b, FW_CFG_NB_CPUS << 16 | 8 | 2, 8, 64 * MiB));   /* no RAM */
    g_assert_false(dma(b, FW_CFG_NB_CPUS << 16 | 8 | 2, 8, UINT64_MAX - 3));
    g_assert_false(dma(b, FW_CFG_NB_CPUS << 16 | 8 | 2, UINT32_MAX, 0x2000));
    board_out(b, 0x514, UINT32_MAX, 4);
    board_out(b, 0x518, UINT32_MAX, 4); /* a request without RAM */
    for (unsigned i = 0; i < FW_CFG_FILES_MAX; i++) {
        g_autofree char *name = g_strdup_printf("f%u", i);

        fw_cfg_add_file(b->m->fw_cfg, name, "x", 1, NULL);
    }
    g_assert_false(fw_cfg_add_file(b->m->fw_cfg, "one-more", "x", 1, &err));
    board_free(b);
}

/* ---- generation id ---- */

static Device *add_vmgenid(Board *b, const char *guid, GError **errp)
{
    return device_create(b->m, TYPE_VMGENID, NULL, errp, "guid", guid, NULL);
}

static void test_vmgenid(void)
{
    Board *b = start();
    g_autoptr(GError) err = NULL;
    VmGenId *v;
    uint8_t first[16], second[16];

    g_assert_true(vmgenid_after_load(b->m, &err)); /* no device: nothing to do */
    v = VMGENID(add_vmgenid(b, "auto", &err));
    g_assert_no_error(err);
    g_assert_null(add_vmgenid(b, "auto", NULL));
    vmgenid_set_address(v, 0x3028);
    g_assert_true(guest_read(b->m->memory, 0x3028, first, 16));
    board_out(b, 0x604, 1, 2);
    board_out(b, ACPI_GPE_BASE + 2, 1 << ACPI_VMGENID_GPE, 1);
    g_assert_cmpint(b->levels[SCI], ==, 0);
    g_assert_true(vmgenid_after_load(b->m, &err));
    g_assert_cmpint(b->levels[SCI], ==, 1);
    g_assert_true(guest_read(b->m->memory, 0x3028, second, 16));
    g_assert_cmpint(memcmp(first, second, 16), !=, 0);
    vmgenid_set_address(v, UINT64_MAX - 4); /* a hostile guest */
    g_assert_true(vmgenid_after_load(b->m, &err));
    board_free(b);
}

static void test_vmgenid_fixed(void)
{
    static const uint8_t want[16] = { 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66,
                                      0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
    Board *b = start();
    uint8_t got[16];

    g_assert_null(add_vmgenid(b, "nonsense", NULL));
    vmgenid_set_address(VMGENID(add_vmgenid(b, "00112233-4455-6677-8899-aabbccddeeff", NULL)),
                        0x3028);
    g_assert_true(guest_read(b->m->memory, 0x3028, got, 16));
    g_assert_cmpmem(got, 16, want, 16);
    board_out(b, 0x604, 1, 2);
    board_out(b, ACPI_GPE_BASE + 2, 1 << ACPI_VMGENID_GPE, 1);
    g_assert_true(vmgenid_after_load(b->m, NULL));
    g_assert_cmpint(b->levels[SCI], ==, 0); /* the same as before */
    board_free(b);
}

/* ---- others ---- */

static void test_keyboard_controller(void)
{
    Board *b = start();

    board_out(b, 0x64, 0xaa, 1);
    g_assert_cmphex(board_in(b, 0x64, 1) & 1, ==, 1);
    g_assert_cmpint(b->levels[1], ==, 1);
    g_assert_cmphex(board_in(b, 0x60, 1), ==, 0x55);
    g_assert_cmphex(board_in(b, 0x64, 1) & 3, ==, 0);
    g_assert_cmpint(b->levels[1], ==, 0);
    board_out(b, 0x64, 0x60, 1);
    board_out(b, 0x60, 0x47, 1);
    board_out(b, 0x64, 0x20, 1);
    g_assert_cmphex(board_in(b, 0x60, 1), ==, 0x47);
    board_out(b, 0x64, 0xff, 1); /* pulses nothing */
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 0);
    board_out(b, 0x64, 0xfe, 1);
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 1);
    board_out(b, 0x64, 0xd1, 1);
    board_out(b, 0x60, 0x02, 1);
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 2);
    g_assert_cmphex(board_in(b, 0x92, 1), ==, 2);
    board_out(b, 0x92, 3, 1);
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 3);
    board_free(b);
}

static void test_pvpanic(void)
{
    Board *b = start();
    g_autoptr(GError) err = NULL;

    g_assert_nonnull(device_create(b->m, TYPE_PVPANIC, NULL, &err, NULL));
    g_assert_cmphex(board_in(b, 0x505, 1), ==, 3);
    board_out(b, 0x505, 0xf0, 1);
    board_settle(b);
    g_assert_cmpuint(b->panics, ==, 0);
    board_out(b, 0x505, 2, 1);
    g_assert_cmpstr(g_ptr_array_index(b->events, 0), ==, "GUEST_CRASHLOADED");
    board_out(b, 0x505, 1, 1);
    board_settle(b);
    g_assert_cmpuint(b->panics, ==, 1);
    board_free(b);
}

static void test_debug_ports(void)
{
    Board *b = start();
    g_autoptr(GError) err = NULL;
    g_autofree char *text = NULL;
    json_object *options = json_tokener_parse("{\"backend\": \"ringbuf\", \"id\": \"debug\"}");

    b->chr = chardev_new(b->chardevs, options, &err);
    json_object_put(options);
    g_assert_null(device_create(b->m, TYPE_ISA_DEBUGCON, NULL, NULL, NULL));
    g_assert_nonnull(device_create(b->m, TYPE_ISA_DEBUGCON, NULL, &err, "chardev", "debug", NULL));
    g_assert_cmphex(board_in(b, 0xe9, 1), ==, 0xe9);
    board_out(b, 0xe9, 'x', 1);
    text = board_serial_text(b);
    g_assert_cmpstr(text, ==, "x");
    g_assert_null(device_create(b->m, TYPE_ISA_DEBUG_EXIT, NULL, NULL, "iobase", "0xffff", NULL));
    g_assert_nonnull(device_create(b->m, TYPE_ISA_DEBUG_EXIT, NULL, &err, NULL));
    board_out(b, 0x501, 5, 2);
    board_settle(b);
    g_assert_cmpuint(b->shutdowns, ==, 1);
    g_assert_true(b->m->exit_requested);
    g_assert_cmpint(b->m->exit_status, ==, 11);
    board_free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pm/mapping", test_pm_mapping);
    g_test_add_func("/pm/power-button", test_power_button);
    g_test_add_func("/pm/sleep", test_sleep);
    g_test_add_func("/pm/timer", test_pm_timer);
    g_test_add_func("/pm/gpe", test_gpe);
    g_test_add_func("/pm/state", test_pm_state);
    g_test_add_func("/fw-cfg", test_fw_cfg);
    g_test_add_func("/vmgenid/auto", test_vmgenid);
    g_test_add_func("/vmgenid/fixed", test_vmgenid_fixed);
    g_test_add_func("/keyboard-controller", test_keyboard_controller);
    g_test_add_func("/pvpanic", test_pvpanic);
    g_test_add_func("/debug-ports", test_debug_ports);
    return g_test_run();
}
