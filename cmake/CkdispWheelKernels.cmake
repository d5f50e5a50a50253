# The kernels that whoever builds the wheel asks for, in one library beside those for the CPU:
# pip install . --config-settings=cmake.define.CKDISP_KERNELS=spec.json
#               --config-settings=cmake.define.CKDISP_ARCHS="gfx942"

set(specs)
foreach(file IN LISTS CKDISP_KERNELS)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" NORMALIZE)
  if(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
    message(FATAL_ERROR "CKDISP_KERNELS: there is no spec file '${file}'. Name JSON or C++ files "
                        "that declare kernels; relative paths start at ${PROJECT_SOURCE_DIR}")
  endif()
  list(APPEND specs "${file}")
endforeach()

ckdisp_add_kernels(ckdisp_wheel_kernels SPEC ${specs} DRIVER cmake)
_ckdisp_limit_wheel(ckdisp_wheel_kernels)
install(TARGETS ckdisp_wheel_kernels LIBRARY DESTINATION "${CKDISP_INSTALL_PREBUILTDIR}")
