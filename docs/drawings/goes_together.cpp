// The page what_goes_together.md: each pair of features is written as a strategy's text, read, and
// made a program of a small network; what refuses it is the sentence of the pair.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/engine/prepare/runtime_program.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/row_gradient.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/strategy/read_strategy.hpp>
#include <tandem/strategy/rules.hpp>

#include "pictures.hpp"

namespace tandem::drawings {

namespace {

// ---- networks
// ------------------------------------------------------------------------------------

template <bool Rows>
struct Words : Embedding<16, 8> {};
template <>
struct Words<true> : Embedding<16, 8, RowGradient> {};

template <bool Lasts>
struct Memory : Linear<8> {};
template <>
struct Memory<true> : Lstm<8, Stateful> {};

template <bool Rows, bool Ties>
struct Guess : Vocabulary<16> {};
template <bool Rows>
struct Guess<Rows, true> : Vocabulary<16, Shares<Words<Rows>>> {};

template <bool Rows, bool Lasts, bool Ties>
struct Sentences : Network<Tokens<8, 16>, Sequential<Words<Rows>, Memory<Lasts>, Linear<16>, Gelu,
                                                     Linear<8>, LayerNorm<>, Guess<Rows, Ties>>> {};

template <class Norm>
struct Images : Network<Image<4, 8, 8>, Sequential<Conv2d<8, Kernel<3>, Padding<1>>, Norm, ReLU,
                                                   Conv2d<8, Kernel<3>, Padding<1>>, ReLU, Flatten,
                                                   Linear<16>, ReLU, Linear<4>>> {};

struct Layers {
  GraphView graph;
  int tops;
};

template <class Net>
Layers layers_of() {
  return {graph<Net>, graph<Net>.tops};
}

template <std::size_t... Bits>
Layers sentences(std::size_t bits, std::index_sequence<Bits...>) {
  constexpr Layers (*each[])() = {
      layers_of<Sentences<(Bits & 1) != 0, (Bits & 2) != 0, (Bits & 4) != 0>>...};
  return each[bits]();
}

// ---- a strategy and a network that have some features
// --------------------------------------------

struct Draft {
  std::string order{};     // "ModelParallel<" or "Pipeline<Schedule, Count, "
  std::string cut{};       // Auto<Parts>
  std::string replicas{};  // 2 or by_world
  std::string sharing{};   // "TensorParallel<2"
  bool chunks = false;
  std::vector<std::string> on_replicas{};  // options that only DataParallel has
  std::vector<std::string> on_model{};
  std::vector<std::string> on_sharing{};
  std::vector<std::string> on_any{};
  bool images = false;
  bool synchronizes = false;
  std::size_t words = 0;  // bits of Sentences

