/*
 * The parser of kernel releases and the table of those whose bit 61 is exact.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/kernel-release.h"

#include <glib.h>

static void test_parse(void)
{
    static const struct {
        const char *text;
        KernelRelease want;
    } cases[] = {
        { "6.6.69-vendor.1+", { true, 6, 6, 69, false } },
        { "6.1.0-18-amd64", { true, 6, 1, 0, false } },
        { "6.18.44-fc-v857", { true, 6, 18, 44, false } },
        { "6.11.0-rc3", { true, 6, 11, 0, true } },
        { "6.12-rc1", { true, 6, 12, 0, true } },
        { "7.0", { true, 7, 0, 0, false } },
        { "6.6.87.2-microsoft-standard-WSL2", { true, 6, 6, 87, false } },
        { "6.6.44+", { true, 6, 6, 44, false } },
        { "6.6.44-rcu", { true, 6, 6, 44, false } },
        { "6.6.44-vendor-rc2", { true, 6, 6, 44, true } },
        { "", { false } },
        { "6", { false } },
        { "6.", { false } },
        { "6.x", { false } },
        { "6.6.", { false } },
        { "6.6.x", { false } },
        { "v6.6.44", { false } },
        { "-6.6.44", { false } },
        { "4294967302.6.44", { false } },
        { NULL, { false } },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        KernelRelease got = kernel_release_parse(cases[i].text);

        g_test_message("%s", cases[i].text ? cases[i].text : "(null)");
        g_assert_cmpint(got.known, ==, cases[i].want.known);
        g_assert_cmpuint(got.major, ==, cases[i].want.major);
        g_assert_cmpuint(got.minor, ==, cases[i].want.minor);
        g_assert_cmpuint(got.patch, ==, cases[i].want.patch);
        g_assert_cmpint(got.candidate, ==, cases[i].want.candidate);
    }
}

/* T17: where the table says no, a huge page of a file may look anonymous. */
static void t17_table_of_exact_releases(void)
{
    static const struct {
        const char *text;
        bool exact;
    } cases[] = {
        { "5.15.170", false },  { "6.1.103", false },    { "6.5.13", false },
        { "6.6.43", false },    { "6.6.44-rc1", false }, { "6.6.44", true },
        { "6.6.45-rc1", true }, { "6.6.69-v.1+", true }, { "6.7.0", false },
        { "6.10.14", false },   { "6.11.0-rc7", false }, { "6.11.0", true },
        { "6.11.1-rc1", true }, { "6.12.0-rc1", true },  { "6.12.117", true },
        { "6.18.44-fc", true }, { "7.0.0-rc1", true },   { "10.0", true },
        { "garbage", false },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        KernelRelease release = kernel_release_parse(cases[i].text);

        g_test_message("%s", cases[i].text);
        g_assert_cmpint(kernel_release_has_exact_file_bit(&release), ==, cases[i].exact);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/kernel-release/parse", test_parse);
    g_test_add_func("/memory/kernel-release/t17_table_of_exact_releases",
                    t17_table_of_exact_releases);
    return g_test_run();
}
