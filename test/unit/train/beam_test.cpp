// SPDX-License-Identifier: Apache-2.0
// Which hypotheses go on, what they score, and which samples of a batch they are.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <tandem/train/decode.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace beam_test {

using Logits = std::vector<float>;
constexpr std::int32_t end = 0;

std::vector<std::int32_t> tokens_of(BeamSearch const& search) {
  std::vector<std::int32_t> list;
  for (int i = 0; i < search.open(); ++i) {
    list.push_back(search.last(i));
  }
  return list;
}

TEST_CASE("of equal hypotheses the earlier parent goes on, and then the lower token") {
  BeamSearch search{{.width = 3, .length = 0.0}};
  search.advance(Logits{-9.0F, 1.0F, 1.0F, 1.0F}, {}, end, false);
  CHECK(tokens_of(search) == std::vector<std::int32_t>{1, 2, 3});
  search.advance(Logits{-9, 0, 0, 0, -9, 0, 0, 0, -9, 0, 0, 0}, {}, end, false);
  CHECK(tokens_of(search) == std::vector<std::int32_t>{1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    CHECK(search.parent(i) == 0);
  }
  CHECK(search.found()[0].tokens == std::vector<std::int32_t>{1, 1});
}

TEST_CASE("a hypothesis that has ended keeps its place, until better ones take it") {
  BeamSearch search{{.width = 2, .length = 0.0}};
  search.advance(Logits{2.0F, 1.9F, -50.0F}, {}, end, false);  // ends at once, or writes 1
  REQUIRE(search.open() == 1);
  CHECK(search.last(0) == 1);
  search.advance(Logits{-50.0F, 0.0F, 0.0F}, {}, end, false);
  REQUIRE(search.open() == 1);  // half as likely as what has ended, which is in the first place
  CHECK(search.parent(0) == 0);
  CHECK(search.found()[0].ended);
  CHECK(search.found()[0].tokens.empty());
  search.advance(Logits{50.0F, 0.0F, 0.0F}, {}, end, false);
  CHECK(search.open() == 0);
  CHECK(search.found()[1].tokens == std::vector<std::int32_t>{1, 1});
}

TEST_CASE("a score is divided by the length's power, the end counted, and coverage is added") {
  BeamSearch search{{.width = 1, .length = 0.5, .coverage = 0.25}};
  std::vector<float> taken{0.5F, 2.0F, 0.0F};
  std::span<float const> const of[] = {taken};
  search.advance(Logits{0.0F, 3.0F}, of, end, false);
  taken[2] = 0.25F;  // what counts is what was taken when the end was written
  search.advance(Logits{5.0F, 0.0F}, of, end, false);
  double const log = 3.0 - std::log(1.0 + std::exp(3.0)) + 5.0 - std::log(1.0 + std::exp(5.0));
  auto const found = search.found();
  REQUIRE(found.size() == 1);
  CHECK(std::fabs(found[0].log_probability - log) < 1e-6);
  double const score = log / std::sqrt(7.0 / 6.0) + 0.25 * (std::log(0.5) + std::log(0.25));
  CHECK(std::fabs(found[0].score - score) < 1e-6);
}

TEST_CASE("where there is no room for more, what is open stops as it is") {
  BeamSearch search{{.width = 2}};
  search.advance(Logits{0.0F, 1.0F, 2.0F}, {}, end, true);
  CHECK(search.open() == 0);
  CHECK_FALSE(search.found()[0].ended);
  CHECK(search.found()[0].tokens == std::vector<std::int32_t>{2});
}

TEST_CASE("logits that are not finite are said to be so") {
  BeamSearch search{{}};
  CHECK_THROWS_AS(search.advance(Logits{NAN, NAN}, {}, end, false), ContractError);
}

/// Logits that depend on the last token and on how much was read; notes what it is asked.
struct Machine {
  int vocabulary = 5;
  bool two = true;
  std::vector<int> sizes{};
  std::vector<int> positions{};
  std::vector<std::vector<std::int32_t>> state{};  // of each sample, all that it has read

  void operator()(detail::DecodeCall const& call) {
    sizes.push_back(call.size);
    positions.push_back(call.position);
    std::vector<std::vector<std::int32_t>> next(static_cast<std::size_t>(call.size));
    for (int b = 0; b < call.size; ++b) {
      auto& own = next[static_cast<std::size_t>(b)];
      if (call.parents != nullptr && call.parents[b] >= 0) {
        own = state[static_cast<std::size_t>(call.parents[b])];
      }
      int const rows = call.lengths != nullptr ? call.lengths[b] : call.time;
      own.insert(own.end(), call.x + b * call.time, call.x + b * call.time + rows);
      if (two) {
        own.push_back(call.second[b]);
      }
      for (int v = 0; v < vocabulary; ++v) {
        int mix = v * 7 + static_cast<int>(own.size());
        for (std::int32_t const token : own) {
          mix = (mix * 31 + token) % 1009;
        }
        call.scores[b * vocabulary + v] = static_cast<float>(mix % 17) * 0.3F;
      }
    }
    state = next;
  }
};

std::vector<std::vector<Hypothesis>> decoded(detail::DecodeSizes const& sizes, Beam const& beam,
                                             Machine& machine) {
  DecodeTask const task{
      .sources = {{1, 2, 3}, {4}, {2, 2}, {3, 1, 4, 1}, {1}, {2, 3}}, .begin = 1, .end = 0};
  return detail::decode(sizes, task, beam, [&](detail::DecodeCall const& call) { machine(call); });
}

TEST_CASE("however many sentences go together, on however many devices: the same is found") {
  for (bool const two : {true, false}) {
    detail::DecodeSizes sizes{
        .source = 8, .target = 8, .vocabulary = 5, .two = two, .most = 3, .batching = {}};
    Beam const beam{.width = 3, .tokens = 4};
    Machine alone{.two = two};
    auto const wanted = decoded(sizes, beam, alone);
    CHECK(*std::max_element(alone.sizes.begin(), alone.sizes.end()) <= 3);
    for (int const most : {7, 18, 40}) {
      for (Batching const& batching :
           {Batching{.replicas = 3}, Batching{.microbatches = 4},
            Batching{.replicas = 2, .microbatches = 2, .shards = 2, .weight = {1, 3}}}) {
        sizes.most = most;
        sizes.copies = batching.microbatches == 4 ? 2 : 1;
        sizes.batching = batching;
        Machine machine{.two = two};
        auto const found = decoded(sizes, beam, machine);
        CHECK(machine.sizes.size() <= alone.sizes.size());
        CHECK(*std::max_element(machine.sizes.begin(), machine.sizes.end()) <= most);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          REQUIRE(found[i].size() == wanted[i].size());
          for (std::size_t h = 0; h < wanted[i].size(); ++h) {
            CHECK(found[i][h].tokens == wanted[i][h].tokens);
            CHECK(found[i][h].score == wanted[i][h].score);
          }
        }
      }
    }
  }
}

