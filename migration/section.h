/*
 * The state of devices and vCPUs as sections of a stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SECTION_H
#define COWBIRD_MIGRATION_SECTION_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>

#include "vmstate/reader.h"
#include "vmstate/registry.h"

/*
 * Append one FULL section for each entry of the registry, in its order, and the entry's
 * description to the JSON array devices.
 */
void sections_save(const VMStateRegistry *registry, GByteArray *out, json_object *devices);

/*
 * Load sections up to EOF, then check the description behind it. A section nobody is registered
 * for, or an entry without its section, is an error.
 */
bool sections_load(const VMStateRegistry *registry, ByteReader *in, GError **errp);

#endif
