/*
 * What stands for a virtual CPU in the object tree.
 *
 * The types tell programs such as libvirt which models there are and what -cpu takes; the vCPU itself is
 * accel/'s. The objects of a machine have a property for each flag that its guest sees, and no other: libvirt asks for each by itself
 * and would write a flag that it does not find into the domain as disabled.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/cpu-object.h"

#include "accel/accel.h"
#include "accel/cpu-models.h"
#include "system/cpu-query.h"
#include "util/error.h"

#include <string.h>

QOM_DECLARE_TYPE(CpuObject, cpu_object, CPU_OBJECT)

struct _CpuObject {
    Object parent_instance;
    uint32_t socket_id, die_id, core_id, thread_id;
    const char *model; /* the text of -cpu, not owned; NULL outside a machine */
};

struct _CpuObjectClass {
    ObjectClass parent_class;
};

QOM_DEFINE_ABSTRACT_TYPE(CpuObject, cpu_object, "x86_64-cpu", TYPE_OBJECT)

static CpuModel *model_of(Object *obj, GError **errp)
{
    const char *text = CPU_OBJECT(obj)->model;

    return cpu_model_parse(text ? text : CPU_MODEL_HOST, errp);
}

static json_object *unavailable_features(Object *obj, GError **errp)
{
    g_autoptr(CpuModel) model = model_of(obj, errp);
    g_autoptr(GPtrArray) names = model ? cpu_query_unavailable(model, errp) : NULL;
    json_object *list;

    if (!names) {
        return NULL;
    }
    list = json_object_new_array();
    for (guint i = 0; i < names->len; i++) {
        json_object_array_add(list, json_object_new_string(g_ptr_array_index(names, i)));
    }
    return list;
}

static json_object *migratable(Object *obj, GError **errp)
{
    g_autoptr(CpuModel) model = model_of(obj, errp);

    return model ? json_object_new_boolean(model->migratable) : NULL;
}

#define NUMBER(text, field)                                                     \
    {                                                                           \
        .name = text, .kind = QOM_UINT32, .offset = offsetof(CpuObject, field), \
        .flags = QOM_PROP_READ_ONLY                                             \
    }

static const QomProperty cpu_object_properties[] = {
    NUMBER("socket-id", socket_id),
    NUMBER("die-id", die_id),
    NUMBER("core-id", core_id),
    NUMBER("thread-id", thread_id),
    { .name = "migratable",
      .kind = QOM_CUSTOM,
      .type_name = "bool",
      .get = migratable,
      .description = "Leave out features that cannot move to another host (-cpu only)" },
    { .name = "unavailable-features",
      .kind = QOM_CUSTOM,
      .type_name = "strList",
      .get = unavailable_features,
      .description = "Features asked for that the host does not have" },
    QOM_PROPERTY_END
};

static void cpu_object_init(CpuObject *cpu)
{
}

static void cpu_object_class_init(CpuObjectClass *klass)
{
    qom_class_install(klass, cpu_object_properties);
}

QOM_DECLARE_FINAL_TYPE(HostCpu, host_cpu, HOST_CPU, CpuObjectClass)
QOM_DECLARE_FINAL_TYPE(MaxCpu, max_cpu, MAX_CPU, CpuObjectClass)

struct _HostCpu {
    CpuObject parent_instance;
};

struct _MaxCpu {
    CpuObject parent_instance;
};

QOM_DEFINE_TYPE(HostCpu, host_cpu, "host-x86_64-cpu", cpu_object_get_type())
QOM_DEFINE_TYPE(MaxCpu, max_cpu, "max-x86_64-cpu", cpu_object_get_type())

static void host_cpu_init(HostCpu *cpu)
{
}

static void host_cpu_class_init(HostCpuClass *klass)
{
}

static void max_cpu_init(MaxCpu *cpu)
{
}

static void max_cpu_class_init(MaxCpuClass *klass)
{
}

const QomType cpu_object_types[] = {
    { "x86_64-cpu", cpu_object_get_type },
    { "host-x86_64-cpu", host_cpu_get_type },
    { "max-x86_64-cpu", max_cpu_get_type },
    { .name = NULL },
};

static GType parent_type(const char *name)
{
    for (const QomType *t = cpu_object_types; t->name; t++) {
        if (g_str_equal(t->name, name)) {
            return t->get_type();
        }
    }
    return cpu_object_get_type();
}

/* The type of this machine's CPUs: that of the model that -cpu names, with flags that are this machine's own. */
static GType model_type(const char *text, GError **errp)
{
    g_autoptr(CpuModel) model = cpu_model_parse(text, errp);
    g_autofree char *name = NULL;
    GTypeInfo info = { .class_size = sizeof(CpuObjectClass), .instance_size = sizeof(CpuObject) };
    GType type;

    if (!model) {
        return 0;
    }
    name = cpu_model_type_name(model->info);
    type = g_type_register_static(parent_type(name), "RunningCpu", &info, 0);
    qom_type_set_name(type, g_intern_string(name));
    return type;
}

static json_object *flag_is_there(Object *obj, GError **errp)
{
    return json_object_new_boolean(true);
}

/* As libvirt learns the features of a running guest: one boolean each. Only flags that are set are listed. */
static QomProperty *flag_properties(const uint32_t flags[CPU_WORD__MAX])
{
    GArray *table = g_array_new(TRUE, TRUE, sizeof(QomProperty));
    g_autoptr(GPtrArray) names = cpu_flag_names(flags);

    for (guint i = 0; i < names->len; i++) {
        QomProperty p = { .name = names->pdata[i],
                          .kind = QOM_CUSTOM,
                          .type_name = "bool",
                          .get = flag_is_there,
                          .description = "the guest's CPUs have this flag" };

        g_array_append_val(table, p);
    }
    return (QomProperty *)g_array_free(table, FALSE);
}

void cpu_objects_show_flags(Machine *m)
{
    Object *cpu = object_resolve(m->root, "/machine/unattached/device[0]");
    uint32_t flags[CPU_WORD__MAX];

    accel_cpu_flags(m->accel, flags);
    qom_class_install(OBJECT_GET_CLASS(cpu),
                      flag_properties(flags)); /* stays as long as the process */
}

bool cpu_objects_create(Machine *m, GError **errp)
{
    const SmpConfig *smp = &m->smp;
    GType type = model_type(m->cpu->model, errp);

    for (unsigned i = 0; type && i < smp->cpus; i++) {
        CpuObject *cpu = CPU_OBJECT(object_new(type, m->root));

        cpu->model = m->cpu->model;
        cpu->thread_id = i % smp->threads;
        cpu->core_id = i / smp->threads % smp->cores;
        cpu->die_id = i / smp->threads / smp->cores % smp->dies;
        cpu->socket_id = i / smp->threads / smp->cores / smp->dies;
        object_add_child_numbered(machine_unattached(m), "device", OBJECT(cpu));
        g_object_unref(cpu);
    }
    return type != 0;
}
