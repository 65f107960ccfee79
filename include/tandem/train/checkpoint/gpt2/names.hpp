// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Names of a GPT's parameters in the files of GPT-2, and how its matrices lie there.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// The two ways in which files of one set of names have the matrices of a block.
enum class Gpt2Layout : std::uint8_t {
  hugging_face,  ///< (in, out): Conv1D's of transformers, and of the published files
  nano_gpt       ///< (out, in): Linear's, of nanoGPT and PyTorch
};

namespace detail {

/// A layer of GPT-2, and what its parameters are called behind the block's "h.<i>.".
struct Gpt2Layer {
  std::string_view kind;
  char const* name = "";
  bool product = false;  // has a matrix that Hugging Face transposes
};
inline constexpr int gpt2_begin = 2;
inline constexpr int gpt2_block = 10;
inline constexpr int gpt2_end = 2;
inline constexpr Gpt2Layer gpt2_layers[gpt2_begin + gpt2_block + gpt2_end] = {
    {"Embedding", "wte"},
    {"Positions", "wpe"},
    {"LayerNorm", "ln_1"},
    {"Linear", "attn.c_attn", true},
    {"Attention", ""},
    {"Linear", "attn.c_proj", true},
    {"Add", ""},
    {"LayerNorm", "ln_2"},
    {"Linear", "mlp.c_fc", true},
    {"GeluTanh", ""},  // or Gelu
    {"Linear", "mlp.c_proj", true},
    {"Add", ""},
    {"LayerNorm", "ln_f"},
    {"Vocabulary", "wte"}};

/// Number @p i of a GPT's nodes, dropout left out, that has @p blocks.
struct Gpt2Place {
  Gpt2Layer layer{};
  int block = -1;

  constexpr Gpt2Place(int i, int blocks) {
    int const inside = i - gpt2_begin;
    if (inside < 0) {
      layer = gpt2_layers[i];
    } else if (inside < blocks * gpt2_block) {
      block = inside / gpt2_block;
      layer = gpt2_layers[gpt2_begin + inside % gpt2_block];
    } else {
      layer = gpt2_layers[i - (blocks - 1) * gpt2_block];
    }
  }
};

constexpr bool is_gpt2_node(Node const& node) {
  return node.kind != NodeKind::input && node.name != "Dropout";
}

/// Blocks of a network, if it is a GPT by its layers, its dropout wherever it likes; else 0.
constexpr int gpt2_blocks(GraphView graph) {
  int all = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    all += is_gpt2_node(graph.node[n]) ? 1 : 0;
  }
  int const blocks = (all - gpt2_begin - gpt2_end) / gpt2_block;
  if (blocks < 1 || all != gpt2_begin + gpt2_end + blocks * gpt2_block) {
    return 0;
  }
  int i = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (!is_gpt2_node(node)) {
      continue;
    }
    Gpt2Layer const own = Gpt2Place{i++, blocks}.layer;
    bool const same = node.name == own.kind || (own.kind == "GeluTanh" && node.name == "Gelu");
    bool const three = own.name != std::string_view{"attn.c_attn"} || node.out[1] == 3 * node.in[1];
    bool const tied = own.kind != "Vocabulary" ||
                      (node.parameters == 1 && graph.parameter[node.first_parameter].shared == 0);
    if (!same || !three || !tied) {
      return 0;
    }
  }
  return blocks;
}

/// A parameter in such a file.
struct Gpt2Tensor {
  std::string name;  // "h.0.attn.c_attn.weight"; a file may have "transformer." before it
  bool product = false;
};

/// Of each parameter of the network. @pre gpt2_blocks(graph) > 0
TANDEM_ONCE std::vector<Gpt2Tensor> gpt2_tensors(GraphView graph);

template <int Blocks>
struct IsGpt2 {
  static constexpr bool value = true;
  static_assert(Blocks > 0,
                "load_gpt2(trainer, path) and export_gpt2(trainer, path): the network must be a "
                "models::Gpt<...> or have the same layers in the same order; load_weights(path) "
                "and export_model(path) take any network, under names of its own");
};

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<Gpt2Tensor> gpt2_tensors(GraphView graph) {
  int const blocks = gpt2_blocks(graph);
  std::vector<Gpt2Tensor> tensors;
  int i = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (!is_gpt2_node(node)) {
      continue;
    }
    Gpt2Place const place{i++, blocks};
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      Parameter const& own = graph.parameter[p].parameter;
      tensors.push_back({(place.block < 0 ? "" : "h." + std::to_string(place.block) + ".") +
                             place.layer.name + "." + own.name,
                         place.layer.product && own.shape.rank == 2});
    }
  }
  return tensors;
}

}  // namespace tandem::detail

#endif
