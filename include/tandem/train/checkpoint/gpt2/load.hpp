// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// load_gpt2: the weights of a GPT out of a safetensors file with GPT-2's names.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/numbers.hpp>
#include <tandem/io/safetensors/reader.hpp>
#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/gpt2/names.hpp>
#include <tandem/train/checkpoint/replicas.hpp>

namespace tandem {

namespace detail {

/// A file of GPT-2's names that fits a network: the tensor of each of its parameters.
class Gpt2File {
 public:
  /// @throws FileError  the file is corrupt, no GPT-2, or one of another size
  TANDEM_ONCE Gpt2File(std::string const& path, GraphView graph);

  [[nodiscard]] TensorView const& tensor(int parameter) const {
    return *tensors_[static_cast<std::size_t>(parameter)];
  }
  /// Whether it is (in, out).
  [[nodiscard]] bool transposed(int parameter) const {
    return transposed_[static_cast<std::size_t>(parameter)];
  }

 private:
  [[noreturn]] void fail(std::string const& problem) const { throw FileError{path_, problem}; }

  // What stands before "wte.weight": "transformer.", "", or what a wrapper has added.
  TANDEM_ONCE [[nodiscard]] std::string find_prefix() const;

  // How many "h.<i>." there are.
  TANDEM_ONCE void check_blocks(int wanted) const;

  TANDEM_ONCE static std::string text(std::span<std::int64_t const> shape);

  // The first matrix, which is not square, tells how all of the file lie.
  TANDEM_ONCE TensorView const& matching(Gpt2Tensor const& own, Shape const& shape);

  // A parameter, the mask of old files, or the words once more.
  TANDEM_ONCE void check_known(TensorView const& tensor,
                               std::vector<Gpt2Tensor> const& names) const;

  std::string path_;
  Safetensors file_;
  std::string prefix_;
  std::vector<TensorView const*> tensors_;
  std::vector<bool> transposed_;
  Gpt2Layout layout_ = Gpt2Layout::hugging_face;
  bool layout_known_ = false;
};

/// What a load will do. All that can fail has been done when there is one.
template <class T>
struct LoadedGpt2 {
  Gpt2File file;
  std::vector<std::vector<NamedParameter<T>>> ranks;

