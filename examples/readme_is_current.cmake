# Fails unless the README shows `example` word for word.

file(READ ${readme} readme_text)
file(READ ${example} example_text)
string(FIND "${readme_text}" "```cpp\n${example_text}```\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the example in ${readme} is not ${example}; copy it there")
endif()
