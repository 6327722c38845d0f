/*
 * Tests of virtio over PCI on virtio-rng and virtio-balloon: negotiation, reset, configuration
 * generation, MSI-X, INTx, legacy interface, save and restore.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>

#include "tests/qtest/qvirtio.h"

#define RNG "-object rng-builtin,id=r -device virtio-rng-pci,rng=r,id=rng0,packed=on"
#define BALLOON "-device virtio-balloon-pci,id=balloon0"

enum { TYPE_RNG = 4, TYPE_BALLOON = 5 };
enum { COMMON_CONFIG_VECTOR = 16, COMMON_QUEUE_SELECT = 22, COMMON_QUEUE_SIZE = 24 };
enum { COMMON_QUEUE_VECTOR = 26, COMMON_QUEUE_ENABLE = 28, COMMON_QUEUE_RESET = 58 };
enum { PCI_COMMAND = 4, COMMAND_INTX_OFF = 0x400, COMMAND_MASTER = 4 };

/* Reads @len random bytes through the queue; they are not all zero. */
static void assert_works(QVirtQueue *vq, uint32_t len)
{
    QTest *q = vq->dev->q;
    QVirtBuffer buffer = { qtest_alloc(q, len, 16), len, true };
    g_autofree uint8_t *data = g_malloc0(len), *zeros = g_malloc0(len);
    uint32_t got = qvirtqueue_do(vq, &buffer, 1);

    g_assert_cmpuint(got, >, 0);
    g_assert_cmpuint(got, <=, len);
    qtest_memread(q, buffer.address, data, len);
    g_assert_cmpint(memcmp(data, zeros, got), !=, 0);
}

static QVirtio *start_rng(QTest *q, bool legacy, uint64_t features, bool msix, QVirtQueue **ret_vq)
{
    QVirtio *dev = qvirtio_new(q, TYPE_RNG, legacy);

    qvirtio_begin(dev, features);
    g_assert_cmphex(dev->features & ~QVIRTIO_F_VERSION_1, ==, features);
    if (msix) {
        qvirtio_msix_enable(dev);
    }
    *ret_vq = qvirtqueue_new(dev, 0, 0);
    qvirtio_ready(dev);
    return dev;
}

static void end_rng(QVirtio *dev, QVirtQueue *vq)
{
    qvirtqueue_free(vq);
    qvirtio_free(dev);
}

static void test_works(gconstpointer how)
{
    const char *device = how;
    bool legacy = g_str_has_suffix(device, "transitional") && !strstr(device, "non-");
    QTest *q = qtest_start("-machine pc -object rng-builtin,id=r -device %s,rng=r", device);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, legacy, 0, true, &vq);

    for (unsigned i = 0; i < 3; i++) {
        assert_works(vq, 64);
        g_assert_true(qvirtio_msi_arrived(dev, 1));
        g_assert_false(qvirtio_msi_arrived(dev, 0));
    }
    end_rng(dev, vq);
    qtest_quit(q);
}

/* The driver must take VERSION_1; else FEATURES_OK does not stay. */
static void test_features(void)
{
    QTest *q = qtest_start("-machine pc " RNG ",disable-legacy=on");
    QVirtio *dev = qvirtio_new(q, TYPE_RNG, false);
    const uint8_t driver = QVIRTIO_ACKNOWLEDGE | QVIRTIO_DRIVER;
    uint64_t offered = qvirtio_offered(dev);

    g_assert_true(offered & QVIRTIO_F_VERSION_1);
    g_assert_true(offered & QVIRTIO_F_INDIRECT);
    g_assert_true(offered & QVIRTIO_F_EVENT_IDX);
    qvirtio_set_status(dev, driver);
    qvirtio_set_features(dev, offered & ~QVIRTIO_F_VERSION_1);
    qvirtio_set_status(dev, driver | QVIRTIO_FEATURES_OK);
    g_assert_cmphex(qvirtio_status(dev) & QVIRTIO_FEATURES_OK, ==, 0);
    qvirtio_begin(dev, 0);
    qvirtio_free(dev);
    qtest_quit(q);
}

