# The CPU kernel libraries inside a wheel, one for each CPU level; the runtime picks one by what the
# CPU reports. CKDISP_CPU_LEVELS names the levels: all, native (the best of this machine), or some.

include("${CMAKE_CURRENT_LIST_DIR}/CkdispCheckFlags.cmake")

if(CKDISP_CPU_LEVELS STREQUAL "all")
  set(levels generic)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND levels x86-64-v3 x86-64-v4 x86-64-v4-bf16 x86-64-v4-amx)
  endif()
else()
  ckdisp_cpu_levels(levels ${CKDISP_CPU_LEVELS})
endif()

# What the arch table says the compiler needs for a level.
file(READ codegen/arch/arches.json arches)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS codegen/arch/arches.json)

foreach(level IN LISTS levels)
  string(MAKE_C_IDENTIFIER "ckdisp_cpu_${level}" name)
  string(JSON flags GET "${arches}" arches ${level} compile_flags)
  string(REGEX REPLACE "[][\",\n ]+" " " flags "${flags}")
  ckdisp_check_flags("${flags}" ${name}_compiles)
  if(NOT ${name}_compiles)
    message(WARNING "ckdisp: ${CMAKE_CXX_COMPILER} cannot compile for the CPU level ${level}, so "
                    "the wheel goes without it and CPUs of that level use a lower one")
    continue()
  endif()
  ckdisp_add_kernels(${name} PRESET gemm.cpu_prebuilt conv.cpu_prebuilt fmha.cpu_prebuilt
                     ARCHS ${level} DRIVER cmake)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME "ckdisp_cpu_${level}")
  _ckdisp_limit_wheel(${name})
  install(TARGETS ${name} LIBRARY DESTINATION "${CKDISP_INSTALL_PREBUILTDIR}")
endforeach()
