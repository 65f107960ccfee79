// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/cuda/update_chunks.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace update_chunks_test {

using namespace tandem;
using cuda::ChunkRange;
using cuda::UpdateChunk;

TEST_CASE("update_chunks: runs in pieces, none of a frozen or an empty one") {
  std::vector<UpdateRun> const runs = {{.begin = 0, .end = 10},
                                       {.begin = 10, .end = 12, .frozen = true},
                                       {.begin = 16, .end = 16},
                                       {.begin = 16, .end = 24, .role = Role::statistic},
                                       {.begin = 24, .end = 25}};
  CHECK(update_chunks(runs, 4) == std::vector<UpdateChunk>{{.begin = 0, .count = 4, .run = 0},
                                                           {.begin = 4, .count = 4, .run = 0},
                                                           {.begin = 8, .count = 2, .run = 0},
                                                           {.begin = 16, .count = 4, .run = 3},
                                                           {.begin = 20, .count = 4, .run = 3},
                                                           {.begin = 24, .count = 1, .run = 4}});
  CHECK(update_chunks(runs, 100).size() == 3);
  CHECK(update_chunks({}, 4).empty());
  CHECK_THROWS_WITH_AS(update_chunks(runs, 0), doctest::Contains("give a chunk of 1"),
                       ContractError);
  CHECK_THROWS_AS(update_chunks(runs, std::int64_t{1} << 31), ContractError);
  std::vector<UpdateRun> const large = {{.begin = 0, .end = std::int64_t{5} << 32}};
  auto const chunks = update_chunks(large, INT32_MAX);
  CHECK(chunks.size() == 11);
  CHECK(chunks.back().begin + chunks.back().count == large[0].end);
}

TEST_CASE("chunk_ranges: at each parameter's place its chunks, if its gradient counts") {
  std::vector<UpdateRun> const parameters = {
      {.begin = 0, .end = 10, .origin = 3},
      {.begin = 10, .end = 12, .origin = 2, .frozen = true},
      {.begin = 16, .end = 24, .origin = 5, .role = Role::statistic},
      {.begin = 24, .end = 29, .origin = 0, .counted = false},
      {.begin = 32, .end = 36, .origin = 1}};
  CHECK(update_chunks(parameters, 4).size() == 8);
  CHECK(chunk_ranges(parameters, 4, 6) == std::vector<ChunkRange>{{.first = 0, .last = 0},
                                                                  {.first = 7, .last = 8},
                                                                  {.first = 3, .last = 3},
                                                                  {.first = 0, .last = 3},
                                                                  {.first = 0, .last = 0},
                                                                  {.first = 0, .last = 0}});
  CHECK(chunk_ranges({}, 4, 2) == std::vector<ChunkRange>(2));
}

TEST_CASE("row_runs: parameters whose gradients are rows have chunks behind all others") {
  std::vector<UpdateRun> const parameters = {
      {.begin = 32, .end = 45, .origin = 2, .rows = 0},
      {.begin = 0, .end = 10, .origin = 1},
      {.begin = 48, .end = 56, .origin = 3, .frozen = true, .rows = 1},
      {.begin = 64, .end = 67, .origin = 0, .rows = 2}};
  CHECK(update_chunks(parameters, 4).size() == 3);
  auto const rows = row_runs(parameters, 4);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].run == 0);
  CHECK(rows[0].rows == 0);
  CHECK(rows[0].begin == 32);
  CHECK(rows[0].first_chunk == 3);
  CHECK(rows[0].chunks == 4);
  CHECK(rows[1].run == 3);
  CHECK(rows[1].rows == 2);
  CHECK(rows[1].first_chunk == 7);
  CHECK(rows[1].chunks == 1);
  CHECK(chunk_ranges(parameters, 4, 4) == std::vector<ChunkRange>{{.first = 7, .last = 8},
                                                                  {.first = 0, .last = 3},
                                                                  {.first = 3, .last = 7},
                                                                  {.first = 7, .last = 7}});
}

TEST_CASE("norm_ranges: each run's chunks, in two tables one behind the other") {
  std::vector<UpdateRun> const runs = {
      {.begin = 0, .end = 10}, {.begin = 10, .end = 12, .frozen = true}, {.begin = 16, .end = 24}};
  CHECK(norm_ranges(runs, 4) == std::vector<ChunkRange>{{.first = 0, .last = 3},
                                                        {.first = 3, .last = 3},
                                                        {.first = 3, .last = 5},
                                                        {.first = 5, .last = 8},
                                                        {.first = 8, .last = 8},
                                                        {.first = 8, .last = 10}});
  CHECK(norm_ranges({}, 4).empty());
}

TEST_CASE("part_chunks: what a rank owns of runs, with the index of each one's run, and its lag") {
  std::vector<UpdateRun> const runs = {{.begin = 0, .end = 10},
                                       {.begin = 16, .end = 24, .role = Role::statistic},
                                       {.begin = 24, .end = 30},
                                       {.begin = 30, .end = 34, .frozen = true}};
  auto const parts = runs_within(runs, {{{4, 20}, 4}, {{26, 28}, 14}, {{30, 32}, 16}});
  CHECK(part_chunks(runs, parts, 4) ==
        std::vector<UpdateChunk>{{.begin = 4, .count = 4, .run = 0},
                                 {.begin = 8, .count = 2, .run = 0},
                                 {.begin = 16, .count = 4, .run = 1},
                                 {.begin = 26, .count = 2, .run = 2}});
  CHECK(part_chunks(runs, {}, 4).empty());
  auto const settings = run_settings(runs, Sgd{}, parts);
  CHECK(settings[0].lag == 4);
  CHECK(settings[1].lag == 4);
  CHECK(settings[2].lag == 14);
  CHECK(run_settings(runs, Sgd{})[2].lag == 0);
}

TEST_CASE("run_settings: a run's own weight decay, or else the optimizer's") {
  std::vector<UpdateRun> const runs = {
      {.begin = 0, .end = 1, .learning_rate_scale = 0.5F, .weight_decay = 0.0F},
      {.begin = 1, .end = 2, .role = Role::statistic, .rate = 0.25F},
      {.begin = 2, .end = 3, .weight_decay = 3.0F, .clip_value = 0.1}};
  for (Optimizer const& optimizer :
       {Optimizer{Sgd{.weight_decay = 2.0F}}, Optimizer{Adam{.weight_decay = 2.0F}},
        Optimizer{AdamW{.weight_decay = 2.0F}}}) {
    auto const settings = run_settings(runs, optimizer);
    REQUIRE(settings.size() == 3);
    CHECK(settings[0].weight_decay == 0.0F);
    CHECK(settings[0].learning_rate_scale == 0.5F);
    CHECK(!settings[0].statistic);
    CHECK(settings[1].weight_decay == 2.0F);
    CHECK(settings[1].learning_rate_scale == 1.0F);
    CHECK(settings[1].rate == 0.25F);
    CHECK(settings[1].statistic);
    CHECK(settings[2].weight_decay == 3.0F);
    CHECK(settings[2].clip_value == 0.1);  // in double, as Host clips
    CHECK(settings[0].clip_value == 0.0);
  }
}

}  // namespace update_chunks_test
