// SPDX-License-Identifier: Apache-2.0
// Six ranks make every collective and message, over processes and as threads of one: the bits must
// be the same.
//   communicator [sizes OPERATION]   two ranks that disagree on the size of what they exchange

#include <tandem/mpi.hpp>

#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace td = tandem;

namespace {

constexpr int ranks = 6;
using Numbers = std::vector<float>;

std::vector<td::RankSet> groups() {
  return {{.ranks = {0, 2, 4}, .name = "even"},
          {.ranks = {5, 0, 3, 2}, .name = "in no order"},
          {.ranks = {1, 4}, .name = "pair", .sends = true},
          {.ranks = {3}, .name = "alone"}};
}

/// Of many magnitudes, so that another order is another sum.
Numbers numbers(int rank, std::size_t count, int salt) {
  Numbers values(count);
  for (std::size_t i = 0; i < count; ++i) {
    td::Random4 const random =
        td::philox(std::uint64_t(salt), td::RandomUse::user, i, std::uint64_t(rank));
    values[i] = (td::uniform(random.word[0]) - 0.5F) * (random.word[1] % 3 == 0 ? 1e6F : 1.0F);
  }
  return values;
}

/// All that one rank has got in one group.
template <class Communicator>
Numbers all_of(Communicator comm) {
  td::host::Queue queue;
  Numbers got;
  auto const keep = [&](Numbers const& values) {
    queue.synchronize();
    got.insert(got.end(), values.begin(), values.end());
  };
  int const n = comm.size();
  auto const size = static_cast<std::size_t>(n);
  for (std::size_t const count : {0, 1, 7, 16, 1000, 40000}) {
    Numbers out(count);
    Numbers const in = numbers(comm.rank(), count, 1);
    comm.all_reduce(in, std::span<float>{out}, td::Sum{}, queue, {"sum"});
    keep(out);
    Numbers own = numbers(comm.rank(), count, 2);
    comm.all_reduce(own, std::span<float>{own}, td::Max{}, queue);
    keep(own);
    Numbers const part = numbers(comm.rank(), count, 3);
    Numbers whole(count * size);
    comm.all_gather(part, std::span<float>{whole}, queue);
    keep(whole);
    comm.reduce_scatter(whole, std::span<float>{out}, td::Sum{}, queue);
    keep(out);
    Numbers scattered = numbers(comm.rank(), count * size, 4);
    auto const mine = std::span<float>{scattered}.subspan(std::size_t(comm.rank()) * count, count);
    comm.reduce_scatter(scattered, mine, td::Sum{}, queue);
    queue.synchronize();
    keep(Numbers(mine.begin(), mine.end()));
    for (int root = 0; root < n; ++root) {
      Numbers data = numbers(comm.rank(), count, 5 + root);
      comm.broadcast(std::span<float>{data}, root, queue);
      keep(data);
    }
    if (n > 1) {  // around the ring, three messages at a time
      int const next = (comm.rank() + 1) % n;
      int const before = (comm.rank() + n - 1) % n;
      Numbers const sent = numbers(comm.rank(), count, 20);
      Numbers come(count);
      std::vector<td::Outgoing<float>> const sends{{sent, next}};
      std::vector<td::Incoming<float>> const receives{{come, before}};
      comm.exchange(std::span<td::Outgoing<float> const>{sends},
                    std::span<td::Incoming<float> const>{receives}, queue);
      keep(come);
      for (int turn = 0; turn < 3; ++turn) {
        if (comm.rank() == 0) {
          comm.send(std::span<float const>{sent}, 1, queue);
        } else if (comm.rank() == 1) {
          comm.receive(std::span<float>{come}, 0, queue);
          keep(come);
        }
        queue.synchronize();
      }
    }
    comm.barrier(queue);
    queue.synchronize();
  }
  return got;
}

template <class Transport>
std::vector<Numbers> of_all(Transport& transport) {
  std::vector<Numbers> got(static_cast<std::size_t>(transport.local_ranks()));
  std::vector<std::thread> threads;
  for (int local = 0; local < transport.local_ranks(); ++local) {
    threads.emplace_back([&, local] {
      int const rank = transport.first_rank() + local;
      Numbers& mine = got[std::size_t(local)];
      mine = all_of(transport.communicator(rank));
      auto const sets = groups();
      for (int g = 0; g < static_cast<int>(sets.size()); ++g) {
        if (td::detail::position_of(sets[std::size_t(g)], rank) >= 0) {
          Numbers const more = all_of(transport.communicator(rank, g));
          mine.insert(mine.end(), more.begin(), more.end());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return got;
}

/// Rank 0 has more than rank 1 expects, and nothing may be written behind what rank 1 has.
int exchange_of_two_sizes(td::World const& world, std::string const& operation) {
  constexpr std::size_t larger = 100'000;
  constexpr float untouched = -3.0F;
  std::size_t const count = world.process == 0 ? larger : 100;
  Numbers const in(2 * count, 1.0F);
  Numbers out(4 * larger, untouched);
  std::string said;
  try {
    td::MpiTransport<2> transport{{.timeout = std::chrono::seconds{20}, .world = world}};
    td::host::Queue queue;
    auto comm = transport.communicator(world.process);
    std::span<float const> const one{in.data(), count};
    std::span<float> const result{out.data(), count};
    if (operation == "all_reduce") {
      comm.all_reduce(one, result, td::Sum{}, queue);
    } else if (operation == "reduce_scatter") {
      comm.reduce_scatter(in, result, td::Sum{}, queue);
    } else if (operation == "all_gather") {
      comm.all_gather(one, std::span<float>{out.data(), 2 * count}, queue);
    } else if (operation == "broadcast") {
      comm.broadcast(result, 0, queue);
    } else if (world.process == 0) {
      comm.send(one, 1, queue);
    } else {
      comm.receive(result, 0, queue);
    }
    queue.synchronize();
  } catch (std::exception const& error) {
    said = error.what();
  }
  bool const broken = world.process == 1 && out[2 * count] != untouched;
  std::printf("process %d: %s: %s\n", world.process, broken ? "overwritten" : "whole",
              said.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  td::World const world = td::mpi_world();
  if (argc > 2) {
    return exchange_of_two_sizes(world, argv[2]);
  }
  if (ranks % world.processes != 0) {  // of 4 the first 3 have ranks
    if (world.process >= 3) {
      std::puts("as threads do");
      return 0;
    }
  }
  td::World used = world;
  used.processes = ranks % world.processes == 0 ? world.processes : 3;
  td::MpiTransport<ranks> transport{
      {.timeout = std::chrono::seconds{20}, .world = used, .groups = groups()}};
  td::ThreadsTransport<ranks> oracle{{.timeout = std::chrono::seconds{20}, .groups = groups()}};
  std::vector<Numbers> const expected = of_all(oracle);
  std::vector<Numbers> const got = of_all(transport);
  for (std::size_t local = 0; local < got.size(); ++local) {
    Numbers const& want = expected[std::size_t(transport.first_rank()) + local];
    if (got[local].size() != want.size() ||
        std::memcmp(got[local].data(), want.data(), want.size() * sizeof(float)) != 0) {
      std::fprintf(stderr, "rank %d has other bits than a thread\n",
                   transport.first_rank() + int(local));
      return 1;
    }
  }
  std::puts("as threads do");
} catch (std::exception const& error) {
  std::fprintf(stderr, "communicator: %s\n", error.what());
  return 1;
}
