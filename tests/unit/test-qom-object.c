/*
 * Tests of qom/: the tree, types by name, properties in and out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/object.h"

#include "qapi/qapi-types.h"
#include "util/error.h"

QOM_DECLARE_TYPE(Thing, thing, THING)

struct _Thing {
    Object parent_instance;
    bool flag;
    uint8_t small;
    uint32_t number;
    int32_t level;
    uint64_t size;
    char *text;
    int state;
    Object *other;
    int custom;
    uint32_t fixed;
};

struct _ThingClass {
    ObjectClass parent_class;
};

QOM_DEFINE_TYPE(Thing, thing, "odd.name-thing", TYPE_OBJECT)

static json_object *get_custom(Object *obj, GError **errp)
{
    return json_object_new_int(THING(obj)->custom);
}

static bool set_custom(Object *obj, json_object *value, GError **errp)
{
    THING(obj)->custom = json_object_get_boolean(value) ? 7 : 0;
    return true;
}

static const QomProperty thing_properties[] = {
    { .name = "flag", .kind = QOM_BOOL, .offset = offsetof(Thing, flag), .def = true },
    { .name = "small", .kind = QOM_UINT8, .offset = offsetof(Thing, small) },
    { .name = "disable_s3",
      .kind = QOM_UINT32,
      .offset = offsetof(Thing, number),
      .def = 9,
      .flags = QOM_PROP_LATE },
    { .name = "level", .kind = QOM_INT32, .offset = offsetof(Thing, level), .def = -3 },
    { .name = "size", .kind = QOM_SIZE, .offset = offsetof(Thing, size), .def = 4096 },
    { .name = "text", .kind = QOM_STRING, .offset = offsetof(Thing, text), .def_str = "hi" },
    { .name = "state",
      .kind = QOM_ENUM,
      .offset = offsetof(Thing, state),
      .enum_type = &qapi_type_RunState,
      .def = RUN_STATE_PAUSED },
    { .name = "other",
      .kind = QOM_LINK,
      .offset = offsetof(Thing, other),
      .link_type = "odd.name-thing" },
    { .name = "custom",
      .kind = QOM_CUSTOM,
      .type_name = "bool",
      .get = get_custom,
      .set = set_custom },
    { .name = "fixed",
      .kind = QOM_UINT32,
      .offset = offsetof(Thing, fixed),
      .flags = QOM_PROP_READ_ONLY },
    QOM_PROPERTY_END
};

static void thing_init(Thing *t)
{
}

static void thing_class_init(ThingClass *klass)
{
    qom_class_install(klass, thing_properties);
}

static const QomType thing_types[] = {
    { "odd.name-thing", thing_get_type, "thing" },
    { .name = NULL },
};
static const QomType *const all_types[] = { qom_base_types, thing_types, NULL };

static Object *new_root(void)
{
    return object_new(TYPE_CONTAINER, NULL);
}

static Thing *add_thing(Object *parent, const char *name)
{
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), parent->root ? parent->root : parent));
    g_autoptr(GError) err = NULL;

    g_assert_true(object_add_child(parent, name, OBJECT(t), &err));
    g_assert_no_error(err);
    return t;
}

static void test_tree(void)
{
    g_autoptr(Object) root = new_root();
    Object *machine = object_get_container(root, "machine");
    Thing *a = add_thing(machine, "a");
    Thing *b = add_thing(OBJECT(a), "b");
    g_autofree char *path = object_path(OBJECT(b));
    g_autofree char *root_path = object_path(root);
    g_autoptr(GError) err = NULL;
    g_autoptr(Thing) again = THING(object_new(thing_get_type(), root));

    g_assert_cmpstr(path, ==, "/machine/a/b");
    g_assert_cmpstr(root_path, ==, "/");
    g_assert_true(object_resolve(root, "/machine/a/b") == OBJECT(b));
    g_assert_null(object_resolve(root, "/machine/b"));
    g_assert_true(object_resolve(root, "/") == root);
    g_assert_true(object_find(root, "b", thing_get_type()) == OBJECT(b));
    g_assert_null(object_find(root, "machine", thing_get_type()));
    g_assert_false(object_add_child(machine, "a", OBJECT(again), &err));
    g_assert_nonnull(strstr(err->message, "/machine/a"));
    g_clear_error(&err);
    g_assert_false(object_add_child(machine, "x/y", OBJECT(again), &err));
    object_unparent(OBJECT(a));
    g_assert_null(object_get_child(machine, "a"));
}

static void test_numbered(void)
{
    g_autoptr(Object) root = new_root();

    for (int i = 0; i < 3; i++) {
        g_autoptr(Thing) t = THING(object_new(thing_get_type(), root));

        object_add_child_numbered(root, "device", OBJECT(t));
    }
    object_unparent(object_get_child(root, "device[0]"));
    for (int i = 0; i < 2; i++) {
        g_autoptr(Thing) t = THING(object_new(thing_get_type(), root));

        object_add_child_numbered(root, "device", OBJECT(t));
    }
    g_assert_cmpuint(root->children->len, ==, 4);
}

static void test_types(void)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), NULL));

    g_assert_cmpstr(object_type_name(OBJECT(t)), ==, "odd.name-thing");
    g_assert_true(object_is_a(OBJECT(t), "object"));
    g_assert_false(object_is_a(OBJECT(t), "container"));
    g_assert_true(qom_type_find(all_types, "thing") == thing_get_type());
    g_assert_cmpuint(qom_type_find(all_types, "nothing"), ==, 0);
    g_assert_cmpuint(qom_type_require(all_types, "odd.name-thin", TYPE_OBJECT, &err), ==, 0);
    g_assert_nonnull(strstr(err->message, "odd.name-thing"));
    g_assert_cmpint(err->code, ==, COWBIRD_ERROR_DEVICE_NOT_FOUND);
    g_clear_error(&err);
    g_assert_cmpuint(qom_type_require(all_types, "container", thing_get_type(), &err), ==, 0);
    g_assert_nonnull(strstr(err->message, "not a kind of"));
}

static char *get_text(Thing *t, const char *name)
{
    g_autoptr(GError) err = NULL;
    json_object *value = object_get_property_json(OBJECT(t), name, &err);
    char *text;

    g_assert_no_error(err);
    text = g_strdup(json_object_to_json_string_ext(value, JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(value);
    return text;
}

static void assert_value(Thing *t, const char *name, const char *want)
{
    g_autofree char *text = get_text(t, name);

    g_assert_cmpstr(text, ==, want);
}

static void test_defaults(void)
{
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), NULL));

    assert_value(t, "flag", "true");
    assert_value(t, "small", "0");
    assert_value(t, "disable_s3", "9");
    assert_value(t, "level", "-3");
    assert_value(t, "size", "4096");
    assert_value(t, "text", "\"hi\"");
    assert_value(t, "state", "\"paused\"");
    assert_value(t, "other", "\"\"");
    assert_value(t, "custom", "0");
}

/* property, JSON given, JSON read back, or NULL and a word that the error must have. */
static const struct {
    const char *name, *given, *want, *error;
} settings[] = {
    { "flag", "false", "false", NULL },
    { "flag", "\"off\"", "false", NULL },
    { "flag", "\"on\"", "true", NULL },
    { "flag", "1", NULL, "on' or 'off" },
    { "flag", "\"maybe\"", NULL, "maybe" },
    { "small", "255", "255", NULL },
    { "small", "256", NULL, "255" },
    { "small", "-1", NULL, "from 0" },
    { "small", "\"0x10\"", "16", NULL },
    { "small", "\"ten\"", NULL, "ten" },
    { "small", "\"\"", NULL, "small" },
    { "small", "1.5", NULL, "small" },
    { "disable_s3", "4294967295", "4294967295", NULL },
    { "disable_s3", "4294967296", NULL, "4294967295" },
    { "level", "\"-2147483648\"", "-2147483648", NULL },
    { "level", "-2147483649", NULL, "-2147483648" },
    { "size", "\"2G\"", "2147483648", NULL },
    { "size", "18446744073709551615", "18446744073709551615", NULL },
    { "size", "\"2Q\"", NULL, "2Q" },
    { "text", "\"\"", "\"\"", NULL },
    { "text", "3", NULL, "str" },
    { "state", "\"running\"", "\"running\"", NULL },
    { "state", "\"runing\"", NULL, "running" },
    { "other", "\"a\"", "\"/a\"", NULL },
    { "other", "\"/a\"", "\"/a\"", NULL },
    { "other", "\"\"", "\"\"", NULL },
    { "other", "\"zzz\"", NULL, "zzz" },
    { "custom", "\"on\"", "7", NULL },
    { "custom", "\"x\"", NULL, "custom" },
    { "fixed", "1", NULL, "read-only" },
    { "tex", "1", NULL, "text" },
};

