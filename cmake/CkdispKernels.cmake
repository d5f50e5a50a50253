# ckdisp_add_kernels(): declare kernels in CMake, generate them while configuring, build them in the
# build tree. Used from the source tree, from a Python package and from an install prefix.

include_guard(GLOBAL)

set(CKDISP_ROCM_PATH "" CACHE PATH "ROCm for GPU kernels; default: it is searched for")
set(CKDISP_CK_INCLUDE "" CACHE PATH "Include folder of Composable Kernel; default: searched for")
set(CKDISP_ARCHS "" CACHE STRING "Architectures of kernels whose declaration names none")

# Tell the commands below where the parts of this copy of ckdisp are.
function(ckdisp_describe_package)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CODEGEN" "INCLUDES")
  set_property(GLOBAL PROPERTY CKDISP_CODEGEN_DIR "${arg_CODEGEN}")
  set_property(GLOBAL PROPERTY CKDISP_INCLUDE_DIRS "${arg_INCLUDES}")
endfunction()

# The Python that runs the generator: CKDISP_PYTHON_EXECUTABLE, else the one the project uses, else
# that of the environment ckdisp is installed in, else the one CMake finds.
function(_ckdisp_find_python out)
  get_property(python GLOBAL PROPERTY CKDISP_PYTHON_FOUND)
  if(NOT python)
    # <environment>/lib/python3.x/site-packages/ckdisp/cmake
    cmake_path(SET environment NORMALIZE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../../bin")
    if(CKDISP_PYTHON_EXECUTABLE)
      set(python "${CKDISP_PYTHON_EXECUTABLE}")
    elseif(Python_EXECUTABLE)
      set(python "${Python_EXECUTABLE}")
    elseif(CMAKE_CURRENT_FUNCTION_LIST_DIR MATCHES "/site-packages/ckdisp/cmake$"
           AND EXISTS "${environment}/python3")
      set(python "${environment}/python3")
    else()
      find_package(Python 3.11 COMPONENTS Interpreter)
      if(NOT Python_Interpreter_FOUND)
        message(FATAL_ERROR "ckdisp: no Python 3.11 or newer was found, and the kernel generator "
                            "needs one; set CKDISP_PYTHON_EXECUTABLE to its path")
      endif()
      set(python "${Python_EXECUTABLE}")
    endif()
    execute_process(
      COMMAND "${python}" -c "import sys, jinja2, ninja, numpy; assert sys.version_info >= (3, 11)"
      RESULT_VARIABLE status ERROR_VARIABLE text OUTPUT_QUIET)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "ckdisp: the kernel generator cannot run with ${python}:\n${text}\n"
                          "It needs Python 3.11 or newer with three packages. Install them with\n"
                          "  ${python} -m pip install jinja2 ninja numpy\n"
                          "or set CKDISP_PYTHON_EXECUTABLE to a Python that has them.")
    endif()
    set_property(GLOBAL PROPERTY CKDISP_PYTHON_FOUND "${python}")
  endif()
  set(${out} "${python}" PARENT_SCOPE)
endfunction()

# Run the generator; configuring stops with its message if it fails. Configuring starts again when
# the generator itself changes.
#
# The generator looks for ROCm and for the archs to build for in the environment. Variables of the
# project of the same names come first. What the environment once held is remembered: configuring
# again from another shell, or from a build, must not lose the compiler.
function(_ckdisp_run_generator)
  get_property(codegen GLOBAL PROPERTY CKDISP_CODEGEN_DIR)
  _ckdisp_find_python(python)
  file(GLOB_RECURSE inputs "${codegen}/*.py" "${codegen}/*.json" "${codegen}/*.j2")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
  set(environment)
  foreach(name IN ITEMS CKDISP_ROCM_PATH ROCM_PATH HIP_PATH CKDISP_CK_INCLUDE CKDISP_CK_PACKAGE
                        CKDISP_CUDA_PATH CUDA_HOME CUDA_PATH CKDISP_CUTLASS_INCLUDE
                        CKDISP_ARCHS CMAKE_HIP_ARCHITECTURES GPU_TARGETS AMDGPU_TARGETS
                        PYTORCH_ROCM_ARCH CMAKE_HIP_COMPILER_LAUNCHER
                        CMAKE_CUDA_COMPILER_LAUNCHER)
    if(NOT "$ENV{${name}}" STREQUAL "")
      set(CKDISP_ENVIRONMENT_${name} "$ENV{${name}}" CACHE INTERNAL "")
    endif()
    foreach(variable IN ITEMS ${name} CKDISP_ENVIRONMENT_${name})
      if(NOT "${${variable}}" STREQUAL "")
        list(JOIN ${variable} " " value)
        list(APPEND environment "${name}=${value}")
        break()
      endif()
    endforeach()
  endforeach()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env ${environment} "${python}"
            "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ckdisp_codegen.py" "${codegen}" ${ARGV}
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(STRIP "${text}" text)
  if(NOT status EQUAL 0)
    string(REPLACE "\n" "\n  " text "${text}") # CMake does not wrap indented lines
    message(FATAL_ERROR "ckdisp: generating kernels failed\n  ${text}")
  endif()
  string(REPLACE ";" "\\;" text "${text}")
  string(REPLACE "\n" ";" text "${text}")
  foreach(line IN LISTS text)
    if(line MATCHES "^warning: (.*)")
      message(WARNING "ckdisp: ${CMAKE_MATCH_1}")
    elseif(NOT line MATCHES " files written")
      message(STATUS "ckdisp: ${line}")
    endif()
  endforeach()
