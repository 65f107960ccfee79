// SPDX-License-Identifier: Apache-2.0

/// @file
/// GoogLeNet.

#include "../parity.hpp"

namespace tandem::bench::parity {

namespace {

struct Net : models::GoogLeNet<10> {};

Case const net{"googlenet", &run<Net>};

}  // namespace

}  // namespace tandem::bench::parity