static void test_set(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        g_autoptr(Object) root = new_root();
        g_autoptr(Thing) t = THING(object_new(thing_get_type(), root));
        json_object *value = json_tokener_parse(settings[i].given);
        g_autoptr(GError) err = NULL;
        bool ok;

        add_thing(root, "a");
        ok = object_set_property_json(OBJECT(t), settings[i].name, value, &err);
        json_object_put(value);
        if (settings[i].want) {
            g_assert_no_error(err);
            assert_value(t, settings[i].name, settings[i].want);
        } else {
            g_assert_false(ok);
            g_assert_nonnull(strstr(err->message, settings[i].error));
        }
    }
}

static void test_fixed_after_completion(void)
{
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), NULL));
    g_autoptr(GError) err = NULL;

    g_assert_true(object_complete(OBJECT(t), &err));
    g_assert_true(object_set_property_str(OBJECT(t), "disable_s3", "1", &err));
    g_assert_false(object_set_property_str(OBJECT(t), "small", "1", &err));
    g_assert_nonnull(strstr(err->message, "in use"));
}

static void test_dict(void)
{
    static const char *const skip[] = { "id", NULL };
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), NULL));
    json_object *dict = json_tokener_parse("{\"id\":\"x\",\"small\":\"3\",\"size\":\"1M\"}");
    g_autoptr(GError) err = NULL;

    g_assert_true(object_set_properties_json(OBJECT(t), dict, skip, &err));
    g_assert_cmpuint(t->small, ==, 3);
    g_assert_cmpuint(t->size, ==, 1048576);
    g_assert_false(object_set_properties_json(OBJECT(t), dict, NULL, &err));
    json_object_put(dict);
}