static void test_reset(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, false, QVIRTIO_F_EVENT_IDX, true, &vq);

    assert_works(vq, 16);
    qvirtio_reset(dev);
    qpci_bar_writew(dev->common, COMMON_QUEUE_SELECT, 0);
    g_assert_cmphex(qpci_bar_readw(dev->common, COMMON_QUEUE_ENABLE), ==, 0);
    g_assert_cmphex(qpci_bar_readw(dev->common, COMMON_QUEUE_VECTOR), ==, QVIRTIO_NO_VECTOR);
    g_assert_cmphex(qpci_bar_readw(dev->common, COMMON_CONFIG_VECTOR), ==, QVIRTIO_NO_VECTOR);
    g_assert_cmphex(qpci_bar_readl(dev->common, 32), ==, 0);
    /* A doorbell of a queue that is off is nothing. */
    qvirtqueue_kick(vq);
    g_assert_cmphex(qvirtio_status(dev), ==, 0);
    end_rng(dev, vq);
    dev = start_rng(q, false, 0, false, &vq);
    assert_works(vq, 16);
    /* The machine's reset takes the device with it. */
    json_object_put(qtest_qmp_ok(q, "{'execute': 'system_reset'}"));
    json_object_put(qtest_qmp_event_wait(q, "RESET"));
    qpci_enable(dev->pci);
    g_assert_cmphex(qvirtio_status(dev), ==, 0);
    end_rng(dev, vq);
    qtest_quit(q);
}

static void test_queue_registers(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtio *dev = qvirtio_new(q, TYPE_RNG, false);
    unsigned max = qvirtqueue_max_size(dev, 0);

    g_assert_cmpuint(max, >, 0);
    g_assert_cmpuint(qvirtqueue_max_size(dev, 1), ==, 0);
    qvirtio_begin(dev, 0);
    qpci_bar_writew(dev->common, COMMON_QUEUE_SELECT, 9999);
    g_assert_cmpuint(qpci_bar_readw(dev->common, COMMON_QUEUE_SIZE), ==, 0);
    for (unsigned reg = 0; reg < 60; reg += 2) {
        if (reg != 8 && reg != 12 && reg != 20) {
            qpci_bar_writew(dev->common, reg, 0xffff);
        }
    }
    g_assert_false(qvirtio_needs_reset(dev));
    qvirtio_begin(dev, 0);
    qvirtio_free(dev);
    qtest_quit(q);
}

static void test_queue_reset(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, false, 1ull << 40, false, &vq);

    g_assert_true(dev->features & 1ull << 40);
    assert_works(vq, 16);
    qpci_bar_writew(dev->common, COMMON_QUEUE_SELECT, 0);
    qpci_bar_writew(dev->common, COMMON_QUEUE_RESET, 1);
    g_assert_cmphex(qpci_bar_readw(dev->common, COMMON_QUEUE_ENABLE), ==, 0);
    qvirtqueue_free(vq);
    vq = qvirtqueue_new(dev, 0, 8);
    assert_works(vq, 16);
    end_rng(dev, vq);
    qtest_quit(q);
}

/* --- Interrupts --- */

static void test_intx(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev;
    bool seen = false;

    qtest_irq_intercept_out(q, "pci.0");
    dev = start_rng(q, false, 0, false, &vq);
    assert_works(vq, 16);
    for (unsigned i = 0; i < 4; i++) {
        seen |= qtest_get_irq(q, i);
    }
    g_assert_true(seen);
    g_assert_true(qpci_readw(dev->pci, 6) & 8);
    qpci_writew(dev->pci, PCI_COMMAND, qpci_readw(dev->pci, PCI_COMMAND) | COMMAND_INTX_OFF);
    for (unsigned i = 0; i < 4; i++) {
        g_assert_false(qtest_get_irq(q, i));
    }
    qpci_writew(dev->pci, PCI_COMMAND, qpci_readw(dev->pci, PCI_COMMAND) & ~COMMAND_INTX_OFF);
    g_assert_cmphex(qvirtio_isr(dev), ==, 1);
    for (unsigned i = 0; i < 4; i++) {
        g_assert_false(qtest_get_irq(q, i));
    }
    g_assert_cmphex(qvirtio_isr(dev), ==, 0);
    end_rng(dev, vq);
    qtest_quit(q);
}

