/*
 * The types of virtio devices on PCI: three for each device, made from one line of a list.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio-pci.h"

#include "hw/virtio/balloon.h"
#include "hw/virtio/rng.h"
#include "hw/virtio/serial.h"
#include "qapi/qapi-types.h"

/* Name in C, name of the family, type of the backend, transitional id, class, vectors. */
#define FAMILIES(F)                                                          \
    F(balloon, "virtio-balloon", virtio_balloon_get_type, 0x1002, 0x00ff, 6) \
    F(serial, "virtio-serial", virtio_serial_get_type, 0x1003, 0x0780, 32)   \
    F(rng, "virtio-rng", virtio_rng_get_type, 0x1005, 0x00ff, 2)

#define BACKEND "virtio-backend"

typedef struct VirtioPciType {
    const char *name;
    const VirtioPciFamily *family;
    VirtioPciKind kind;
} VirtioPciType;

/* ---- classes ---- */

static const QomProperty generic_properties[] = {
    { .name = "disable-legacy",
      .kind = QOM_ENUM,
      .enum_type = &qapi_type_OnOffAuto,
      .offset = offsetof(VirtioPci, disable_legacy),
      .description = "on: no legacy interface (auto is off on this bus)" },
    { .name = "disable-modern",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioPci, disable_modern),
      .description = "no modern interface" },
    QOM_PROPERTY_END,
};

static void add_backend_properties(GArray *table, const VirtioPciFamily *family)
{
    gpointer klass = g_type_class_ref(family->backend());
    g_autoptr(GPtrArray) props = qom_class_list_properties(klass);

    for (guint i = 0; i < props->len; i++) {
        QomProperty prop = *(const QomProperty *)g_ptr_array_index(props, i);

        prop.child = BACKEND;
        g_array_append_val(table, prop);
    }
    g_type_class_unref(klass);
}

/* The properties of one type; a class lasts as long as the program, and so does the table. */
static const QomProperty *make_properties(const VirtioPciType *type)
{
    GArray *table = g_array_new(TRUE, TRUE, sizeof(QomProperty));
    QomProperty vectors = { .name = "vectors",
                            .kind = QOM_UINT32,
                            .offset = offsetof(VirtioPci, vectors),
                            .def = type->family->vectors,
                            .description = "MSI-X vectors; 0: only the interrupt pin" };

    g_array_append_val(table, vectors);
    if (type->kind == VIRTIO_PCI_GENERIC) {
        g_array_append_vals(table, generic_properties, G_N_ELEMENTS(generic_properties) - 1);
    }
    add_backend_properties(table, type->family);
    return (const QomProperty *)(void *)g_array_free(table, FALSE);
}

static void type_class_init(gpointer klass, gpointer data)
{
    const VirtioPciType *type = data;
    VirtioPciClass *vpc = VIRTIO_PCI_CLASS(klass);
    DeviceClass *dc = DEVICE_CLASS(klass);
    gpointer backend = g_type_class_ref(type->family->backend());

    vpc->family = type->family;
    vpc->kind = type->kind;
    qom_class_install(klass, make_properties(type));
    dc->user_creatable = true;
    dc->desc = DEVICE_CLASS(backend)->desc;
    g_type_class_unref(backend);
}

/* The backend is there from the start, so that its properties can be set. */
static void type_instance_init(GTypeInstance *instance, gpointer klass)
{
    VirtioPci *proxy = VIRTIO_PCI(instance);
    Object *backend = object_new(VIRTIO_PCI_CLASS(klass)->family->backend(), NULL);

    object_add_child(OBJECT(proxy), BACKEND, backend, NULL);
    proxy->vdev = VIRTIO_DEVICE(backend);
    g_object_unref(backend);
}

static GType type_register(gsize *storage, const VirtioPciType *type)
{
    if (g_once_init_enter(storage)) {
        GTypeInfo info = { .class_size = sizeof(VirtioPciClass),
                           .class_init = type_class_init,
                           .class_data = type,
                           .instance_size = sizeof(VirtioPci),
                           .instance_init = type_instance_init };

        g_once_init_leave(storage, g_type_register_static(TYPE_VIRTIO_PCI, type->name, &info, 0));
    }
    return *storage;
}

/* ---- the list, spelled out ---- */

#define DEFINE_TYPE(c, variant, type_name, type_kind)                            \
    static GType c##_##variant##_get_type(void)                                  \
    {                                                                            \
        static const VirtioPciType type = { type_name, &c##_family, type_kind }; \
        static gsize storage;                                                    \
                                                                                 \
        return type_register(&storage, &type);                                   \
    }

#define DEFINE_FAMILY(c, prefix, get_backend, id, class, n)                              \
    static const VirtioPciFamily c##_family = {                                          \
        .backend = get_backend, .transitional_id = id, .class_code = class, .vectors = n \
    };                                                                                   \
    DEFINE_TYPE(c, generic, prefix "-pci", VIRTIO_PCI_GENERIC)                           \
    DEFINE_TYPE(c, transitional, prefix "-pci-transitional", VIRTIO_PCI_TRANSITIONAL)    \
    DEFINE_TYPE(c, modern, prefix "-pci-non-transitional", VIRTIO_PCI_NON_TRANSITIONAL)

#define LIST_FAMILY(c, prefix, get_backend, id, class, n)          \
    { prefix "-pci", c##_generic_get_type, prefix },               \
        { prefix "-pci-transitional", c##_transitional_get_type }, \
        { prefix "-pci-non-transitional", c##_modern_get_type },

FAMILIES(DEFINE_FAMILY)

const QomType virtio_pci_types[] = {
    { "virtio-pci", virtio_pci_get_type },
    FAMILIES(LIST_FAMILY){ .name = NULL },
};