  [[nodiscard]] Layers network() const {
    return synchronizes ? layers_of<Images<SyncBatchNorm2d<>>>()
           : images     ? layers_of<Images<BatchNorm2d<>>>()
                        : sentences(words, std::make_index_sequence<8>{});
  }
};

std::string list(std::string text, std::vector<std::string> const& options) {
  for (std::string const& option : options) {
    text += (text.back() == '<' ? "" : ", ") + option;
  }
  return text + ">";
}

void append(std::vector<std::string>& to, std::vector<std::string> const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// The text of the strategy; what a draft leaves open is chosen here.
std::string text_of(Draft draft) {
  if (draft.order.empty() && (draft.chunks || !draft.on_model.empty())) {
    draft.order = draft.chunks ? "Pipeline<OneFOneB, 4, " : "ModelParallel<";
    draft.cut = "Auto<2>";
  }
  bool const only_tiles = draft.order.empty() && draft.sharing.starts_with("Spatial");
  if (draft.replicas.empty() &&
      (!draft.on_replicas.empty() || (only_tiles && !draft.on_any.empty()))) {
    draft.replicas = "2";
  }
  std::vector<std::string>& any = !draft.replicas.empty() ? draft.on_replicas
                                  : !draft.order.empty()  ? draft.on_model
                                                          : draft.on_sharing;
  append(any, draft.on_any);
  std::vector<std::string> parts;
  if (!draft.replicas.empty()) {
    parts.push_back(list("DataParallel<" + draft.replicas, draft.on_replicas));
  }
  if (!draft.order.empty()) {
    parts.push_back(
        list(draft.order + (draft.chunks ? "Chunks<2>, " : "") + draft.cut, draft.on_model));
  }
  if (!draft.sharing.empty()) {
    parts.push_back(list(draft.sharing, draft.on_sharing));
  }
  return parts.empty()       ? list("SingleDevice<", draft.on_sharing)
         : parts.size() == 1 ? parts[0]
                             : list("Hybrid<", parts);
}

// ---- features
// ------------------------------------------------------------------------------------

/// Places of which a strategy, or a network, has one.
struct Place {
  static constexpr unsigned order = 1, replicas = 2, sharing = 4, shards = 8, images = 16,
                            sequences = 32, chunks = 64;
};

struct Feature {
  std::string name;
  unsigned places = 0;
  Draft draft{};
};

bool exclude_each_other(Feature const& a, Feature const& b) {
  constexpr unsigned network = Place::images | Place::sequences;
  return (a.places & b.places & ~network) != 0 || ((a.places | b.places) & network) == network;
}

Draft joined(Draft a, Draft const& b) {
  a.order += b.order;
  a.cut += b.cut;
  a.replicas += b.replicas;
  a.sharing += b.sharing;
  a.chunks = a.chunks || b.chunks;
  append(a.on_replicas, b.on_replicas);
  append(a.on_model, b.on_model);
  append(a.on_sharing, b.on_sharing);
  append(a.on_any, b.on_any);
  a.images = a.images || b.images;
  a.synchronizes = a.synchronizes || b.synchronizes;
  a.words |= b.words;
  return a;
}

std::string replaced(std::string text, std::string_view what, std::string const& by) {
  std::size_t const at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

/// A Pipeline of two devices.
Feature pipeline_feature(detail::NamedSchedule const& schedule) {
  int count = 4;
  while (!schedule.fits(2, count)) {
    expects(count > 1, "what_goes_together.md: a schedule runs no 1, 2 or 4 microbatches");
    count /= 2;
  }
  std::string const type = schedule.words.type;
  std::string const name = type.substr(0, type.find(", {count}")).substr(type.find('<') + 1);
  int const stages = schedule.takes_chunks ? 2 : schedule.chunks;
  return {name.substr(0, name.find('<')),
          Place::order,
          {.order = replaced(replaced(type, "{chunks}", "2"), "{count}", std::to_string(count)),
           .cut = "Auto<" + std::to_string(2 * stages) + ">"}};
}

std::vector<Feature> features() {
  std::vector<Feature> all{{"ModelParallel",
                            Place::order | Place::chunks,
                            {.order = "ModelParallel<", .cut = "Auto<2>"}}};
  for (detail::NamedSchedule const& schedule : detail::all_schedules) {
    if (std::string_view{schedule.words.type}.starts_with("Pipeline<")) {
      all.push_back(pipeline_feature(schedule));
    }
  }
  unsigned const order = Place::order;
  unsigned const two_models = Place::order | Place::chunks;
  unsigned const sharing = Place::sharing;
  unsigned const sequences = Place::sequences;
  std::string const ahead = "Pipeline<PostValidated<ZeroBubbleH2>, 4, ";
  std::string const gradients = "CrossModelParallel<AverageGradients, ";
  std::string const weights = "CrossModelParallel<AverageWeights<>, ";
  std::string const both = "CrossModelParallel<AverageWeightsAndState<>, ";
  for (Feature const& one : std::initializer_list<Feature>{
           {"PostValidated", order, {.order = ahead, .cut = "Auto<2>"}},
           {"AverageGradients", two_models, {.order = gradients, .cut = "Auto<2>"}},
           {"AverageWeights", two_models, {.order = weights, .cut = "Auto<2>"}},
           {"AverageWeightsAndState", two_models, {.order = both, .cut = "Auto<2>"}},
           {"DataParallel\\<N>", Place::replicas, {.replicas = "2"}},
           {"DataParallel\\<>", Place::replicas, {.replicas = "by_world"}},
           {"TensorParallel", sharing, {.sharing = "TensorParallel<2"}},
           {"SequenceRows",
            sharing | sequences,
            {.sharing = "TensorParallel<2", .on_sharing = {"SequenceRows"}}},
           {"SpatialParallel",
            sharing | Place::images,
            {.sharing = "SpatialParallel<2, 1", .images = true}},
           {"Weighted", 0, {.on_replicas = {"Weighted<2, 1>"}}},
           {"Wire", 0, {.on_replicas = {"Wire<BFloat16>"}}},
           {"ShardedState", Place::shards, {.on_replicas = {"ShardedState"}}},
           {"ShardedGradients", Place::shards, {.on_replicas = {"ShardedGradients"}}},
           {"ShardedParameters", Place::shards, {.on_replicas = {"ShardedParameters"}}},
           {"Reproducible", 0, {.on_any = {"Reproducible<>"}}},
           {"Slices", 0, {.on_any = {"Slices<4>"}}},
           {"Checkpoint", 0, {.on_model = {"Checkpoint<Every<1>>"}}},
           {"Chunks", sequences | Place::chunks, {.chunks = true}},
           {"Shares", sequences, {.words = 4}},
           {"RowGradient", sequences, {.words = 1}},
           {"Stateful", sequences, {.words = 2}},
           {"SyncBatchNorm2d", Place::images, {.images = true, .synchronizes = true}}}) {
    all.push_back(one);
  }
  return all;
}

// ---- the table
// -----------------------------------------------------------------------------------

/// The sentence that refuses the strategy and its network; none if they go together.
std::string refusal(Draft const& draft) {
  Layers const network = draft.network();
  try {
    RuntimeProgram const program{
        network.graph, network.tops, read_strategy(text_of(draft)), {}, sizeof(float)};
    return "";
  } catch (ContractError const& error) {
    std::string const said = error.what();
    return said.substr(0, said.find("; here stands '"));
  }
}

/// The features in a triangle: row r says how it goes with each of those before it.
class Table {
 public:
  Table() {
    std::vector<Feature> const all = features();
    std::vector<std::vector<std::string>> cells(all.size());
    for (std::size_t r = 0; r < all.size(); ++r) {
      expects(refusal(all[r].draft).empty(), "what_goes_together.md: a feature is refused alone");
      for (std::size_t c = 0; c < r; ++c) {
        bool const apart = exclude_each_other(all[r], all[c]);
        cells[r].push_back(apart ? "-" : refusal(joined(all[c].draft, all[r].draft)));
      }
    }
    for (std::size_t r = 0; r < all.size(); ++r) {
      std::size_t const like = alike(all, cells, r);
      if (like < rows_.size()) {
        rows_[like].name += ", " + all[r].name;
      } else {
        rows_.push_back({all[r].name, r, {}});
      }
    }
    for (Row& row : rows_) {
      for (Row const& column : rows_) {
        if (column.feature < row.feature) {
          row.cells.push_back(mark_of(cells[row.feature][column.feature]));
        }
      }
    }
  }

  [[nodiscard]] std::string text() const {
    std::string text = "| |";
    std::string line = "\n|---|";
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r) {
      text += letter(r) + "|";
      line += "---|";
    }
    text += line + "\n";
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      text += "|" + (r + 1 < rows_.size() ? letter(r) + " " : "") + rows_[r].name + "|";
      for (std::string const& cell : rows_[r].cells) {
        text += cell + "|";
      }
      text += "\n";
    }
    return text;
  }
  [[nodiscard]] std::vector<std::string> const& sentences() const { return sentences_; }

 private:
  struct Row {
    std::string name;
    std::size_t feature;  // the first of those that share the row
    std::vector<std::string> cells;
  };

  static std::string letter(std::size_t r) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return std::string{letters.at(r)};
  }