static void test_msix_masked(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, false, 0, true, &vq);

    qpci_msix_mask(dev->pci, 1, true);
    assert_works(vq, 16);
    g_assert_false(qvirtio_msi_arrived(dev, 1));
    g_assert_true(qpci_msix_is_pending(dev->pci, 1));
    qpci_msix_mask(dev->pci, 1, false);
    g_assert_true(qvirtio_msi_arrived(dev, 1));
    g_assert_false(qpci_msix_is_pending(dev->pci, 1));
    qpci_msix_mask_all(dev->pci, true);
    assert_works(vq, 16);
    g_assert_false(qvirtio_msi_arrived(dev, 1));
    qpci_msix_mask_all(dev->pci, false);
    g_assert_true(qvirtio_msi_arrived(dev, 1));
    end_rng(dev, vq);
    qtest_quit(q);
}

/* A vector that is not there is refused by reading back as none. */
static void test_msix_vectors(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtio *dev = qvirtio_new(q, TYPE_RNG, false);

    qvirtio_begin(dev, 0);
    qvirtio_msix_enable(dev);
    g_assert_cmphex(qvirtio_set_config_vector(dev, dev->pci->vectors), ==, QVIRTIO_NO_VECTOR);
    g_assert_cmphex(qvirtio_set_config_vector(dev, dev->pci->vectors - 1), ==,
                    dev->pci->vectors - 1);
    qpci_bar_writew(dev->common, COMMON_QUEUE_SELECT, 0);
    qpci_bar_writew(dev->common, COMMON_QUEUE_VECTOR, 0x7ff);
    g_assert_cmphex(qpci_bar_readw(dev->common, COMMON_QUEUE_VECTOR), ==, QVIRTIO_NO_VECTOR);
    qvirtio_free(dev);
    qtest_quit(q);
}

/* Without bus mastering the device leaves memory alone; when it comes, work goes on. */
static void test_bus_master(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, false, 0, false, &vq);
    QVirtBuffer buffer = { qtest_alloc(q, 64, 16), 64, true };
    uint16_t command = qpci_readw(dev->pci, PCI_COMMAND);
    QVirtUsed used;

    qpci_writew(dev->pci, PCI_COMMAND, command & ~COMMAND_MASTER);
    qvirtqueue_add(vq, &buffer, 1);
    qvirtqueue_kick(vq);
    g_usleep(20000);
    g_assert_false(qvirtqueue_get(vq, &used));
    qpci_writew(dev->pci, PCI_COMMAND, command);
    qvirtqueue_wait(vq);
    end_rng(dev, vq);
    qtest_quit(q);
}

/* --- Configuration changes --- */

static bool config_vector_came(void *opaque)
{
    return qvirtio_msi_arrived(opaque, 0);
}

static void test_config_generation(void)
{
    QTest *q = qtest_start("-machine pc -m 64M " BALLOON);
    QVirtio *dev = qvirtio_new(q, TYPE_BALLOON, false);
    uint8_t before;

    qvirtio_begin(dev, 0);
    qvirtio_msix_enable(dev);
    g_assert_cmphex(qvirtio_set_config_vector(dev, 0), ==, 0);
    qvirtio_ready(dev);
    before = qvirtio_config_generation(dev);
    g_assert_cmpuint(qvirtio_config32(dev, 0), ==, 0);
    json_object_put(
        qtest_qmp_ok(q, "{'execute': 'balloon', 'arguments': {'value': %u}}", 48 << 20));
    qtest_wait_until(config_vector_came, dev, "the interrupt of a configuration change");
    g_assert_cmpuint(qvirtio_config32(dev, 0), ==, 16 << 8);
    g_assert_cmphex(qvirtio_config_generation(dev), !=, before);
    g_assert_cmphex(qvirtio_isr(dev) & ~3, ==, 0);
    qvirtio_free(dev);
    qtest_quit(q);
}

