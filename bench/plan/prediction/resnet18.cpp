// SPDX-License-Identifier: Apache-2.0

#include <tandem/models/resnet_cifar.hpp>

#include "predict.hpp"

namespace tandem::bench {

namespace {
struct CifarResNet18 : models::ResNet18<10> {};
}  // namespace

void predict_resnet18(std::vector<Prediction>& rows, PredictionSettings const& settings) {
  predict<CifarResNet18>(rows, "ResNet-18", settings);
}

}  // namespace tandem::bench
