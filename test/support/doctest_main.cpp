// SPDX-License-Identifier: Apache-2.0
// doctest's main, compiled once for all unit tests, whose ranks' plans of memory are checked.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory_check/memory_check.hpp>

/// Stands before the C library's: tests do not wait for a disk, from which no test takes anything
/// that was written. A test that looks at flushes has a function of its own in its place.
extern "C" [[gnu::weak]] int fsync(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) < 0 ? -1 : 0;
}
