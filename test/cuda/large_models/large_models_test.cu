// SPDX-License-Identifier: Apache-2.0

/// @file
/// The library's models for large images, on the smallest that their layers take: on a GPU what
/// they are on the host.

#include "../models/check_model.hpp"

namespace tandem::test {
namespace {

struct Residual18 : models::ResNet18<10> {};
struct Residual50 : Network<Image<3, 64, 64>, models::ResNet50<10>::body> {};  // ends with 2×2
struct Vgg : models::Vgg16Bn<10> {};
struct Inception : Network<Image<3, 107, 107>, models::InceptionV3<10>::body> {};  // likewise

TEST_CASE("ResNet-18") { check_model<Residual18, SingleDevice<>, SingleDevice<>>(); }
TEST_CASE("ResNet-50") { check_model<Residual50, SingleDevice<>, SingleDevice<>>(); }
TEST_CASE("VGG-16") { check_model<Vgg, SingleDevice<>, SingleDevice<>>(); }
TEST_CASE("Inception-V3") { check_model<Inception, SingleDevice<>, SingleDevice<>>(); }

}  // namespace
}  // namespace tandem::test
