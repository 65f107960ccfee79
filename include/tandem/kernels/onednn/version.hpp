// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What differs between the C APIs of oneDNN 2 and 3, under one name each; nothing else asks for
/// the version.
///
/// Version 2 has memory descriptors by value and describes an operation in two steps; version 3
/// has handles, and one call. Functions return oneDNN's status.

#include <cstddef>
#include <string_view>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/unique_handle.hpp>

namespace tandem::onednn {

#if DNNL_VERSION_MAJOR >= 3

/// A descriptor of a tensor as oneDNN's functions take it; owned by a Descriptor or a primitive.
using DescriptorView = const_dnnl_memory_desc_t;

#else

using DescriptorView = dnnl_memory_desc_t const*;

#endif

/// The tensors of one convolution or matrix product y = x weight + bias; bias may be null. In a
/// backward pass of a convolution each may stand for its gradient.
struct TensorViews {
  DescriptorView x = nullptr;
  DescriptorView weight = nullptr;
  DescriptorView bias = nullptr;
  DescriptorView y = nullptr;
};

/// How a convolution's window moves, two entries each.
struct WindowSteps {
  dnnl_dims_t strides = {};
  dnnl_dims_t padding = {};
  dnnl_dims_t dilation = {};  // cells left out between two of the kernel
};

/// Whether the kernel chosen is called @p name and something more.
inline bool is_kernel(const_dnnl_primitive_desc_t made, std::string_view name) {
  char const* found = "";
  return dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &found) == dnnl_success &&
         std::string_view{found}.substr(0, name.size()) == name;
}

#if DNNL_VERSION_MAJOR >= 3

/// An owned descriptor of a tensor. Move-only.
class Descriptor {
 public:
  Descriptor() = default;

  [[nodiscard]] DescriptorView get() const noexcept { return handle_.get(); }

  dnnl_status_t set(int rank, dnnl_dims_t const& sizes, dnnl_data_type_t type,
                    dnnl_format_tag_t tag) {
    return keep([&](dnnl_memory_desc_t* made) {
      return dnnl_memory_desc_create_with_tag(made, rank, sizes, type, tag);
    });
  }
  dnnl_status_t copy(DescriptorView other) {
    return keep([&](dnnl_memory_desc_t* made) { return dnnl_memory_desc_clone(made, other); });
  }

 private:
  template <class Make>
  dnnl_status_t keep(Make const& make) {
    dnnl_memory_desc_t made = nullptr;
    dnnl_status_t const status = make(&made);
    handle_ = UniqueHandle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>{made};
    return status;
  }

  UniqueHandle<dnnl_memory_desc_t, dnnl_memory_desc_destroy> handle_;
};

inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F, 0, dnnl_data_type_undef);
}

inline dnnl_status_t convolution_forward(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                         TensorViews const& t, WindowSteps const& w,
                                         const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_forward_primitive_desc_create(
      made, engine, dnnl_forward_training, dnnl_convolution_direct, t.x, t.weight, t.bias, t.y,
      w.strides, w.dilation, w.padding, w.padding, attributes);
}
inline dnnl_status_t convolution_input_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                TensorViews const& t, WindowSteps const& w,
                                                const_dnnl_primitive_desc_t forward,
                                                const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_backward_data_primitive_desc_create(
      made, engine, dnnl_convolution_direct, t.x, t.weight, t.y, w.strides, w.dilation, w.padding,
      w.padding, forward, attributes);
}
inline dnnl_status_t convolution_weight_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                 TensorViews const& t, WindowSteps const& w,
                                                 const_dnnl_primitive_desc_t forward,
                                                 const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_backward_weights_primitive_desc_create(
      made, engine, dnnl_convolution_direct, t.x, t.weight, t.bias, t.y, w.strides, w.dilation,
      w.padding, w.padding, forward, attributes);
}

/// By the first kernel of that name if there is one, else by oneDNN's first.
inline dnnl_status_t matrix_product(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                    TensorViews const& t, const_dnnl_primitive_attr_t attributes,
                                    std::string_view kernel) {
  auto const create = [&] {
    return dnnl_matmul_primitive_desc_create(made, engine, t.x, t.weight, t.bias, t.y, attributes);
  };
  dnnl_status_t status = create();
  while (status == dnnl_success && !is_kernel(*made, kernel)) {
    status = dnnl_primitive_desc_next_impl(*made);
  }
  if (status == dnnl_last_impl_reached) {
    dnnl_primitive_desc_destroy(*made);
    status = create();
  }
  return status;
}

#else

class Descriptor {
 public:
  Descriptor() = default;

  [[nodiscard]] DescriptorView get() const noexcept { return &value_; }

  dnnl_status_t set(int rank, dnnl_dims_t const& sizes, dnnl_data_type_t type,
                    dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(&value_, rank, sizes, type, tag);
  }
  dnnl_status_t copy(DescriptorView other) {
    value_ = *other;
    return dnnl_success;
  }

 private:
  dnnl_memory_desc_t value_ = {};
};

inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F);
}

inline dnnl_status_t convolution_forward(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                         TensorViews const& t, WindowSteps const& w,
                                         const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status = dnnl_dilated_convolution_forward_desc_init(
      &operation, dnnl_forward_training, dnnl_convolution_direct, t.x, t.weight, t.bias, t.y,
      w.strides, w.dilation, w.padding, w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, nullptr);
}
inline dnnl_status_t convolution_input_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                TensorViews const& t, WindowSteps const& w,
                                                const_dnnl_primitive_desc_t forward,
                                                const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status = dnnl_dilated_convolution_backward_data_desc_init(
      &operation, dnnl_convolution_direct, t.x, t.weight, t.y, w.strides, w.dilation, w.padding,
      w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, forward);
}
inline dnnl_status_t convolution_weight_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                 TensorViews const& t, WindowSteps const& w,
                                                 const_dnnl_primitive_desc_t forward,
                                                 const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status = dnnl_dilated_convolution_backward_weights_desc_init(
      &operation, dnnl_convolution_direct, t.x, t.weight, t.bias, t.y, w.strides, w.dilation,
      w.padding, w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, forward);
}

inline dnnl_status_t matrix_product(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                    TensorViews const& t, const_dnnl_primitive_attr_t attributes,
                                    std::string_view kernel) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, t.x, t.weight, t.bias, t.y);
  if (status == dnnl_success) {
    status = dnnl_primitive_desc_create(made, &operation, attributes, engine, nullptr);
  }
  if (status != dnnl_success || is_kernel(*made, kernel)) {
    return status;
  }
  dnnl_primitive_desc_iterator_t list = nullptr;
  if (dnnl_primitive_desc_iterator_create(&list, &operation, attributes, engine, nullptr) ==
      dnnl_success) {
    do {
      dnnl_primitive_desc_t const other = dnnl_primitive_desc_iterator_fetch(list);
      bool const found = other != nullptr && is_kernel(other, kernel);
      dnnl_primitive_desc_destroy(found ? *made : other);
      if (found) {
        *made = other;
        break;
      }
    } while (dnnl_primitive_desc_iterator_next(list) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(list);
  }
  return dnnl_success;
}

#endif

}  // namespace tandem::onednn
