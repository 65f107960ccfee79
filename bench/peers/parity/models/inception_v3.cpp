// SPDX-License-Identifier: Apache-2.0

/// @file
/// Inception-V3, on images of half the size, so that two cores can compute it in fp64.

#include "../parity.hpp"

namespace tandem::bench::parity {

namespace {

struct Net : Network<Image<3, 139, 139>, models::InceptionV3<10>::body> {};

Case const net{"inception_v3", &run<Net>};

}  // namespace

}  // namespace tandem::bench::parity
