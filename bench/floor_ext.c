// The floor of the benchmark: the least a CPython extension type can do for a recorded operation.
//
// A tensor holds 1 or 4 floats inline. Operations fill the number slots directly; tensors and nodes
// come from free lists; a node holds what its derivative needs, by value. No shapes, no dtypes, no
// checks beyond the operand's type, no hooks, no provenance: nothing of this could serve a user. It
// answers to the few of PyTorch's names that the base cases use.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <string.h>

enum { kWidth = 4, kMaxFree = 4096 };

typedef enum { kLeaf, kAdd, kMul, kTanh, kSum } Kind;

typedef struct Node {
  struct Node* next[2];  // producers; NULL where no gradient is wanted
  struct Node* link;     // free list, and the work lists of backward and release
  int refs;
  int waiting;           // uses whose gradient has not arrived yet
  char kind;
  char seen;
  char has_grad;         // leaves only
  float grad[kWidth];
  float saved[2][kWidth];
} Node;

typedef struct Tensor {
  PyObject_HEAD
  Node* node;
  struct Tensor* link;
  int count;  // 1 or kWidth elements; one element is kept in all places, so it broadcasts for free
  float value[kWidth];
} Tensor;

static PyTypeObject* tensor_type;
static Node* free_nodes;
static Tensor* free_tensors;
static int free_node_count, free_tensor_count;

// --- nodes ---------------------------------------------------------------------------------------

static Node* new_node(Kind kind, Node* first, Node* second) {
  Node* node = free_nodes;
  if (node) {
    free_nodes = node->link;
    --free_node_count;
  } else if (!(node = malloc(sizeof(Node)))) {
    PyErr_NoMemory();
    return NULL;
  }
  node->next[0] = first;
  node->next[1] = second;
  if (first) ++first->refs;
  if (second) ++second->refs;
  node->refs = 1;
  node->waiting = 0;
  node->kind = (char)kind;
  node->seen = node->has_grad = 0;
  return node;
}

// Iterative: a chain of millions of nodes must not recurse.
static void release(Node* node) {
  Node* pending = NULL;
  if (node && --node->refs == 0) {
    node->link = NULL;
    pending = node;
  }
  while (pending) {
    Node* dead = pending;
    pending = dead->link;
    for (int i = 0; i < 2; ++i) {
      Node* producer = dead->next[i];
      if (producer && --producer->refs == 0) {
        producer->link = pending;
        pending = producer;
      }
    }
    if (free_node_count < kMaxFree) {
      dead->link = free_nodes;
      free_nodes = dead;
      ++free_node_count;
    } else {
      free(dead);
    }
  }
}

static void push_grads(Node* node) {
  const float* g = node->grad;
  for (int side = 0; side < 2; ++side) {
    Node* to = node->next[side];
    if (!to) continue;
    switch (node->kind) {
      case kAdd:
        for (int i = 0; i < kWidth; ++i) to->grad[i] += g[i];
        break;
      case kMul:
        for (int i = 0; i < kWidth; ++i) to->grad[i] += g[i] * node->saved[1 - side][i];
        break;
      case kTanh:
        for (int i = 0; i < kWidth; ++i)
          to->grad[i] += g[i] * (1.0f - node->saved[0][i] * node->saved[0][i]);
        break;
      case kSum:
        for (int i = 0; i < kWidth; ++i) to->grad[i] += g[0];
        break;
      default:
        break;
    }
  }
}

static void mark_seen(Node* node) {
  node->seen = 1;
  node->waiting = 0;
  if (node->kind != kLeaf || !node->has_grad) memset(node->grad, 0, sizeof node->grad);
  node->has_grad = 1;
}

