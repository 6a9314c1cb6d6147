# liburing is optional: without it, or without what we use of it, all I/O is by epoll.
include(CheckCXXSourceCompiles)

if(WEFT_URING)
  set(CMAKE_REQUIRED_LIBRARIES uring)
  check_cxx_source_compiles("
    #include <liburing.h>
    int main() {
      io_uring_sqe entry{};
      io_uring_prep_cancel_fd(&entry, 0, IORING_ASYNC_CANCEL_ALL);
      io_uring_prep_multishot_accept(&entry, 0, nullptr, nullptr, IORING_RECVSEND_POLL_FIRST);
      return io_uring_enter2(0, IORING_SETUP_COOP_TASKRUN, 0, IORING_CQE_F_SOCK_NONEMPTY,
                             nullptr, 0);
    }" WEFT_FINDS_URING)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(WEFT_URING AND WEFT_FINDS_URING)
  set(WEFT_HAS_URING ON)
else()
  set(WEFT_HAS_URING OFF)
endif()
