/*
 * virtio over PCI: the function, its interrupts, reset and saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio-pci.h"

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"

#define VENDOR_ID 0x1af4
#define MODERN_DEVICE_ID 0x1040 /* plus the virtio device's */
#define MODERN_SUBSYSTEM 0x1100 /* nothing that a legacy driver takes for a virtio device id */

QOM_DEFINE_ABSTRACT_TYPE(VirtioPci, virtio_pci, "virtio-pci", TYPE_PCI_DEVICE)

/* ---- interrupts ---- */

static void update_intx(VirtioPci *proxy)
{
    PciDevice *pci = &proxy->parent_instance;

    pci_set_intx(pci, !msix_enabled(pci) && g_atomic_int_get(&proxy->isr) != 0);
}

static gboolean dispatch_intx(GSource *source, GSourceFunc callback, gpointer opaque)
{
    g_source_set_ready_time(source, -1);
    return callback(opaque);
}

static gboolean update_intx_later(gpointer opaque)
{
    update_intx(opaque);
    return G_SOURCE_CONTINUE;
}

/* The pin is the bus's, so a device whose queues run on another thread leaves it to the main loop. */
static void add_intx_source(VirtioPci *proxy)
{
    static GSourceFuncs funcs = { .dispatch = dispatch_intx };

    proxy->intx_source = g_source_new(&funcs, sizeof(GSource));
    g_source_set_callback(proxy->intx_source, update_intx_later, proxy, NULL);
    g_source_attach(proxy->intx_source, NULL);
}

static void remove_intx_source(VirtioPci *proxy)
{
    if (proxy->intx_source) {
        g_source_destroy(proxy->intx_source);
        g_clear_pointer(&proxy->intx_source, g_source_unref);
    }
}

static void notify(VirtioPci *proxy, uint16_t vector, unsigned isr)
{
    if (msix_enabled(&proxy->parent_instance)) {
        msix_notify(&proxy->parent_instance, vector); /* none for VIRTIO_NO_VECTOR */
        return;
    }
    g_atomic_int_or(&proxy->isr, isr);
    if (proxy->intx_source) {
        g_source_set_ready_time(proxy->intx_source, 0);
    } else {
        update_intx(proxy);
    }
}

static void notify_queue(void *opaque, unsigned n)
{
    VirtioPci *proxy = opaque;

    notify(proxy, virtqueue_vector(proxy->vdev->queues[n]), VIRTIO_PCI_ISR_QUEUE);
}

static void notify_config(void *opaque)
{
    VirtioPci *proxy = opaque;

    notify(proxy, proxy->config_vector, VIRTIO_PCI_ISR_CONFIG);
}

uint8_t virtio_pci_take_isr(VirtioPci *proxy)
{
    unsigned isr = g_atomic_int_and(&proxy->isr, 0);

    update_intx(proxy);
    return (uint8_t)isr;
}

/* ---- vectors ---- */

/* Takes a vector into use; what the device does not have is none (4.1.5.1.2). */
static uint16_t use_vector(VirtioPci *proxy, uint16_t vector)
{
    if (vector >= msix_vectors(&proxy->parent_instance)) {
        return VIRTIO_NO_VECTOR;
    }
    msix_use(&proxy->parent_instance, vector);
    return vector;
}

static void unuse_vector(VirtioPci *proxy, uint16_t vector)
{
    if (vector != VIRTIO_NO_VECTOR && !proxy->vectors_unchecked) {
        msix_unuse(&proxy->parent_instance, vector);
    }
}

void virtio_pci_set_config_vector(VirtioPci *proxy, uint16_t vector)
{
    unuse_vector(proxy, proxy->config_vector);
    proxy->config_vector = use_vector(proxy, vector);
}

void virtio_pci_set_queue_vector(VirtioPci *proxy, VirtQueue *vq, uint16_t vector)
{
    unuse_vector(proxy, virtqueue_vector(vq));
    virtqueue_set_vector(vq, use_vector(proxy, vector));
}

static void unuse_all_vectors(VirtioPci *proxy)
{
    virtio_pci_set_config_vector(proxy, VIRTIO_NO_VECTOR);
    for (unsigned i = 0; i < proxy->vdev->n_queues; i++) {
        virtio_pci_set_queue_vector(proxy, proxy->vdev->queues[i], VIRTIO_NO_VECTOR);
    }
    proxy->vectors_unchecked = false;
}

/* ---- registers that both interfaces have ---- */

VirtQueue *virtio_pci_queue(VirtioPci *proxy)
{
    return proxy->queue_select < proxy->vdev->n_queues ? proxy->vdev->queues[proxy->queue_select]
                                                       : NULL;
}

void virtio_pci_doorbell(VirtioPci *proxy, unsigned n)
{
    if (n < proxy->vdev->n_queues) {
        virtio_kick(proxy->vdev, n);
    }
}

/* The reset that a driver asks for: the PCI function stays as it is. */
static void reset_device(VirtioPci *proxy)
{
    virtio_pci_unbind_doorbells(proxy);
    unuse_all_vectors(proxy);
    virtio_reset(proxy->vdev);
    proxy->device_feature_select = proxy->driver_feature_select = 0;
    proxy->driver_features = 0;
    proxy->queue_select = 0;
    virtio_pci_take_isr(proxy);
}

