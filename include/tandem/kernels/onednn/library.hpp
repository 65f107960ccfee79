// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Library: oneDNN's engine of the processor and a queue on it; make_descriptor() for its tensors;
/// which version computes, and for which instructions.
///
/// C API only, so that the header costs little; it needs <oneapi/dnnl/dnnl.h>.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/kernels/onednn/status.hpp>
#include <tandem/kernels/onednn/version.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::onednn {

/// What a call into oneDNN needs; each op has one. Work is done when a call returns. Move-only.
class Library {
 public:
  /// @throws OneDnnError  out of memory
  Library() {
    dnnl_engine_t engine = nullptr;
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    engine_ = UniqueHandle<dnnl_engine_t, dnnl_engine_destroy>{engine};
    dnnl_stream_t stream = nullptr;
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    stream_ = UniqueHandle<dnnl_stream_t, dnnl_stream_destroy>{stream};
  }

  [[nodiscard]] dnnl_engine_t engine() const noexcept { return engine_.get(); }
  [[nodiscard]] dnnl_stream_t stream() const noexcept { return stream_.get(); }

 private:
  UniqueHandle<dnnl_engine_t, dnnl_engine_destroy> engine_;
  UniqueHandle<dnnl_stream_t, dnnl_stream_destroy> stream_;
};

/// oneDNN's name of float and BFloat16.
template <class T>
  requires(std::same_as<T, float> || std::same_as<T, BFloat16>)
inline constexpr dnnl_data_type_t data_type = std::same_as<T, float> ? dnnl_f32 : dnnl_bf16;

/// A tensor of these sizes, logical order first to last; dnnl_format_tag_any leaves the layout to
/// the primitive.
TANDEM_ONCE Descriptor make_descriptor(std::initializer_list<std::int64_t> sizes,
                                       dnnl_data_type_t type, dnnl_format_tag_t tag);

inline Descriptor copy_of(DescriptorView other) {
  Descriptor made;
  check(made.copy(other));
  return made;
}

[[nodiscard]] inline std::int64_t bytes_of(DescriptorView view) {
  return static_cast<std::int64_t>(dnnl_memory_desc_get_size(view));
}

[[nodiscard]] inline bool same_layout(DescriptorView a, DescriptorView b) {
  return dnnl_memory_desc_equal(a, b) != 0;
}

namespace detail {

/// The newest instructions that oneDNN takes on this processor.
TANDEM_ONCE TANDEM_NOINLINE char const* instructions();

}  // namespace detail

}  // namespace tandem::onednn

namespace tandem {

template <class Precision>
struct Computes<BasicHost<OneDnn, Precision>> {
  static std::string with() {
    dnnl_version_t const& v = *dnnl_version();
    return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." +
           std::to_string(v.patch) + " for " + onednn::detail::instructions();
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::onednn {

TANDEM_ONCE Descriptor make_descriptor(std::initializer_list<std::int64_t> sizes,
                                       dnnl_data_type_t type, dnnl_format_tag_t tag) {
  dnnl_dims_t list = {};
  int rank = 0;
  for (std::int64_t const size : sizes) {
    list[rank++] = size;
  }
  Descriptor made;
  check(made.set(rank, list, type, tag));
  return made;
}

}  // namespace tandem::onednn

namespace tandem::onednn::detail {

TANDEM_ONCE char const* instructions() {
  static constexpr struct {
    dnnl_cpu_isa_t isa;
    char const* name;
  } known[] = {{dnnl_cpu_isa_avx512_core_amx, "AMX"},
               {dnnl_cpu_isa_avx512_core_bf16, "AVX512-BF16"},
               {dnnl_cpu_isa_avx512_core, "AVX-512"},
               {dnnl_cpu_isa_avx2, "AVX2"}};
  auto const here = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  for (auto const& [isa, name] : known) {
    if ((here & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa)) {
      return name;
    }
  }
  return "older instructions than AVX2";
}

}  // namespace tandem::onednn::detail

#endif
