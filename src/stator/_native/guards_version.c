/* Versions: what makes the evaluation of an unchanged level unnecessary.
 *
 * A level that passed is recorded with everything its outcome depends on: the
 * value's type, the dict that was read (and where it was found, since
 * `obj.__dict__ = d` is no change of any dict), and either the dict's version
 * tag or a watch that voids the record when the dict is about to change or die.
 * Class attributes depend on the version tags of the classes, kept in one list
 * per tree.
 *
 * What has no version is never recorded: lists, sets, slots, cells, defaults,
 * the order of an OrderedDict. Tuples, functions and methods are recorded until
 * the level above is evaluated again, because only that pins their identity; of
 * a function the code is compared.
 *
 * A dict's tag or watch vouches for the dict itself, not for an address: tags
 * are unique, and the death of a watched dict is an event. So a record may hold
 * borrowed pointers, and an object that takes a dead one's place is noticed.
 */
#include "guards.h"
#include "guards_layout.h"

static int use_watchers; /* by trees made from now on */

static const uint64_t zero;
const Word word_never = {&zero, 1};
static const Word word_always = {&zero, 0};

/* The level is evaluated next time. */
static void
level_void(Level *level)
{
    level->recorded = 0;
    if (level->n_words > 0)
        level->words[0] = word_never;
}

/* ---- the watch table ---- */

#if HAS_DICT_WATCHERS

static int watcher = -1;
static Watch **table;
static size_t table_mask, n_watches;

static Watch **
bucket_of(PyObject *dict)
{
    return &table[((uintptr_t)dict >> 4) * 0x9E3779B97F4A7C15ull >> 20 & table_mask];
}

static void
watch_link(Watch *w)
{
    Watch **head = bucket_of(w->dict);
    w->next = *head;
    if (w->next != NULL)
        w->next->link = &w->next;
    w->link = head;
    *head = w;
}

static void
watch_remove(Watch *w)
{
    if (w->link == NULL)
        return;
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    w->link = NULL;
    n_watches--;
}

static int
table_grow(void)
{
    size_t mask = table == NULL ? 1023 : table_mask * 2 + 1, old_mask = table_mask;
    Watch **old = table, **new = PyMem_Calloc(mask + 1, sizeof *new);
    if (new == NULL)
        return -1;
    table = new;
    table_mask = mask;
    for (size_t i = 0; old != NULL && i <= old_mask; i++)
        for (Watch *w = old[i], *next; w != NULL; w = next) {
            next = w->next;
            watch_link(w);
        }
    PyMem_Free(old);
    return 0;
}

/* Called before a watched dict changes or dies. The dict stays watched (its
 * caller would restore the bit): a later change finds nothing here. */
static int
on_dict_event(PyDict_WatchEvent Py_UNUSED(event), PyObject *dict, PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(value))
{
    for (Watch *w = *bucket_of(dict), *next; w != NULL; w = next) {
        next = w->next;
        if (w->dict != dict)
            continue;
        watch_remove(w);
        if (w->level == NULL)
            PyMem_Free(w); /* version_of() has asked */
        else {
            level_void(w->level);
            ++*w->events;
        }
    }
    return 0;
}

void
watch_init(Level *level, unsigned long long *events)
{
    level->watch.level = level;
    level->watch.events = events;
}

static int
watch_add(Watch *w, PyObject *dict)
{
    watch_remove(w);
    if ((table == NULL || n_watches > table_mask) && table_grow() < 0)
        return -1;
    if (PyDict_Watch(watcher, dict) < 0) {
        PyErr_Clear();
        return -1;
    }
    w->dict = dict;
    n_watches++;
    watch_link(w);
    return 0;
}

static void
choose_watchers(void)
{
    if (watcher >= 0)
        return;
    watcher = PyDict_AddWatcher(on_dict_event);
    if (watcher < 0)
        PyErr_Clear(); /* all ids are taken: tags will do */
    else if (table_grow() < 0) {
        PyDict_ClearWatcher(watcher);
        PyErr_Clear();
        watcher = -1;
    }
    use_watchers = watcher >= 0;
}

#else

static const int watcher = -1;
void watch_init(Level *level, unsigned long long *events) { (void)level; (void)events; }
static void watch_remove(Watch *w) { (void)w; }
static int watch_add(Watch *w, PyObject *dict) { (void)w; (void)dict; return -1; }
static void choose_watchers(void) {}

#endif

#if HAS_DICT_TAGS

#define version_of(dict) (*dict_tag(dict))
#define can_be_recorded(tree) 1

#else

/* Of a dict without a watch a level without watchers knows nothing: it is always evaluated. */
static const uint64_t no_tag;
#define dict_tag(dict) (&no_tag)
#define can_be_recorded(tree) ((tree)->watchers)

