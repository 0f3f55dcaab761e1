/* The guard tree: are the facts a trace relied on still true?
 *
 * guards_fetch.c    sources: read a value without running user code
 * guards_check.c    checks on one value
 * guards_expr.c     integer relations between symbols
 * guards_tensor.c   tensor metadata without torch headers
 * guards_calibrate.c  where torch keeps it
 * guards_state.c    torch's global state, likewise
 * guards_version.c  what makes a level skippable: tags and watchers
 * guards_quiet.c    what makes most levels not worth a look
 * rebinding.c       assignments of __dict__ and __class__, counted
 * guards_tree.c     evaluation
 * guards_lower.c    from guards to steps in order
 * guards_build.c    from steps to a tree
 * guards_demand.c   what a tree asks of a parameter, as a number
 * guards_type.c     the GuardTree type: lifetime and methods
 *
 * docs/guards.md explains the algorithm and why it never hides a change.
 */
#ifndef STATOR_GUARDS_H
#define STATOR_GUARDS_H

#include "native.h"

/* ---- what dispatch uses ---- */

extern PyTypeObject GuardTree_Type;

/* 1 when all guards of `tree` (a GuardTree) hold, 0 when one fails.
 *
 * `locals` are the bound parameters in co_varnames order, borrowed, NULL where
 * unbound; `function` is the function whose globals, builtins, closure and
 * defaults are sources. `known` is a number of guard_tree_state() whose guards
 * hold now, 0 if none is known. Never raises.
 */
int guard_tree_check(PyObject *tree, PyObject *const *locals, PyObject *function, unsigned known);

/* A number for the tree's guards on torch's state, which it shares with the trees
 * that have the same; 0 when it has none. */
unsigned guard_tree_state(PyObject *tree);

/* How many locals a tree reads: the highest index + 1. */
Py_ssize_t guard_tree_locals(PyObject *tree);

/* The values of the tree's outputs as a new tuple, NULL with MemoryError. Only
 * directly after a check that returned 1: until then and no longer the values
 * are known to be alive. A tuple is made each time and not kept, or the guards
 * would keep what belongs to the caller alive. */
PyObject *guard_tree_outputs(PyObject *tree);

/* The same, borrowed and where they are: output i is values[places[i]]. */
typedef struct {
    PyObject *const *values;
    const int32_t *places;
    Py_ssize_t n;
} Fetched;

Fetched guard_tree_fetched(PyObject *tree);

/* What a tree may demand of a parameter. */
typedef enum { DEMAND_SIZES, DEMAND_CONSTANT, DEMAND_OBJECT } DemandKind;

typedef struct {
    DemandKind kind;
    uint64_t number, keys; /* keys: of tensors, whose sizes the number is for */
    int64_t n_sizes;
} Demand;

/* 1 when there is a demand of that kind. */
int guard_tree_demand(PyObject *tree, Py_ssize_t parameter, DemandKind kind, Demand *out);
/* 1 and the number of what fulfils a demand; 0 for values that fulfil none; -1 when
 * that can't be told. Runs no Python. */
int demand_number(DemandKind kind, uint64_t keys, PyObject *value, uint64_t *number);

int guards_init(PyObject *module);

/* ---- the tree ---- */

/* How a node's value is read from its parent's. */
#define SOURCE_OPS(X)                                                                              \
    X(ROOT) X(LOCAL) X(FUNCTION) X(FIXED) X(CALL)                                                  \
    X(GLOBALS) X(BUILTINS) X(CLOSURE) X(DEFAULTS) X(KWDEFAULTS) X(CODE)                            \
    X(METHOD_FUNC) X(METHOD_SELF) X(CELL) X(SLOT) X(FIELD) X(REFERENT)                             \
    X(ATTR) X(MODULE_ATTR) X(CLASS_ATTR) X(TYPE) X(INDEX) X(KEY) X(KEY_AT) X(HELD) X(AHEAD)

/* What must be true of a value. */
#define CHECK_OPS(X)                                                                               \
    X(TYPE_IS) X(IS) X(IS_WEAK) X(IS_NOT) X(EQUAL) X(SUBTYPE)                                      \
    X(LENGTH) X(KEYS) X(HAS_KEY) X(NO_KEY) X(NO_ATTR) X(NO_CLASS_ATTR)                             \
    X(ATTR_KEYS) X(SLOT_EMPTY)                                                                     \
    X(TENSOR) X(ALIASED) X(DISTINCT) X(APART) X(RELATION) X(SAME) X(CALLBACK)

