/*
 * fw_cfg: numbered and named items that firmware and guests read through two ports or by DMA.
 *
 * Source: QEMU's published specification, docs/specs/fw_cfg.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_FIRMWARE_FW_CFG_H
#define COWBIRD_HW_FIRMWARE_FW_CFG_H

#include "hw/core/device.h"

/* Keys of the specification. */
typedef enum FwCfgKey {
    FW_CFG_SIGNATURE = 0x00,
    FW_CFG_ID = 0x01,
    FW_CFG_UUID = 0x02,
    FW_CFG_RAM_SIZE = 0x03,
    FW_CFG_NOGRAPHIC = 0x04,
    FW_CFG_NB_CPUS = 0x05,
    FW_CFG_BOOT_MENU = 0x0e,
    FW_CFG_MAX_CPUS = 0x0f,
    FW_CFG_FILE_DIR = 0x19,
    FW_CFG_FILE_FIRST = 0x20,
} FwCfgKey;

#define FW_CFG_FILES_MAX 64
#define FW_CFG_NAME_MAX 56 /* with the final zero */

typedef struct _FwCfg FwCfg;

#define TYPE_FW_CFG (fw_cfg_get_type())
QOM_DECLARE_TYPE_OF(FwCfg, fw_cfg, FW_CFG)
struct _FwCfgClass {
    DeviceClass parent_class;
};

/* Items hold copies. A key or name that is in use gets the new contents. */
void fw_cfg_add_bytes(FwCfg *f, uint16_t key, const void *data, size_t len);
void fw_cfg_add_u16(FwCfg *f, uint16_t key, uint16_t value);
void fw_cfg_add_u64(FwCfg *f, uint16_t key, uint64_t value);
/* A named item; an error when there is no room or the name is too long. */
bool fw_cfg_add_file(FwCfg *f, const char *name, const void *data, size_t len, GError **errp);
/* The same, and the guest may write it by DMA: written is called after each write. */
bool fw_cfg_add_writable_file(FwCfg *f, const char *name, const void *data, size_t len,
                              void (*written)(void *opaque, const uint8_t *data, size_t len),
                              void *opaque, GError **errp);

#endif
