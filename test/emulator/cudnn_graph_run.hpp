// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of the emulator's cuDNN for graphs of many operations: one after the other, in
/// double, results rounded to their type.
///
/// What lengths leave out of a result is a NaN, since cuDNN promises nothing of it.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <cudnn.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

#include "cudnn_descriptor.hpp"
#include "cudnn_graph.hpp"

namespace cuda_emulator {

/// One execution. Numbers are the host's, read when it was queued.
struct GraphJob {
  std::vector<Shared> operations{};
  std::map<std::int64_t, void*> pointers{};
  std::map<std::int64_t, double> numbers{};
};

/// All elements of a tensor, packed.
struct Elements {
  std::array<std::int64_t, 4> extents{};
  std::vector<double> values{};

  [[nodiscard]] std::size_t place(std::array<std::int64_t, 4> const& at) const {
    std::int64_t place = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      place = place * extents[k] + at[k];
    }
    return static_cast<std::size_t>(place);
  }
  /// The element that stands for @p at of a tensor of @p whole: equal groups share one.
  [[nodiscard]] double shared(std::array<std::int64_t, 4> at,
                              std::array<std::int64_t, 4> const& whole) const {
    for (std::size_t k = 0; k < 4; ++k) {
      at[k] = at[k] * extents[k] / whole[k];
    }
    return values[place(at)];
  }
};

template <class Function>
void each_element(std::array<std::int64_t, 4> const& extents, Function const& f) {
  std::array<std::int64_t, 4> at{};
  for (at[0] = 0; at[0] < extents[0]; ++at[0]) {
    for (at[1] = 0; at[1] < extents[1]; ++at[1]) {
      for (at[2] = 0; at[2] < extents[2]; ++at[2]) {
        for (at[3] = 0; at[3] < extents[3]; ++at[3]) {
          f(at);
        }
      }
    }
  }
}

inline double load(void const* from, std::int64_t i, cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return static_cast<double>(float{static_cast<tandem::BFloat16 const*>(from)[i]});
    case CUDNN_DATA_HALF:
      return static_cast<double>(float{static_cast<tandem::Float16 const*>(from)[i]});
    case CUDNN_DATA_INT32:
      return static_cast<std::int32_t const*>(from)[i];
    default:
      return static_cast<double>(static_cast<float const*>(from)[i]);
  }
}

inline double rounded(double value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) {
    return static_cast<double>(float{tandem::BFloat16{static_cast<float>(value)}});
  }
  if (type == CUDNN_DATA_HALF) {
    return static_cast<double>(float{tandem::Float16{static_cast<float>(value)}});
  }
  return type == CUDNN_DATA_FLOAT ? static_cast<double>(static_cast<float>(value)) : value;
}

/// The graph's values by number, while it runs.
class GraphRun {
 public:
  explicit GraphRun(GraphJob const& job) : job_{job} {}

  void operator()(Descriptor const& d) {
    switch (d.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(d);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return product(d);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(d);
      default:
        return transpose(d);
    }
  }