/* GObject's own accessors reach the same fields. */
static void test_gobject(void)
{
    g_autoptr(Thing) t = THING(object_new(thing_get_type(), NULL));
    g_autofree char *text = NULL;
    gboolean flag;
    guint64 size;

    g_object_set(t, "flag", FALSE, "size", (guint64)77, "text", "new", "small", 5, NULL);
    g_object_get(t, "flag", &flag, "size", &size, "text", &text, NULL);
    g_assert_false(flag);
    g_assert_cmpuint(size, ==, 77);
    g_assert_cmpstr(text, ==, "new");
    g_assert_cmpuint(t->small, ==, 5);
}

static void test_list(void)
{
    gpointer klass = g_type_class_ref(thing_get_type());
    g_autoptr(GPtrArray) list = qom_class_list_properties(klass);
    g_autofree char *enum_type = qom_property_type_name(qom_class_find_property(klass, "state"));
    g_autofree char *link_type = qom_property_type_name(qom_class_find_property(klass, "other"));

    g_assert_cmpuint(list->len, ==, G_N_ELEMENTS(thing_properties) - 1);
    g_assert_cmpstr(enum_type, ==, "RunState");
    g_assert_cmpstr(link_type, ==, "link<odd.name-thing>");
    g_assert_null(qom_class_find_property(klass, "disable-s3"));
    g_type_class_unref(klass);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qom/tree", test_tree);
    g_test_add_func("/qom/numbered", test_numbered);
    g_test_add_func("/qom/types", test_types);
    g_test_add_func("/qom/defaults", test_defaults);
    g_test_add_func("/qom/set", test_set);
    g_test_add_func("/qom/fixed-after-completion", test_fixed_after_completion);
    g_test_add_func("/qom/dict", test_dict);
    g_test_add_func("/qom/gobject", test_gobject);
    g_test_add_func("/qom/list", test_list);
    return g_test_run();
}
