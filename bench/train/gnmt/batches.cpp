// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <fstream>
#include <span>

#include <tandem/core/error.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/text.hpp>

#include "settings.hpp"

namespace tandem::bench::gnmt {

void write_batches(std::string const& file, std::string const& source, std::string const& target,
                   int batch, int batches, int first) {
  Words const words{read_text(source) + "\n" + read_text(target), vocabulary - 2};
  Pairs const pairs{source, target, words, {.longest = longest, .leave_out = true}};
  Loader<Pairs> loader{pairs,
                       {.batch = batch, .drop_last = true, .first = std::int64_t{first} * batch}};
  std::ofstream out{file};
  out << batches << ' ' << batch << '\n';
  auto const line = [&](std::int32_t const* numbers, int count) {
    for (std::int32_t const each : std::span{numbers, static_cast<std::size_t>(count)}) {
      out << each << ' ';
    }
    out << '\n';
  };
  Loader<Pairs>::BatchType one;
  int rows = 0;
  int tokens = 0;
  for (int i = 0; i < batches && loader.next(one); ++i) {
    out << one.time << ' ' << one.second_time << '\n';
    line(one.lengths, batch);
    line(one.second_lengths, batch);
    line(one.x, batch * one.time);
    line(one.second, batch * one.second_time);
    line(one.y, batch * one.second_time);
    rows += batch * (one.time + one.second_time);
    for (int b = 0; b < batch; ++b) {
      tokens += one.lengths[b] + one.second_lengths[b];
    }
    std::printf("%d by %d rows of %d pairs\n", one.time, one.second_time, batch);
  }
  out.flush();
  if (!out) {
    throw Error{"cannot write '" + file + "'"};
  }
  std::printf("%d pairs, %d tokens in the vocabulary; %.3f of the rows are padding\n",
              static_cast<int>(pairs.size()), pairs.vocabulary(),
              1.0 - static_cast<double>(tokens) / rows);
}

std::vector<PairBatch> read_batches(std::string const& file) {
  std::ifstream in{file};
  std::size_t count = 0;
  std::size_t batch = 0;
  in >> count >> batch;
  std::vector<PairBatch> list(in ? count : 0);
  auto const read = [&](std::vector<std::int32_t>& to, std::size_t numbers) {
    to.resize(numbers);
    for (std::int32_t& each : to) {
      in >> each;
    }
  };
  for (PairBatch& one : list) {
    in >> one.time >> one.second_time;
    read(one.lengths, batch);
    read(one.second_lengths, batch);
    read(one.x, batch * static_cast<std::size_t>(one.time));
    read(one.second, batch * static_cast<std::size_t>(one.second_time));
    read(one.targets, batch * static_cast<std::size_t>(one.second_time));
  }
  if (!in || list.empty()) {
    throw Error{"'" + file + "' has no batches: bench_gnmt --write FILE makes them"};
  }
  return list;
}

}  // namespace tandem::bench::gnmt