endfunction()

# Set `out` to the include folder of the Composable Kernel that CMake finds, or to nothing.
function(_ckdisp_find_composable_kernel out)
  set(${out} "" PARENT_SCOPE)
  find_package(composable_kernel QUIET)
  if(composable_kernel_FOUND)
    foreach(up IN ITEMS "../../.." "../.." "..")
      cmake_path(SET include NORMALIZE "${composable_kernel_DIR}/${up}/include")
      if(EXISTS "${include}/ck_tile/ops/gemm.hpp")
        set(${out} "${include}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endif()
endfunction()

# Write the generated public headers below `directory`.
function(ckdisp_write_cpp_view directory)
  _ckdisp_run_generator(cpp-view --out "${directory}")
endfunction()

# Set `out` to the CPU levels that the arguments name: names of levels, `cpu` or `native`.
function(ckdisp_cpu_levels out)
  get_property(codegen GLOBAL PROPERTY CKDISP_CODEGEN_DIR)
  _ckdisp_find_python(python)
  execute_process(
    COMMAND "${python}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ckdisp_codegen.py" "${codegen}"
            cpu-levels ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE error)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ckdisp: CKDISP_CPU_LEVELS: ${error}")
  endif()
  string(STRIP "${text}" text)
  string(REPLACE "\n" ";" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# A ninja for the generated graph. The one of the Python package is new enough to share the job
# slots of a `make -j`.
function(_ckdisp_find_ninja out)
  _ckdisp_find_python(python)
  execute_process(
    COMMAND "${python}" -c "import ninja, os; print(os.path.join(ninja.BIN_DIR, 'ninja'), end='')"
    OUTPUT_VARIABLE ninja COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${ninja}" PARENT_SCOPE)
endfunction()

# ckdisp_add_kernels(<target> [SPEC file...] [PRESET name...] [ARCHS arch...] [PROVIDER provider]
#                    [GROUP tile] [DRIVER ninja|cmake] [OUTPUT_DIRECTORY directory])
#
# Adds <target>, a shared kernel library. Link it, with ckdisp::runtime, and include <target>.hpp,
# or load the file $<TARGET_FILE:<target>> at run time.
#
# SPEC, PRESET       kernels to declare, in JSON files or by name; at least one
# ARCHS              architectures or CPU levels of kernels whose declaration names none; default:
#                    CKDISP_ARCHS and, for a provider of GPU kernels, CMAKE_HIP_ARCHITECTURES,
#                    GPU_TARGETS, AMDGPU_TARGETS, PYTORCH_ROCM_ARCH or the devices of this machine
# PROVIDER           only kernels of this provider
# GROUP              tile: GPU kernels that share a tile are compiled together; default: each alone
# DRIVER             ninja (default): the generated graph, run as one build step; cmake: every unit
#                    is a source of an ordinary CMake library
# OUTPUT_DIRECTORY   default: ${CMAKE_CURRENT_BINARY_DIR}/<target>
#
# Kernels for NVIDIA GPUs need nvcc, searched for in CKDISP_CUDA_PATH, CUDA_HOME, CUDA_PATH, the
# Python packages of CUDA, on PATH and in /usr/local/cuda, and the headers of CUTLASS, searched for
# in CKDISP_CUTLASS_INCLUDE and the Python package nvidia-cutlass.
#
# Kernels for AMD GPUs need a HIP compiler. ROCm is searched for in CKDISP_ROCM_PATH, ROCM_PATH, HIP_PATH,
# the Python package of ROCm, the hipcc on PATH and /opt/rocm; the headers of Composable Kernel in
# CKDISP_CK_INCLUDE, find_package(composable_kernel), ROCm and the Python package amd-aiter. Where
# there is none, these kernels are left out with a warning.
function(ckdisp_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROVIDER;GROUP;DRIVER;OUTPUT_DIRECTORY"
                        "SPEC;PRESET;ARCHS")
  _ckdisp_check_arguments("${target}")
  # A list may come in quotes: ARCHS "${CMAKE_HIP_ARCHITECTURES}".
  foreach(kind IN ITEMS PRESET ARCHS)
    string(REPLACE "\\;" ";" arg_${kind} "${arg_${kind}}")
  endforeach()
  if(NOT arg_ARCHS)
    set(arg_ARCHS ${CKDISP_ARCHS})
  endif()
  set(output "${arg_OUTPUT_DIRECTORY}")
  if(NOT output)
    set(output "${target}")
  endif()
  cmake_path(ABSOLUTE_PATH output BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" NORMALIZE)
  _ckdisp_claim_directory("${target}" "${output}")

  set(options --out "${output}" --name "${target}" --missing skip)
  foreach(file IN LISTS arg_SPEC)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    list(APPEND options --spec "${file}")
  endforeach()
  foreach(name IN LISTS arg_PRESET)
    list(APPEND options --preset "${name}")
  endforeach()
  foreach(arch IN LISTS arg_ARCHS)
    list(APPEND options --arch "${arch}")
  endforeach()
  if(arg_PROVIDER)
    list(APPEND options --provider "${arg_PROVIDER}")
  endif()
  if(arg_GROUP)
    list(APPEND options --group "${arg_GROUP}")
  endif()
  set(CKDISP_CK_PACKAGE)
  if(NOT CKDISP_CK_INCLUDE AND (NOT arg_ARCHS OR arg_ARCHS MATCHES "gfx|native"))
    _ckdisp_find_composable_kernel(CKDISP_CK_PACKAGE)
  endif()
  get_property(includes GLOBAL PROPERTY CKDISP_INCLUDE_DIRS)
  foreach(directory IN LISTS includes)
    list(APPEND options --include "${directory}")
  endforeach()

  if(arg_DRIVER STREQUAL "cmake")
    _ckdisp_kernels_by_cmake()
  else()
    _ckdisp_kernels_by_ninja()
  endif()
endfunction()

# ckdisp_install_kernels(<target> [DESTINATION directory] [COMPONENT component])
#
# Install the library of ckdisp_add_kernels(). `install(TARGETS)` takes real targets only, and with
# the ninja driver the library is an imported one.
function(ckdisp_install_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESTINATION;COMPONENT" "")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "ckdisp_install_kernels(${target}): cannot use "
                        "'${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'; the form is "
                        "ckdisp_install_kernels(target [DESTINATION directory] [COMPONENT name])")
  endif()
  if(NOT arg_DESTINATION)
    include(GNUInstallDirs)
    set(arg_DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
  set(component)
  if(arg_COMPONENT)
    set(component COMPONENT "${arg_COMPONENT}")
  endif()
  _ckdisp_limit_wheel("${target}" ${component})
  install(PROGRAMS "$<TARGET_FILE:${target}>" DESTINATION "${arg_DESTINATION}" ${component})
endfunction()

# Stop the installation into a wheel once its kernel libraries are above 2 GiB: indexes and zip files
# of wheels take no more, and loaders of code within 2 GiB of itself neither. Called before the
# library of `target` is installed; more arguments go to install().
function(_ckdisp_limit_wheel target)
  if(NOT DEFINED SKBUILD)
    return()
  endif()
  install(CODE "
    file(SIZE \"$<TARGET_FILE:${target}>\" bytes)
    if(NOT CKDISP_WHEEL_BYTES)
      set(CKDISP_WHEEL_BYTES 0)
    endif()
    math(EXPR CKDISP_WHEEL_BYTES \"\${CKDISP_WHEEL_BYTES} + \${bytes}\")
    math(EXPR megabytes \"\${CKDISP_WHEEL_BYTES} / 1048576\")
    message(STATUS \"ckdisp: ${target} has \${bytes} bytes, kernel libraries of the wheel so far \"
                   \"\${megabytes} MB\")
    if(CKDISP_WHEEL_BYTES GREATER 2147483648)
      message(FATAL_ERROR \"ckdisp: the kernel libraries of this wheel have \${megabytes} MB, and a \"
                          \"wheel takes at most 2048: build fewer archs, types or tiles, or several \"
                          \"wheels\")
    endif()" ${ARGN})
endfunction()

# Refuse wrong arguments of ckdisp_add_kernels() with what was wrong and the form to use.
macro(_ckdisp_check_arguments target)
  set(problem)
  if(NOT "${target}" MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    set(problem "the target is part of a C function's name, so it must be a C identifier")
  elseif("${target}" MATCHES "^(all|clean|help|install|preinstall|edit_cache|rebuild_cache)$"
         OR "${target}" MATCHES "^(ALL_BUILD|INSTALL|ZERO_CHECK)$")
    set(problem "CMake reserves the name; choose another target")
  elseif(TARGET "${target}")
    set(problem "a target of this name exists already")
  elseif(DEFINED arg_UNPARSED_ARGUMENTS)
    set(problem "unknown argument '${arg_UNPARSED_ARGUMENTS}'")
  elseif(DEFINED arg_KEYWORDS_MISSING_VALUES)
    set(problem "no value after '${arg_KEYWORDS_MISSING_VALUES}'")
  elseif(NOT DEFINED arg_SPEC AND NOT DEFINED arg_PRESET)
    set(problem "no kernels are declared; give SPEC with a JSON file, or PRESET with a name")
  elseif(DEFINED arg_GROUP AND NOT arg_GROUP STREQUAL "tile")
    set(problem "GROUP is tile, or left out, not '${arg_GROUP}'")
  elseif(DEFINED arg_DRIVER AND NOT arg_DRIVER MATCHES "^(ninja|cmake)$")
    set(problem "DRIVER is ninja or cmake, not '${arg_DRIVER}'")
  endif()
  foreach(file IN LISTS arg_SPEC)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    if(NOT problem AND NOT EXISTS "${file}")
      set(problem "there is no SPEC file '${file}'")
    endif()
  endforeach()
  if(problem)
    message(FATAL_ERROR
      "ckdisp_add_kernels(${target}): ${problem}.\nThe form is ckdisp_add_kernels(<target> "
      "[SPEC file...] [PRESET name...] [ARCHS arch...] [PROVIDER provider] [GROUP tile] "
      "[DRIVER ninja|cmake] [OUTPUT_DIRECTORY directory])")
  endif()
endmacro()

# Refuse a folder that is not for one set of kernels alone: another call of ours, CMake itself or
# the author of the project keeps files of the same names there.
function(_ckdisp_claim_directory target directory)
  cmake_path(APPEND directory "" OUTPUT_VARIABLE folder) # with one slash at the end
  set(taken "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}"
            "${CMAKE_CURRENT_BINARY_DIR}")
  list(TRANSFORM taken APPEND "/")
  get_property(claimed GLOBAL PROPERTY CKDISP_OUTPUT_DIRECTORIES)
  list(APPEND taken ${claimed})
  if(folder IN_LIST taken)
    message(FATAL_ERROR
      "ckdisp_add_kernels(${target}): OUTPUT_DIRECTORY '${directory}' is in use, as a source or "
      "build folder or by other kernels; give a folder of its own, or leave it away")
  endif()
  set_property(GLOBAL APPEND PROPERTY CKDISP_OUTPUT_DIRECTORIES "${folder}")
endfunction()

# The cmake driver: the generated CMakeLists.txt, whose target becomes one of this project.
macro(_ckdisp_kernels_by_cmake)
  _ckdisp_run_generator(generate ${options} --emit cmake)
  add_subdirectory("${output}" "${output}.cmake")
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${output}")
  target_link_libraries(${target} PUBLIC ckdisp::headers)
endmacro()

# The ninja driver: one build step that runs the generated graph, and an imported target for the
# library it makes.
macro(_ckdisp_kernels_by_ninja)
  list(APPEND options --emit ninja --cxx "${CMAKE_CXX_COMPILER}")
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    list(JOIN CMAKE_CXX_COMPILER_LAUNCHER " " launcher)
    list(APPEND options --launcher "${launcher}")
  endif()
  if(CMAKE_CXX_FLAGS)
    separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
    list(TRANSFORM flags PREPEND "--cxx-flag=")
    list(APPEND options ${flags})
  endif()
  _ckdisp_run_generator(generate ${options})
  _ckdisp_find_python(python)
  _ckdisp_find_ninja(ninja)
  file(GLOB sources "${output}/*.cpp" "${output}/*.txt" "${output}/units/*" "${output}/groups/*"
                    "${output}/host/*")
  set(library "${output}/${CMAKE_SHARED_LIBRARY_PREFIX}${target}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  set(stamp "${output}.stamp")
  # The stamp and its depfile keep a build with nothing to do from even starting the inner ninja.
  add_custom_command(
    OUTPUT "${stamp}"
    BYPRODUCTS "${library}"
    COMMAND "${python}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ckdisp_ninja.py" "${ninja}" "${output}"
            "${stamp}"
    DEPENDS ${sources} "${output}/build.ninja"
    DEPFILE "${stamp}.d"
    COMMENT "Building kernel library ${target}"
    VERBATIM USES_TERMINAL)
  add_custom_target(${target}_build ALL DEPENDS "${stamp}")
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${library}"
                                             IMPORTED_SONAME "lib${target}.so")
  target_include_directories(${target} INTERFACE "${output}/include")
  target_link_libraries(${target} INTERFACE ckdisp::headers)
  add_dependencies(${target} ${target}_build)
endmacro()
