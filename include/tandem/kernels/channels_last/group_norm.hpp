// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Group norm over channels-last images; a vector is one pixel.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/functors/group_norm_geometry.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

inline constexpr int group_run = 256;  // channels whose sums stay in the first-level cache

/// Calls f(c, lanes) so that c, c + 1, … of all calls are [0, count), each once.
template <class Function>
[[gnu::always_inline]] inline void for_run(int count, Function const& f) {
  int c = 0;
  for (; c + lanes <= count; c += lanes) {
    f(c, AllLanes{});
  }
  if (c < count) {
    f(c, FirstLanes{count - c});
  }
}

/// total[i][c] = the sum over the pixels of term i, where f(p, c, lanes, term) gives the terms of
/// 16 channels: blocks of 64 pixels in float, the blocks in double.
template <std::size_t Sums, class Function>
[[gnu::always_inline]] inline void sum_pixels(std::int64_t pixels, int count,
                                              double (&total)[Sums][group_run], Function const& f) {
  constexpr std::int64_t block = 64;
  float sum[Sums][group_run];
  for (auto& each : total) {
    std::fill(each, each + count, 0.0);
  }
  for (std::int64_t start = 0; start < pixels; start += block) {
    for (auto& each : sum) {
      std::fill(each, each + count, 0.0F);
    }
    for (std::int64_t p = start; p < std::min(pixels, start + block); ++p) {
      for_run(count, [&](int c, auto some) {
        Floats term[Sums];
        f(p, c, some, term);
        for (std::size_t i = 0; i < Sums; ++i) {
          some.store(sum[i] + c, some.load(sum[i] + c) + term[i]);
        }
      });
    }
    for (std::size_t i = 0; i < Sums; ++i) {
      for (int c = 0; c < count; ++c) {
        total[i][c] += static_cast<double>(sum[i][c]);
      }
    }
  }
}

/// Some groups of a sample that one thread takes: one, or as many as have about 128 channels. Their
/// channels are taken group_run at a time.
struct GroupTask {
  static constexpr int most = 128;

  std::int64_t sample;
  int first_group;
  int groups;
  int width;

  static int groups_of(GroupNormGeometry const& g) { return std::max(1, most / g.width()); }
  static std::int64_t count(GroupNormGeometry const& g, int batch) {
    return batch * ((g.groups + groups_of(g) - 1) / groups_of(g));
  }
  TANDEM_ONCE GroupTask(GroupNormGeometry const& g, std::int64_t task);

  /// f(first channel of the sample, channels) for each run; a run of several groups is all of them.
  template <class Function>
  [[gnu::always_inline]] void each_run(Function const& f) const {
    for (int c = 0; c < groups * width; c += group_run) {
      f(first_group * width + c, std::min(group_run, groups * width - c));
    }
  }
  /// Which of the task's groups channel @p c of the sample is in.
  [[nodiscard]] int group_of(int c) const { return c / width - first_group; }
};

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, each group of channels of a sample by
/// its own mean and (biased) variance.
///
/// Shapes: x (B, pixels, C), gain, bias (C) or both null; y (B, pixels, C); saved (B, g.saved()).
/// Cost:   reads x three times, from a cache where a sample fits one, and writes y; bound by
///         memory.
/// Order:  of each channel blocks of 64 pixels in float, the blocks and then the channels of a
///         group in order, in double. A sample's bits do not depend on its batch.
/// Source: Wu, He, arXiv:1803.08494, section 3
template <class T, class P>
TANDEM_NOINLINE void group_norm_forward(Team& team, GroupNormGeometry const& g, int batch,
                                        T const* x, P const* gain, P const* bias, double epsilon,
                                        T* y, P* saved) {
  using detail::GroupTask;
  team.parallel_for(GroupTask::count(g, batch), [=](std::int64_t begin, std::int64_t end) {
    double total[1][detail::group_run];
    double of_group[GroupTask::most];
    float mean[detail::group_run];
    float scale[detail::group_run];
    float offset[detail::group_run];
    auto const count = static_cast<double>(g.elements());
    for (std::int64_t index = begin; index < end; ++index) {
      GroupTask const task{g, index};
      T const* const image = x + task.sample * g.pixels * g.channels;
      T* const to = y + task.sample * g.pixels * g.channels;
      GroupNormSaved<P> const own{g, saved, task.sample};
      // The sums over each group of the terms of f, a run at a time.
      auto const total_groups = [&](auto const& f) {
        std::fill(of_group, of_group + task.groups, 0.0);
        task.each_run([&](int first, int channels) {
          for (int c = 0; c < channels; ++c) {
            mean[c] = static_cast<float>(own.mean[(first + c) / task.width]);
          }
          detail::sum_pixels(g.pixels, channels, total,
                             [&](std::int64_t p, int c, auto some, Floats(&term)[1]) {
                               term[0] = f(some.load(image + p * g.channels + first + c), c, some);
                             });
          for (int c = 0; c < channels; ++c) {
            of_group[task.group_of(first + c)] += total[0][c];
          }
        });
      };
      P* const means = own.mean + task.first_group;
      std::fill(means, means + task.groups, P{0});
      total_groups([](Floats const& v, int /*c*/, auto /*some*/) { return v; });
      for (int k = 0; k < task.groups; ++k) {
        means[k] = static_cast<P>(of_group[k] / count);
      }
      total_groups([&](Floats const& v, int c, auto some) {
        Floats const distance = v - some.load(mean + c);
        return distance * distance;
      });
      for (int k = 0; k < task.groups; ++k) {
        own.inverse[task.first_group + k] =
            static_cast<P>(1.0 / std::sqrt(of_group[k] / count + epsilon));
      }
      task.each_run([&](int first, int channels) {
        for (int c = 0; c < channels; ++c) {
          int const group = (first + c) / task.width;
          mean[c] = static_cast<float>(own.mean[group]);
          auto const inverse = static_cast<float>(own.inverse[group]);
          scale[c] = gain != nullptr ? inverse * static_cast<float>(gain[first + c]) : inverse;
          offset[c] = bias != nullptr ? static_cast<float>(bias[first + c]) : 0.0F;
        }
        for (std::int64_t p = 0; p < g.pixels; ++p) {
          std::int64_t const at = p * g.channels + first;
          detail::for_run(channels, [&](int c, auto some) {
            Floats const distance = some.load(image + at + c) - some.load(mean + c);
            some.store(to + at + c, distance * some.load(scale + c) + some.load(offset + c));
          });
        }
      });
    }
  });
}