typedef enum {
#define X(name) SOURCE_##name,
    SOURCE_OPS(X)
#undef X
    SOURCE_COUNT
} SourceOp;

typedef enum {
#define X(name) CHECK_##name,
    CHECK_OPS(X)
#undef X
    CHECK_COUNT
} CheckOp;

/* What the outcome of a level's evaluation depends on. */
enum {
    USES_ATTRS = 1, /* the instance's dict */
    USES_ITEMS = 2, /* the items of a dict, list, tuple or set */
    USES_ORDER = 4, /* ... and their order */
    USES_MRO = 8,   /* the value is a class: its and its bases' dicts */
    USES_BASES = 16, /* the MRO of the value's type */
    USES_RAW = 32,  /* memory that has no version: slots, cells, defaults */
    USES_CODE = 64, /* a function's code, which must be one that the guards keep alive */
    USES_LIFE = 128, /* what an object has for life: a function's globals, a method's self */
};

struct TensorSpec;
struct Probe;

/* A tree has thousands of checks and nodes: what no operation needs at once
 * shares its place. */
typedef struct {
    CheckOp op;
    int32_t node;
    int32_t guard;   /* index into the guards the tree was made from */
    int32_t n_nodes;
    PyObject *arg;
    union {
        Py_ssize_t n;    /* LENGTH */
        Py_hash_t hash;  /* of arg, where arg is a key */
        int32_t *nodes;  /* n_nodes > 0: what a relation compares, a callback gets; in a tree: of values */
    };
    union {
        struct TensorSpec *spec; /* TENSOR */
        struct Program *program; /* RELATION */
        Py_ssize_t written;      /* APART: so many of the nodes, the first ones */
    };
} Check;

/* CALL: how the state is asked for. */
typedef struct {
    PyCFunction function; /* when it takes no arguments, */
    const struct Probe *probe; /* unless this says what it said */
    uint64_t answer;     /* when the checks held, */
    int settled;         /* if ever */
} StateCall;

typedef struct {
    SourceOp op;
    int32_t parent;
    int32_t level;       /* of the node's own contents, or -1 */
    int32_t guard;       /* the first guard that needs this node; ~i: output i does, no guard */
    Check *checks;       /* on the value itself */
    Check *tensors;
    int32_t n_checks;
    int16_t n_tensors;
    int16_t deferred;    /* tensor checks run in the flat loop after the levels */
    int32_t value;       /* where the tree keeps it, 0: nobody reads it again */
    int32_t hint;        /* where the attribute was found last time */
    PyObject *key;
    union {
        Py_ssize_t index;
        Py_hash_t hash;  /* of key */
        StateCall *state;
    };
} Node;

/* A word of memory, and what it held when the level it belongs to was last
 * evaluated. While all its words do, a level is skipped: these are its record.
 * They are the value's type, where its dict is found, and, where there are no
 * watchers, the dict's version; fewer if some of that can't change. */
typedef struct {
    const uint64_t *at;
    uint64_t expected;
} Word;

_Static_assert(sizeof(void *) == sizeof(uint64_t), "words hold pointers");

/* What is made when it seems worth it, and may turn out not to live long: then it is
 * waited longer for before the next one is made. */
typedef struct {
    unsigned made_at, wait, penalty; /* counted in checks; made_at 0: none since */
} Patience;

struct Level;

/* One dict whose changes void one record. */
typedef struct Watch {
#if HAS_DICT_WATCHERS
    struct Watch *next, **link; /* in its bucket of the watch table; link NULL: none */
    PyObject *dict;
    struct Level *level;
    unsigned long long *events; /* of the tree */
#endif
} Watch;