/* A number for a dict, kept by a watch until the dict changes or dies. */
typedef struct {
    Watch watch;
    unsigned long long version;
} Versioned;

static unsigned long long
version_of(PyObject *dict)
{
    static unsigned long long clock;
    if (watcher < 0)
        return ++clock;
    for (Watch *w = *bucket_of(dict); w != NULL; w = w->next)
        if (w->dict == dict && w->level == NULL)
            return ((Versioned *)w)->version;
    Versioned *made = PyMem_Calloc(1, sizeof *made);
    if (made == NULL || dict_is_bypassed(dict) || watch_add(&made->watch, dict) < 0)
        PyMem_Free(made);
    else
        made->version = clock + 1;
    return ++clock;
}

#endif

/* ---- types ---- */

/* The version of a class and its bases, or 0 when it can have none. */
static unsigned
type_tag(PyTypeObject *type)
{
    if (type->tp_version_tag == 0)
        assign_type_tag(type);
    return type->tp_version_tag;
}

/* Remember a class's version; 0 when that isn't possible. */
static int
types_add(GuardTree *tree, PyTypeObject *type)
{
    for (Py_ssize_t i = 0; i < tree->n_types; i++)
        if (tree->types[i].type == type)
            return tree->types[i].tag == type->tp_version_tag;
    unsigned tag = type_tag(type);
    if (tag == 0 || tree->n_types == TYPE_TAGS)
        return 0;
    tree->types[tree->n_types].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    tree->types[tree->n_types++].tag = tag;
    return 1;
}

int
types_unchanged(GuardTree *tree)
{
    for (Py_ssize_t i = 0; i < tree->n_types; i++)
        if (tree->types[i].type->tp_version_tag != tree->types[i].tag)
            return 0;
    return 1;
}

/* ---- dicts of instances ---- */

/* Make an instance's dict its attributes' only home. On 3.13 a dict may share
 * the instance's own storage, and attribute stores then bypass its watchers
 * and its tag; taking out the last item and putting it back ends the sharing.
 * Nothing but str keys is touched, so no user code runs. */
static PyObject *
separate_dict(PyObject *o)
{
    PyObject **slot = _PyObject_GetDictPtr(o); /* creates the dict of managed instances */
    if (slot == NULL || *slot == NULL)
        return NULL;
    PyObject *dict = *slot;
    if (dict_is_bypassed(dict) && PyDict_CheckExact(dict) && PyDict_GET_SIZE(dict) > 0) {
        PyObject *item = PyObject_CallMethod(dict, "popitem", NULL);
        if (item != NULL)
            PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
        Py_XDECREF(item);
        PyErr_Clear();
    }
    return dict_is_bypassed(dict) ? NULL : dict;
}

/* What a record depends on besides the type. */
typedef struct {
    PyObject **slot; /* where the dict is found, if that may be another one */
    PyObject *dict;  /* whose changes count, if any's do */
} Contents;

static int
attributes_of(PyObject *o, Contents *c)
{
    if (PyType_Check(o) || !(has_managed_dict(o) || Py_TYPE(o)->tp_dictoffset > 0))
        return 0; /* a slot that moves with the object's size has no address to compare */
    int collecting = PyGC_Disable(); /* on 3.11 allocating may run finalizers */
    c->dict = separate_dict(o);
    if (collecting)
        PyGC_Enable();
    c->slot = dict_slot(o);
    return c->dict != NULL;
}

static int
items_of(Level *level, PyObject *o, Contents *c)
{
    if (PyDict_Check(o)) {
        if ((level->uses & USES_ORDER) && PyObject_TypeCheck(o, &PyODict_Type))
            return 0;
        if (dict_is_bypassed(o))
            return 0;
        c->dict = o;
        return 1;
    }
    if (PyTuple_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o)) {
        level->pinned = 1;
        return 1;
    }
    return 0;
}

/* ---- arming ---- */

int32_t
level_room(const Level *level, int watchers)
{
    if (level->uses & USES_RAW)
        return 1;
    int has_dict = (level->uses & (USES_ATTRS | USES_ITEMS)) != 0;
    int32_t n = !level->fixed_type + ((level->uses & USES_ATTRS) != 0) + (has_dict && !watchers)
        + ((level->uses & USES_CODE) != 0);
    return n == 0 ? 1 : n;
}

void
level_forget(Level *level)
{
    level_void(level);
    watch_remove(&level->watch);
}

