/*
 * Tests of PCI: configuration cycles, BARs, interrupts through the PIIX3, PAM, saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/pci.h"

#include "hw-fixture.h"

#include "hw/pci/pam.h"
#include "hw/pci/pci-assign.h"

/* ---- a device with a BAR of each kind ---- */

typedef struct TestPci {
    PciDevice parent_instance;
    uint8_t regs[3][64];
} TestPci;

typedef struct TestPciClass {
    PciDeviceClass parent_class;
} TestPciClass;

static GType test_pci_get_type(void);
QOM_DEFINE_TYPE(TestPci, test_pci, "test-pci", TYPE_PCI_DEVICE)

static uint64_t bar_read(void *opaque, uint64_t offset, unsigned size)
{
    return ((uint8_t *)opaque)[offset & 63];
}

static void bar_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    ((uint8_t *)opaque)[offset & 63] = (uint8_t)value;
}

static const IoOps bar_ops = { .read = bar_read, .write = bar_write, .min_size = 1, .max_size = 1 };

static bool test_pci_realize(PciDevice *dev, GError **errp)
{
    TestPci *s = (TestPci *)dev;

    pci_add_bar(dev, 0, PCI_BAR_IO, false, 64, "test-io", &bar_ops, s->regs[0]);
    pci_add_bar(dev, 1, PCI_BAR_MEM32, false, 4096, "test-mem", &bar_ops, s->regs[1]);
    pci_add_bar(dev, 4, PCI_BAR_MEM64, true, 16384, "test-mem64", &bar_ops, s->regs[2]);
    return pci_add_capability(dev, 9, 16, errp) != 0 && pci_add_capability(dev, 9, 8, errp) != 0;
}

static const VMStateDescription vmstate_test_pci = {
    .name = "test-pci",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_PCI_DEVICE(parent_instance, TestPci),
                                      VMSTATE_END_OF_LIST() },
};

static void test_pci_init(TestPci *s)
{
}

static void test_pci_class_init(TestPciClass *klass)
{
    PciDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = test_pci_realize;
    pc->vendor = 0x1af4;
    pc->device = 0x1234;
    pc->class_code = 0x00ff;
    pc->interrupt_pin = 1;
    DEVICE_CLASS(klass)->vmsd = &vmstate_test_pci;
}

static Device *plug(Board *b, const char *addr, GError **errp)
{
    return device_create(b->m, test_pci_get_type(), BUS(b->m->pci), errp, "addr", addr, NULL);
}

static Board *start(PciDevice **ret_dev)
{
    Board *b = board_new(64 * MiB, NULL);
    g_autoptr(GError) err = NULL;
    Device *dev = plug(b, "4", &err);

    g_assert_no_error(err);
    *ret_dev = PCI_DEVICE(dev);
    return b;
}

#define DEV PCI_DEVFN(4, 0)

static void test_config_cycles(void)
{
    PciDevice *dev;
    Board *b = start(&dev);

    g_assert_cmphex(board_config_in(b, 0, 0, 4), ==, 0x12378086);
    g_assert_cmphex(board_config_in(b, PCI_DEVFN(1, 0), 0, 4), ==, 0x70008086);
    g_assert_cmphex(board_config_in(b, PCI_DEVFN(1, 3), 0, 4), ==, 0x71138086);
    g_assert_cmphex(board_config_in(b, PCI_DEVFN(1, 0), 0x0e, 1), ==, 0x80);
    g_assert_cmphex(board_config_in(b, PCI_DEVFN(9, 0), 0, 4), ==, 0xffffffff);
    g_assert_cmphex(board_config_in(b, DEV, 2, 2), ==, 0x1234);
    g_assert_cmphex(board_config_in(b, DEV, 0x34, 1), ==, 0x50);
    g_assert_cmphex(board_config_in(b, DEV, 0x50, 2), ==, 0x4009);
    board_config_out(b, DEV, 0, 0xdeadbeef, 4); /* read-only */
    g_assert_cmphex(board_config_in(b, DEV, 0, 4), ==, 0x12341af4);
    board_out(b, 0xcf8, DEV << 8, 4); /* not enabled */
    g_assert_cmphex(board_in(b, 0xcfc, 4), ==, 0xffffffff);
    board_out(b, 0xcf8, 0x80010000, 4); /* another bus */
    g_assert_cmphex(board_in(b, 0xcfc, 4), ==, 0xffffffff);
    board_free(b);
}

