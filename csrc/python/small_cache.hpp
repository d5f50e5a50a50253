// The last few Python objects asked for, by identity. Guarded by the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

namespace ckdisp::python {

template <class Value>
class SmallCache {
 public:
  const Value* find(PyObject* key) const {
    for (const Slot& slot : slots_) {
      if (slot.key == key) return &slot.value;
    }
    return nullptr;
  }

  // Holds a reference to `key`, so that its address stays its own.
  const Value& insert(PyObject* key, Value value) {
    Slot& slot = slots_[next_++ % kSlots];
    Py_INCREF(key);
    Py_XDECREF(slot.key);
    slot = {key, value};
    return slot.value;
  }

 private:
  static constexpr std::size_t kSlots = 4;
  struct Slot {
    PyObject* key = nullptr;
    Value value{};
  };
  Slot slots_[kSlots];
  std::size_t next_ = 0;
};

}  // namespace ckdisp::python
