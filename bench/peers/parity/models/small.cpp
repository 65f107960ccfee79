// SPDX-License-Identifier: Apache-2.0

/// @file
/// Those of the library's models for small images that have no branches.

#include "../parity.hpp"

namespace tandem::bench::parity {

namespace {

struct Small : models::SmallCnn<10> {};
struct Vgg : models::Vgg16Bn<10> {};
struct ResNet20 : models::ResNet20<10> {};
struct ResNet18 : models::ResNet18<10> {};

Case const small{"small_cnn", &run<Small>};
Case const vgg{"vgg16_bn", &run<Vgg>};
Case const resnet20{"resnet20", &run<ResNet20>};
Case const resnet18{"resnet18", &run<ResNet18>};

}  // namespace

}  // namespace tandem::bench::parity