static void test_addresses(void)
{
    PciDevice *dev;
    Board *b = start(&dev);
    static const char *const bad[] = { "4", "20", "x", "3.8", "-1", "5.1.2", "0" };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(plug(b, bad[i], &err));
        g_assert_nonnull(err);
    }
    g_assert_nonnull(plug(b, "1f", NULL));
    g_assert_null(plug(b, "1f.1", NULL)); /* not multifunction */
    g_assert_nonnull(plug(b, "", NULL));
    board_free(b);
}

static void test_bars(void)
{
    PciDevice *dev;
    Board *b = start(&dev);
    uint8_t byte = 0x5a, back = 0;
    uint64_t at;

    board_config_out(b, DEV, 0x10, 0xffffffff, 4);
    g_assert_cmphex(board_config_in(b, DEV, 0x10, 4), ==, 0xffffffc1);
    board_config_out(b, DEV, 0x20, 0xffffffff, 4);
    board_config_out(b, DEV, 0x24, 0xffffffff, 4);
    g_assert_cmphex(board_config_in(b, DEV, 0x20, 4), ==, 0xffffc00c);
    g_assert_cmphex(board_config_in(b, DEV, 0x24, 4), ==, 0xffffffff);

    board_config_out(b, DEV, 0x10, 0xc000, 4);
    board_config_out(b, DEV, 0x14, 0xfe000000, 4);
    board_config_out(b, DEV, 0x20, 0, 4);
    board_config_out(b, DEV, 0x24, 0x10, 4); /* 64 GiB */
    g_assert_false(pci_bar_address(dev, 1, &at));
    board_config_out(b, DEV, 4, 3, 2);
    g_assert_true(pci_bar_address(dev, 1, &at));
    g_assert_cmphex(at, ==, 0xfe000000);
    board_out(b, 0xc005, 0x77, 1);
    g_assert_cmphex(board_in(b, 0xc005, 1), ==, 0x77);
    g_assert_true(address_map_write(b->m->memory, 0x1000000003, &byte, 1));
    g_assert_true(address_map_read(b->m->memory, 0x1000000003, &back, 1));
    g_assert_cmphex(back, ==, 0x5a);
    board_config_out(b, DEV, 4, 0, 2);
    g_assert_cmphex(board_in(b, 0xc005, 1), ==, 0xff);
    g_assert_false(address_map_read(b->m->memory, 0x1000000003, &back, 1));
    board_free(b);
}

/* Over RAM, over another device, at the end of the space: never visible, and nothing breaks. */
static void test_hostile_bars(void)
{
    PciDevice *dev;
    Board *b = start(&dev);
    uint64_t at;
    uint8_t byte = 1;

    board_config_out(b, DEV, 4, 3, 2);
    board_config_out(b, DEV, 0x14, 0x00100000, 4);
    g_assert_false(pci_bar_address(dev, 1, &at));
    g_assert_true(guest_write(b->m->memory, 0x00100000, &byte, 1));
    board_config_out(b, DEV, 0x10, 0x3c0, 4); /* holds the serial port */
    g_assert_false(pci_bar_address(dev, 0, &at));
    board_config_out(b, DEV, 0x10, 0xffc0, 4);
    g_assert_false(pci_bar_address(dev, 0, &at));
    board_config_out(b, DEV, 0x20, 0xffffc000, 4);
    board_config_out(b, DEV, 0x24, 0xffffffff, 4);
    g_assert_false(pci_bar_address(dev, 4, &at));
    board_config_out(b, DEV, 0x10, 0xc100, 4);
    g_assert_true(pci_bar_address(dev, 0, &at));
    board_free(b);
}

