// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AttentionPlans: engines of cuDNN for attention, one for each task, shared by a device's layers.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/kernels/cudnn/attention_graph.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/kernels/cudnn/library.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Workspace that a pass of attention may use at most: samples go in pieces to stay within it.
inline constexpr std::int64_t attention_workspace_limit = std::int64_t{512} << 20;

/// Workspace of the gradient for each sample, or a little more: a gradient of the scores in 16
/// bits, its rows and columns in tiles, and one of the keys and values of each head that shares
/// them.
constexpr std::int64_t attention_sample_bytes(AttentionShape const& shape, std::int64_t time) {
  std::int64_t const rows = (time + 127) / 128 * 128;
  std::int64_t const shared = shape.group() > 1 ? 4 * time * shape.width : 0;
  return shape.heads * (2 * rows * rows + shared) + 4096;
}

/// Samples whose gradient is computed at once: as many as the limit allows, in pieces of about
/// equal size. Each piece's normalisers begin at a multiple of 16 bytes, which the engines are
/// promised, so a piece that is followed by another may have up to 3 samples above the limit.
constexpr std::int64_t attention_piece(AttentionShape const& shape, std::int64_t batch,
                                       std::int64_t time, std::int64_t limit) {
  std::int64_t const fit = std::max<std::int64_t>(limit / attention_sample_bytes(shape, time), 1);
  if (batch <= fit) {
    return batch;
  }
  std::int64_t const step = 4 / std::gcd(std::int64_t{4}, shape.heads * time);
  std::int64_t const most = std::max<std::int64_t>(fit / step, 1) * step;
  std::int64_t const pieces = (batch + most - 1) / most;
  std::int64_t const equal = (batch + pieces - 1) / pieces;
  return std::min((equal + step - 1) / step * step, batch);
}

/// What cuDNN's tensors of attention are made from; each may be null where a pass has no use for
/// it. @tparam T  BFloat16 or Float16
template <class T>
struct AttentionPointers {
  T const* x = nullptr;
  T const* y = nullptr;  ///< forward writes it
  float* normalisers = nullptr;
  std::int32_t const* lengths = nullptr;
  T const* dy = nullptr;
  T* dx = nullptr;
  float* products = nullptr;  ///< (B, Heads, time): scratch of the gradient
};

namespace detail {

/// Whether a task is one that engines compute, as far as NVIDIA says; then they may decline still.
/// Before 9.15.1 cuDNN has faults in the gradient of times that 128 does not divide.
inline bool attention_has_engines(AttentionTask const& task) {
  constexpr std::size_t first_version = 91501;
  constexpr int widest = 256;
  return cudnnGetVersion() >= first_version && task.shape.width % 8 == 0 &&
         task.shape.width <= widest && task.time > 1 && task.batch > 0;
}

/// The first engine for a task, if there is one. What cuDNN has against it is no error: there are
/// products and a softmax.
inline std::optional<Engine> find_engine(CuDnnTarget const& target, AttentionTask const& task,
                                         std::int64_t workspace_limit) {
  if (!attention_has_engines(task)) {
    return std::nullopt;
  }
  try {
    std::vector<Engine> found =
        find_engines(target, make_graph(target, task), true, workspace_limit, 1);
    return found.empty() ? std::nullopt : std::optional<Engine>{std::move(found.front())};
  } catch (CuDnnError const&) {
    return std::nullopt;
  }
}

/// Queues a task: all its samples.
template <class T>
void execute(CuDnnLibrary& library, Engine const& engine, Stream const& stream,
             AttentionTask const& task, AttentionPointers<T> const& at, std::byte* workspace) {
  AttentionShape const& shape = task.shape;
  float const scale = 1.0F / std::sqrt(static_cast<float>(shape.width));
  float const nothing = -std::numeric_limits<float>::infinity();
  float const one = 1.0F;
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  auto const add = [&](std::int64_t id, void const* pointer) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(pointer));
  };
  add(attention_query, at.x + shape.query(0));
  add(attention_key, at.x + shape.key(0));
  add(attention_value, at.x + shape.value(0));
  add(attention_out, at.y);
  add(attention_normalisers, at.normalisers);
  add(attention_scale, &scale);
  if (task.lengths || shape.causal) {
    add(attention_nothing, &nothing);
  }
  if (task.lengths) {
    add(attention_lengths, at.lengths);
  }
  if (task.pass == AttentionPass::gradient) {
    add(attention_one, &one);
    add(attention_out_gradient, at.dy);
    add(attention_out_products, at.products);
    add(attention_query_gradient, at.dx + shape.query(0));
    add(attention_key_gradient, at.dx + shape.key(0));
    add(attention_value_gradient, at.dx + shape.value(0));
  }
  execute(library, engine, stream, ids, pointers, workspace);
}

}  // namespace detail

/// Engines by task. RankDevice::library<AttentionPlans>() makes it, so that twelve equal layers
/// wait for one.
///
/// Cost: at the first request for a task half a second of the CPU, in which cuDNN compiles.
class AttentionPlans {
 public:
  explicit AttentionPlans(Device device) : device_{device} {}

  /// The engine for @p task, or null: cuDNN has none, or only one that wants more workspace.
  [[nodiscard]] detail::Engine const* find(CuDnnLibrary const& library, AttentionTask const& task,
                                           std::int64_t workspace_limit) {
    auto known = std::find_if(entries_.begin(), entries_.end(),
                              [&](Entry const& entry) { return entry.task == task; });
    if (known == entries_.end()) {
      ScopedDevice const scope{device_};
      std::optional<detail::Engine> engine =
          detail::find_engine(library, task, attention_workspace_limit);
      entries_.push_back(
          {task, engine ? std::make_unique<detail::Engine>(std::move(*engine)) : nullptr});
      known = entries_.end() - 1;
    }
    detail::Engine const* const engine = known->engine.get();
    return engine != nullptr && engine->workspace_bytes <= workspace_limit ? engine : nullptr;
  }

 private:
  struct Entry {
    AttentionTask task;
    std::unique_ptr<detail::Engine> engine;
  };
  Device device_;
  std::vector<Entry> entries_;
};

}  // namespace tandem::cuda