/// dx, unless it is null, and the sums of each sample and channel in @p saved that
/// host::group_norm_weight_gradient adds.
///
/// With g = dy gain: dx = (g - mean(g) - xhat mean(g xhat)) inverse.
///
/// Shapes: x, dy (B, pixels, C), gain (C) or null; dx (B, pixels, C), overwritten.
/// Cost:   reads x and dy twice, from a cache where a sample fits one, and writes dx; bound by
///         memory.
/// Order:  as group_norm_forward.
/// @pre    group_norm_forward has written @p saved
template <class T, class P>
TANDEM_NOINLINE void group_norm_gradient(Team& team, GroupNormGeometry const& g, int batch,
                                         T const* x, T const* dy, P const* gain, T* dx, P* saved) {
  using detail::GroupTask;
  team.parallel_for(GroupTask::count(g, batch), [=](std::int64_t begin, std::int64_t end) {
    double total[2][detail::group_run];
    double slope[GroupTask::most];
    double product[GroupTask::most];
    float mean[detail::group_run];
    float inverse[detail::group_run];
    float scale[detail::group_run];
    float mean_slope[detail::group_run];
    float mean_product[detail::group_run];
    auto const count = static_cast<double>(g.elements());
    for (std::int64_t index = begin; index < end; ++index) {
      GroupTask const task{g, index};
      std::int64_t const sample = task.sample * g.pixels * g.channels;
      GroupNormSaved<P> const own{g, saved, task.sample};
      auto const set = [&](int first, int channels) {
        for (int c = 0; c < channels; ++c) {
          int const group = (first + c) / task.width;
          mean[c] = static_cast<float>(own.mean[group]);
          inverse[c] = static_cast<float>(own.inverse[group]);
          scale[c] = gain != nullptr ? static_cast<float>(gain[first + c]) : 1.0F;
        }
      };
      std::fill(slope, slope + task.groups, 0.0);
      std::fill(product, product + task.groups, 0.0);
      task.each_run([&](int first, int channels) {
        set(first, channels);
        detail::sum_pixels(g.pixels, channels, total,
                           [&](std::int64_t p, int c, auto some, Floats(&term)[2]) {
                             std::int64_t const at = sample + p * g.channels + first + c;
                             Floats const xhat =
                                 (some.load(x + at) - some.load(mean + c)) * some.load(inverse + c);
                             term[0] = some.load(dy + at);
                             term[1] = term[0] * xhat;
                           });
        for (int c = 0; c < channels; ++c) {
          own.dy[first + c] = static_cast<P>(total[0][c]);
          own.dy_normalised[first + c] = static_cast<P>(total[1][c]);
          auto const weight = static_cast<double>(scale[c]);
          slope[task.group_of(first + c)] += weight * total[0][c];
          product[task.group_of(first + c)] += weight * total[1][c];
        }
      });
      if (dx == nullptr) {
        continue;
      }
      task.each_run([&](int first, int channels) {
        set(first, channels);
        for (int c = 0; c < channels; ++c) {
          mean_slope[c] = static_cast<float>(slope[task.group_of(first + c)] / count);
          mean_product[c] = static_cast<float>(product[task.group_of(first + c)] / count);
        }
        for (std::int64_t p = 0; p < g.pixels; ++p) {
          std::int64_t const at = sample + p * g.channels + first;
          detail::for_run(channels, [&](int c, auto some) {
            Floats const s = some.load(inverse + c);
            Floats const xhat = (some.load(x + at + c) - some.load(mean + c)) * s;
            Floats const rest =
                some.load(dy + at + c) * some.load(scale + c) - some.load(mean_slope + c);
            some.store(dx + at + c, (rest - xhat * some.load(mean_product + c)) * s);
          });
        }
      });
    }
  });
}

}  // namespace tandem::host::channels_last

#if TANDEM_BODIES

namespace tandem::host::channels_last::detail {

TANDEM_ONCE GroupTask::GroupTask(GroupNormGeometry const& g, std::int64_t task) {
  int const each = groups_of(g);
  std::int64_t const tasks = (g.groups + each - 1) / each;
  sample = task / tasks;
  first_group = static_cast<int>(task % tasks) * each;
  groups = std::min(each, g.groups - first_group);
  width = g.width();
}

}  // namespace tandem::host::channels_last::detail

#endif
