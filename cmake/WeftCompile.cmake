include(CheckCXXCompilerFlag)

check_cxx_compiler_flag(-fstack-clash-protection WEFT_HAS_STACK_CLASH_PROTECTION)

# How weft's own code is compiled: strict ISO C++20, warnings on. All of it is private to `target`.
# Warnings are errors only where weft is the top-level project: a new compiler must not break those
# who build weft as a part of theirs.
function(weft_compile_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    COMPILE_WARNING_AS_ERROR ${PROJECT_IS_TOP_LEVEL})
endfunction()

# ccache refuses what has to do with precompiled headers unless it is told that macros which only
# the command line defines, and __TIME__, may be taken on trust. Nothing of ours uses either.
set(weft_pch_launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
  list(PREPEND weft_pch_launcher env CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()

# weft_precompile_headers(<target> <arguments of target_precompile_headers>...)
function(weft_precompile_headers target)
  target_precompile_headers(${target} ${ARGN})
  set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER ${weft_pch_launcher})
  # ccache knows files by what they hold, clang would also want the times they had.
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()
