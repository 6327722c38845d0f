/*
 * Who is told when the machine is reset, in order of registration.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_RESET_H
#define COWBIRD_HW_CORE_RESET_H

typedef struct ResetList ResetList;
typedef void (*ResetFn)(void *opaque);

/*
 * Order of the stages of one reset: devices first, then what fills guest RAM (boot images), then what sets vCPU
 * registers from what was loaded. Within a stage the order of registration.
 */
typedef enum ResetStage { RESET_DEVICES, RESET_IMAGES, RESET_CPUS, RESET_STAGES } ResetStage;

ResetList *reset_list_new(void);
void reset_list_free(ResetList *list);
/* Adds a handler; opaque must stay valid until reset_unregister. */
void reset_register(ResetList *list, ResetStage stage, ResetFn fn, void *opaque);
/* Removes the handler added with the same fn and opaque; no effect if there is none. */
void reset_unregister(ResetList *list, ResetFn fn, void *opaque);
/* Runs all handlers. All vCPUs are paused; the big lock is held. */
void reset_run(ResetList *list);

#endif
