// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/data/text/text_stream.hpp>

namespace text_stream_test {

using doctest::Contains;
using tandem::ContractError;
using tandem::ParallelStreams;
using tandem::Randomness;
using tandem::TextStream;
using tandem::TokenSpan;
using Tokens = std::vector<std::int32_t>;

static_assert(tandem::Dataset<TextStream> && tandem::RandomDataset<TextStream>);
static_assert(tandem::Dataset<ParallelStreams> && !tandem::RandomDataset<ParallelStreams>);
static_assert(std::is_same_v<tandem::DataInput<TextStream>, std::int32_t>);

Tokens ascending(int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST_CASE("a TextStream's windows without overlap have each target once") {
  for (int const count : {4, 5, 6, 7, 10, 11}) {
    Tokens const tokens = ascending(count);
    TextStream const stream{TokenSpan{tokens, count}, 3};
    CHECK(stream.window() == 3);
    CHECK(stream.vocabulary() == count);
    Tokens targets_seen;
    for (std::int64_t index = 0; index < stream.size(); ++index) {
      Tokens x(3, 77);
      Tokens y(3, 77);
      int const length = stream.read(index, x, y);
      CHECK(length >= 1);
      CHECK((length == 3 || index == stream.size() - 1));
      for (int i = 0; i < 3; ++i) {
        auto const at = static_cast<std::size_t>(i);
        CHECK(x[at] == (i < length ? static_cast<int>(index) * 3 + i : 0));
        CHECK(y[at] == (i < length ? static_cast<int>(index) * 3 + i + 1 : -1));
      }
      targets_seen.insert(targets_seen.end(), y.begin(), y.begin() + length);
    }
    CHECK(targets_seen == Tokens(tokens.begin() + 1, tokens.end()));
  }
}

TEST_CASE("a TextStream's random windows depend on seed, epoch and sample only") {
  Tokens const tokens = ascending(1000);
  TextStream const stream{TokenSpan{tokens, 1000}, 16};
  Tokens x(16);
  Tokens y(16);
  std::vector<std::int64_t> starts;
  for (std::uint64_t const seed : {1U, 2U}) {
    for (std::int64_t const epoch : {0, 1}) {
      for (std::int64_t sample = 0; sample < stream.size(); ++sample) {
        Randomness const randomness{seed, epoch, sample};
        CHECK(stream.read(0, x, y, randomness) == 16);
        starts.push_back(x[0]);
        CHECK(stream.start(randomness) == x[0]);
        CHECK(x == Tokens(tokens.begin() + x[0], tokens.begin() + x[0] + 16));
        CHECK(y == Tokens(tokens.begin() + x[0] + 1, tokens.begin() + x[0] + 17));
      }
    }
  }
  std::int64_t const first = starts[0];
  CHECK(stream.start({1, 0, 0}) == first);
  std::sort(starts.begin(), starts.end());
  std::size_t const different =
      static_cast<std::size_t>(std::unique(starts.begin(), starts.end()) - starts.begin());
  CHECK(different > 200);  // of 252 draws among 984 places; 222 are expected
}

TEST_CASE("a TextStream's random windows begin at every place that has a last target") {
  Tokens const tokens = ascending(7);
  TextStream const stream{TokenSpan{tokens, 7}, 4};
  int begun[3] = {};
  for (std::int64_t sample = 0; sample < 300; ++sample) {
    std::int64_t const start = stream.start({3, 0, sample});
    REQUIRE(start >= 0);
    REQUIRE(start < 3);
    ++begun[start];
  }
  for (int const count : begun) {
    CHECK(count > 60);
  }
  TextStream const whole{TokenSpan{tokens, 7}, 6};
  CHECK(whole.start({3, 0, 1}) == 0);
}

TEST_CASE("a TextStream's places are spread over a text beyond 2^32 tokens") {
  Tokens const one{0};  // never read
  TextStream const stream{TokenSpan{std::span{one.data(), std::size_t{1} << 36}, 1}, 1024};
  int above = 0;
  for (std::int64_t sample = 0; sample < 64; ++sample) {
    above += stream.start({0, 0, sample}) > (std::int64_t{1} << 35) ? 1 : 0;
  }
  CHECK(above > 16);
  CHECK(above < 48);
}

TEST_CASE("ParallelStreams carry on from batch to batch") {
  for (int const count : {9, 10, 11, 12, 29, 30, 31}) {
    for (int const streams : {1, 2, 3}) {
      Tokens const tokens = ascending(count);
      ParallelStreams const text{TokenSpan{tokens, count}, 4, streams};
      int const part = (count - 1) / streams;
      std::vector<Tokens> inputs(static_cast<std::size_t>(streams));
      std::vector<Tokens> targets(static_cast<std::size_t>(streams));
      CHECK(text.size() % streams == 0);
      CHECK(text.size() / streams == (part + 3) / 4);
      for (std::int64_t index = 0; index < text.size(); ++index) {
        Tokens x(4, 77);
        Tokens y(4, 77);
        int const length = text.read(index, x, y);
        CHECK((length == 4 || index >= text.size() - streams));
        CHECK(std::all_of(y.begin() + length, y.end(), [](int t) { return t == -1; }));
        CHECK(std::all_of(x.begin() + length, x.end(), [](int t) { return t == 0; }));
        auto const stream = static_cast<std::size_t>(index % streams);
        inputs[stream].insert(inputs[stream].end(), x.begin(), x.begin() + length);
        targets[stream].insert(targets[stream].end(), y.begin(), y.begin() + length);
      }
      for (int stream = 0; stream < streams; ++stream) {
        auto const at = static_cast<std::size_t>(stream);
        auto const first = tokens.begin() + stream * part;
        CHECK(inputs[at] == Tokens(first, first + part));
        CHECK(targets[at] == Tokens(first + 1, first + part + 1));
      }
    }
  }
}

TEST_CASE("a Loader's batches are a TextStream's windows, at random or in order") {
  Tokens const tokens = ascending(30);
  TextStream const stream{TokenSpan{tokens, 30}, 4};
  Tokens x(4);
  Tokens y(4);
  for (bool const at_random : {true, false}) {
    tandem::Loader<TextStream, std::int32_t> loader{
        stream, {.batch = 3, .seed = 5, .epoch = 2, .shuffle = false, .augment = at_random}};
    std::int64_t index = 0;
    for (decltype(loader)::BatchType batch; loader.next(batch);) {
      for (int i = 0; i < batch.size; ++i, ++index) {
        if (at_random) {
          stream.read(index, x, y, {5, 2, index});
        } else {
          stream.read(index, x, y);
        }
        CHECK(Tokens(batch.x + 4 * i, batch.x + 4 * i + 4) == x);
        CHECK(Tokens(batch.y + 4 * i, batch.y + 4 * i + 4) == y);
      }
    }
    CHECK(index == stream.size());
  }
}

TEST_CASE("a Loader gives ParallelStreams side by side") {
  Tokens const tokens = ascending(25);
  ParallelStreams const streams{TokenSpan{tokens, 25}, 4, 3};
  tandem::Loader<ParallelStreams, std::int32_t> loader{streams, {.batch = 3, .shuffle = false}};
  int step = 0;
  for (decltype(loader)::BatchType batch; loader.next(batch); ++step) {
    for (int i = 0; i < 3; ++i) {
      CHECK(batch.x[4 * i] == 8 * i + 4 * step);
      CHECK(batch.y[4 * i + 3] == 8 * i + 4 * step + 4);
    }
  }
  CHECK(step == 2);
}

TEST_CASE("streams say what they need") {
  Tokens const tokens = ascending(5);
  TokenSpan const span{tokens, 5};
  CHECK_THROWS_WITH_AS(TextStream(span, 5), Contains("there must be more tokens than a window has"),
                       ContractError);
  CHECK_THROWS_AS(TextStream(span, 0), ContractError);
  CHECK_THROWS_WITH_AS(ParallelStreams(span, 2, 5), Contains("more tokens than streams"),
                       ContractError);
  CHECK_THROWS_AS(ParallelStreams(span, 2, 0), ContractError);
  CHECK_THROWS_AS(ParallelStreams(span, 0, 2), ContractError);
  TextStream const stream{span, 2};
  ParallelStreams const streams{span, 2, 2};
  Tokens x(2);
  Tokens y(2);
  Tokens wrong(3);
  for (std::int64_t const index : {-1, 2}) {
    CHECK_THROWS_AS(stream.read(index, x, y), ContractError);
    CHECK_THROWS_AS(stream.read(index, x, y, Randomness{}), ContractError);
    CHECK_THROWS_AS(streams.read(index, x, y), ContractError);
  }
  CHECK_THROWS_AS(stream.read(0, wrong, y), ContractError);
  CHECK_THROWS_AS(stream.read(0, x, wrong), ContractError);
  CHECK_THROWS_AS(streams.read(0, wrong, y), ContractError);
}

}  // namespace text_stream_test
