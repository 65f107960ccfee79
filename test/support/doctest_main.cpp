// SPDX-License-Identifier: Apache-2.0
// doctest's main, compiled once for all unit tests, whose ranks' plans of memory are checked.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <memory_check/memory_check.hpp>
