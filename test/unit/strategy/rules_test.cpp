// SPDX-License-Identifier: Apache-2.0
// Each rule on what goes together can be broken, and is said.

#include <array>
#include <cctype>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <tandem/strategy/rules.hpp>

namespace rules_test {

using namespace tandem;
using detail::BrokenRule;
using detail::Rule;
using detail::RuleFacts;

struct Row {
  Rule rule;
  RuleFacts facts;  // which break that rule, and none before it
  int first = 0;
  int second = 0;
};

constexpr Extent2d tiles{2, 1};
constexpr ChunkVerdict no_chunks(ChunkFault fault) { return {fault, 3}; }

constexpr std::array rows{
    Row{Rule::slices_divide, {.slices = 2, .layer_slices = 3}, 3, 2},
    Row{Rule::slices_power, {.slices = 2, .layer_slices = 6}, 6, 2},
    Row{Rule::ties_asynchronous, {.asynchronous = true, .ties_cross = true, .widest_tie = 2}},
    Row{Rule::ties_order, {.reproducible = true, .ties_cross = true, .widest_tie = 3}},
    Row{Rule::rows_shared, {.row_gradients = true, .shared_row_gradients = true}},
    Row{Rule::rows_asynchronous, {.asynchronous = true, .row_gradients = true}},
    Row{Rule::rows_two_copies, {.copies = 2, .row_gradients = true}},
    Row{Rule::state_any_replicas, {.any_replicas = true, .asks_sharded_state = true}},
    Row{Rule::state_rows, {.sharded_state = true, .row_gradients = true}},
    Row{Rule::state_two_copies, {.copies = 2, .sharded_state = true}},
    Row{Rule::gradients_rounded, {.rounds = true, .sharded_gradients = true}},
    Row{Rule::gradients_reordered,
        {.microbatches = 2, .reproducible = true, .sharded_gradients = true}},
    Row{Rule::states_asynchronous, {.asynchronous = true, .stateful = true}},
    Row{Rule::wish_place, {.layer_slices = 2, .wish = WishFault::place, .wish_index = 1}, 1, 2},
    Row{Rule::wish_outputs, {.layer_slices = 2, .wish = WishFault::outputs, .wish_index = 1}, 1, 2},
    Row{Rule::wish_inputs, {.layer_slices = 2, .wish = WishFault::inputs, .wish_index = 1}, 1, 2},
    Row{Rule::wish_tied, {.layer_slices = 2, .wish = WishFault::tied, .wish_index = 1}, 1, 2},
    Row{Rule::no_pairs, {.slices = 2, .layer_slices = 4, .shared_layers = 0}, 4, 2},
    Row{Rule::no_tiles, {.slices = 2, .tiles = tiles, .windows = 0}, 2, 1},
    Row{Rule::tiles_reproducible, {.slices = 2, .tiles = tiles, .reproducible = true}},
    Row{Rule::tiles_state, {.slices = 2, .tiles = tiles, .asks_sharded_state = true}},
    Row{Rule::pairs_cut, {.reproducible = true, .keeps_pairs = false}},
    Row{Rule::sliced_rows, {.layer_slices = 2, .row_gradients = true}},
    Row{Rule::sliced_states, {.slices = 2, .tiles = tiles, .stateful = true}},
    Row{Rule::slices_asynchronous, {.layer_slices = 2, .asynchronous = true}},
    Row{Rule::slices_two_models, {.layer_slices = 2, .keeps_two = true}},
    Row{Rule::chunks_reproducible, {.chunks = 2, .reproducible = true}},
    Row{Rule::chunks_slices, {.layer_slices = 2, .chunks = 2}},
    Row{Rule::chunks_rows, {.chunks = 2, .sequence_rows = true}},
    Row{Rule::chunks_gradients, {.chunks = 2, .sharded_gradients = true}},
    Row{Rule::chunks_no_sequence, {.chunk = no_chunks(ChunkFault::no_sequence)}},
    Row{Rule::chunks_two_inputs, {.chunk = no_chunks(ChunkFault::two_inputs)}},
    Row{Rule::chunks_layer, {.chunks = 2, .chunk = no_chunks(ChunkFault::layer)}, 3, 2},
    Row{Rule::chunks_criterion, {.chunk = no_chunks(ChunkFault::criterion)}},
    Row{Rule::chunks_divide, {.chunks = 2, .chunk = no_chunks(ChunkFault::rows), .time = 5}, 5, 2},
    Row{Rule::sequence_rows_sharded, {.sharded_gradients = true, .sequence_rows = true}},
    Row{Rule::sequence_rows_none, {.sequence_rows = true, .dealt_time = 0}},
    Row{Rule::sequence_rows_divide,
        {.slices = 2, .layer_slices = 2, .sequence_rows = true, .dealt_time = 5},
        5,
        2},
    Row{Rule::sequence_rows_order, {.reproducible = true, .sequence_rows = true}},
    Row{Rule::ahead_state, {.post_validated = true, .sharded_state = true}},
    Row{Rule::ahead_sliced, {.layer_slices = 2, .post_validated = true}},
    Row{Rule::ahead_states, {.post_validated = true, .stateful = true}},
    Row{Rule::ahead_rows, {.post_validated = true, .row_gradients = true}},
    Row{Rule::ahead_chunks, {.chunks = 2, .post_validated = true}},
    Row{Rule::ahead_any_replicas, {.post_validated = true, .any_replicas = true}},
    Row{Rule::replicas_asynchronous, {.asynchronous = true, .several_replicas = true}},
    Row{Rule::statistics_reproducible, {.reproducible = true, .synchronizes = true}},
    Row{Rule::statistics_copies, {.copies = 2, .several_replicas = true, .synchronizes = true}},
};

constexpr bool names_each() {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    BrokenRule const broken = broken_rule(rows[r].facts);
    if (rows[r].rule != static_cast<Rule>(r) || broken.rule != rows[r].rule ||
        broken.first != rows[r].first || broken.second != rows[r].second) {
      return false;
    }
  }
  return true;
}

// A rule of the list without a row, or behind one that is always broken with it, fails here.
static_assert(rows.size() == static_cast<std::size_t>(Rule::none));
static_assert(names_each());
static_assert(broken_rule(RuleFacts{}).rule == Rule::none);

TEST_CASE("each rule has a sentence of its own, and prints the numbers that it speaks of") {
  for (Row const& row : rows) {
    std::string const sentence = sentence_of(row.rule);
    CAPTURE(sentence);
    REQUIRE(!sentence.empty());
    CHECK(std::isupper(static_cast<unsigned char>(sentence[0])) != 0);
    std::string const said = sentence_of(BrokenRule{row.rule, row.first, row.second});
    CHECK(said.find("RuleHolds") == std::string::npos);
    std::size_t const told = sentence.find(" (RuleHolds names ");
    CHECK((told != std::string::npos) == (row.first > 0));
    CHECK(said == (row.first == 0 ? sentence
                                  : sentence.substr(0, told) + " (" + std::to_string(row.first) +
                                        ", " + std::to_string(row.second) + ")"));
    for (Row const& other : rows) {
      CHECK((other.rule == row.rule) == (sentence == sentence_of(other.rule)));
    }
  }
}

}  // namespace rules_test
