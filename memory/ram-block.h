/*
 * One host mapping that holds guest RAM, and the list of all of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_RAM_BLOCK_H
#define COWBIRD_MEMORY_RAM_BLOCK_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The unit of releasing, detaching and of the in-flight counts: 2 MiB. */
#define RAM_CHUNK_SHIFT 21
#define RAM_CHUNK_SIZE (UINT64_C(1) << RAM_CHUNK_SHIFT)

typedef struct ChunkMap ChunkMap;
typedef struct _RamBackend RamBackend;
typedef struct RamBase RamBase;
typedef struct BaseGuard BaseGuard;
typedef struct RamList RamList;
typedef struct RamBlock RamBlock;
typedef struct VmaBudget VmaBudget;

typedef enum RamKind {
    RAM_ANONYMOUS,    /* private anonymous memory */
    RAM_FILE_PRIVATE, /* copy-on-write mapping of snapshot files (`mappings`) */
    RAM_SHARED,       /* MAP_SHARED of a file or memfd (`fd`) */
    RAM_BACKEND_FILE, /* private mapping of the user's own file (memory-backend-file,share=off) */
} RamKind;

/* How a block got its contents in the last restore. */
typedef enum RamRestoreUsed {
    RAM_RESTORE_USED_NONE, /* never restored */
    RAM_RESTORE_USED_COPY,
    RAM_RESTORE_USED_COPY_ON_WRITE,
} RamRestoreUsed;

/* Part of a RAM_FILE_PRIVATE block and the place in a file that it maps; all in bytes. */
typedef struct RamMapping {
    uint64_t offset;
    uint64_t length;
    RamBase *base; /* a reference */
    uint64_t file_offset;
} RamMapping;

/* What query-ram-restore tells of a block besides what is counted on demand. */
typedef struct RamRestoreReport {
    RamRestoreUsed used;
    char *reason;             /* why not copy-on-write; NULL = it is */
    char *file;               /* path of the (tip of the) snapshot; NULL = unknown */
    uint64_t file_offset;     /* of block offset 0 in that file */
    bool detached;            /* no longer backed by the file that was restored */
    bool increment_possible;  /* anonymous pages still are exactly the pages written since */
    char *increment_obstacle; /* why not; NULL when possible */
} RamRestoreReport;

/* What became of the requests to give memory back, in bytes since the block exists. */
typedef struct RamDiscardStats {
    uint64_t released;
    uint64_t over_budget; /* left alone: the process has too many mappings */
    uint64_t busy;        /* left alone: I/O was under way in the chunk */
    uint64_t inhibited;   /* left alone: ram_discard_inhibit() */
} RamDiscardStats;

struct RamBlock {
    char *name;
    uint8_t *host;
    uint64_t size; /* a multiple of page_size */
    size_t page_size;
    RamKind kind;
    int fd;             /* shared or the user's file; else -1; owned */
    uint64_t fd_offset; /* of block offset 0 in fd */
    bool share;
    bool hugetlb;
    bool memfd;
    bool prealloc;
    bool mem_lock;
    bool numa_policy;
    bool merge;
    bool dump; /* guest RAM is part of a core dump of the VMM */
    bool reserve;
    bool readonly;
    bool resizable;
    GPtrArray *mappings; /* of RamMapping, ascending, RAM_FILE_PRIVATE only */
    /*
     * Chunks of a RAM_FILE_PRIVATE block that are anonymous memory now: what is not a data page
     * there is zero. NULL = none ever.
     */
    ChunkMap *released;
    /* Restoring laid private pages over the mappings: dropping one would bring an older page back. */
    bool pages_laid;
    uint8_t *zero_area; /* see memory/zero-area.c; NULL = none yet, or no_zero_area */
    bool no_zero_area;
    RamDiscardStats discard;
    uint32_t *in_flight; /* per chunk: accesses under way; see memory/guest-access.h */
    GMutex access_mutex; /* with access_cond: who waits for a chunk that is being moved */
    GCond access_cond;
    /*
     * Read-locked by who scans the block, write-locked by who changes what backs its chunks.
     * The host address and the contents never change under it.
     */
    GRWLock layout;
    RamRestoreReport report;
    RamList *list; /* the list that owns the block; NULL before */
};

/*
 * Private anonymous memory at a 2 MiB aligned host address, MAP_NORESERVE, left out of core dumps
 * and of child processes. @size is in bytes and rounded up to whole pages.
 */
RamBlock *ram_block_new_anonymous(const char *name, uint64_t size, GError **errp);

/*
 * A block over memory that is mapped already: takes ownership of the mapping [host, host + size)
 * and of @fd (-1 = none). The caller fills in the flags that differ from a plain private block.
 */
RamBlock *ram_block_new_from_mapping(const char *name, void *host, uint64_t size, RamKind kind,
                                     int fd);

/* Reserve @size bytes of address space, 2 MiB (or @align) aligned, PROT_NONE; NULL on error. */
void *ram_reserve_address_space(uint64_t size, size_t align, GError **errp);

/* Unmap and free. A block that is in a list belongs to the list. */
void ram_block_free(RamBlock *block);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamBlock, ram_block_free)

/*
 * Put the block's policy (DONTDUMP unless dump=on, DONTFORK) on part of it again, after something
 * was mapped there.
 */
bool ram_block_apply_policy(RamBlock *block, uint64_t offset, uint64_t length, GError **errp);
/* The same on memory that will become part of the block. */
bool ram_block_apply_policy_at(RamBlock *block, void *start, uint64_t length, GError **errp);

/* Flags for a private mapping in the block: MAP_NORESERVE unless its back end has reserve=on. */
int ram_block_private_flags(const RamBlock *block);

/*
 * Ask for transparent huge pages for a whole anonymous block. For a guest that starts from
 * nothing; never for memory that a snapshot is mapped over.
 */
void ram_block_hint_hugepages(RamBlock *block);

/* Number of 2 MiB chunks, the last one possibly short. */
uint64_t ram_block_chunks(const RamBlock *block);

void ram_mapping_free(RamMapping *mapping);

RamList *ram_list_new(void);
/* Frees the blocks, the guard of their files included. */
void ram_list_free(RamList *list);
/* Takes ownership; NULL (block freed) with an error when the name is taken. Returns the block. */
RamBlock *ram_list_add(RamList *list, RamBlock *block, GError **errp);
RamBlock *ram_list_find(RamList *list, const char *name);
unsigned ram_list_count(const RamList *list);
RamBlock *ram_list_get(const RamList *list, unsigned i);
/* Bytes of all blocks. */
uint64_t ram_list_total(const RamList *list);
/* The block in which @host lies, and where; NULL = none. Safe in a signal handler. */
RamBlock *ram_list_find_host(const RamList *list, const void *host, uint64_t *ret_offset);

/* The guard of the snapshot files that blocks map; NULL = none was needed yet. */
BaseGuard *ram_list_guard(const RamList *list);
/* Takes ownership. */
void ram_list_set_guard(RamList *list, BaseGuard *guard);

/* For memory/discard.c: the mappings that may still be made, and how often releasing is inhibited. */
VmaBudget *ram_list_vma_budget(RamList *list);
gint *ram_list_discard_inhibited(RamList *list);

#endif
