// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plan: what oneDNN would do; Primitive: the same compiled, to be run on pointers; Attributes.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/status.hpp>
#include <tandem/kernels/onednn/version.hpp>

namespace tandem::onednn {

/// How a primitive is to work: on a scratchpad of the caller's, and adding to its result if asked.
class Attributes {
 public:
  enum class Result : bool { overwritten, added_to };

  TANDEM_ONCE explicit Attributes(Result result = Result::overwritten);

  [[nodiscard]] const_dnnl_primitive_attr_t get() const noexcept { return handle_.get(); }

 private:
  UniqueHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> handle_;
};

/// A choice of kernel and of the layouts that it wants; nothing is compiled yet. Move-only.
class Plan {
 public:
  Plan() = default;
  explicit Plan(dnnl_primitive_desc_t made) noexcept : handle_{made} {}

  [[nodiscard]] const_dnnl_primitive_desc_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  /// Of an argument such as DNNL_ARG_WEIGHTS; lives as long as the plan.
  [[nodiscard]] DescriptorView tensor(int argument) const {
    return dnnl_primitive_desc_query_md(handle_.get(), dnnl_query_exec_arg_md, argument);
  }
  /// "brgconv:avx512_core" and the like.
  [[nodiscard]] std::string_view kernel() const {
    char const* name = "";
    check(dnnl_primitive_desc_query(handle_.get(), dnnl_query_impl_info_str, 0, &name));
    return name;
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return bytes_of(dnnl_primitive_desc_query_md(handle_.get(), dnnl_query_scratchpad_md, 0));
  }

 private:
  UniqueHandle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> handle_;
};

/// A compiled plan with a place for each argument's pointer. Move-only.
///
/// Cost: compiled once in a process (oneDNN keeps what it has compiled); a run of it allocates and
/// looks up nothing.
class Primitive {
 public:
  static constexpr int most_arguments = 4;

  Primitive() = default;

  /// @param arguments  their names, in the order in which run() has their pointers
  TANDEM_ONCE Primitive(Library const& library, Plan const& plan, std::span<int const> arguments);

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept { return scratch_bytes_; }

  /// Runs on these tensors, in the order of the arguments; done when it returns.
  /// @param scratch  scratch_bytes() at a multiple of 64
  template <class... Tensor>
  void run(Library const& library, std::byte* scratch, Tensor const*... tensors) {
    void const* const list[] = {tensors...};
    execute(library, scratch, list);
  }

 private:
  TANDEM_ONCE void execute(Library const& library, std::byte* scratch,
                           std::span<void const* const> tensors);

  TANDEM_ONCE void add(Library const& library, int argument, DescriptorView type);

  // Version 2 fills the padding of a blocked tensor with zeros when its pointer changes.
  TANDEM_ONCE void point(int place, void* to);

  UniqueHandle<dnnl_primitive_t, dnnl_primitive_destroy> handle_;
  UniqueHandle<dnnl_memory_t, dnnl_memory_destroy> memory_[most_arguments + 1];
  dnnl_exec_arg_t arguments_[most_arguments + 1] = {};
  void* at_[most_arguments + 1] = {};
  int count_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

/// Copies a tensor into another layout or type, or adds it.
TANDEM_ONCE Primitive make_reorder(Library const& library, DescriptorView from, DescriptorView to,
                                   Attributes::Result result = Attributes::Result::overwritten);

}  // namespace tandem::onednn

#if TANDEM_BODIES

namespace tandem::onednn {

TANDEM_ONCE Attributes::Attributes(Result result) {
  dnnl_primitive_attr_t attributes = nullptr;
  check(dnnl_primitive_attr_create(&attributes));
  handle_ = UniqueHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>{attributes};
  check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
  if (result == Result::added_to) {
    dnnl_post_ops_t raw = nullptr;
    check(dnnl_post_ops_create(&raw));
    UniqueHandle<dnnl_post_ops_t, dnnl_post_ops_destroy> const operations{raw};
    check(append_sum(raw));
    check(dnnl_primitive_attr_set_post_ops(attributes, raw));
  }
}

TANDEM_ONCE Primitive::Primitive(Library const& library, Plan const& plan,
                                 std::span<int const> arguments)
    : scratch_bytes_{plan.scratch_bytes()} {
  expects(arguments.size() <= most_arguments, "Primitive: too many arguments");
  dnnl_primitive_t made = nullptr;
  check(dnnl_primitive_create(&made, plan.get()));
  handle_ = UniqueHandle<dnnl_primitive_t, dnnl_primitive_destroy>{made};
  for (int const argument : arguments) {
    add(library, argument, plan.tensor(argument));
  }
  if (scratch_bytes_ > 0) {
    add(library, DNNL_ARG_SCRATCHPAD,
        dnnl_primitive_desc_query_md(plan.get(), dnnl_query_scratchpad_md, 0));
  }
}

TANDEM_ONCE void Primitive::execute(Library const& library, std::byte* scratch,
                                    std::span<void const* const> tensors) {
  int place = 0;
  for (void const* const tensor : tensors) {
    point(place++, const_cast<void*>(tensor));
  }
  if (scratch_bytes_ > 0) {
    point(place, scratch);
  }
  check(dnnl_primitive_execute(handle_.get(), library.stream(), count_, arguments_));
  check(dnnl_stream_wait(library.stream()));
}

TANDEM_ONCE void Primitive::add(Library const& library, int argument, DescriptorView type) {
  dnnl_memory_t memory = nullptr;
  check(dnnl_memory_create(&memory, type, library.engine(), DNNL_MEMORY_NONE));
  memory_[count_] = UniqueHandle<dnnl_memory_t, dnnl_memory_destroy>{memory};
  arguments_[count_++] = {argument, memory};
}

TANDEM_ONCE void Primitive::point(int place, void* to) {
  if (at_[place] != to) {
    check(dnnl_memory_set_data_handle(memory_[place].get(), to));
    at_[place] = to;
  }
}

TANDEM_ONCE Primitive make_reorder(Library const& library, DescriptorView from, DescriptorView to,
                                   Attributes::Result result) {
  Attributes const attributes{result};
  dnnl_primitive_desc_t made = nullptr;
  check(dnnl_reorder_primitive_desc_create(&made, from, library.engine(), to, library.engine(),
                                           attributes.get()));
  int const arguments[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  return Primitive{library, Plan{made}, arguments};
}

}  // namespace tandem::onednn

#endif
