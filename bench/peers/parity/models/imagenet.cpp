// SPDX-License-Identifier: Apache-2.0

/// @file
/// Those for images of ImageNet, on smaller ones, so that two cores can compute them in fp64.

#include "../parity.hpp"

namespace tandem::bench::parity {

namespace {

struct Vgg : Network<Image<3, 32, 32>, models::Vgg16<10>::body> {};
struct ResNet50 : Network<Image<3, 64, 64>, models::ResNet50<10>::body> {};

Case const vgg{"vgg16", &run<Vgg>};
Case const resnet50{"resnet50", &run<ResNet50>};

}  // namespace

}  // namespace tandem::bench::parity