 private:
  using At = std::array<std::int64_t, 4>;
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  Elements get(Descriptor const& tensor) const {
    auto const id = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (is(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      return values_.at(id);
    }
    Elements e{extents_of(tensor)};
    if (is(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
      e.values = {job_.numbers.at(id)};
      return e;
    }
    auto const strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    each_element(e.extents, [&](At const& at) {
      e.values.push_back(load(job_.pointers.at(id), offset(at, strides), type_of(tensor)));
    });
    return e;
  }
  Elements get(Descriptor const& d, int name) const {
    return d.has(name) ? get(d.descriptor(name)) : Elements{{1, 1, 1, 1}, {0.0}};
  }

  static std::int64_t offset(At const& at, At const& strides) {
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
  }

  /// y = f(place) for all places.
  template <class Function>
  void put(Descriptor const& tensor, Function const& f) {
    auto const id = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    Elements e{extents_of(tensor)};
    each_element(e.extents,
                 [&](At const& at) { e.values.push_back(rounded(f(at), type_of(tensor))); });
    if (is(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      values_[id] = e;
      return;
    }
    auto const strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    each_element(e.extents, [&](At const& at) {
      double const value = e.values[e.place(at)];
      void* const to = job_.pointers.at(id);
      if (type_of(tensor) == CUDNN_DATA_BFLOAT16) {
        static_cast<tandem::BFloat16*>(to)[offset(at, strides)] =
            tandem::BFloat16{static_cast<float>(value)};
      } else if (type_of(tensor) == CUDNN_DATA_HALF) {
        static_cast<tandem::Float16*>(to)[offset(at, strides)] =
            tandem::Float16{static_cast<float>(value)};
      } else {
        static_cast<float*>(to)[offset(at, strides)] = static_cast<float>(value);
      }
    });
  }

  void pointwise(Descriptor const& d) {
    Descriptor const& how = d.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    auto const mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    auto const axis = how.has(CUDNN_ATTR_POINTWISE_AXIS)
                          ? static_cast<std::size_t>(how.numbers(CUDNN_ATTR_POINTWISE_AXIS)[0])
                          : 0;
    Elements const x = get(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    Elements const b = get(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    Elements const t = get(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    put(d.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), [&](At const& at) {
      double const v = x.values[x.place(at)];
      double const w = b.shared(at, x.extents);
      switch (mode) {
        case CUDNN_POINTWISE_ADD:
          return v + w;
        case CUDNN_POINTWISE_SUB:
          return v - w;
        case CUDNN_POINTWISE_MUL:
          return v * w;
        case CUDNN_POINTWISE_DIV:
          return v / w;
        case CUDNN_POINTWISE_EXP:
          return std::exp(v);
        case CUDNN_POINTWISE_LOG:
          return std::log(v);
        case CUDNN_POINTWISE_GEN_INDEX:
          return static_cast<double>(at[axis]);
        case CUDNN_POINTWISE_CMP_LT:
          return v < w ? 1.0 : 0.0;
        case CUDNN_POINTWISE_CMP_GE:
          return v >= w ? 1.0 : 0.0;
        case CUDNN_POINTWISE_LOGICAL_AND:
          return v != 0 && w != 0 ? 1.0 : 0.0;
        case CUDNN_POINTWISE_BINARY_SELECT:
          return t.shared(at, x.extents) != 0 ? v : w;
        default:
          return nan;
      }
    });
  }

  void product(Descriptor const& d) {
    Elements const a = get(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    Elements const b = get(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    Elements const rows = get(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
    Elements const sums = get(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    bool const has_rows = d.has(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
    bool const has_sums = d.has(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    Descriptor const& c = d.descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    bool const result = has_sums;  // not scores, which the graph masks itself
    put(c, [&](At const& at) {
      auto const sample = static_cast<std::size_t>(at[0]);
      if (result && has_rows && static_cast<double>(at[2]) >= rows.values[sample]) {
        return nan;
      }
      double sum = 0;
      for (std::int64_t k = 0; k < a.extents[3]; ++k) {
        if (!has_sums || static_cast<double>(k) < sums.values[sample]) {
          sum += a.values[a.place({at[0], at[1], at[2], k})] *
                 b.values[b.place({at[0], at[1] * b.extents[1] / a.extents[1], k, at[3]})];
        }
      }
      return sum;
    });
  }

  void reduce(Descriptor const& d) {
    Elements const x = get(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    Descriptor const& y = d.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    bool const largest =
        d.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
            .value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    Elements result{extents_of(y)};
    double const start = largest ? -std::numeric_limits<double>::infinity() : 0.0;
    std::int64_t count = 1;
    for (std::int64_t const extent : result.extents) {
      count *= extent;
    }
    result.values.assign(static_cast<std::size_t>(count), start);
    each_element(x.extents, [&](At const& at) {
      At to = at;
      for (std::size_t k = 0; k < 4; ++k) {
        to[k] = at[k] * result.extents[k] / x.extents[k];
      }
      double& into = result.values[result.place(to)];
      double const value = x.values[x.place(at)];
      into = largest ? (value > into ? value : into) : into + value;
    });
    put(y, [&](At const& at) { return result.values[result.place(at)]; });
  }

  void transpose(Descriptor const& d) {
    Elements const x = get(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    put(d.descriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC), [&](At const& at) {
      return x.values[x.place({at[0], at[1], at[3], at[2]})];
    });
  }

  GraphJob const& job_;
  std::map<std::int64_t, Elements> values_{};
};

inline void run(GraphJob const& job) {
  GraphRun run{job};
  for (Shared const& operation : job.operations) {
    run(*operation);
  }
}

}  // namespace cuda_emulator
