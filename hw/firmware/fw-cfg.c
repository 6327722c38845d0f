/*
 * fw_cfg: the items, the selector and data ports, and DMA.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/firmware/fw-cfg.h"

#include <string.h>

#include "hw/core/machine.h"
#include "memory/guest-access.h"
#include "util/error.h"
#include "util/le.h"
#include "util/units.h"
#include "vmstate/vmstate.h"

#define PORT_SELECT 0x510
#define PORT_DMA 0x514
#define ID_TRADITIONAL 1
#define ID_DMA 2
#define DIR_ENTRY_BYTES 64
#define DMA_LENGTH_MAX (256 * MiB) /* no item is longer; what a transfer may cost */
#define WRITE_MAX 4096

enum { DMA_ERROR = 1, DMA_READ = 2, DMA_SKIP = 4, DMA_SELECT = 8, DMA_WRITE = 16 };

typedef struct FwCfgItem {
    char *name; /* NULL: known by its key only */
    GByteArray *data;
    void (*written)(void *opaque, const uint8_t *data, size_t len);
    void *opaque;
} FwCfgItem;

struct _FwCfg {
    Device parent_instance;
    GHashTable *items; /* key -> FwCfgItem */
    unsigned n_files;
    uint16_t key;    /* selected item */
    uint32_t offset; /* of the next byte */
    uint64_t dma_address;
};

QOM_DEFINE_TYPE(FwCfg, fw_cfg, "fw_cfg_io", TYPE_DEVICE)

static void item_free(gpointer data)
{
    FwCfgItem *item = data;

    g_free(item->name);
    g_byte_array_unref(item->data);
    g_free(item);
}

static FwCfgItem *item_find(FwCfg *f, unsigned key)
{
    return g_hash_table_lookup(f->items, GUINT_TO_POINTER(key));
}

static FwCfgItem *item_get(FwCfg *f, unsigned key)
{
    FwCfgItem *item = item_find(f, key);

    if (!item) {
        item = g_new0(FwCfgItem, 1);
        item->data = g_byte_array_new();
        g_hash_table_insert(f->items, GUINT_TO_POINTER(key), item);
    }
    return item;
}

void fw_cfg_add_bytes(FwCfg *f, uint16_t key, const void *data, size_t len)
{
    FwCfgItem *item = item_get(f, key);

    g_byte_array_set_size(item->data, 0);
    g_byte_array_append(item->data, data, (guint)len);
}

void fw_cfg_add_u16(FwCfg *f, uint16_t key, uint16_t value)
{
    uint8_t bytes[2];

    put_le16(bytes, value);
    fw_cfg_add_bytes(f, key, bytes, sizeof(bytes));
}

void fw_cfg_add_u64(FwCfg *f, uint16_t key, uint64_t value)
{
    uint8_t bytes[8];

    put_le64(bytes, value);
    fw_cfg_add_bytes(f, key, bytes, sizeof(bytes));
}

/* The directory: a count, then size, key and name of each file; numbers are big-endian. */
static void make_directory(FwCfg *f)
{
    g_autofree uint8_t *dir = g_malloc0(4 + f->n_files * DIR_ENTRY_BYTES);

    put_le32(dir, GUINT32_SWAP_LE_BE(f->n_files));
    for (unsigned i = 0; i < f->n_files; i++) {
        uint8_t *entry = dir + 4 + i * DIR_ENTRY_BYTES;
        const FwCfgItem *item = item_find(f, FW_CFG_FILE_FIRST + i);

        put_le32(entry, GUINT32_SWAP_LE_BE(item->data->len));
        put_le16(entry + 4, GUINT16_SWAP_LE_BE((uint16_t)(FW_CFG_FILE_FIRST + i)));
        g_strlcpy((char *)entry + 8, item->name, FW_CFG_NAME_MAX);
    }
    fw_cfg_add_bytes(f, FW_CFG_FILE_DIR, dir, 4 + f->n_files * DIR_ENTRY_BYTES);
}