  void take() const noexcept {
    for (auto const& rank : ranks) {
      for (NamedParameter<T> const& p : rank) {
        TensorView const& from = file.tensor(p.index);
        std::int64_t const rows = p.shape.rank == 2 ? p.shape[0] : 1;
        // Averages begin at their weights.
        std::span<T> const both[] = {writable(p.value), writable(p.average)};
        for (std::span<T> const& to : both) {
          if (!to.empty()) {
            copy_numbers(from.dtype, from.data.data(), to.data(), rows, p.shape.elements() / rows,
                         file.transposed(p.index));
          }
        }
      }
    }
  }
};

}  // namespace detail

/// Takes the weights of a GPT-2 file: of Hugging Face's names and matrices, (in, out), with
/// "transformer." before the names or without, or of nanoGPT's, (out, in); which of both, the
/// shapes tell. F16, BF16 and F64 are converted. Buffers of masks are skipped, as is lm_head.weight
/// where it is the words' matrix.
///
///   Trainer<models::Gpt2<>, DataParallel<2>, Host> trainer{{.batch = 4}};
///   load_gpt2(trainer, "model.safetensors");
///
/// The network is a models::Gpt, or one of the same layers; every device gets what it has of it,
/// and averages of the weights begin there. Heads and activation are the type's: no file says them.
/// @throws FileError  the file is corrupt, no GPT-2, or one of another size: nothing has changed
template <class TrainerType>
void load_gpt2(TrainerType& trainer, std::string const& path) {
  using Program = typename TrainerType::ProgramType;
  static_assert(detail::IsGpt2<detail::gpt2_blocks(Program::network)>::value);
  Replicas<typename TrainerType::Workers::Batch> const replicas{trainer.workers()};
  replicas.load(path, [&] {
    return detail::LoadedGpt2<typename TrainerType::T>{detail::Gpt2File{path, Program::network},
                                                       replicas.of_ranks()};
  });
  replicas.upload();
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Gpt2File::Gpt2File(std::string const& path, GraphView graph)
    : path_{path}, file_{read_tensors(path)}, prefix_{find_prefix()} {
  std::vector<Gpt2Tensor> const names = gpt2_tensors(graph);
  check_blocks(gpt2_blocks(graph));
  for (std::size_t p = 0; p < names.size(); ++p) {
    tensors_.push_back(&matching(names[p], graph.parameter[p].parameter.shape));
    transposed_.push_back(names[p].product && layout_ == Gpt2Layout::hugging_face);
  }
  for (TensorView const& tensor : file_.tensors()) {
    check_known(tensor, names);
  }
}

TANDEM_ONCE std::string Gpt2File::find_prefix() const {
  constexpr std::string_view words = "wte.weight";
  for (TensorView const& tensor : file_.tensors()) {
    std::string_view const name = tensor.name;
    bool const ends = name.ends_with(words);
    std::string_view const before = ends ? name.substr(0, name.size() - words.size()) : "";
    if (ends && (before.empty() || before.back() == '.')) {
      return std::string{before};
    }
  }
  fail(
      "there is no tensor 'transformer.wte.weight', nor 'wte.weight', so it is no GPT-2; "
      "load_weights() reads what export_model() has written");
}

TANDEM_ONCE void Gpt2File::check_blocks(int wanted) const {
  int blocks = 0;
  while (std::ranges::any_of(file_.tensors(), [&](TensorView const& tensor) {
    return tensor.name.starts_with(prefix_ + "h." + std::to_string(blocks) + ".");
  })) {
    ++blocks;
  }
  if (blocks != wanted) {
    fail("the file's GPT-2 has " + std::to_string(blocks) + " blocks, but this network " +
         std::to_string(wanted));
  }
}

TANDEM_ONCE TensorView const& Gpt2File::matching(Gpt2Tensor const& own, Shape const& shape) {
  std::string const name = prefix_ + own.name;
  TensorView const* const found = file_.find(name);
  if (found == nullptr) {
    fail("tensor '" + name + "' is missing" +
         (name.ends_with(".bias") ? "; a network with NoBias wants none" : ""));
  }
  if (!is_float(found->dtype)) {
    fail("tensor '" + name + "' is of " + found->type() +
         ", but weights are of F32, F16, BF16 or F64");
  }
  std::vector<std::int64_t> const wanted(shape.extent, shape.extent + shape.rank);
  std::vector<std::int64_t> const turned{wanted.rbegin(), wanted.rend()};
  if (own.product && !layout_known_) {
    layout_known_ = true;
    layout_ = found->shape == wanted ? Gpt2Layout::nano_gpt : Gpt2Layout::hugging_face;
  }
  bool const turns = own.product && layout_ == Gpt2Layout::hugging_face;
  if (found->shape != (turns ? turned : wanted)) {
    fail("tensor '" + name + "' is " + text(found->shape) + ", but this network wants " +
         text(turns ? turned : wanted));
  }
  return *found;
}

TANDEM_ONCE void Gpt2File::check_known(TensorView const& tensor,
                                       std::vector<Gpt2Tensor> const& names) const {
  std::string_view const name = tensor.name;
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) {
    return;
  }
  if (name == "lm_head.weight" || name.ends_with(".lm_head.weight")) {
    TensorView const& words = *tensors_[0];
    if (tensor.dtype != words.dtype || tensor.shape != words.shape ||
        !std::ranges::equal(tensor.data, words.data)) {
      fail("tensor '" + printable(name) + "' is not '" + words.name +
           "', but this network has one matrix for both");
    }
    return;
  }
  if (std::ranges::none_of(names,
                           [&](Gpt2Tensor const& own) { return name == prefix_ + own.name; })) {
    fail("tensor '" + printable(name) + "' has no place in this network" +
         (name.ends_with(".bias") ? "; one without NoBias has biases" : ""));
  }
}

TANDEM_ONCE std::string Gpt2File::text(std::span<std::int64_t const> shape) {
  std::string list;
  for (std::int64_t const extent : shape) {
    list += (list.empty() ? "" : " ") + std::to_string(extent);
  }
  return "(" + list + ")";
}

}  // namespace tandem::detail

#endif
