# Install rules and the CMake package, for wheels and for `cmake --install` alike.

include(CMakePackageConfigHelpers)

install(TARGETS ckdisp_headers ckdisp_runtime EXPORT ckdispTargets
        ARCHIVE DESTINATION "${CKDISP_INSTALL_LIBDIR}")
install(EXPORT ckdispTargets NAMESPACE ckdisp:: DESTINATION "${CKDISP_INSTALL_CMAKEDIR}")

install(DIRECTORY csrc/include/ "${generated_include_dir}/"
        DESTINATION "${CKDISP_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY csrc/device csrc/providers DESTINATION "${CKDISP_INSTALL_HOME}/csrc"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.hip" PATTERN "*.S")
if(NOT CKDISP_IN_WHEEL) # a wheel gets its Python files from scikit-build-core
  install(DIRECTORY codegen DESTINATION "${CKDISP_INSTALL_HOME}"
          PATTERN "__pycache__" EXCLUDE)
endif()

if(SKBUILD_STATE STREQUAL "editable") # the generator and its headers stay in the source tree
  set(CKDISP_INSTALL_CODEGEN "${PROJECT_SOURCE_DIR}/codegen")
  set(CKDISP_INSTALL_SOURCES "${PROJECT_SOURCE_DIR}/csrc")
  set(CKDISP_EDITABLE_INCLUDES "\"${PROJECT_SOURCE_DIR}/csrc/include\"")
else()
  set(CKDISP_INSTALL_CODEGEN "${CKDISP_INSTALL_HOME}/codegen")
  set(CKDISP_INSTALL_SOURCES "${CKDISP_INSTALL_HOME}/csrc")
endif()
configure_package_config_file(
  cmake/ckdispConfig.cmake.in "${PROJECT_BINARY_DIR}/package/ckdispConfig.cmake"
  INSTALL_DESTINATION "${CKDISP_INSTALL_CMAKEDIR}"
  PATH_VARS CKDISP_INSTALL_SOURCES CKDISP_INSTALL_CODEGEN CKDISP_INSTALL_INCLUDEDIR
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/ckdispConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/package/ckdispConfig.cmake"
        "${PROJECT_BINARY_DIR}/package/ckdispConfigVersion.cmake" cmake/CkdispKernels.cmake
        cmake/ckdisp_codegen.py cmake/ckdisp_ninja.py
  DESTINATION "${CKDISP_INSTALL_CMAKEDIR}")