/* Legacy drivers may forget bus mastering, and nothing said so in their time: DRIVER_OK means it. */
static void follow_bus_master(VirtioPci *proxy)
{
    PciDevice *pci = &proxy->parent_instance;
    VirtioDevice *vdev = proxy->vdev;

    if (vdev->legacy && (vdev->status & VIRTIO_STATUS_DRIVER_OK)) {
        put_le16(pci->config + PCI_REG_COMMAND,
                 get_le16(pci->config + PCI_REG_COMMAND) | PCI_COMMAND_MASTER);
    }
    virtio_set_dma_allowed(vdev, pci_is_master(pci));
}

void virtio_pci_set_status(VirtioPci *proxy, uint8_t status)
{
    if (status == 0) {
        reset_device(proxy);
        return;
    }
    virtio_set_status(proxy->vdev, status);
    follow_bus_master(proxy);
    virtio_pci_update_doorbells(proxy);
}

static void virtio_pci_config_read(PciDevice *pci, unsigned offset, unsigned len)
{
    virtio_pci_cfg_read(VIRTIO_PCI(pci), offset, len);
}

static void virtio_pci_config_written(PciDevice *pci, unsigned offset, unsigned len)
{
    VirtioPci *proxy = VIRTIO_PCI(pci);

    virtio_pci_cfg_written(proxy, offset, len);
    virtio_set_dma_allowed(proxy->vdev, pci_is_master(pci));
    update_intx(proxy);
    virtio_pci_update_doorbells(proxy);
}

/* ---- life ---- */

static bool choose_interfaces(VirtioPci *proxy, GError **errp)
{
    VirtioPciKind kind = VIRTIO_PCI_GET_CLASS(proxy)->kind;

    proxy->legacy = kind == VIRTIO_PCI_TRANSITIONAL ||
                    (kind == VIRTIO_PCI_GENERIC && proxy->disable_legacy != ON_OFF_AUTO_ON);
    proxy->modern = kind != VIRTIO_PCI_GENERIC || !proxy->disable_modern;
    if (!proxy->legacy && !proxy->modern) {
        error_set(errp,
                  "disable-legacy=on and disable-modern=on leave no interface: set one of them "
                  "to off");
        return false;
    }
    return true;
}

/* 4.1.2.1: a transitional device is found by drivers of both kinds, another one by modern drivers only. */
static void set_ids(VirtioPci *proxy)
{
    const VirtioPciFamily *family = VIRTIO_PCI_GET_CLASS(proxy)->family;
    uint16_t type = VIRTIO_DEVICE_GET_CLASS(proxy->vdev)->device_id;
    uint8_t *config = proxy->parent_instance.config;

    put_le16(config + PCI_REG_VENDOR, VENDOR_ID);
    put_le16(config + PCI_REG_SUBSYSTEM_VENDOR, VENDOR_ID);
    put_le16(config + PCI_REG_CLASS, family->class_code);
    if (proxy->legacy) {
        put_le16(config + PCI_REG_DEVICE, family->transitional_id);
        put_le16(config + PCI_REG_SUBSYSTEM, type);
    } else {
        put_le16(config + PCI_REG_DEVICE, MODERN_DEVICE_ID + type);
        put_le16(config + PCI_REG_SUBSYSTEM, MODERN_SUBSYSTEM);
        config[PCI_REG_REVISION] = 1;
    }
}

static bool realize_backend(VirtioPci *proxy, GError **errp)
{
    VirtioDevice *vdev = proxy->vdev;
    VirtioTransport transport = { .notify_queue = notify_queue,
                                  .notify_config = notify_config,
                                  .opaque = proxy };

    virtio_set_transport(vdev, &transport);
    if (!DEVICE_GET_CLASS(vdev)->realize(DEVICE(vdev), errp)) {
        return false;
    }
    DEVICE(vdev)->realized = true;
    OBJECT(vdev)->completed = true;
    return true;
}

static void unrealize_backend(VirtioPci *proxy)
{
    DEVICE_GET_CLASS(proxy->vdev)->unrealize(DEVICE(proxy->vdev));
    DEVICE(proxy->vdev)->realized = false;
}

static bool add_registers(VirtioPci *proxy, GError **errp)
{
    if (proxy->legacy) {
        virtio_pci_legacy_init(proxy);
    }
    return (!proxy->modern || virtio_pci_modern_init(proxy, errp)) &&
           (!proxy->vectors ||
            msix_init(&proxy->parent_instance, proxy->vectors, VIRTIO_PCI_BAR_MSIX, errp));
}