TEST_CASE("a hypothesis goes on from one of its own group only") {
  for (Batching const& batching :
       {Batching{.replicas = 3}, Batching{.microbatches = 4},
        Batching{.replicas = 2, .microbatches = 3, .shards = 2, .weight = {1, 3}}}) {
    detail::DecodeSizes const sizes{.source = 8,
                                    .target = 8,
                                    .vocabulary = 5,
                                    .two = true,
                                    .most = 37,
                                    .copies = batching.microbatches == 4 ? 2 : 1,
                                    .batching = batching};
    detail::DecodeGroups const groups{sizes};
    auto const group_of = [&](int sample, int total) {
      std::size_t g = 0;
      for (int const each : groups.of(total)) {
        if (sample < each) {
          break;
        }
        sample -= each;
        ++g;
      }
      return g;
    };
    int before = 0;
    Machine machine{};
    DecodeTask const task{
        .sources = std::vector<std::vector<std::int32_t>>(9, {1, 2, 3}), .begin = 1, .end = 0};
    detail::decode(sizes, task, {.width = 3}, [&](detail::DecodeCall const& call) {
      for (int b = 0; b < call.size && call.parents != nullptr; ++b) {
        if (call.parents[b] >= 0) {
          CHECK(group_of(b, call.size) == group_of(call.parents[b], before));
        }
      }
      before = call.size;
      machine(call);
    });
  }
}

template <class F>
std::string said(F const& f) {
  try {
    f();
  } catch (ContractError const& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("what does not fit is said before anything is computed") {
  detail::DecodeSizes const sizes{
      .source = 4, .target = 4, .vocabulary = 5, .two = true, .most = 8, .batching = {}};
  auto const error = [&](DecodeTask const& task, Beam const& beam) {
    return said([&] { detail::decode(sizes, task, beam, [](auto const&) { FAIL(""); }); });
  };
  using test::contains;
  CHECK(contains(error({.sources = {{1}, {}}}, {}), "sentence 1 has 0 tokens, but the network"));
  CHECK(contains(error({.sources = {{1, 1, 1, 1, 1}}}, {}), "has 5 tokens, but the network takes"));
  CHECK(contains(error({.sources = {{1}}}, {.width = 0}), ".width must be 1 or more"));
  CHECK(contains(error({.sources = {{1}}}, {.width = 9}), "larger TrainerOptions::batch"));
  CHECK(contains(error({.sources = {{1}}}, {.tokens = 5}), "the network has room for 4"));
  CHECK(contains(error({.sources = {{1}}}, {.coverage = 0.1}), "leave .coverage at 0"));
  CHECK(
      contains(error({.sources = {{1}}, .end = 5}, {}), "must be tokens that the network writes"));
  CHECK(error({}, {}).empty());
}

}  // namespace beam_test
}  // namespace tandem
