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
