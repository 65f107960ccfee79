// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The networks of bench_strategies, for 3×32×32 images, and where each is cut in two.

#include <tandem/models/googlenet.hpp>
#include <tandem/models/vgg.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace tandem::bench {

struct CifarGoogLeNet : models::GoogLeNet<10> {
  using First = Split<5>;
  using Second = Split<9>;
};

struct CifarVgg : models::Vgg16Bn<10> {
  using First = Split<7>;
  using Second = Split<13>;
};

}  // namespace tandem::bench