int
patience_ends(Patience *p, unsigned now, unsigned long_lived, unsigned most)
{
    if (p->wait > 0) {
        p->wait--;
        return 0;
    }
    if (p->made_at != 0) {
        unsigned lived = now - p->made_at;
        p->made_at = 0;
        p->penalty = lived > long_lived ? 0 : p->penalty < most ? p->penalty * 2 + 1 : most;
        if (p->penalty > 3) {
            p->wait = p->penalty;
            return 0;
        }
    }
    return 1;
}

#define LONG_LIVED 8 /* checks: a record that doesn't live so long isn't worth its watch */
#define LONGEST 1023

/* The words in the order in which they may be read: the type says that there is
 * a slot, the slot that the dict is alive. */
static void
write_words(GuardTree *tree, Level *level, const Contents *c)
{
    int32_t n = 0;
    if (!level->fixed_type)
        level->words[n++] = (Word){(const uint64_t *)&level->value->ob_type, (uint64_t)Py_TYPE(level->value)};
    if (c->slot != NULL)
        level->words[n++] = (Word){(const uint64_t *)c->slot, (uint64_t)c->dict};
    if (c->dict != NULL && !tree->watchers)
        level->words[n++] = (Word){dict_tag(c->dict), *dict_tag(c->dict)};
    if (level->uses & USES_CODE) { /* a function: its code has just been found */
        PyObject **code = &((PyFunctionObject *)level->value)->func_code;
        level->words[n++] = (Word){(const uint64_t *)code, (uint64_t)*code};
    }
    while (n < level->n_words)
        level->words[n++] = word_always;
}

/* A level has just passed: record what it depends on, if that has versions and
 * the value is likely to come again. */
void
level_arm(GuardTree *tree, Level *level)
{
    PyObject *o = level->value;
    if (level->seen != o) {
        level->seen = o; /* fresh objects are not worth a record */
        return;
    }
    if (!patience_ends(&level->patience, tree->calls, LONG_LIVED, LONGEST))
        return;
    level->pinned = (level->uses & (USES_CODE | USES_LIFE)) != 0;
    Contents found = {NULL, NULL};
    unsigned contents = level->uses & (USES_ATTRS | USES_ITEMS | USES_MRO);
    int known = contents == 0 ? 1
        : contents == USES_ATTRS ? attributes_of(o, &found)
        : contents == USES_ITEMS ? items_of(level, o, &found)
        : contents == USES_MRO ? PyType_Check(o) && types_add(tree, (PyTypeObject *)o)
        : 0; /* contents of two kinds have two versions: evaluated always */
    if (!known || ((level->uses & USES_BASES) && !types_add(tree, Py_TYPE(o))))
        return;
    if (found.dict != NULL
        && (!can_be_recorded(tree) || (tree->watchers && watch_add(&level->watch, found.dict) < 0)))
        return;
    if (tree->nodes[level->node].op == SOURCE_FIXED)
        level->pinned = 0; /* the tree keeps it alive */
    write_words(tree, level, &found);
    level->counted = rebindings.counted && !(level->uses & USES_CODE)
        && (found.slot == NULL || dict_is_counted(Py_TYPE(o)));
    level->tag = found.dict == NULL || tree->watchers ? NULL : dict_tag(found.dict);
    level->recorded = 1;
    tree->quiet.fresh |= !level->pinned; /* a pinned one may be, in each walk */
    patience_begins(&level->patience, tree->calls);
}

/* ---- module ---- */

static PyObject *
guard_versions(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(ignored))
{
    return PyUnicode_FromString(use_watchers ? "watchers" : HAS_DICT_TAGS ? "tags" : "nothing");
}

/* For tests: make trees that use tags where watchers are available. */
static PyObject *
guard_use_watchers(PyObject *Py_UNUSED(m), PyObject *arg)
{
    int on = PyObject_IsTrue(arg);
    if (on < 0)
        return NULL;
    use_watchers = on && watcher >= 0;
    return PyBool_FromLong(use_watchers);
}

static PyObject *
dict_version(PyObject *Py_UNUSED(m), PyObject *arg)
{
    if (!PyDict_Check(arg)) {
        PyErr_Format(PyExc_TypeError, "dict_version() needs a dict, not %.200s", Py_TYPE(arg)->tp_name);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(version_of(arg));
}

PyMethodDef version_functions[] = {
    {"dict_version", dict_version, METH_O, "dict_version(dict) -> a number that changes whenever the dict does"},
    {"guard_versions", guard_versions, METH_NOARGS, "how changes of dicts are noticed: 'tags' or 'watchers'"},
    {"guard_use_watchers", guard_use_watchers, METH_O, "guard_use_watchers(on) -> whether they are in use now"},
    {NULL},
};

int
watchers_in_use(void)
{
    return use_watchers;
}

int
versions_init(PyObject *Py_UNUSED(module))
{
    choose_watchers();
    return 0;
}
