/*
 * Writing ACPI machine language: bytes appended in order, lengths of packages filled in when they are closed.
 *
 * AML is a prefix language, so a term is written as it is read: aml_op(a, AML_STORE); aml_local(a, 0);
 * aml_path(a, "PRQ0"). What opens (scope, device, method, if, package) is closed by aml_end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_AML_H
#define COWBIRD_HW_I386_AML_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Aml {
    GByteArray *out;
    GArray *open; /* of guint: places in out where a length is still to be put */
} Aml;

/* Opcodes of the ACPI specification, "AML Byte Stream Byte Values". */
typedef enum AmlOp {
    AML_ZERO = 0x00,
    AML_ONE = 0x01,
    AML_STORE = 0x70,
    AML_ADD = 0x72,
    AML_AND = 0x7b,
    AML_OR = 0x7d,
    AML_NOTIFY = 0x86,
    AML_INDEX = 0x88,
    AML_CREATE_DWORD_FIELD = 0x8a,
    AML_LAND = 0x90,
    AML_LEQUAL = 0x93,
    AML_RETURN = 0xa4,
} AmlOp;

typedef enum AmlSpace { AML_SYSTEM_MEMORY = 0, AML_SYSTEM_IO = 1, AML_PCI_CONFIG = 2 } AmlSpace;
typedef enum AmlAccess { AML_ANY_ACCESS = 0, AML_BYTE_ACCESS = 1, AML_DWORD_ACCESS = 3 } AmlAccess;

/* Appends to out, which the caller keeps. */
void aml_init(Aml *a, GByteArray *out);
/* Every package must be closed. */
void aml_finish(Aml *a);
void aml_end(Aml *a);

void aml_begin_scope(Aml *a, const char *path);
void aml_begin_device(Aml *a, const char *path);
void aml_begin_method(Aml *a, const char *path, unsigned n_args, bool serialized);
void aml_begin_if(Aml *a);
void aml_begin_package(Aml *a, unsigned n_elements);
/* Fields of an operation region; each aml_field_unit takes the next bits. */
void aml_begin_field(Aml *a, const char *region, AmlAccess access);
void aml_field_unit(Aml *a, const char *name, unsigned bits);

/* Name(path, ...): the object that follows gets the name. */
void aml_name(Aml *a, const char *path);
void aml_op_region(Aml *a, const char *path, AmlSpace space, uint32_t offset, uint32_t len);

/* Terms. */
void aml_op(Aml *a, AmlOp op);
/* A name used: up to "\\_SB_.PCI0.LNKA"; segments shorter than four letters are padded. */
void aml_path(Aml *a, const char *path);
void aml_int(Aml *a, uint64_t value);
/* Always four bytes of value; returns their place in out, for a loader to patch. */
guint aml_dword(Aml *a, uint32_t value);
void aml_string(Aml *a, const char *text);
/* "PNP0A03" as the number that stands for it. */
void aml_eisa_id(Aml *a, const char *id);
void aml_local(Aml *a, unsigned n);
void aml_arg(Aml *a, unsigned n);
/* Result of an operator that nobody wants. */
void aml_no_target(Aml *a);

/* Resource descriptors are gathered and then written as one buffer. */
typedef struct AmlWindow {
    uint64_t base, size;
} AmlWindow;
GByteArray *aml_res_new(void);
void aml_res_io(GByteArray *res, uint16_t base, uint8_t count);
/* An edge-triggered ISA interrupt. */
void aml_res_irq(GByteArray *res, unsigned irq);
/* One level-triggered, active-high, shared interrupt out of the list; extended form. */
void aml_res_gsi(GByteArray *res, const uint32_t *irqs, unsigned n, bool level);
void aml_res_memory32(GByteArray *res, uint32_t base, uint32_t size, bool writable);
/* Windows that a PCI host bridge passes on. An empty one is left out. */
void aml_res_bus_window(GByteArray *res, uint16_t first, uint16_t last);
void aml_res_io_window(GByteArray *res, AmlWindow w);
void aml_res_memory_window(GByteArray *res, AmlWindow w);
/* Writes the buffer, end tag included, and frees res. */
void aml_resources(Aml *a, GByteArray *res);

#endif