/* Key of the file of that name, or the next free one. */
static unsigned file_key(FwCfg *f, const char *name)
{
    unsigned i = 0;

    while (i < f->n_files && strcmp(item_find(f, FW_CFG_FILE_FIRST + i)->name, name) != 0) {
        i++;
    }
    return FW_CFG_FILE_FIRST + i;
}

bool fw_cfg_add_writable_file(FwCfg *f, const char *name, const void *data, size_t len,
                              void (*written)(void *opaque, const uint8_t *data, size_t len),
                              void *opaque, GError **errp)
{
    unsigned key = file_key(f, name);
    FwCfgItem *item;

    if (key >= FW_CFG_FILE_FIRST + FW_CFG_FILES_MAX || strlen(name) >= FW_CFG_NAME_MAX) {
        error_set(errp, "fw_cfg has no room for '%s': %d files with names of up to %d bytes", name,
                  FW_CFG_FILES_MAX, FW_CFG_NAME_MAX - 1);
        return false;
    }
    fw_cfg_add_bytes(f, (uint16_t)key, data, len);
    item = item_find(f, key);
    item->written = written;
    item->opaque = opaque;
    if (!item->name) {
        item->name = g_strdup(name);
        f->n_files++;
    }
    make_directory(f);
    return true;
}

bool fw_cfg_add_file(FwCfg *f, const char *name, const void *data, size_t len, GError **errp)
{
    return fw_cfg_add_writable_file(f, name, data, len, NULL, NULL, errp);
}

/* ---- ports ---- */

static void select_item(FwCfg *f, uint16_t key)
{
    f->key = key;
    f->offset = 0;
}

/* How many bytes the selected item has from the present offset on, and where. */
static uint32_t item_rest(FwCfg *f, uint8_t **ret_data)
{
    FwCfgItem *item = item_find(f, f->key);

    if (!item || f->offset >= item->data->len) {
        *ret_data = NULL;
        return 0;
    }
    *ret_data = item->data->data + f->offset;
    return item->data->len - f->offset;
}

static void skip_bytes(FwCfg *f, uint32_t n)
{
    f->offset += MIN(n, UINT32_MAX - f->offset);
}

static uint64_t port_read(void *opaque, uint64_t port, unsigned size)
{
    FwCfg *f = opaque;
    uint8_t *data;
    uint64_t value;

    if (port != 1) {
        return 0;
    }
    value = item_rest(f, &data) ? *data : 0;
    skip_bytes(f, 1);
    return value;
}

static void port_write(void *opaque, uint64_t port, uint64_t value, unsigned size)
{
    if (port == 0 && size == 2) {
        select_item(opaque, (uint16_t)value);
    }
}

static const IoOps port_ops = {
    .read = port_read, .write = port_write, .min_size = 1, .max_size = 2
};

/* ---- DMA ---- */

static bool dma_read(FwCfg *f, uint64_t gpa, uint32_t len)
{
    AddressMap *memory = DEVICE(f)->machine->memory;
    uint8_t *data;
    uint32_t have = MIN(item_rest(f, &data), len);
    bool ok = (have == 0 || guest_write(memory, gpa, data, have)) &&
              (have == len || guest_fill(memory, gpa + have, 0, len - have));

    skip_bytes(f, len);
    return ok;
}

static bool dma_write(FwCfg *f, uint64_t gpa, uint32_t len)
{
    FwCfgItem *item = item_find(f, f->key);
    uint8_t bytes[WRITE_MAX];
    uint8_t *data;

    if (!item || !item->written || len > sizeof(bytes) || len > item_rest(f, &data) ||
        !guest_read(DEVICE(f)->machine->memory, gpa, bytes, len)) {
        return false;
    }
    memcpy(data, bytes, len);
    skip_bytes(f, len);
    item->written(item->opaque, item->data->data, item->data->len);
    return true;
}

