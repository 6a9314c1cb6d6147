# Runs `program` (a list: path and arguments) and fails unless it exits with 0 and its standard
# output equals the file `expected`; with `unordered`, line by line in any order.

execute_process(COMMAND ${program} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ ${expected} wanted)

set(output_compared "${output}")
if(unordered)
  foreach(text output_compared wanted)
    string(REPLACE ";" "," ${text} "${${text}}")
    string(REPLACE "\n" ";" ${text} "${${text}}")
    list(SORT ${text})
  endforeach()
endif()
if(NOT output_compared STREQUAL wanted)
  message(FATAL_ERROR "expected the lines of ${expected}, got:\n${output}")
endif()
