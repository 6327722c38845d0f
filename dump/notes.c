/*
 * The ELF notes of a dump: the registers of each CPU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/notes.h"

#include <elf.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/reg.h>

/*
 * The layout that crash and its kin read under the name "QEMU", type 0 (as crash's netdump.h declares it).
 * Little-endian.
 */
#define MACHINE_NOTE_NAME "QEMU"
#define MACHINE_NOTE_VERSION 1

typedef struct MachineSegment {
    uint32_t selector;
    uint32_t limit;
    uint32_t access;
    uint32_t pad;
    uint64_t base;
} MachineSegment;

typedef struct MachineNote {
    uint32_t version;
    uint32_t size;
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp;
    uint64_t r8_r15[8];
    uint64_t rip, rflags;
    MachineSegment cs, ds, es, fs, gs, ss;
    MachineSegment ldt, tr, gdt, idt;
    uint64_t cr[5];
    uint64_t kernel_gs_base;
} MachineNote;

G_STATIC_ASSERT(sizeof(MachineSegment) == 24);
G_STATIC_ASSERT(sizeof(MachineNote) == 440);

static void append_padded(GByteArray *out, const void *data, guint len)
{
    static const guint8 zeros[4];

    g_byte_array_append(out, data, len);
    g_byte_array_append(out, zeros, -len & 3);
}

static void append_note(GByteArray *out, const char *name, uint32_t type, const void *desc,
                        uint32_t len)
{
    Elf64_Nhdr header = { .n_namesz = strlen(name) + 1, .n_descsz = len, .n_type = type };

    append_padded(out, &header, sizeof(header));
    append_padded(out, name, header.n_namesz);
    append_padded(out, desc, len);
}

/* Debuggers tell CPUs apart by the process id, which begins at 1. */
static void append_prstatus(GByteArray *out, unsigned cpu, const CpuDumpState *s)
{
    struct elf_prstatus status = { .pr_pid = cpu + 1 };
    elf_greg_t *r = status.pr_reg;

    r[R15] = s->r8_r15[7];
    r[R14] = s->r8_r15[6];
    r[R13] = s->r8_r15[5];
    r[R12] = s->r8_r15[4];
    r[R11] = s->r8_r15[3];
    r[R10] = s->r8_r15[2];
    r[R9] = s->r8_r15[1];
    r[R8] = s->r8_r15[0];
    r[RBP] = s->rbp;
    r[RBX] = s->rbx;
    r[RAX] = s->rax;
    r[RCX] = s->rcx;
    r[RDX] = s->rdx;
    r[RSI] = s->rsi;
    r[RDI] = s->rdi;
    r[RIP] = s->rip;
    r[RSP] = s->rsp;
    r[EFLAGS] = s->rflags;
    r[CS] = s->cs.selector;
    r[SS] = s->ss.selector;
    r[DS] = s->ds.selector;
    r[ES] = s->es.selector;
    r[FS] = s->fs.selector;
    r[GS] = s->gs.selector;
    r[FS_BASE] = s->fs.base;
    r[GS_BASE] = s->gs.base;
    append_note(out, "CORE", NT_PRSTATUS, &status, sizeof(status));
}

static MachineSegment segment(const CpuDumpSegment *s)
{
    return (MachineSegment){
        .selector = s->selector, .limit = s->limit, .access = s->access, .base = s->base
    };
}

static void append_machine(GByteArray *out, const CpuDumpState *s)
{
    MachineNote note = {
        .version = MACHINE_NOTE_VERSION,
        .size = sizeof(note),
        .rax = s->rax,
        .rbx = s->rbx,
        .rcx = s->rcx,
        .rdx = s->rdx,
        .rsi = s->rsi,
        .rdi = s->rdi,
        .rsp = s->rsp,
        .rbp = s->rbp,
        .rip = s->rip,
        .rflags = s->rflags,
        .cs = segment(&s->cs),
        .ds = segment(&s->ds),
        .es = segment(&s->es),
        .fs = segment(&s->fs),
        .gs = segment(&s->gs),
        .ss = segment(&s->ss),
        .ldt = segment(&s->ldt),
        .tr = segment(&s->tr),
        .gdt = segment(&s->gdt),
        .idt = segment(&s->idt),
        .kernel_gs_base = s->kernel_gs_base,
    };

    memcpy(note.r8_r15, s->r8_r15, sizeof(note.r8_r15));
    memcpy(note.cr, s->cr, sizeof(note.cr));
    append_note(out, MACHINE_NOTE_NAME, 0, &note, sizeof(note));
}

GByteArray *dump_notes_new(Accel *accel, GError **errp)
{
    unsigned n = accel ? accel_vcpu_count(accel) : 0;
    g_autofree CpuDumpState *states = g_new(CpuDumpState, MAX(n, 1));
    GByteArray *notes;

    for (unsigned i = 0; i < n; i++) {
        if (!accel_cpu_dump_state(accel, i, &states[i], errp)) {
            return NULL;
        }
    }
    notes = g_byte_array_new();
    for (unsigned i = 0; i < n; i++) {
        append_prstatus(notes, i, &states[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        append_machine(notes, &states[i]);
    }
    return notes;
}
