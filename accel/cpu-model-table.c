/*
 * The table of CPU models.
 *
 * Each named model is what processors of that kind had when they were new: the flags that libvirt's cpu_map lists under the same name,
 * written as a difference to a model above it, and family, model and stepping as CPUID 1 has them. What depends on the host rather than on
 * the kind (nested virtualisation, MONITOR) is left out. The vendor is always the host's: SYSENTER and SYSCALL differ between vendors,
 * and KVM does not hide that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpu-models.h"

#include <stddef.h>

/* clang-format off */
const CpuModelType cpu_models[] = {
    /* name, parent, family, model, stepping, flags */
    { CPU_MODEL_HOST, NULL, 0, 0, 0, NULL },
    { CPU_MODEL_MAX, NULL, 0, 0, 0, NULL },
    { CPU_MODEL_BASE, NULL, 0, 0, 0, "" },
    { "qemu64", NULL, 15, 107, 1,
      "fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush "
      "mmx fxsr sse sse2 pni cx16 syscall nx lm" },
    { "kvm64", "qemu64", 15, 6, 1,
      "" },
    { "phenom", "qemu64", 16, 2, 3,
      "mmxext fxsr-opt 3dnowext 3dnow -cx16" },
    { "core2duo", "qemu64", 6, 15, 11,
      "vme ssse3 -cx16" },
    { "Conroe", "core2duo", 6, 15, 3,
      "lahf-lm -vme" },
    { "Penryn", "Conroe", 6, 23, 3,
      "cx16 sse4.1" },
    { "Nehalem", "Penryn", 6, 26, 3,
      "sse4.2 popcnt" },
    { "Nehalem-IBRS", "Nehalem", 6, 26, 3,
      "spec-ctrl" },
    { "Westmere", "Nehalem", 6, 44, 1,
      "aes" },
    { "Westmere-IBRS", "Nehalem-IBRS", 6, 44, 1,
      "aes" },
    { "SandyBridge", "Westmere", 6, 42, 1,
      "pclmulqdq tsc-deadline xsave avx rdtscp" },
    { "SandyBridge-IBRS", "SandyBridge", 6, 42, 1,
      "spec-ctrl" },
    { "IvyBridge", "SandyBridge", 6, 58, 9,
      "vme f16c rdrand fsgsbase smep erms" },
    { "IvyBridge-IBRS", "IvyBridge", 6, 58, 9,
      "spec-ctrl" },
    { "Haswell-noTSX", "SandyBridge", 6, 60, 1,
      "fma pcid movbe fsgsbase bmi1 avx2 smep bmi2 erms invpcid" },
    { "Haswell-noTSX-IBRS", "Haswell-noTSX", 6, 60, 1,
      "spec-ctrl" },
    { "Haswell", "Haswell-noTSX", 6, 60, 4,
      "hle rtm" },
    { "Haswell-IBRS", "Haswell", 6, 60, 4,
      "spec-ctrl" },
    { "Broadwell-noTSX", "Haswell-noTSX", 6, 61, 2,
      "rdseed adx smap 3dnowprefetch" },
    { "Broadwell-noTSX-IBRS", "Broadwell-noTSX", 6, 61, 2,
      "spec-ctrl" },
    { "Broadwell", "Broadwell-noTSX", 6, 61, 2,
      "hle rtm" },
    { "Broadwell-IBRS", "Broadwell", 6, 61, 2,
      "spec-ctrl" },
    { "Skylake-Client", "Broadwell", 6, 94, 3,
      "vme f16c rdrand xsaveopt xsavec xgetbv1 abm arat" },
    { "Skylake-Client-IBRS", "Skylake-Client", 6, 94, 3,
      "spec-ctrl" },
    { "Skylake-Client-noTSX-IBRS", "Skylake-Client-IBRS", 6, 94, 3,
      "-hle -rtm" },
    { "Skylake-Server", "Skylake-Client", 6, 85, 4,
      "avx512f avx512dq clwb avx512cd avx512bw avx512vl pdpe1gb" },
    { "Skylake-Server-IBRS", "Skylake-Server", 6, 85, 4,
      "spec-ctrl" },
    { "Skylake-Server-noTSX-IBRS", "Skylake-Server-IBRS", 6, 85, 4,
      "-hle -rtm" },
    { "Cascadelake-Server", "Skylake-Server-IBRS", 6, 85, 6,
      "clflushopt avx512vnni ssbd" },
    { "Cascadelake-Server-noTSX", "Cascadelake-Server", 6, 85, 6,
      "-hle -rtm" },
    { "Cooperlake", "Cascadelake-Server", 6, 85, 10,
      "pku stibp arch-capabilities avx512-bf16" },
    { "Icelake-Server", "Cascadelake-Server", 6, 134, 0,
      "avx512vbmi umip pku avx512vbmi2 gfni vaes vpclmulqdq avx512bitalg "
      "avx512-vpopcntdq la57 wbnoinvd" },
    { "Icelake-Server-noTSX", "Icelake-Server", 6, 134, 0,
      "-hle -rtm" },
    { "SapphireRapids", "Icelake-Server", 6, 143, 4,
      "avx512ifma sha-ni rdpid bus-lock-detect fsrm serialize tsx-ldtrk amx-bf16 "
      "avx512-fp16 amx-tile amx-int8 arch-capabilities avx-vnni avx512-bf16 fzrm fsrs "
      "fsrc xsaves xfd" },
    { "Snowridge", "IvyBridge-IBRS", 6, 134, 1,
      "movbe rdseed smap clflushopt clwb sha-ni umip gfni cldemote movdiri movdir64b "
      "arch-capabilities core-capability ssbd xsaveopt xsavec xgetbv1 pdpe1gb "
      "3dnowprefetch arat -avx -f16c" },
    { "Denverton", "Snowridge", 6, 95, 1,
      "mpx -clwb -umip -gfni -cldemote -movdiri -movdir64b -core-capability" },
    { "Opteron_G1", "qemu64", 15, 6, 1,
      "-cx16" },
    { "Opteron_G2", "qemu64", 15, 6, 1,
      "rdtscp lahf-lm" },
    { "Opteron_G3", "Opteron_G2", 16, 2, 3,
      "popcnt abm sse4a misalignsse" },
    { "Opteron_G4", "SandyBridge", 21, 1, 2,
      "pdpe1gb abm sse4a misalignsse 3dnowprefetch xop fma4 -tsc-deadline" },
    { "Opteron_G5", "Opteron_G4", 21, 2, 0,
      "fma f16c tbm" },
    { "EPYC", "Skylake-Client-noTSX-IBRS", 23, 1, 2,
      "clflushopt sha-ni mmxext fxsr-opt pdpe1gb cr8legacy sse4a misalignsse osvw "
      "-pcid -tsc-deadline -erms -invpcid -spec-ctrl" },
    { "EPYC-IBPB", "EPYC", 23, 1, 2,
      "ibpb" },
    { "EPYC-Rome", "EPYC-IBPB", 23, 49, 0,
      "clwb umip rdpid perfctr-core clzero xsaveerptr wbnoinvd amd-stibp" },
    { "EPYC-Milan", "EPYC-Rome", 25, 1, 1,
      "pcid erms invpcid pku fsrm xsaves ibrs amd-ssbd" },
    { "EPYC-Genoa", "EPYC-Milan", 25, 17, 0,
      "avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx512vbmi avx512vbmi2 "
      "gfni vaes vpclmulqdq avx512vnni avx512bitalg avx512-vpopcntdq la57 avx512-bf16 "
      "stibp-always-on amd-psfd no-nested-data-bp lfence-always-serializing "
      "null-sel-clr-base auto-ibrs" },
    { "Dhyana", "EPYC-IBPB", 24, 0, 1,
      "-pclmulqdq -aes -sha-ni" },
    { .name = NULL },
};
/* clang-format on */