  /// The row of features that exclude this one and go with all others as it does.
  [[nodiscard]] std::size_t alike(std::vector<Feature> const& all,
                                  std::vector<std::vector<std::string>> const& cells,
                                  std::size_t feature) const {
    std::size_t row = 0;
    for (; row < rows_.size(); ++row) {
      std::size_t const other = rows_[row].feature;
      bool same = all[other].places == all[feature].places && all[feature].places != 0;
      for (std::size_t i = 0; same && i < all.size(); ++i) {
        auto const& cell = [&](std::size_t f) { return i < f ? cells[f][i] : cells[i][f]; };
        same = i == feature || i == other || cell(feature) == cell(other);
      }
      if (same) {
        break;
      }
    }
    return row;
  }

  std::string mark_of(std::string const& sentence) {
    if (sentence.empty() || sentence == "-") {
      return sentence.empty() ? "yes" : "";
    }
    auto const found = std::find(sentences_.begin(), sentences_.end(), sentence);
    auto const number = found - sentences_.begin() + 1;
    if (found == sentences_.end()) {
      sentences_.push_back(sentence);
    }
    return std::to_string(number);
  }

  std::vector<Row> rows_;
  std::vector<std::string> sentences_;
};

/// The sentences of the list of rules that no pair breaks.
std::vector<std::string> other_rules(std::vector<std::string> const& told) {
  std::vector<std::string> others;
  for (int r = 0; r < static_cast<int>(detail::Rule::none); ++r) {
    std::string sentence = detail::sentence_of(static_cast<detail::Rule>(r));
    sentence.resize(std::min(sentence.find(" (RuleHolds"), sentence.size()));
    if (std::find(told.begin(), told.end(), sentence) == told.end()) {
      others.push_back(sentence);
    }
  }
  return others;
}

/// A list item whose lines are no longer than those of the documents.
std::string folded(std::string const& item, std::string const& sentence) {
  constexpr std::size_t most = 128;
  std::string text = item;
  std::string const indent(item.size(), ' ');
  std::size_t begin = 0;
  std::size_t width = item.size();
  while (begin < sentence.size()) {
    std::size_t const end = std::min(sentence.find(' ', begin), sentence.size());
    std::string const word = sentence.substr(begin, end - begin);
    if (begin > 0) {
      bool const fits = width + 1 + word.size() <= most;
      text += fits ? " " : "\n" + indent;
      width = fits ? width + 1 : indent.size();
    }
    text += word;
    width += word.size();
    begin = end + 1;
  }
  return text + "\n";
}

/// In Markdown "<" would begin a tag.
std::string escaped(std::string const& sentence) {
  std::string text;
  for (char const c : sentence) {
    text += c == '<' ? "\\<" : std::string{c};
  }
  return text;
}

constexpr char const* head = R"(# What goes with what

Each cell of the table says whether two features can be used together: "yes", or the number of the sentence below that refuses
them. A cell is empty if no strategy or network has both. Columns have the letters of the rows. `strategy_drawings`
(`docs/drawings/goes_together.cpp`) writes this page: it makes a program of each pair, of two devices for each kind of
parallelism and a small network, and prints what the library answers. What a backend or an optimizer refuses is on their pages.

- `Shares`, `RowGradient`, `Stateful` and `SyncBatchNorm2d` are features of the network. `Shares` is a weight of the first and
  the last layer.
- `Weighted`, `Wire` and the options that shard stand in `DataParallel<2>`; `Checkpoint`, alone, in `ModelParallel<Auto<2>>`;
  `Chunks`, alone, in a `Pipeline<OneFOneB, 4, ...>`.
- Data parallelism around another strategy, and `TensorParallel` or `SpatialParallel` inside, are a `Hybrid`.

)";

}  // namespace

std::string goes_together_page() {
  Table const table;
  std::string text = head;
  text += table.text() + "\n";
  int number = 0;
  for (std::string const& sentence : table.sentences()) {
    text += folded(std::to_string(++number) + ". ", escaped(sentence));
  }
  text += "\n## Rules on networks, and on three features\n\n";
  for (std::string const& sentence : other_rules(table.sentences())) {
    text += folded("- ", escaped(sentence));
  }
  return text;
}

}  // namespace tandem::drawings
