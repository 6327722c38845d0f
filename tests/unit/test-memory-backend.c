/*
 * Memory back ends: each property does something or is refused.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/backend.h"
#include "memory/ram-block.h"
#include "tests/unit/memory-fixture.h"

/* "type size=4M share=on" and so on; NULL with an error if a property or complete() refuses. */
static RamBackend *make(const char *text, GError **errp)
{
    static const QomType *const types[] = { ram_backend_types, NULL };
    g_auto(GStrv) words = g_strsplit(text, " ", 0);
    GType type = qom_type_require(types, words[0], TYPE_RAM_BACKEND, errp);
    g_autoptr(Object) obj = type ? g_object_new(type, NULL) : NULL;

    for (unsigned i = 1; obj && words[i]; i++) {
        char *value = strchr(words[i], '=');

        *value++ = '\0';
        if (!object_set_property_str(obj, words[i], value, errp)) {
            return NULL;
        }
    }
    if (!obj || !object_complete(obj, errp)) {
        return NULL;
    }
    return RAM_BACKEND(g_steal_pointer(&obj));
}

static RamBlock *alloc(const char *text, RamBackend **ret_backend)
{
    g_autoptr(GError) err = NULL;
    RamBackend *backend = make(text, &err);
    RamBlock *block;

    g_assert_no_error(err);
    block = ram_backend_alloc(backend, "pc.ram", &err);
    g_assert_no_error(err);
    g_assert_true(ram_backend_in_use(backend));
    *ret_backend = backend;
    return block;
}

static void expect_refused(const char *text, const char *message)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(RamBackend) backend = make(text, &err);
    RamBlock *block = backend ? ram_backend_alloc(backend, "pc.ram", &err) : NULL;

    g_assert_null(block);
    g_assert_nonnull(err);
    g_test_message("%s: %s", text, err->message);
    g_assert_nonnull(strstr(err->message, message));
}

static bool has_flag(const RamBlock *block, const char *flag)
{
    g_autofree char *flags = fixture_vm_flags(block->host);
    g_autofree char *word = g_strdup_printf(" %s ", flag);

    return strstr(flags, word) != NULL;
}

static void test_ram(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block = alloc("memory-backend-ram size=5M", &backend);
    g_autoptr(GError) err = NULL;

    g_assert_cmpuint(block->size, ==, 5 * MiB);
    g_assert_cmpint(block->kind, ==, RAM_ANONYMOUS);
    g_assert_cmpstr(block->name, ==, "pc.ram");
    g_assert_false(block->merge || block->prealloc || block->numa_policy || block->share);
    g_assert_true(has_flag(block, "dd"));
    g_assert_true(has_flag(block, "dc"));
    g_assert_true(has_flag(block, "nr"));
    g_assert_false(has_flag(block, "mg"));
    /* One guest's memory cannot be used twice, and its object stays. */
    g_assert_null(ram_backend_alloc(backend, "other", &err));
    g_assert_nonnull(err);
    g_clear_error(&err);
    g_assert_false(OBJECT_GET_CLASS(backend)->can_delete(OBJECT(backend), &err));
}

static void test_flags(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block =
        alloc("memory-backend-ram size=4M merge=on dump=on reserve=on", &backend);

    g_assert_true(block->merge);
    g_assert_true(block->dump);
    g_assert_true(has_flag(block, "mg"));
    g_assert_false(has_flag(block, "dd"));
    g_assert_true(has_flag(block, "dc"));
    g_assert_false(has_flag(block, "nr"));
}

static void test_prealloc(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block =
        alloc("memory-backend-ram size=9M prealloc=on prealloc-threads=3", &backend);
    unsigned char seen[9 * MiB / 4096];

    g_assert_true(block->prealloc);
    g_assert_cmpint(mincore(block->host, block->size, seen), ==, 0);
    for (unsigned i = 0; i < sizeof(seen); i++) {
        g_assert_true(seen[i] & 1);
    }
}

static void test_shared_ram(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block = alloc("memory-backend-ram size=4M share=on", &backend);
    uint8_t byte = 7;

    g_assert_cmpint(block->kind, ==, RAM_SHARED);
    g_assert_true(block->share);
    g_assert_cmpint(pwrite(block->fd, &byte, 1, MiB), ==, 1);
    g_assert_cmpuint(block->host[MiB], ==, 7);
}

