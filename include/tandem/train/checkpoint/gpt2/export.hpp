// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// export_gpt2: the weights of a GPT as a safetensors file with GPT-2's names.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/shape.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/numbers.hpp>
#include <tandem/io/safetensors/writer.hpp>
#include <tandem/train/checkpoint/check_finite.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/gpt2/names.hpp>
#include <tandem/train/checkpoint/two_models.hpp>

namespace tandem {

namespace detail {

/// @param parameters  of the whole network
template <class T>
void write_gpt2(std::string const& path, GraphView graph, Gpt2Layout layout,
                std::vector<NamedParameter<T>> const& parameters, NonFinite non_finite) {
  std::vector<Gpt2Tensor> const names = gpt2_tensors(graph);
  std::vector<TensorView> tensors;  // with their data as they are in memory
  std::vector<TensorSpec> specs;
  std::vector<NamedParameter<T>> const once = each_once(parameters);
  for (NamedParameter<T> const& p : once) {
    Gpt2Tensor const& own = names[static_cast<std::size_t>(p.index)];
    TensorView const& tensor =
        tensors.emplace_back(view_of("transformer." + own.name, p.shape, p.value));
    TensorSpec spec{tensor.name, tensor.dtype, tensor.shape};
    if (own.product && layout == Gpt2Layout::hugging_face) {
      spec.shape = {tensor.shape[1], tensor.shape[0]};
    }
    specs.push_back(std::move(spec));
  }
  if (non_finite == NonFinite::refused) {
    check_finite(path, tensors);
  }
  SafetensorsWriter writer{path, std::move(specs), {{"format", "pt"}}};  // transformers asks for it
  std::vector<T> turned;
  for (std::size_t i = 0; i < once.size(); ++i) {
    NamedParameter<T> const& p = once[i];
    if (names[static_cast<std::size_t>(p.index)].product && layout == Gpt2Layout::hugging_face) {
      turned.resize(p.value.size());
      copy_numbers(dtype_of<T>, tensors[i].data.data(), turned.data(), p.shape[1], p.shape[0],
                   true);
      writer.write(std::as_bytes(std::span{turned}));
    } else {
      writer.write(tensors[i].data);
    }
  }
  writer.finish();
}

}  // namespace detail

/// Writes the trained weights of a GPT as transformers' GPT2LMHeadModel reads them, or nanoGPT; the
/// words, which are the output's matrix, once. Of several processes the first writes; of two models
/// the mean is written, of averaged weights the averages. load_gpt2() reads both layouts.
/// Cost: a copy of one matrix at a time.
/// @throws FileError  it cannot be written, or has inf or nan; the file there is untouched
template <class TrainerType>
void export_gpt2(TrainerType const& trainer, std::string const& path,
                 Gpt2Layout layout = Gpt2Layout::hugging_face,
                 NonFinite non_finite = NonFinite::refused) {
  using Program = typename TrainerType::ProgramType;
  using T = typename TrainerType::T;
  static_assert(detail::IsGpt2<detail::gpt2_blocks(Program::network)>::value);
  bool const averages = trainer.options().average.on() && trainer.position().step > 0;
  auto const of_copy = [&](int copy) {  // of several processes each calls it, as parameters() wants
    return averages ? as_averages(trainer.parameters(0, copy)) : trainer.parameters(0, copy);
  };
  auto const first = of_copy(0);
  auto const last = of_copy(Program::map.copies - 1);
  if (trainer.options().world.process == 0) {
    MeanModel<T> const model{first, last};
    detail::write_gpt2(path, Program::network, layout, model.parameters(), non_finite);
  }
}

}  // namespace tandem
