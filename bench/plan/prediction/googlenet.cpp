// SPDX-License-Identifier: Apache-2.0

#include <tandem/models/googlenet.hpp>

#include "predict.hpp"

namespace tandem::bench {

namespace {
struct CifarGoogLeNet : models::GoogLeNet<10> {};
}  // namespace

void predict_googlenet(std::vector<Prediction>& rows, PredictionSettings const& settings) {
  predict<CifarGoogLeNet>(rows, "GoogLeNet", settings);
}

}  // namespace tandem::bench