static void run_backward(Node* root) {
  // First count how many gradients each node will receive, then hand them on in that order.
  root->link = NULL;
  mark_seen(root);
  for (Node* todo = root; todo;) {
    Node* node = todo;
    todo = node->link;
    for (int i = 0; i < 2; ++i) {
      Node* producer = node->next[i];
      if (!producer) continue;
      if (!producer->seen) {
        mark_seen(producer);
        producer->link = todo;
        todo = producer;
      }
      ++producer->waiting;
    }
  }
  for (int i = 0; i < kWidth; ++i) root->grad[i] = 1.0f;
  root->link = NULL;
  for (Node* ready = root; ready;) {
    Node* node = ready;
    ready = node->link;
    node->seen = 0;
    push_grads(node);
    for (int i = 0; i < 2; ++i) {
      Node* producer = node->next[i];
      if (producer && --producer->waiting == 0) {
        producer->link = ready;
        ready = producer;
      }
    }
  }
}

// --- tensors -------------------------------------------------------------------------------------

static Tensor* new_tensor(int count) {
  Tensor* t = free_tensors;
  if (t) {
    free_tensors = t->link;
    --free_tensor_count;
    PyObject_Init((PyObject*)t, tensor_type);
  } else if (!(t = PyObject_New(Tensor, tensor_type))) {
    return NULL;
  }
  t->node = NULL;
  t->count = count;
  return t;
}

static void tensor_dealloc(PyObject* self) {
  Tensor* t = (Tensor*)self;
  if (t->node) release(t->node);
  PyTypeObject* type = Py_TYPE(self);
  if (free_tensor_count < kMaxFree) {
    t->link = free_tensors;
    free_tensors = t;
    ++free_tensor_count;
  } else {
    PyObject_Free(t);
  }
  Py_DECREF(type);
}

typedef struct {
  float value[kWidth];
  Node* node;
  int count;
} Operand;

// 1 for a tensor or a Python number, 0 for anything else.
static inline int read_operand(PyObject* object, Operand* operand) {
  if (Py_IS_TYPE(object, tensor_type)) {
    const Tensor* t = (const Tensor*)object;
    memcpy(operand->value, t->value, sizeof operand->value);
    operand->node = t->node;
    operand->count = t->count;
    return 1;
  }
  if (PyFloat_CheckExact(object)) {
    const float number = (float)PyFloat_AS_DOUBLE(object);
    for (int i = 0; i < kWidth; ++i) operand->value[i] = number;
    operand->node = NULL;
    operand->count = 1;
    return 1;
  }
  return 0;
}

// Gives `result` its node; drops `result` where there is no memory for one.
static inline PyObject* recorded(Tensor* result, Kind kind, Node* first, Node* second,
                                 const float* save0, const float* save1) {
  if (first || second) {
    Node* node = new_node(kind, first, second);
    if (!node) {
      Py_DECREF(result);
      return NULL;
    }
    if (save0) memcpy(node->saved[0], save0, sizeof node->saved[0]);
    if (save1) memcpy(node->saved[1], save1, sizeof node->saved[1]);
    result->node = node;
  }
  return (PyObject*)result;
}

static PyObject* tensor_add(PyObject* left, PyObject* right) {
  Operand a, b;
  if (!read_operand(left, &a) || !read_operand(right, &b)) Py_RETURN_NOTIMPLEMENTED;
  Tensor* result = new_tensor(a.count > b.count ? a.count : b.count);
  if (!result) return NULL;
  for (int i = 0; i < kWidth; ++i) result->value[i] = a.value[i] + b.value[i];
  return recorded(result, kAdd, a.node, b.node, NULL, NULL);
}

static PyObject* tensor_mul(PyObject* left, PyObject* right) {
  Operand a, b;
  if (!read_operand(left, &a) || !read_operand(right, &b)) Py_RETURN_NOTIMPLEMENTED;
  Tensor* result = new_tensor(a.count > b.count ? a.count : b.count);
  if (!result) return NULL;
  for (int i = 0; i < kWidth; ++i) result->value[i] = a.value[i] * b.value[i];
  return recorded(result, kMul, a.node, b.node, a.value, b.value);
}

static PyObject* tensor_tanh(PyObject* self, PyObject* Py_UNUSED(none)) {
  const Tensor* t = (const Tensor*)self;
  Tensor* result = new_tensor(t->count);
  if (!result) return NULL;
  for (int i = 0; i < kWidth; ++i) result->value[i] = tanhf(t->value[i]);
  return recorded(result, kTanh, t->node, NULL, result->value, NULL);
}

