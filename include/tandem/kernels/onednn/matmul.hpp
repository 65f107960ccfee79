// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_matmul(): a prepared product of row-major matrices, in fp32 or bf16, by oneDNN.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/refusal.hpp>
#include <tandem/kernels/onednn/version.hpp>

namespace tandem::onednn {

/// C (m, n) = A (m, k) B (k, n), and a bias (n) on each row; sums in fp32.
struct MatmulTask {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  dnnl_data_type_t type = dnnl_f32;         ///< of A and B
  dnnl_data_type_t result_type = dnnl_f32;  ///< of C; the bias is fp32
  bool a_transposed = false;                ///< what lies there is the transpose of what is meant
  bool b_transposed = false;
  bool bias = false;
  Attributes::Result result = Attributes::Result::overwritten;
  DescriptorView b = nullptr;    ///< how B lies, where in a layout of a kernel's own
  std::string_view kernel = "";  ///< rather by the kernel of this name, where there is one
};

namespace detail {

/// Sums of 63 products in bf16 with AMX: oneDNN 2.6.3's first choice ends in an illegal
/// instruction or adds up wrongly.
inline std::string_view kernel_of(MatmulTask const& task) {
  return task.type == dnnl_bf16 && task.k == 63 ? "gemm:" : task.kernel;
}

TANDEM_ONCE TANDEM_NOINLINE Plan plan_matmul(Library const& library, MatmulTask const& task,
                                             DescriptorView b);

}  // namespace detail

/// Arguments of its run(): A, B, C and, if any, the bias.
///
/// Order: fixed by the shape, the layout of B, and the number of threads.
/// @throws OneDnnError  no kernel for this product; the message names it
TANDEM_ONCE Primitive make_matmul(Library const& library, MatmulTask const& task);

/// How the kernel for this product likes B best.
inline Descriptor packed_layout(Library const& library, MatmulTask const& task) {
  Descriptor const any = make_descriptor({task.k, task.n}, task.type, dnnl_format_tag_any);
  return copy_of(detail::plan_matmul(library, task, any.get()).tensor(DNNL_ARG_WEIGHTS));
}

}  // namespace tandem::onednn

#if TANDEM_BODIES

namespace tandem::onednn::detail {

TANDEM_ONCE Plan plan_matmul(Library const& library, MatmulTask const& task, DescriptorView b) {
  Descriptor const a =
      make_descriptor({task.m, task.k}, task.type, task.a_transposed ? dnnl_ba : dnnl_ab);
  Descriptor const c = make_descriptor({task.m, task.n}, task.result_type, dnnl_ab);
  Descriptor const bias = make_descriptor({1, task.n}, dnnl_f32, dnnl_ab);
  Attributes const attributes{task.result};
  dnnl_primitive_desc_t made = nullptr;
  dnnl_status_t const status = matrix_product(
      &made, library.engine(), {a.get(), b, task.bias ? bias.get() : nullptr, c.get()},
      attributes.get(), kernel_of(task));
  if (status != dnnl_success) {
    refuse(status,
           "a matrix product of " + std::to_string(task.m) + " x " + std::to_string(task.k) +
               " by " + std::to_string(task.k) + " x " + std::to_string(task.n) +
               (task.type == dnnl_bf16 ? ", bf16" : ", fp32"),
           task.type);
  }
  return Plan{made};
}

}  // namespace tandem::onednn::detail

namespace tandem::onednn {

TANDEM_ONCE Primitive make_matmul(Library const& library, MatmulTask const& task) {
  Descriptor const b =
      make_descriptor({task.k, task.n}, task.type, task.b_transposed ? dnnl_ba : dnnl_ab);
  int const arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
  return Primitive{library,
                   detail::plan_matmul(library, task, task.b != nullptr ? task.b : b.get()),
                   std::span{arguments}.first(task.bias ? 4 : 3)};
}

}  // namespace tandem::onednn

#endif