static void test_memfd(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block = alloc("memory-backend-memfd size=4M", &backend);

    g_assert_true(block->memfd);
    g_assert_true(block->share);
    g_assert_cmpint(fcntl(block->fd, F_GET_SEALS), ==, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    g_assert_cmpint(ftruncate(block->fd, MiB), ==, -1);
}

static void test_memfd_unsealed(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(RamBlock) block = alloc("memory-backend-memfd size=4M seal=off", &backend);

    g_assert_cmpint(ftruncate(block->fd, 4 * MiB), ==, 0);
}

/* Huge pages of hugetlbfs, reserved for the time of the test. */
static void test_hugetlb(void)
{
    g_autofree char *before = NULL;
    const char *path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    g_autoptr(RamBackend) backend = NULL;
    RamBlock *block;
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (!g_file_get_contents(path, &before, NULL, NULL) || fd < 0 || write(fd, "4", 1) != 1) {
        g_test_skip("no huge pages can be reserved here");
        return;
    }
    block = alloc("memory-backend-memfd size=5M hugetlb=on hugetlbsize=2M", &backend);
    g_assert_true(block->hugetlb);
    g_assert_cmpuint(block->page_size, ==, 2 * MiB);
    g_assert_cmpuint(block->size, ==, 6 * MiB);
    block->host[5 * MiB] = 1;
    ram_block_free(block);
    g_assert_cmpint(pwrite(fd, before, strlen(before), 0), >, 0);
    close(fd);
}

static void test_file(void)
{
    g_autofree char *path = NULL, *text = NULL, *small = NULL;
    int fd = fixture_file(NULL, 0, &path);
    struct stat st;

    /* An empty file grows; what is written to it stays when it is shared. */
    text = g_strdup_printf("memory-backend-file size=4M mem-path=%s share=on offset=1M", path);
    {
        g_autoptr(RamBackend) backend = NULL;
        g_autoptr(RamBlock) block = alloc(text, &backend);

        g_assert_cmpint(block->kind, ==, RAM_SHARED);
        block->host[0] = 9;
    }
    fstat(fd, &st);
    g_assert_cmpint(st.st_size, ==, 5 * MiB);
    g_free(text);
    text = g_strdup_printf("memory-backend-file size=4M mem-path=%s offset=1M align=4M", path);
    {
        g_autoptr(RamBackend) backend = NULL;
        g_autoptr(RamBlock) block = alloc(text, &backend);

        g_assert_cmpint(block->kind, ==, RAM_BACKEND_FILE);
        g_assert_cmpuint((uintptr_t)block->host % (4 * MiB), ==, 0);
        g_assert_cmpuint(block->host[0], ==, 9);
        block->host[0] = 10;
    }
    g_free(text);
    text = g_strdup_printf("memory-backend-file size=4M mem-path=%s offset=1M readonly=on", path);
    {
        g_autoptr(RamBackend) backend = NULL;
        g_autoptr(RamBlock) block = alloc(text, &backend);

        g_assert_true(block->readonly);
        g_assert_cmpuint(block->host[0], ==, 9);
    }
    small = g_strdup_printf("memory-backend-file size=8M mem-path=%s", path);
    expect_refused(small, path);
    close(fd);
    unlink(path);
}

static void test_discard_data(void)
{
    g_autofree char *path = NULL, *text = NULL;
    int fd = fixture_file(NULL, 0, &path);
    struct stat st;

    text =
        g_strdup_printf("memory-backend-file size=4M mem-path=%s share=on discard-data=on", path);
    {
        g_autoptr(RamBackend) backend = NULL;
        g_autoptr(RamBlock) block = alloc(text, &backend);

        memset(block->host, 1, 4 * MiB);
    }
    fstat(fd, &st);
    g_assert_cmpint(st.st_size, ==, 4 * MiB);
    g_assert_cmpint(st.st_blocks, ==, 0);
    close(fd);
    unlink(path);
}

static void test_file_in_folder(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autofree char *text =
        g_strdup_printf("memory-backend-file size=4M mem-path=%s", g_get_tmp_dir());
    g_autoptr(RamBlock) block = alloc(text, &backend);
    struct stat st;

    g_assert_cmpint(fstat(block->fd, &st), ==, 0);
    g_assert_cmpuint(st.st_nlink, ==, 0);
}

static void test_new_file(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autofree char *path = g_strdup_printf("%s/cowbird-new-%d", g_get_tmp_dir(), getpid());
    g_autofree char *text = g_strdup_printf("memory-backend-file size=4M mem-path=%s", path);
    g_autofree char *readonly =
        g_strdup_printf("memory-backend-file size=4M mem-path=%s readonly=on", path);
    RamBlock *block;

    expect_refused(readonly, path);
    block = alloc(text, &backend);
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
    ram_block_free(block);
    unlink(path);
}

static void test_numa(void)
{
    g_autoptr(RamBackend) backend = NULL;
    g_autoptr(GError) err = NULL;
    RamBlock *block;
    json_object *nodes;

    backend = make("memory-backend-ram size=4M host-nodes=0 policy=bind", &err);
    g_assert_no_error(err);
    nodes = object_get_property_json(OBJECT(backend), "host-nodes", NULL);
    g_assert_cmpstr(json_object_to_json_string(nodes), ==, "[ 0 ]");
    json_object_put(nodes);
    block = ram_backend_alloc(backend, "pc.ram", &err);
    if (!block) {
        g_test_skip("this kernel has no NUMA policies");
        return;
    }
    g_assert_true(block->numa_policy);
    ram_block_free(block);
}

static void test_canonical_name(void)
{
    static const char text[] = "memory-backend-ram size=4M x-use-canonical-path-for-ramblock-id=on";
    g_autoptr(RamBackend) backend = make(text, NULL);
    g_autoptr(Container) root = g_object_new(TYPE_CONTAINER, NULL);
    RamBlock *block;

    g_assert_true(object_add_child(OBJECT(root), "mem0", OBJECT(backend), NULL));
    block = ram_backend_alloc(backend, "pc.ram", NULL);
    g_assert_cmpstr(block->name, ==, "/mem0");
    ram_block_free(block);
}

static void test_refusals(void)
{
    expect_refused("memory-backend-ram", "size");
    expect_refused("memory-backend-ram size=0", "size");
    expect_refused("memory-backend-ram size=4M prealloc-threads=0", "prealloc-threads");
    expect_refused("memory-backend-ram size=4M prealloc-threads=1000", "prealloc-threads");
    expect_refused("memory-backend-ram size=4M policy=bind", "host-nodes");
    expect_refused("memory-backend-ram size=4M host-nodes=0", "policy");
    expect_refused("memory-backend-ram size=4M host-nodes=64 policy=bind", "host-nodes");
    expect_refused("memory-backend-ram size=4M host-nodes=3-1 policy=bind", "host-nodes");
    expect_refused("memory-backend-ram size=4M host-nodes=x policy=bind", "host-nodes");
    expect_refused("memory-backend-ram size=4M policy=nearest", "policy");
    expect_refused("memory-backend-ram size=4M color=red", "color");
    expect_refused("memory-backend-ram size=16384P", "");
    expect_refused("memory-backend-file size=4M", "mem-path");
    expect_refused("memory-backend-file size=4M mem-path=/no/such/place", "/no/such/place");
    expect_refused("memory-backend-file size=4M mem-path=/tmp offset=100", "offset");
    expect_refused("memory-backend-file size=4M mem-path=/tmp align=12288", "align");
    expect_refused("memory-backend-memfd size=4M hugetlbsize=2M", "hugetlb");
    expect_refused("memory-backend-memfd size=4M hugetlb=on hugetlbsize=3M", "hugetlbsize");
    expect_refused("memory-backend-memfd size=4M hugetlb=on hugetlbsize=512M", "pc.ram");
    expect_refused("memory-backend-epc size=4M", "memory-backend-");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/backend/ram", test_ram);
    g_test_add_func("/memory/backend/flags", test_flags);
    g_test_add_func("/memory/backend/prealloc", test_prealloc);
    g_test_add_func("/memory/backend/shared-ram", test_shared_ram);
    g_test_add_func("/memory/backend/memfd", test_memfd);
    g_test_add_func("/memory/backend/memfd-unsealed", test_memfd_unsealed);
    g_test_add_func("/memory/backend/hugetlb", test_hugetlb);
    g_test_add_func("/memory/backend/file", test_file);
    g_test_add_func("/memory/backend/discard-data", test_discard_data);
    g_test_add_func("/memory/backend/file-in-folder", test_file_in_folder);
    g_test_add_func("/memory/backend/new-file", test_new_file);
    g_test_add_func("/memory/backend/numa", test_numa);
    g_test_add_func("/memory/backend/canonical-name", test_canonical_name);
    g_test_add_func("/memory/backend/refusals", test_refusals);
    return g_test_run();
}
