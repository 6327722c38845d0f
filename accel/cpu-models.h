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
    CPU_WORD_7_2_EDX,
    CPU_WORD_D_1_EAX,
    CPU_WORD_80000001_EDX,
    CPU_WORD_80000001_ECX,
    CPU_WORD_80000007_EBX,
    CPU_WORD_80000007_EDX,
    CPU_WORD_80000008_EBX,
    CPU_WORD_8000000A_EDX,
    CPU_WORD_80000021_EAX,
    CPU_WORD_80000022_EAX,
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

/* Names that programs know and that have no word: "off" changes nothing, "on" is an error. Ended by NULL. */
extern const char *const cpu_flags_not_offered[];

#define CPU_MODEL_HOST "host"
#define CPU_MODEL_MAX "max"
#define CPU_MODEL_BASE "base"

/* A kind of CPU, as "-cpu help" and query-cpu-definitions show it. */
typedef struct CpuModelType {
    const char *name;                /* "host" */
    const char *parent;              /* a model whose flags it begins with; NULL = none */
    uint8_t family, model, stepping; /* family 0: signature and brand string are the host's */
    /* Names of the flags that are shown as far as the host has them, "-name" takes one of the parent's away;
     * NULL = all that KVM supports. */
    const char *flags;
} CpuModelType;
extern const CpuModelType cpu_models[]; /* ends with a name of NULL */

/* A model with the flags and properties of one -cpu option. */
typedef struct CpuModel {
    const CpuModelType *info;
    uint32_t added[CPU_WORD__MAX];   /* +flag, flag=on */
    uint32_t removed[CPU_WORD__MAX]; /* -flag, flag=off */
    bool migratable;                 /* leave out what cannot move to another host (invtsc) */
    bool kvm;                        /* show KVM's own leaves */
    bool check;                      /* report flags that this host's KVM does not offer */
    bool enforce;                    /* refuse them */
    bool pmu;
} CpuModel;

/* One line about it for people; the name of its object type. Free with g_free. */
char *cpu_model_describe(const CpuModelType *type);
char *cpu_model_type_name(const CpuModelType *type);

/* CPUID 1 EAX of a model that has a family. */
uint32_t cpu_model_signature(const CpuModelType *type);

/*
 * Reads the text of -cpu. An unknown model, flag or property is an error that names the nearest
 * valid ones. '_' and '-' are the same in names.
 */
CpuModel *cpu_model_parse(const char *text, GError **errp);
/* One flag or property more, with the same names. */
bool cpu_model_set(CpuModel *model, const char *name, bool on, GError **errp);
void cpu_model_free(CpuModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CpuModel, cpu_model_free)

/* The bits that a model leaves in each word; one without a list of its own all but nested virtualisation. */
void cpu_model_base_flags(const CpuModelType *type, uint32_t ret_mask[CPU_WORD__MAX]);

/* The name of a bit, or NULL. */
const char *cpu_flag_name(CpuWord word, unsigned bit);
/* Those of all bits that are set and have one, in the order of the words. The names are not owned. */
GPtrArray *cpu_flag_names(const uint32_t flags[CPU_WORD__MAX]);

#endif