static bool dma_run(FwCfg *f, uint32_t control, uint64_t gpa, uint32_t len)
{
    uint64_t end;

    if (control & DMA_SELECT) {
        select_item(f, (uint16_t)(control >> 16));
    }
    if (len > DMA_LENGTH_MAX || __builtin_add_overflow(gpa, len, &end)) {
        return false;
    }
    if (control & DMA_READ) {
        return dma_read(f, gpa, len);
    }
    if (control & DMA_WRITE) {
        return dma_write(f, gpa, len);
    }
    if (control & DMA_SKIP) {
        skip_bytes(f, len);
    }
    return true;
}

/* The guest has given the address of a control word, a length and an address. */
static void dma_start(FwCfg *f)
{
    AddressMap *memory = DEVICE(f)->machine->memory;
    uint8_t request[16], reply[4] = { 0 };
    uint64_t at = f->dma_address;
    bool ok;

    f->dma_address = 0;
    if (!guest_read(memory, at, request, sizeof(request))) {
        return; /* nowhere to tell of the error */
    }
    ok =
        dma_run(f, GUINT32_SWAP_LE_BE(get_le32(request)), GUINT64_SWAP_LE_BE(get_le64(request + 8)),
                GUINT32_SWAP_LE_BE(get_le32(request + 4)));
    reply[3] = ok ? 0 : DMA_ERROR;
    guest_write(memory, at, reply, sizeof(reply));
}

static uint64_t dma_port_read(void *opaque, uint64_t port, unsigned size)
{
    static const uint8_t signature[] = { 'Q', 'E', 'M', 'U', ' ', 'C', 'F', 'G' };

    return get_le32(signature + port);
}

static void dma_port_write(void *opaque, uint64_t port, uint64_t value, unsigned size)
{
    FwCfg *f = opaque;
    uint32_t half = GUINT32_SWAP_LE_BE((uint32_t)value);

    if (port == 0) {
        f->dma_address = (uint64_t)half << 32;
    } else {
        f->dma_address |= half;
        dma_start(f);
    }
}

static const IoOps dma_ops = {
    .read = dma_port_read, .write = dma_port_write, .min_size = 4, .max_size = 4
};

/* ---- life ---- */

static bool fw_cfg_realize(Device *dev, GError **errp)
{
    FwCfg *f = FW_CFG(dev);
    AddressMap *io = dev->machine->io;
    static const uint8_t id[4] = { ID_TRADITIONAL | ID_DMA };

    if (!address_map_add_io(io, PORT_SELECT, 2, "fw_cfg", &port_ops, f, errp)) {
        return false;
    }
    if (!address_map_add_io(io, PORT_DMA, 8, "fw_cfg dma", &dma_ops, f, errp)) {
        address_map_remove(io, PORT_SELECT);
        return false;
    }
    fw_cfg_add_bytes(f, FW_CFG_SIGNATURE, "QEMU", 4);
    fw_cfg_add_bytes(f, FW_CFG_ID, id, sizeof(id));
    make_directory(f);
    return true;
}

static void fw_cfg_reset(Device *dev)
{
    FwCfg *f = FW_CFG(dev);

    select_item(f, FW_CFG_SIGNATURE);
    f->dma_address = 0;
}

static const VMStateDescription vmstate_fw_cfg = {
    .name = "fw_cfg",
    .version_id = 2,
    .minimum_version_id = 2,
    .fields = (const VMStateField[]){ VMSTATE_UINT16(key, FwCfg), VMSTATE_UINT32(offset, FwCfg),
                                      VMSTATE_UINT64(dma_address, FwCfg), VMSTATE_END_OF_LIST() },
};

static void fw_cfg_finalize(GObject *obj)
{
    g_hash_table_unref(FW_CFG(obj)->items);
    G_OBJECT_CLASS(fw_cfg_parent_class)->finalize(obj);
}

static void fw_cfg_init(FwCfg *f)
{
    f->items = g_hash_table_new_full(NULL, NULL, NULL, item_free);
}

static void fw_cfg_class_init(FwCfgClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = fw_cfg_finalize;
    dc->realize = fw_cfg_realize;
    dc->reset = fw_cfg_reset;
    dc->vmsd = &vmstate_fw_cfg;
    dc->desc = "firmware configuration";
}
