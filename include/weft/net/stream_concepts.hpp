// What a stream of bytes is to those who read from it or write to it.
//
// Sockets, pipes and files are streams; so is whatever has these functions, a test's fake or a
// layer that encrypts. What is written against these concepts runs over all of them.
#pragma once

#include <weft/result.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace weft::net {

// read_some: at least one byte, in the front of what was given; none: the stream has ended.
template <class S>
concept Readable = requires(std::remove_reference_t<S>& stream, std::span<std::byte> room) {
  { stream.read_some(room) } -> std::same_as<Result<std::span<std::byte>>>;
};

// write_some: how many were taken, at least one if any were given. write_all: all of them.
template <class S>
concept Writable = requires(std::remove_reference_t<S>& stream, std::span<const std::byte> bytes) {
  { stream.write_some(bytes) } -> std::same_as<Result<std::size_t>>;
  { stream.write_all(bytes) } -> std::same_as<Result<void>>;
};

// Both, and the end of what is written can be told while there is more to be read.
template <class S>
concept Duplex = Readable<S> && Writable<S> && requires(std::remove_reference_t<S>& stream) {
  { stream.shutdown_write() } -> std::same_as<Result<void>>;
};

}  // namespace weft::net
