# Where the parts of ckdisp go when it is installed. A wheel keeps everything inside its package
# folder, which scikit-build-core makes the install prefix; elsewhere the GNU folders are used.

if(CKDISP_IN_WHEEL)
  set(CKDISP_INSTALL_HOME ".")
  set(CKDISP_INSTALL_INCLUDEDIR "csrc/include")
  set(CKDISP_INSTALL_LIBDIR "lib")
  set(CKDISP_INSTALL_CMAKEDIR "cmake")
  set(CKDISP_INSTALL_PREBUILTDIR "prebuilt")
else()
  set(CKDISP_INSTALL_HOME "${CMAKE_INSTALL_DATADIR}/ckdisp")
  set(CKDISP_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
  set(CKDISP_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
  set(CKDISP_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/ckdisp")
  set(CKDISP_INSTALL_PREBUILTDIR "${CMAKE_INSTALL_LIBDIR}/ckdisp/prebuilt")
endif()
