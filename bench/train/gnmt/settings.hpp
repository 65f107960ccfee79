// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What bench_gnmt is asked for, its batches, and what its units do.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::bench::gnmt {

inline constexpr int vocabulary = 8000;
inline constexpr int longest = 50;
inline constexpr int hidden = 512;
inline constexpr int layers = 4;

struct Settings {
  std::string data;
  std::string kernels;
  std::string precision;
  int threads;
  int profile;
};

/// Sentences, what a decoder has said of their translations, and what it is to say next.
struct PairBatch {
  int time = 0;
  int second_time = 0;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> second_lengths;
  std::vector<std::int32_t> x;  // (B, time)
  std::vector<std::int32_t> second;
  std::vector<std::int32_t> targets;
};

/// A file of numbers in text: how many batches, the samples of each; then of each batch both times,
/// and its arrays in order.
void write_batches(std::string const& file, std::string const& source, std::string const& target,
                   int batch, int batches, int first);
std::vector<PairBatch> read_batches(std::string const& file);

void run_fp32(Settings const& settings);
void run_bf16(Settings const& settings);

}  // namespace tandem::bench::gnmt
