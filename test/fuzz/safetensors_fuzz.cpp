// SPDX-License-Identifier: Apache-2.0
// Any bytes: Safetensors::parse throws a FileError or gives tensors that can be read whole, and,
// but for those of a type that is not known, written again and parsed to the same tensors.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/all.hpp>

namespace {

void require(bool condition) {
  if (!condition) {
    __builtin_trap();
  }
}

/// Reads every byte, so that a view beyond the file is seen.
unsigned sum(std::span<std::byte const> bytes) {
  unsigned total = 0;
  for (std::byte const byte : bytes) {
    total += std::to_integer<unsigned>(byte);
  }
  return total;
}

/// What write_safetensors puts into a file, without the file.
std::vector<std::byte> written(std::vector<tandem::TensorView> const& tensors,
                               tandem::SafetensorsMetadata const& metadata) {
  std::vector<tandem::TensorSpec> specs;
  for (tandem::TensorView const& tensor : tensors) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  std::string const header = tandem::detail::write_safetensors_header(specs, metadata);
  auto const head = std::as_bytes(std::span{header});
  std::vector<std::byte> out(head.begin(), head.end());
  for (tandem::TensorView const& tensor : tensors) {
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    auto const file = tandem::Safetensors::parse(std::as_bytes(std::span{data, size}), "input");
    unsigned volatile sink = 0;
    for (tandem::TensorView const& tensor : file.tensors()) {
      sink = sink + sum(tensor.data);
      require(file.find(tensor.name) == &tensor);
    }
    std::vector<std::uint64_t> begins;  // of the header alone the same is known
    auto const start = tandem::Safetensors::parse_start(std::as_bytes(std::span{data, size}), size,
                                                        "the start", begins);
    require(begins.size() == file.tensors().size());
    for (std::size_t i = 0; i < begins.size(); ++i) {
      require(start.tensors()[i].name == file.tensors()[i].name && start.tensors()[i].data.empty());
      std::byte const* const begin = reinterpret_cast<std::byte const*>(data) + begins[i];
      require(file.tensors()[i].data.data() == begin);
    }
    std::vector<tandem::TensorView> known = file.tensors();
    std::erase_if(known, [](auto const& t) { return t.dtype == tandem::Dtype::OTHER; });
    std::vector<std::byte> const bytes = written(known, file.metadata());
    auto const again = tandem::Safetensors::parse(bytes, "written again");
    require(again.metadata() == file.metadata());
    require(again.tensors().size() == known.size());
    for (std::size_t i = 0; i < again.tensors().size(); ++i) {
      tandem::TensorView const& a = known[i];
      tandem::TensorView const& b = again.tensors()[i];
      require(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape);
      require(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()));
    }
  } catch (tandem::FileError const& error) {
    require(error.path() == "input");  // what we write ourselves must be accepted
    require(tandem::detail::is_utf8(error.what()));
  }
  return 0;
}