static bool virtio_pci_realize(PciDevice *pci, GError **errp)
{
    VirtioPci *proxy = VIRTIO_PCI(pci);

    if (!choose_interfaces(proxy, errp) || !realize_backend(proxy, errp)) {
        return false;
    }
    if (!proxy->modern) {
        proxy->vdev->host_features &= ~VIRTIO_FEATURE(VIRTIO_F_VERSION_1);
    }
    set_ids(proxy);
    if (!add_registers(proxy, errp)) {
        unrealize_backend(proxy);
        return false;
    }
    virtio_set_dma_allowed(proxy->vdev, false);
    if (proxy->vdev->iothread) {
        add_intx_source(proxy);
    }
    return true;
}

static void virtio_pci_unrealize(PciDevice *pci)
{
    VirtioPci *proxy = VIRTIO_PCI(pci);

    virtio_pci_unbind_doorbells(proxy);
    unuse_all_vectors(proxy);
    unrealize_backend(proxy);
    remove_intx_source(proxy);
}

static void virtio_pci_reset(Device *dev)
{
    VirtioPci *proxy = VIRTIO_PCI(dev);

    reset_device(proxy);
    pci_device_reset(PCI_DEVICE(dev));
    virtio_set_dma_allowed(proxy->vdev, false);
}

static void virtio_pci_finalize(GObject *gobj)
{
    remove_intx_source(VIRTIO_PCI(gobj));
    G_OBJECT_CLASS(virtio_pci_parent_class)->finalize(gobj);
}

/* ---- saved state ---- */

/* What is bound to the state before. If loading fails midway, the vectors are whatever the file says. */
static bool virtio_pci_pre_load(void *opaque, GError **errp)
{
    VirtioPci *proxy = opaque;

    virtio_pci_unbind_doorbells(proxy);
    unuse_all_vectors(proxy);
    proxy->vectors_unchecked = true;
    return true;
}

/* A vector of the saved state, which nobody has checked yet. */
static bool check_vector(VirtioPci *proxy, uint16_t vector, GError **errp)
{
    if (vector != VIRTIO_NO_VECTOR && vector >= msix_vectors(&proxy->parent_instance)) {
        error_set(errp, "%s: the saved state uses MSI-X vector %u; the device has %u",
                  virtio_name(proxy->vdev), vector, msix_vectors(&proxy->parent_instance));
        return false;
    }
    return true;
}

/* All are checked before the first is taken into use. */
static bool load_vectors(VirtioPci *proxy, GError **errp)
{
    VirtioDevice *vdev = proxy->vdev;
    bool ok = check_vector(proxy, proxy->config_vector, errp);

    for (unsigned i = 0; i < vdev->n_queues && ok; i++) {
        ok = check_vector(proxy, virtqueue_vector(vdev->queues[i]), errp);
    }
    if (!ok) {
        return false;
    }
    use_vector(proxy, proxy->config_vector);
    for (unsigned i = 0; i < vdev->n_queues; i++) {
        use_vector(proxy, virtqueue_vector(vdev->queues[i]));
    }
    proxy->vectors_unchecked = false;
    return true;
}

static bool virtio_pci_post_load(void *opaque, int version, GError **errp)
{
    VirtioPci *proxy = opaque;

    proxy->isr &= VIRTIO_PCI_ISR_QUEUE | VIRTIO_PCI_ISR_CONFIG;
    if (!load_vectors(proxy, errp)) {
        return false;
    }
    virtio_set_dma_allowed(proxy->vdev, pci_is_master(&proxy->parent_instance));
    update_intx(proxy);
    virtio_pci_update_doorbells(proxy);
    return true;
}

static const VMStateDescription vmstate_virtio_pci = {
    .name = "virtio-pci",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_load = virtio_pci_pre_load,
    .post_load = virtio_pci_post_load,
    .fields =
        (const VMStateField[]){
            VMSTATE_PCI_DEVICE(parent_instance, VirtioPci),
            VMSTATE_UINT32(device_feature_select, VirtioPci),
            VMSTATE_UINT32(driver_feature_select, VirtioPci),
            VMSTATE_UINT64(driver_features, VirtioPci), VMSTATE_UINT16(queue_select, VirtioPci),
            VMSTATE_UINT16(config_vector, VirtioPci), VMSTATE_UINT32(isr, VirtioPci),
            VMSTATE_STRUCT_POINTER(vdev, VirtioPci, vmstate_virtio_device, VirtioDevice),
            VMSTATE_END_OF_LIST() },
};

static const QomProperty virtio_pci_properties[] = {
    { .name = "ioeventfd",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioPci, ioeventfd),
      .def = true,
      .description = "Doorbells signal eventfds instead of ending the vCPU's run" },
    QOM_PROPERTY_END,
};

static void virtio_pci_init(VirtioPci *proxy)
{
    proxy->config_vector = VIRTIO_NO_VECTOR;
}

static void virtio_pci_class_init(VirtioPciClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PciDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = virtio_pci_finalize;
    qom_class_install(klass, virtio_pci_properties);
    pc->interrupt_pin = 1;
    pc->realize = virtio_pci_realize;
    pc->unrealize = virtio_pci_unrealize;
    pc->config_read = virtio_pci_config_read;
    pc->config_written = virtio_pci_config_written;
    dc->reset = virtio_pci_reset;
    dc->vmsd = &vmstate_virtio_pci;
}