static void test_interrupts(void)
{
    PciDevice *dev;
    Board *b = start(&dev);
    unsigned piix3 = PCI_DEVFN(1, 0);

    /* Slot 4, pin A: PIRQD. */
    pci_set_intx(dev, 1);
    g_assert_cmphex(board_config_in(b, DEV, 6, 2) & 8, ==, 8);
    for (int i = 0; i < MACHINE_GSI_COUNT; i++) {
        g_assert_cmpint(b->levels[i], ==, 0); /* not routed yet */
    }
    board_config_out(b, piix3, 0x63, 11, 1);
    g_assert_cmpint(b->levels[11], ==, 1);
    board_config_out(b, piix3, 0x63, 10, 1);
    g_assert_cmpint(b->levels[11], ==, 0);
    g_assert_cmpint(b->levels[10], ==, 1);
    board_config_out(b, DEV, 4, 0x400, 2); /* INTx disabled */
    g_assert_cmpint(b->levels[10], ==, 0);
    board_config_out(b, DEV, 4, 0, 2);
    g_assert_cmpint(b->levels[10], ==, 1);
    board_config_out(b, piix3, 0x63, 0x80, 1);
    g_assert_cmpint(b->levels[10], ==, 0);
    board_config_out(b, piix3, 0x63, 0, 1); /* the timer's: not possible */
    g_assert_cmpint(b->levels[0], ==, 0);
    pci_set_intx(dev, 0);
    board_free(b);
}

static void test_reset_port(void)
{
    PciDevice *dev;
    Board *b = start(&dev);

    board_out(b, 0xcf8, 0x80000000, 4);
    board_out(b, 0xcf9, 2, 1);
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 0);
    g_assert_cmphex(board_in(b, 0xcf9, 1), ==, 2);
    g_assert_cmphex(board_in(b, 0xcf8, 4), ==, 0x80000000);
    board_out(b, 0xcf9, 6, 1);
    board_settle(b);
    g_assert_cmpuint(b->resets, ==, 1);
    board_free(b);
}

static bool writable(Board *b, uint64_t gpa)
{
    uint8_t byte = 0x3c;

    return guest_write(b->m->memory, gpa, &byte, 1);
}

static bool readable(Board *b, uint64_t gpa)
{
    uint8_t byte;

    return guest_read(b->m->memory, gpa, &byte, 1);
}

static void test_pam(void)
{
    PciDevice *dev;
    Board *b = start(&dev);
    uint8_t byte = 0x3c, back = 0;

    g_assert_true(writable(b, 0xc0000) && writable(b, 0xfffff));
    board_config_out(b, 0, 0x59, 0x10, 1); /* 0xf0000: read-only */
    g_assert_true(readable(b, 0xf8000));
    g_assert_false(writable(b, 0xf8000));
    address_map_write(b->m->memory, 0xf8000, &byte, 1); /* dropped */
    address_map_read(b->m->memory, 0xf8000, &back, 1);
    g_assert_cmphex(back, ==, 0);
    board_config_out(b, 0, 0x5a, 0x03, 1); /* 0xc4000: nothing */
    g_assert_true(writable(b, 0xc3fff));
    g_assert_false(readable(b, 0xc4000));
    g_assert_true(writable(b, 0xc8000));
    board_config_out(b, 0, 0x5a, 0x23, 1); /* write only counts as RAM */
    g_assert_true(writable(b, 0xc4000) && readable(b, 0xc4000));
    for (unsigned i = 0; i < PAM_REGISTERS; i++) {
        board_config_out(b, 0, 0x59 + i, 0, 1);
    }
    g_assert_false(readable(b, 0xc0000) || readable(b, 0xfffff));
    g_assert_true(readable(b, 0x9ffff) && readable(b, 0x100000));
    reset_run(b->m->resets);
    g_assert_true(writable(b, 0xc0000) && writable(b, 0xfffff));
    board_free(b);
}

static void test_state(void)
{
    PciDevice *dev_a, *dev_b;
    Board *a = start(&dev_a), *b = start(&dev_b);
    g_autoptr(GError) err = NULL;
    uint64_t at;

    board_config_out(a, 0, 0x59, 0x10, 1);
    board_config_out(a, PCI_DEVFN(1, 0), 0x63, 5, 1);
    board_config_out(a, DEV, 0x14, 0xfe000000, 4);
    board_config_out(a, DEV, 4, 2, 2);
    pci_set_intx(dev_a, 1);
    board_copy_state(a, b, &err);
    g_assert_no_error(err);
    g_assert_false(writable(b, 0xf8000));
    g_assert_cmpint(b->levels[5], ==, 1);
    g_assert_true(pci_bar_address(dev_b, 1, &at));
    g_assert_cmphex(at, ==, 0xfe000000);
    pci_set_intx(dev_b, 0);
    g_assert_cmpint(b->levels[5], ==, 0);

    dev_a->config[2] ^= 1; /* another device's state */
    g_assert_false(board_copy_state(a, b, &err));
    g_assert_nonnull(err);
    board_free(a);
    board_free(b);
}