/* The contents of one node: its children and the checks on what it contains. */
typedef struct Level {
    int32_t node;
    unsigned uses;
    PyObject *value;     /* borrowed: the level above, which is verified first, holds it */
    Word *words;         /* its part of the tree's; the first one never holds while there is no record */
    int32_t n_words;
    int recorded;
    int fixed_type;      /* a check on the value settles its type as long as it lives */
    int32_t *children;
    int32_t n_children;
    Check *checks;
    int32_t n_checks;
    int pinned;          /* recorded without a version: stale once the parent is evaluated */
    int counted;         /* recorded, and its type and dict are replaced by setters that count */
    int holding;         /* its children are the objects they were as long as its record holds */
    const uint64_t *tag; /* recorded, without watchers: its dict's version */
    PyObject *seen;      /* value at the last evaluation; compared, never used */
    Patience patience;   /* with its records */
    Watch watch;
} Level;

/* The part of an impl that tells what a tensor is like, two words at a time. */
#define IMAGE_PAIRS 8
typedef uint64_t Pair __attribute__((vector_size(16), aligned(8), may_alias));
typedef struct {
    Pair pairs[IMAGE_PAIRS];
} Image;

/* A tensor that matched, where nothing but its impl need be looked at: it must be as
 * it was. The image holds more than is asked for, so a difference says nothing. */
typedef struct {
    const char *impl;
    const Image *image;
    int requires_grad;       /* as in its spec */
} KnownTensor;

/* What to look at while nothing is known to have changed: the address of a dict's
 * version, or a level whose words count. Level 0, the root's, ends the list. */
#define LOOK_AT_LEVEL(i) ((uintptr_t)(i) << 1 | 1)
#define LOOK_NO_FURTHER LOOK_AT_LEVEL(0)

typedef struct {
    int on;               /* the list stands for all levels while the counts are these */
    uint64_t rebindings;
    unsigned long long events;
    uint64_t stamp;       /* no dict's version is younger */
    int32_t *order;       /* of levels, in which they are looked at; NULL: not yet made */
    uintptr_t *looks;
    Patience patience;    /* with its lists */
    unsigned long long evaluated, walk; /* levels, until the last walk and in it, */
    int fresh;            /* of which some were recorded: more may be in the next */
    int listed;           /* the tests are: */
    KnownTensor *known;   /* of tensors that have the impl they had; NULL: not yet made */
    Image *images;        /* what they are like; in the same block of memory */
    int32_t *others;      /* numbers of those that are not known; there, too */
    Py_ssize_t n_known, n_others;
} Quiet;

/* A tensor check that is run after the levels, since its node's level may have
 * been skipped. */
typedef struct {
    struct TensorSpec *spec;
    int32_t value, guard;
    int32_t level;           /* which the tensor is reached from */
    const char *impl, *meta; /* where what is read of the tensor was the last time; only compared */
} TensorTest;

typedef struct {
    PyTypeObject *type;
    unsigned tag;
} TypeTag;

#define TYPE_TAGS 64

typedef struct {
    PyObject_HEAD
    int alive;            /* 0 once cleared by the garbage collector */
    int shortcuts;        /* levels may be skipped */
    int flat;             /* only checks on parameters themselves: one loop does */
    unsigned state;       /* the number of its guards on torch's state */
    int32_t n_states;     /* so many of the root's children, the first ones, are that */
    int32_t first_child;  /* of the root's, in this check */
    int watchers;         /* dict changes are events; otherwise tags are compared */
    Py_ssize_t n_nodes, n_levels, n_checks, n_locals, n_outputs;
    Node *nodes;          /* in preorder; 0 is the root */
    PyObject **values;    /* of nodes that are read again: borrowed, current when the parent's level is */
    Level *levels;        /* in preorder; 0 is the root's */
    Word *words;          /* of the levels but the root's, in order, and one that never holds */
    int32_t *word_levels; /* whose they are */
    Check *checks;        /* all, grouped by what runs them */
    int32_t *children;
    Check *tensors;
    Py_ssize_t n_tensors;
    TensorTest *tests;    /* those of them that are native and run after the levels */
    Py_ssize_t n_tests;
    int foreign_tensors;  /* some of them run Python code */
    struct TensorSpec **specs; /* what tensors must be like, each once */
    Py_ssize_t n_specs;
    Check *posts;         /* relations between nodes, then callbacks */
    Py_ssize_t n_posts, n_callbacks;
    int32_t *outputs;     /* of values */
    PyObject **distinct;  /* scratch hash table of the DISTINCT checks */
    size_t distinct_mask;
    TypeTag types[TYPE_TAGS];
    Py_ssize_t n_types;
    Quiet quiet;
    PyObject *explainer;
    PyObject *weakrefs;
    unsigned calls;
    unsigned long long checked, evaluated, callbacks_run, events;
    int explaining;
    int32_t failed_guard; /* set when a check fails */
    PyObject *failed_value; /* owned while explaining */
} GuardTree;

