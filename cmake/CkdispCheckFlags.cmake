# Whether the C++ compiler takes flags. CMake keeps the answer, so it must be a definite one.

include_guard(GLOBAL)
include(CheckCXXCompilerFlag)

# ckdisp_check_flags(<flags> <result>)
#
# A "no" counts if it is given before and after the compiler has worked without the flags. A
# compiler that does not work without them, since a disk is full or a limit of the system is
# reached, has given no answer: configuring stops, and asks again the next time.
function(ckdisp_check_flags flags result)
  if(DEFINED CACHE{${result}})
    return()
  endif()
  check_cxx_compiler_flag("${flags}" ${result})
  if(${result})
    return()
  endif()
  unset(${result} CACHE)
  unset(ckdisp_compiler_works CACHE)
  check_cxx_compiler_flag("" ckdisp_compiler_works)
  set(works "${ckdisp_compiler_works}")
  unset(ckdisp_compiler_works CACHE)
  if(NOT works)
    message(FATAL_ERROR
      "ckdisp: ${CMAKE_CXX_COMPILER} compiles nothing at the moment, so whether it takes '${flags}' "
      "is not known. Free space, memory or processes, and configure again")
  endif()
  check_cxx_compiler_flag("${flags}" ${result})
endfunction()