/* --- Save and restore in the middle of use --- */

static void save_with(bool legacy, uint64_t features, bool msix)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, legacy, features, msix, &vq);
    QVirtBuffer buffer = { qtest_alloc(q, 64, 16), 64, true };

    for (unsigned round = 0; round < 2; round++) {
        /* More than once round a small ring, and one buffer that nobody has been told of. */
        for (unsigned i = 0; i < 11; i++) {
            assert_works(vq, 16);
        }
        qvirtqueue_add(vq, &buffer, 1);
        qtest_save_restore(q, true);
        qvirtqueue_wait(vq);
        if (msix) {
            g_assert_true(qvirtio_msi_arrived(dev, 1));
        }
        assert_works(vq, 16);
        g_assert_false(qvirtio_needs_reset(dev));
    }
    end_rng(dev, vq);
    qtest_quit(q);
}

static void test_save_split(void)
{
    save_with(false, QVIRTIO_F_EVENT_IDX | QVIRTIO_F_INDIRECT, true);
    save_with(false, 0, false);
}

static void test_save_packed(void)
{
    save_with(false, QVIRTIO_F_PACKED, true);
    save_with(false, QVIRTIO_F_PACKED | QVIRTIO_F_EVENT_IDX, false);
}

static void test_save_legacy(void)
{
    save_with(true, 0, true);
}

/* A doorbell that rings while the VM is stopped is heard when it goes on. */
static void test_kick_while_stopped(void)
{
    QTest *q = qtest_start("-machine pc " RNG);
    QVirtQueue *vq;
    QVirtio *dev = start_rng(q, false, 0, true, &vq);
    QVirtBuffer buffer = { qtest_alloc(q, 64, 16), 64, true };
    QVirtUsed used;

    json_object_put(qtest_qmp_ok(q, "{'execute': 'stop'}"));
    qvirtqueue_add(vq, &buffer, 1);
    qvirtqueue_kick(vq);
    g_usleep(20000);
    g_assert_false(qvirtqueue_get(vq, &used));
    json_object_put(qtest_qmp_ok(q, "{'execute': 'cont'}"));
    qvirtqueue_wait(vq);
    g_assert_true(qvirtio_msi_arrived(dev, 1));
    end_rng(dev, vq);
    qtest_quit(q);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/virtio-pci/generic", "virtio-rng-pci", test_works);
    g_test_add_data_func("/virtio-pci/transitional", "virtio-rng-pci-transitional", test_works);
    g_test_add_data_func("/virtio-pci/non-transitional", "virtio-rng-pci-non-transitional",
                         test_works);
    g_test_add_func("/virtio-pci/features", test_features);
    g_test_add_func("/virtio-pci/reset", test_reset);
    g_test_add_func("/virtio-pci/queue-registers", test_queue_registers);
    g_test_add_func("/virtio-pci/queue-reset", test_queue_reset);
    g_test_add_func("/virtio-pci/intx", test_intx);
    g_test_add_func("/virtio-pci/msix-masked", test_msix_masked);
    g_test_add_func("/virtio-pci/msix-vectors", test_msix_vectors);
    g_test_add_func("/virtio-pci/bus-master", test_bus_master);
    g_test_add_func("/virtio-pci/config-generation", test_config_generation);
    g_test_add_func("/virtio-pci/save-split", test_save_split);
    g_test_add_func("/virtio-pci/save-packed", test_save_packed);
    g_test_add_func("/virtio-pci/save-legacy", test_save_legacy);
    g_test_add_func("/virtio-pci/kick-while-stopped", test_kick_while_stopped);
    return g_test_run();
}