/* ---- guards_tree.c ---- */

int tree_is_flat(const GuardTree *t);

/* ---- guards_fetch.c ---- */

/* 1 and a borrowed value; 0 when absent; -1 when only user code could tell. */
int dict_find(PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value);
int dict_entry(PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **found, PyObject **value);
int keys_equal(PyObject *a, PyObject *b);
int instance_find(PyObject *o, PyObject *name, Py_hash_t hash, int32_t *hint, PyObject **value);
/* Where a slot's value is, if the object has the slot. */
PyObject **slot_of(PyObject *descriptor, PyObject *o);
int is_deque(PyObject *o);
Py_ssize_t deque_length(PyObject *deque);
int fetch_init(void);
PyObject *fetch(Node *node, PyObject *base, PyObject *const *locals, PyObject *function);
unsigned source_uses(SourceOp op);

/* ---- guards_check.c ---- */

int typed_equal(PyObject *constant, PyObject *value);
int constant_supported(PyObject *o);
int check_value(const Check *c, PyObject *value);
int check_contents(const Check *c, PyObject *value);
Py_ssize_t length_of(PyObject *value);
unsigned check_uses(const Check *c);

/* ---- guards_expr.c ---- */

typedef struct Program Program;
#define RELATION_NODES 64
extern const char *const expr_names[];
Program *program_new(PyObject *code, Py_ssize_t n_nodes);
void program_free(Program *p);
int program_reads_tensors(const Program *p);
int program_holds(const Program *p, PyObject *const *values);

/* ---- guards_tensor.c ---- */

typedef struct TensorSpec TensorSpec;
TensorSpec *tensor_spec_new(PyObject *arg);
void tensor_spec_free(TensorSpec *s);
int tensor_spec_traverse(TensorSpec *s, visitproc visit, void *arg);
/* The same as another, which may stand for it? */
int tensor_spec_same(const TensorSpec *a, const TensorSpec *b);
size_t tensor_spec_hash(const TensorSpec *s);
PyObject *tensor_spec_description(const TensorSpec *s); /* borrowed */
/* All sizes, if it settles them; NULL otherwise, and for those that Python matches. */
const int64_t *tensor_spec_sizes(const TensorSpec *s, int64_t *n, uint64_t *keys);
int tensor_matches(TensorSpec *s, PyObject *value);
/* The first of native tests that fails, `end` if none. */
TensorTest *tensors_failing(TensorTest *test, TensorTest *end, PyObject *const *values);

/* Can the tensor of a test that held be told by its impl? Images that many have are
 * there once, or a few times; `n` grows by one at most. */
int tensor_is_known(const TensorTest *test, Image *images, Py_ssize_t *n, KnownTensor *out);
/* The first one that is not as it was, `end` if none. */
const KnownTensor *tensors_changed(const KnownTensor *known, const KnownTensor *end);
int tensors_are_native(void);
/* Can it be checked, can its sizes be read, without running Python? */
int tensor_spec_is_native(const TensorSpec *s);
int tensor_spec_may_be_native(const TensorSpec *s); /* ... if torch is one that we can read */
int tensor_is_native(PyObject *tensor);
/* Whether torch warns if it is asked for the gradient: a tensor that is no leaf. */
int grad_warns(PyObject *o);
int tensor_extent(PyObject *tensor, int strides, Py_ssize_t dim, int64_t *out);
int tensor_offset(PyObject *tensor, int64_t *out);
/* APART: can it be checked without running Python, and does it hold? */
int tensor_has_storage(PyObject *tensor);
int tensors_apart(PyObject *const *tensors, Py_ssize_t n, Py_ssize_t written, uintptr_t *table, size_t mask);
extern PyMethodDef tensor_functions[], calibration_functions[];

/* ---- guards_state.c ---- */

