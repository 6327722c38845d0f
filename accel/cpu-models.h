/*
 * CPU models and the text of -cpu: "host,-avx512f,+x2apic,migratable=on".
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPU_MODELS_H
#define COWBIRD_ACCEL_CPU_MODELS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A register of a CPUID leaf whose bits are feature flags. */
typedef enum {
    CPU_WORD_1_EDX,
    CPU_WORD_1_ECX,
    CPU_WORD_7_0_EBX,
    CPU_WORD_7_0_ECX,
    CPU_WORD_7_0_EDX,
    CPU_WORD_7_1_EAX,
    CPU_WORD_7_1_EDX,
    CPU_WORD_D_1_EAX,
    CPU_WORD_80000001_EDX,
    CPU_WORD_80000001_ECX,
    CPU_WORD_80000007_EDX,
    CPU_WORD_80000008_EBX,
    CPU_WORD_6_EAX,
    CPU_WORD_KVM_EAX,
    CPU_WORD__MAX
} CpuWord;

/* The name of one flag; several names can mean the same bit. */
typedef struct CpuFlag {
    const char *name;
    CpuWord word;
    uint8_t bit;
} CpuFlag;
extern const CpuFlag cpu_flags[];
extern const size_t cpu_flag_count;

/* A kind of CPU, as "-cpu help" and qom-list-types show it. */
typedef struct CpuModelInfo {
    const char *name;      /* "host" */
    const char *type_name; /* "host-x86_64-cpu" */
    const char *description;
    /* Only these flags are shown, as far as the host has them; NULL = all that KVM supports. */
    const char *const *flags;
    uint32_t signature;   /* CPUID 1 EAX (family, model, stepping); 0 = the host's */
    const char *model_id; /* the brand string; NULL = the host's */
} CpuModelInfo;
extern const CpuModelInfo cpu_models[]; /* ends with a name of NULL */

/* A model with the flags and properties of one -cpu option. */
typedef struct CpuModel {
    const CpuModelInfo *info;
    uint32_t added[CPU_WORD__MAX];   /* +flag, flag=on */
    uint32_t removed[CPU_WORD__MAX]; /* -flag, flag=off */
    bool migratable;                 /* leave out what cannot move to another host (invtsc) */
    bool kvm;                        /* show KVM's own leaves */
    bool enforce; /* refuse flags that this host's KVM does not offer, else report */
    bool pmu;
} CpuModel;

/*
 * Reads the text of -cpu. An unknown model, flag or property is an error that names the nearest
 * valid ones. '_' and '-' are the same in names.
 */
CpuModel *cpu_model_parse(const char *text, GError **errp);
void cpu_model_free(CpuModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CpuModel, cpu_model_free)

/*
 * The bits that a model without a list of its own leaves in a word: all but nested
 * virtualisation.
 */
void cpu_model_base_flags(const CpuModelInfo *info, uint32_t ret_mask[CPU_WORD__MAX]);

/* The name of a bit, or NULL. */
const char *cpu_flag_name(CpuWord word, unsigned bit);

#endif
