# Builds the consumer in one of three ways and runs it. See CMakeLists.txt for the variables.

set(consumer ${CMAKE_CURRENT_LIST_DIR}/consumer)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})

if(way STREQUAL "pkg_config")
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${libdir}/pkgconfig)
  execute_process(COMMAND pkg-config --cflags --libs weft
    OUTPUT_VARIABLE pkg_flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(all_flags UNIX_COMMAND "${flags} ${pkg_flags}")
  run(${compiler} -std=c++20 ${consumer}/main.cpp ${all_flags} -o ${scratch}/consumer)
else()
  if(way STREQUAL "find_package")
    set(source_of_weft -D CMAKE_PREFIX_PATH=${prefix})
  else()
    set(source_of_weft -D WEFT_SOURCE=${weft_source})
    # As many projects build all that is theirs.
    if(NOT flags MATCHES "-fsanitize" AND NOT compiler MATCHES "clang")
      string(APPEND flags " -flto=auto -fvisibility=hidden")
    endif()
  endif()
  run(${CMAKE_COMMAND} -G Ninja -S ${consumer} -B ${scratch} ${source_of_weft}
    -D CMAKE_CXX_COMPILER=${compiler}
    -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher}
    -D CMAKE_CXX_FLAGS=${flags})
  run(${CMAKE_COMMAND} --build ${scratch} --parallel 2)
endif()

set(ENV{LD_LIBRARY_PATH} ${prefix}/${libdir})  # for a shared library outside the usual places
execute_process(COMMAND ${scratch}/consumer
  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "^(warp\nweft|weft\nwarp)\ncloth\n$")
  message(FATAL_ERROR "the consumer printed\n${output}")
endif()
