// SPDX-License-Identifier: Apache-2.0

/// @file
/// What 1,024 and 65,536 ranks cost before their first step, and in each of them, by counting:
/// bench_start_up [MOST]. A process has 8 ranks, and so has a replica, a pipeline. Where NCCL is
/// the emulator, groups of up to MOST ranks (default 64) also start, so that a rank's calls of
/// ncclCommSplit stand beside the rounds. Prints a line of JSON for each.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <tandem/comm/nccl/transport.hpp>
#include <tandem/tandem.hpp>

#if defined(TANDEM_CUDA_EMULATED)
#include "emulator/nccl_control.hpp"
#endif

namespace {

using namespace tandem;

constexpr int each = 8;          // ranks of a process, and stages
constexpr int batch_of = 32;     // samples of a replica
constexpr int microbatches = 8;  // of a replica

using L = Linear<4>;
struct Net : Network<Vector<4>, Sequential<L, L, L, L, L, L, L, L>> {};
using Pipe = Pipeline<OneFOneB, microbatches, Split<1>, Split<1>, Split<1>, Split<1>, Split<1>,
                      Split<1>, Split<1>, Split<1>>;
template <int Ranks>
using Large = Program<Net, Hybrid<DataParallel<Ranks / each>, Pipe>, 4>;

/// Images of ImageNet's size, which count what is read of them.
struct Images {
  using Target = std::int32_t;
  std::int64_t count;
  std::atomic<std::size_t>& bytes;

  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] Shape shape() const { return image_shape(3, 224, 224); }
  [[nodiscard]] int targets() const { return 1; }
  void read(std::int64_t, std::span<float> x, std::span<Target> y) const {
    bytes += x.size_bytes() + y.size_bytes();
  }
};

/// Bytes that the first of @p processes reads of one batch, the last of @p data.
std::size_t read_by_one(Images const& data, int batch, int const& processes) {
  Loader<Images, float> loader{
      data,
      {.batch = batch,
       .first = data.size() - batch,
       .parts = {.of =
                     [](void const* context, int size) {
                       return BatchPart{0, size / *static_cast<int const*>(context)};
                     },
                 .context = &processes}}};
  Batch<float, std::int32_t> read;
  while (loader.next(read)) {
  }
  return data.bytes;
}

template <int Ranks>
void count([[maybe_unused]] int most_started) {
  using P = Large<Ranks>;
  auto const groups = RankGroups{group_facts<P>, P::mesh}.list();
  std::size_t const rounds = detail::rounds_of(groups, Ranks).size();
  host::Device host{1};
  StepSums<Host> sums{host, P::batching.microbatches, 1, true};
  constexpr int processes = Ranks / each;
  std::atomic<std::size_t> bytes{0};
  Images const data{std::int64_t{1281167} * Ranks / 64, bytes};
  std::size_t const order = epoch_order_bytes(data, {.batch = batch_of * processes});
  std::size_t const read = read_by_one(data, batch_of * processes, processes);
  std::size_t ids = 0;
  std::size_t splits = 0;
#if defined(TANDEM_NCCL)
  ids = static_cast<std::size_t>(detail::unique_ids_of(Ranks)) * sizeof(ncclUniqueId);
#endif
#if defined(TANDEM_CUDA_EMULATED) && defined(TANDEM_NCCL)
  if (Ranks <= most_started) {
    std::vector<cuda::Device> devices;
    for (int rank = 0; rank < Ranks; ++rank) {
      devices.push_back(cuda::Device{rank});
    }
    cuda_emulator::clear_nccl_calls();
    TransportOptions options;
    options.groups = groups;
    NcclGroup group{Ranks, 0, devices, make_unique_ids({}, Ranks, std::chrono::minutes{1}),
                    options};
    splits = cuda_emulator::nccl_splits(0).size();
    group.finish();
  }
#endif
  std::printf(
      "{\"ranks\": %d, \"processes\": %d, \"groups\": %zu, \"rounds\": %zu, \"splits\": %zu, "
      "\"id_bytes\": %zu, \"read_bytes\": %zu, \"sums_bytes\": %zu, \"order_bytes\": %zu}\n",
      Ranks, processes, groups.size(), rounds, splits, ids, read, sums.spread(host).size_bytes(),
      order);
}

}  // namespace

int main(int argc, char** argv) {
#if defined(TANDEM_CUDA_EMULATED)
  ::setenv("EMULATED_GPUS", "1024", 1);
#endif
  int const most = argc > 1 ? std::atoi(argv[1]) : 64;
  count<64>(most);
  count<1024>(most);
  count<65536>(most);
  return 0;
}