typedef struct Probe Probe;
const Probe *probe_of(PyObject *capsule);
/* 0 and the tree's number, or -1 with an exception. */
int state_number(GuardTree *t);
uint64_t probe_ask(const Probe *p);
int probe_settles(const Probe *p, uint64_t answer);
extern PyMethodDef state_functions[];

/* ---- guards_version.c ---- */

int32_t level_room(const Level *level, int watchers); /* how many words it may need */
void level_arm(GuardTree *tree, Level *level);
/* Is it time for the next one? One that lived longer than `long_lived` checks was worth it;
 * `most` is for how many one waits at most, 2**n - 1. */
int patience_ends(Patience *p, unsigned now, unsigned long_lived, unsigned most);
static inline void
patience_begins(Patience *p, unsigned now)
{
    p->made_at = now | 1;
}
void level_forget(Level *level);
void watch_init(Level *level, unsigned long long *events);
extern const Word word_never;
int types_unchanged(GuardTree *tree);
int versions_init(PyObject *module);
extern PyMethodDef version_functions[];
int watchers_in_use(void);

/* ---- guards_quiet.c ---- */

void tree_settle(GuardTree *t); /* after a walk that passed */
/* In a check whose levels passed quietly: are the tensors as they were when they
 * were listed? And list them, after their tests held. */
int quiet_tensors_hold(GuardTree *t);
void quiet_tensors_list(GuardTree *t);
extern PyMethodDef quiet_functions[];

/* ---- rebinding.c ---- */

typedef struct {
    int counted;          /* at all */
    int swaps;            /* of tensors' impls, too */
    uint64_t count, under_way;
} Rebindings;

extern Rebindings rebindings;
int rebindings_init(void);
int rebindings_count_calls(PyObject *function); /* 1 if they are counted */
int dict_is_counted(PyTypeObject *type); /* of its instances */

/* ---- guards_lower.c ---- */

/* Which part of a tree runs a check. */
enum { BY_NODE, BY_LEVEL, BY_TENSORS, BY_POSTS, BY_CALLBACKS };

/* One step of the guards' sources. */
typedef struct {
    int op;
    int32_t parent;
    PyObject *argument;
    size_t hash;               /* of what the step means */
    int32_t child, last, next; /* the first and the last child, the next sibling; -1: none */
    int32_t number;            /* in preorder */
    int cost;                  /* of the cheapest check on it */
} Step;

typedef struct {
    int op, cost;
    int32_t node, guard;
    PyObject *argument;
    int32_t *nodes;            /* of a relation */
    Py_ssize_t n_nodes;
    uint64_t key;              /* where it belongs */
} LoweredCheck;

typedef struct {
    PyTypeObject *type;
    int op, cost;
} LoweredClass;

typedef struct {
    PyObject *source;
    int32_t step;
} KnownSource;

/* A check that others like it are replaced by. */
typedef struct {
    PyObject *check, *argument;
} KnownCheck;

#define LOWERED_CLASSES 64

/* Guards while they become a tree. Nodes of checks and outputs are numbers in
 * preorder once lower() has returned; order[i] is the step with number i. */
typedef struct {
    Step *steps;
    Py_ssize_t n_steps, steps_room;
    int32_t *order;
    LoweredCheck *checks;
    Py_ssize_t n_checks;
    int32_t *outputs;
    Py_ssize_t n_outputs;
    int32_t *by_meaning;       /* hash table of steps */
    KnownSource *by_source;    /* hash table of sources, of the same size */
    size_t mask;
    Py_ssize_t n_sources;
    PyObject **path;
    Py_ssize_t path_room;
    LoweredClass classes[LOWERED_CLASSES];
    KnownCheck *known;         /* hash table */
    size_t known_mask;
    struct TensorSpec **specs; /* hash table of the tree's */
    size_t specs_mask;
} Lowering;

int lower(Lowering *l, PyObject *guards, PyObject *outputs); /* 0, or -1 with an exception */
void lowering_free(Lowering *l);
int replace_check(PyObject *guard, PyObject *check);
int lowering_init(void);

/* ---- guards_build.c ---- */

int check_part(CheckOp op);
int tree_fill(GuardTree *tree, PyObject *guards, PyObject *outputs);

/* ---- guards_type.c ---- */

void tree_forget(GuardTree *tree); /* all records */

#endif
