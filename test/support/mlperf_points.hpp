// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Epochs against the global batch: the reference convergence points of MLPerf training, each the
/// mean of several runs. Source: github.com/mlcommons/logging, mlperf_logging/rcp_checker,
/// training_1.0.0 and training_3.1.0.

#include <vector>

#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem::test {

struct MlperfBenchmark {
  char const* name;
  std::vector<EpochPoint> points;
};

/// Epochs; of BERT, millions of samples.
inline std::vector<MlperfBenchmark> mlperf_points() {
  return {
      {"ResNet-50",  // v1.5, LARS
       {{1632, 35.0},
        {2048, 38.4},
        {3264, 35.2},
        {4096, 40.0},
        {8192, 42.0},
        {13056, 44.75},
        {32768, 56.0},
        {49152, 68.0},
        {58880, 79.9},
        {65536, 84.5},
        {67840, 85.9}}},
      {"RNN-T",
       {{512, 42.05}, {1024, 44.6}, {1536, 48.9}, {2048, 56.5}, {3072, 65.1}, {6144, 96.1}}},
      {"SSD-ResNet34", {{1024, 50.0}, {2048, 65.2}, {4096, 87.0}}},
      {"RetinaNet",  // the file "ssd" of 3.1.0
       {{256, 4.0}, {512, 5.0}, {1024, 6.0}, {1280, 6.65}, {2048, 7.9}, {4096, 15.13}}},
      {"BERT",
       {{256, 2.553},
        {448, 2.625},
        {1536, 2.778},
        {3072, 2.768},
        {6144, 3.321},
        {8192, 4.191},
        {12288, 4.940}}},
      {"Mask R-CNN", {{48, 14.0}, {64, 14.6}, {96, 14.05}, {128, 14.0}, {256, 17.1}, {272, 17.1}}},
  };
}

}  // namespace tandem::test