static uint64_t bar_of(PciDevice *dev, unsigned n)
{
    uint64_t at = 0;

    return pci_bar_address(dev, n, &at) ? at : 0;
}

/* As firmware does it: in the order of slots, aligned, decoding on, bus mastering left to the driver. */
static void test_assign(void)
{
    PciDevice *first, *second;
    Board *b = start(&first);
    PciWindows windows = pc_pci_windows(b->m);

    second = PCI_DEVICE(plug(b, "7", NULL));
    g_assert_cmphex(windows.low.base, ==, 0xc0000000);
    g_assert_cmphex(windows.low.base + windows.low.size, ==, 0xfec00000);
    for (unsigned i = 0; i < 2; i++) {
        pci_bus_assign(b->m->pci, &windows);
        g_assert_cmphex(bar_of(first, 0), ==, 0xc000);
        g_assert_cmphex(bar_of(second, 0), ==, 0xc040);
        g_assert_cmphex(bar_of(first, 1), ==, 0xc0000000);
        g_assert_cmphex(bar_of(first, 4), ==, 0xc0004000);
        g_assert_cmphex(bar_of(second, 1), ==, 0xc0008000);
        g_assert_cmphex(bar_of(second, 4), ==, 0xc000c000);
        g_assert_cmphex(board_config_in(b, DEV, 4, 2), ==, 3);
        reset_run(b->m->resets);
        g_assert_cmphex(bar_of(first, 4), ==, 0);
    }
    board_free(b);
}

/* No room below 4 GiB: a 64-bit BAR goes above; what fits nowhere is not decoded. */
static void test_assign_short(void)
{
    PciDevice *first, *second;
    Board *b = start(&first);
    PciWindows windows = { .io = { 0xc000, 64 },
                           .low = { 0xfe000000, 8192 },
                           .high = { UINT64_C(1) << 36, 1 << 20 } };

    second = PCI_DEVICE(plug(b, "7", NULL));
    pci_bus_assign(b->m->pci, &windows);
    g_assert_cmphex(bar_of(first, 1), ==, 0xfe000000);
    g_assert_cmphex(bar_of(first, 4), ==, UINT64_C(1) << 36);
    g_assert_cmphex(bar_of(second, 1), ==, 0xfe001000);
    g_assert_cmphex(bar_of(second, 4), ==, (UINT64_C(1) << 36) + 16384);
    g_assert_cmphex(bar_of(first, 0), ==, 0xc000);
    g_assert_cmphex(bar_of(second, 0), ==, 0);
    g_assert_cmphex(board_config_in(b, PCI_DEVFN(7, 0), 4, 2), ==, 2);
    board_free(b);
}

/* The windows follow the RAM on both sides of the hole. */
static void test_windows(void)
{
    static const struct {
        uint64_t below, above, low, high;
    } cases[] = {
        { 256 * MiB, 0, 0xc0000000, 4 * GiB },
        { 0xd0000000 - 4096, 0, 0xd0000000, 4 * GiB },
        { 3 * GiB, 2 * GiB + MiB, 0xc0000000, 7 * GiB },
    };
    PciDevice *dev;
    Board *b = start(&dev);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        PciWindows w;

        b->m->below_4g = cases[i].below;
        b->m->above_4g = cases[i].above;
        w = pc_pci_windows(b->m);
        g_assert_cmphex(w.low.base, ==, cases[i].low);
        g_assert_cmphex(w.high.base, ==, cases[i].high);
    }
    board_free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pci/config-cycles", test_config_cycles);
    g_test_add_func("/pci/addresses", test_addresses);
    g_test_add_func("/pci/bars", test_bars);
    g_test_add_func("/pci/hostile-bars", test_hostile_bars);
    g_test_add_func("/pci/interrupts", test_interrupts);
    g_test_add_func("/pci/reset-port", test_reset_port);
    g_test_add_func("/pci/pam", test_pam);
    g_test_add_func("/pci/state", test_state);
    g_test_add_func("/pci/assign", test_assign);
    g_test_add_func("/pci/assign-short", test_assign_short);
    g_test_add_func("/pci/windows", test_windows);
    return g_test_run();
}