static PyObject* tensor_sum(PyObject* self, PyObject* Py_UNUSED(none)) {
  const Tensor* t = (const Tensor*)self;
  Tensor* result = new_tensor(1);
  if (!result) return NULL;
  float total = 0.0f;
  for (int i = 0; i < t->count; ++i) total += t->value[i];
  for (int i = 0; i < kWidth; ++i) result->value[i] = total;
  return recorded(result, kSum, t->node, NULL, NULL, NULL);
}

static PyObject* tensor_backward(PyObject* self, PyObject* Py_UNUSED(none)) {
  const Tensor* t = (const Tensor*)self;
  if (!t->node) {
    PyErr_SetString(PyExc_RuntimeError, "this tensor does not require grad");
    return NULL;
  }
  run_backward(t->node);
  Py_RETURN_NONE;
}

static PyObject* tensor_requires_grad(PyObject* self, PyObject* Py_UNUSED(none)) {
  Tensor* t = (Tensor*)self;
  if (!t->node && !(t->node = new_node(kLeaf, NULL, NULL))) return NULL;
  return Py_NewRef(self);
}

static PyObject* tensor_tolist(PyObject* self, PyObject* Py_UNUSED(none)) {
  const Tensor* t = (const Tensor*)self;
  PyObject* list = PyList_New(t->count);
  for (int i = 0; list && i < t->count; ++i) {
    PyObject* number = PyFloat_FromDouble(t->value[i]);
    if (!number) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, i, number);
    }
  }
  return list;
}

static PyObject* get_grad(PyObject* self, void* Py_UNUSED(closure)) {
  const Tensor* t = (const Tensor*)self;
  if (!t->node || t->node->kind != kLeaf || !t->node->has_grad) Py_RETURN_NONE;
  Tensor* grad = new_tensor(t->count);
  if (!grad) return NULL;
  memcpy(grad->value, t->node->grad, sizeof grad->value);
  return (PyObject*)grad;
}

static int set_grad(PyObject* self, PyObject* value, void* Py_UNUSED(closure)) {
  Tensor* t = (Tensor*)self;
  if (value != Py_None) {
    PyErr_SetString(PyExc_TypeError, "the floor's grad can only be set to None");
    return -1;
  }
  if (t->node) t->node->has_grad = 0;
  return 0;
}

static PyMethodDef tensor_methods[] = {
    {"tanh", tensor_tanh, METH_NOARGS, NULL},
    {"sum", tensor_sum, METH_NOARGS, NULL},
    {"backward", tensor_backward, METH_NOARGS, NULL},
    {"requires_grad_", tensor_requires_grad, METH_NOARGS, NULL},
    {"tolist", tensor_tolist, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef tensor_getset[] = {{"grad", get_grad, set_grad, NULL, NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot tensor_slots[] = {{Py_nb_add, tensor_add},
                                     {Py_nb_multiply, tensor_mul},
                                     {Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_getset},
                                     {0, NULL}};

static PyType_Spec tensor_spec = {
    "floor_ext.Tensor", sizeof(Tensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

// --- module --------------------------------------------------------------------------------------

static PyObject* floor_full(PyObject* Py_UNUSED(module), PyObject* args) {
  Py_ssize_t length;
  float value;
  if (!PyArg_ParseTuple(args, "(n)f", &length, &value)) return NULL;
  if (length != kWidth) {
    PyErr_SetString(PyExc_ValueError, "the floor only has tensors of 4 floats");
    return NULL;
  }
  Tensor* t = new_tensor(kWidth);
  if (!t) return NULL;
  for (int i = 0; i < kWidth; ++i) t->value[i] = value;
  return (PyObject*)t;
}

static PyMethodDef module_methods[] = {{"full", floor_full, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "floor_ext", NULL, -1, module_methods,
                                 NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_floor_ext(void) {
  tensor_type = (PyTypeObject*)PyType_FromSpec(&tensor_spec);
  return tensor_type ? PyModule_Create(&module_def) : NULL;
}
