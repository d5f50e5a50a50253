// Maps the exceptions of the runtime to the classes of ckdisp.codegen.errors.
#include <ckdisp/errors.hpp>

#include <cstring>
#include <exception>

#include "bindings.hpp"

namespace ckdisp::python {
namespace {

void raise(const char* name, const std::exception& error) {
  const nb::object type = nb::module_::import_("ckdisp.codegen.errors").attr(name);
  // A path, or what the system says of a damaged file, may hold any bytes.
  const char* const what = error.what();
  const nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "backslashreplace"));
  if (text.is_valid()) PyErr_SetObject(type.ptr(), text.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InvalidKey& error) {
    raise("InvalidKey", error);
  } catch (const InvalidArgument& error) {
    raise("InvalidArgument", error);
  } catch (const UnsupportedProblem& error) {
    raise("UnsupportedProblem", error);
  } catch (const KernelNotFound& error) {
    raise("KernelNotFound", error);
  } catch (const LibraryError& error) {
    raise("LibraryError", error);
  } catch (const DeviceError& error) {
    raise("DeviceError", error);
  } catch (const Error& error) {
    raise("Error", error);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace ckdisp::python
