# `find_package(weft)` and `pkg-config weft` for whoever installs the library.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp)
install(TARGETS weft EXPORT weftTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${package_dir})

configure_package_config_file(cmake/weftConfig.cmake.in weftConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix in the .pc file is relative to the file itself, so that `cmake --install --prefix` and
# a moved tree work. The flags are the target's public ones.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_to_prefix)
set(pc_cflags "-DWEFT_SPEC_ASSERT=$<BOOL:${WEFT_SPEC_ASSERT}>")
if(WEFT_HAS_STACK_CLASH_PROTECTION)
  string(APPEND pc_cflags " -fstack-clash-protection")
endif()
set(pc_libs "")
if(WEFT_HAS_URING)
  set(pc_libs "-luring ")
endif()
configure_file(cmake/weft.pc.in weft.pc.configured @ONLY)
file(GENERATE OUTPUT weft.pc INPUT ${CMAKE_CURRENT_BINARY_DIR}/weft.pc.configured)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
