// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator: what it computes, which calls it makes, and what happens when something fails.
//
// On real GPUs a case needs as many as it has ranks. The calls and the failures are looked at in
// the emulation only.

#if defined(TANDEM_NCCL)

#include <tandem/comm/nccl/transport.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/cuda_ordered.cuh>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include "emulator/nccl_control.hpp"
#endif

namespace tandem::nccl_test {

using C = NcclCommunicator;
static_assert(AllReduces<C, float, Sum> && AllReduces<C, BFloat16, Max>);
static_assert(AllReduces<C, Float16, Sum>);
static_assert(ReduceScatters<C, double, Sum> && AllGathers<C, std::int32_t>);
static_assert(Broadcasts<C, float> && SendsAndReceives<C, float> && Exchanges<C, float>);
static_assert(Barriers<C> && !AllReduces<C, char, Sum>);

/// The ranks of one or more processes, each with a group of its own; here all are threads of one.
class Ranks {
 public:
  explicit Ranks(int ranks, TransportOptions const& options = {}, int processes = 1)
      : groups_(static_cast<std::size_t>(processes)), local_{ranks / processes} {
    for (int rank = 0; rank < ranks; ++rank) {
      devices_.push_back(std::make_unique<cuda::RankDevice>(cuda::Device{rank}));
    }
    ncclUniqueId const id = make_unique_id({}, options.timeout);
    errors_ = test::on_threads(processes, [&](int process) {
      std::vector<cuda::Device> own;
      for (int i = 0; i < local_; ++i) {
        own.push_back(cuda::Device{process * local_ + i});
      }
      groups_[static_cast<std::size_t>(process)] =
          std::make_unique<NcclGroup>(ranks, process * local_, own, id, options);
    });
  }

  ~Ranks() {
    test::on_threads(static_cast<int>(groups_.size()),
                     [this](int process) { groups_[static_cast<std::size_t>(process)].reset(); });
  }

  template <class F>
  test::Errors run(F const& f) {
    return test::on_threads(static_cast<int>(devices_.size()), [&](int rank) {
      NcclCommunicator comm = group(rank).communicator(rank);
      f(comm, device(rank));
      wait(rank);
    });
  }

  /// Polling, and once more behind it: an abort lets the GPU go on, with wrong numbers.
  void wait(int rank) {
    cuda::Event end{device(rank).device};
    device(rank).communication.record(end);
    auto const begin = std::chrono::steady_clock::now();
    device(rank).wait(
        end, [&] { group(rank).poll(rank, std::chrono::steady_clock::now() - begin); },
        std::chrono::hours{1});
    group(rank).poll(rank);
  }

  [[nodiscard]] NcclGroup& group(int rank) {
    return *groups_[static_cast<std::size_t>(rank / local_)];
  }
  [[nodiscard]] cuda::RankDevice& device(int rank) {
    return *devices_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] test::Errors const& errors() const { return errors_; }

 private:
  std::vector<std::unique_ptr<cuda::RankDevice>> devices_;
  std::vector<std::unique_ptr<NcclGroup>> groups_;
  test::Errors errors_;
  int local_;
};

struct Run {
  int processes = 1;

  template <class F>
  test::Errors operator()(int ranks, F const& f) const {
    Ranks all{ranks, {}, processes};
    CHECK(test::first_message(all.errors()) == "");
    return all.run(f);
  }
};

/// Numbers of ranks for which there are GPUs.
std::vector<int> sizes(int least = 1) {
  std::vector<int> result;
  for (int ranks = least; ranks <= 4 && ranks <= cuda::device_count(); ++ranks) {
    result.push_back(ranks);
  }
  if (result.empty()) {
    MESSAGE("skipped: this needs ", least, " GPUs");
  }
  return result;
}

namespace {

using test::message_of;
using test::Numbers;

TEST_CASE_TEMPLATE("NCCL: collectives", T, float, double, std::int32_t, BFloat16) {
  test::Watchdog const watchdog{"NCCL collectives"};
  for (int const ranks : sizes()) {
    if constexpr (!std::is_same_v<T, BFloat16>) {
      test::check_all_reduce<T>(Run{}, ranks, Numbers::small, Sum{}, {0, 1, 17, 4097});
      test::check_all_reduce<T>(Run{}, ranks, Numbers::small, Max{}, {33});
      test::check_scatter_and_gather<T>(Run{}, ranks, Numbers::small, {0, 1, 33, 1000});
    }
    test::check_broadcast<T>(Run{}, ranks);
    if (ranks > 1) {
      test::check_messages<T>(Run{}, ranks);
    }
  }
}

TEST_CASE_TEMPLATE("NCCL: 16-bit numbers are reduced", T, BFloat16, Float16) {
  test::Watchdog const watchdog{"NCCL 16 bits"};
  for (int const ranks : sizes(2)) {
    auto const errors = Run{}(ranks, [](auto& comm, cuda::RankDevice& device) {
      std::vector<T> const one(9, T{1.0F});
      test::Fleeting<T> data{device, one};
      data.fill();
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      data.keep_and_spoil();
      std::vector<T> const all(9, T{static_cast<float>(comm.size())});
      CHECK(test::same_bits(data.result(), all));
    });
    CHECK(test::first_message(errors) == "");
  }
}

TEST_CASE_TEMPLATE("NCCL: the ordered all-reduce has the bits of threads", T, float, double) {
  test::Watchdog const watchdog{"NCCL ordered"};
  for (int const ranks : sizes()) {
    for (std::size_t const count : {0, 1, 2, 17, 64, 4097, 100003}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<T>> in;
      for (int rank = 0; rank < ranks; ++rank) {
        in.push_back(test::numbers<T>(Numbers::wild, count, rank, count));
      }
      auto const expected = test::host_all_reduce(in, Sum{});
      std::size_t const bytes = ordered_scratch_bytes<NcclCommunicator, T>(count, ranks);
      auto const errors = Run{}(ranks, [&](auto& comm, cuda::RankDevice& device) {
        auto const& own = in[static_cast<std::size_t>(comm.rank())];
        test::DeviceArray<std::uint8_t> const scratch{device, bytes};
        std::span<std::byte> const room{reinterpret_cast<std::byte*>(scratch.data()), bytes};
        test::Fleeting<T> from{device, own, comm.rank() % 2 == 1};
        test::Fleeting<T> to{device, std::vector<T>(count)};
        test::Fleeting<T> both{device, own};
        auto& stream = device.communication;
        from.fill();
        both.fill();
        all_reduce_ordered<NcclCommunicator, T>(comm, from.span(), to.span(), Sum{}, room, stream);
        all_reduce_ordered<NcclCommunicator, T>(comm, both.span(), both.span(), Sum{}, room,
                                                stream);
        from.keep_and_spoil();
        to.keep_and_spoil();
        both.keep_and_spoil();
        CHECK(test::same_bits(to.result(), expected));
        CHECK(test::same_bits(both.result(), expected));
        CHECK(scratch.size() == static_cast<std::int64_t>(bytes));
        static_cast<void>(scratch.host());  // nothing was written outside of it
      });
      CHECK(test::first_message(errors) == "");
    }
  }
}

TEST_CASE("NCCL: the scratch of the ordered all-reduce is about one array") {
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(1 << 20, 4) == 3 * (1 << 20));
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(1, 4) == 3 * 64);
  CHECK(ordered_scratch_bytes<NcclCommunicator, double>(0, 4) == 0);
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(100, 1) == 0);
  CHECK(ordered_scratch_bytes<CudaSelfCommunicator, float>(100, 1) == 0);
}

TEST_CASE("NCCL: everything can be captured and replayed") {
  test::Watchdog const watchdog{"NCCL capture"};
  for (int const ranks : sizes(2)) {
    CAPTURE(ranks);
    std::size_t const count = 1001;
    std::vector<std::vector<float>> in;
    for (int rank = 0; rank < ranks; ++rank) {
      in.push_back(test::numbers<float>(Numbers::wild, count, rank, 4));
    }
    auto const once = test::host_all_reduce(in, Sum{});
    auto const errors = Run{}(ranks, [&](auto& comm, cuda::RankDevice& device) {
      auto& stream = device.communication;
      comm.warm_up(stream, {Operation::all_reduce, Operation::broadcast, Operation::all_gather,
                            Operation::reduce_scatter, Operation::send, Operation::barrier});
      std::size_t const bytes = ordered_scratch_bytes<NcclCommunicator, float>(count, comm.size());
      test::DeviceArray<std::uint8_t> const scratch{device, bytes};
      test::Fleeting<float> ordered{device, in[static_cast<std::size_t>(comm.rank())]};
      test::Fleeting<std::int32_t> plain{device, std::vector<std::int32_t>(7, comm.rank() + 1)};
      cuda::Capture capture{stream};
      ordered.fill();
      plain.fill();
      all_reduce_ordered<NcclCommunicator, float>(
          comm, ordered.span(), ordered.span(), Sum{},
          {reinterpret_cast<std::byte*>(scratch.data()), bytes}, stream);
      comm.all_reduce(plain.span(), plain.span(), Sum{}, stream);
      comm.broadcast(plain.span().subspan(0, 1), comm.size() - 1, stream);
      comm.barrier(stream);
      ordered.keep_and_spoil();
      plain.keep_and_spoil();
      cuda::Graph graph = capture.finish();
      for (int i = 0; i < 3; ++i) {
        graph.launch(stream);
      }
      CHECK(test::same_bits(ordered.result(), once));
      int const sum = comm.size() * (comm.size() + 1) / 2;
      CHECK(plain.result() == std::vector<std::int32_t>(7, sum));
    });
    CHECK(test::first_message(errors) == "");
  }
}

TEST_CASE("NCCL: what cannot be meant is refused before NCCL sees it") {
  test::Watchdog const watchdog{"NCCL contracts"};
  if (sizes(2).empty()) {
    return;
  }
  Ranks all{2};
  auto& stream = all.device(0).communication;
  NcclCommunicator comm = all.group(0).communicator(0);
  test::DeviceArray<float> const memory{all.device(0), 10};
  std::span<float> const ten{memory.data(), 10};
  CHECK_THROWS_AS(comm.all_reduce(ten, ten.subspan(1), Sum{}, stream), ContractError);
  CHECK_THROWS_AS(comm.reduce_scatter(ten, ten, Sum{}, stream), ContractError);
  CHECK_THROWS_AS(comm.all_gather(ten, ten, stream), ContractError);
  CHECK_THROWS_AS(comm.broadcast(ten, 2, stream), ContractError);
  CHECK_THROWS_AS(comm.send(ten, 0, stream), ContractError);
  CHECK_THROWS_AS(comm.receive(ten, -1, stream), ContractError);
  Outgoing<float> const to_nobody{ten, 2};
  CHECK_THROWS_AS(
      comm.exchange(std::span{&to_nobody, 1}, std::span<Incoming<float> const>{}, stream),
      ContractError);
  CHECK_THROWS_AS((all_reduce_ordered<NcclCommunicator, float>(comm, ten, ten, Sum{}, {}, stream)),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(all.group(0).communicator(2)), ContractError);
  ncclUniqueId const id = make_unique_id({}, std::chrono::seconds{1});
  cuda::Device const device{0};
  CHECK_THROWS_AS((NcclGroup{1, 1, std::span{&device, 1}, id}), ContractError);
  CHECK_THROWS_AS((NcclGroup{1, 0, std::span{&device, 1}, id, {.timeout = {}}}), ContractError);
}

TEST_CASE("NCCL transport: which GPUs a process takes") {
  World world{.processes = 4, .process = 3, .local_process = 1};
  CHECK(detail::first_device(world, 2, 4) == 2);
  CHECK(detail::first_device(world, 2, 2) == 0);  // the launcher has dealt them
  CHECK(detail::first_device(world, 1, 1) == 0);
  std::string message;
  try {
    static_cast<void>(detail::first_device(world, 2, 3));
  } catch (Error const& error) {
    message = error.what();
  }
  CHECK(message ==
        "process 3 has 2 ranks and is number 1 on its machine, so there must be 4 GPUs, but it "
        "sees 3; use a strategy with fewer ranks, more machines, or look at CUDA_VISIBLE_DEVICES");
  message.clear();
  try {
    static_cast<void>(detail::first_device(World{}, 4, 1));
  } catch (Error const& error) {
    message = error.what();
  }
  CHECK(message ==
        "a strategy of 4 ranks needs 4 GPUs, but this process sees 1; use a strategy with fewer "
        "ranks, or look at CUDA_VISIBLE_DEVICES");
}

TEST_CASE("NCCL transport: one rank makes no call") {
  NcclTransport<1> one{TransportOptions{}};
  CHECK(one.communicator(0).size() == 1);
  CHECK(one.progress(0) == nullptr);
  CHECK(NcclTransport<1>::capturable);
  CHECK_THROWS_AS(NcclTransport<1>{TransportOptions{.world = {.processes = 2}}}, ContractError);
}

TEST_CASE("NCCL transport: two processes meet and connect") {
  test::Watchdog const watchdog{"NCCL transport"};
  if (sizes(2).empty()) {
    return;
  }
  auto const folder =
      std::filesystem::temp_directory_path() / ("tandem-nccl-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  auto const errors = test::on_threads(2, [&](int process) {
    NcclTransport<2> transport{
        {.world = {.processes = 2,
                   .process = process,
                   .local_process = process,
                   .rendezvous = {.address = "file:" + (folder / "meet").string()}}}};
    CHECK(transport.first_rank() == process);
    CHECK(transport.local_ranks() == 1);
    CHECK(transport.device_of(0) == process);
    cuda::RankDevice device{cuda::Device{transport.device_of(0)}};
    auto comm = transport.communicator(process);
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    data.fill();
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK(data.result() == std::vector<float>(3, 4.0F));
    transport.poll(process);
    CHECK(transport.progress(process) != nullptr);
  });
  CHECK(test::first_message(errors) == "");
  std::filesystem::remove_all(folder);
}

#if defined(TANDEM_CUDA_EMULATED)

namespace emu = cuda_emulator;

/// The calls of one rank as a person writes them.
std::vector<std::string> calls(int rank) {
  std::vector<std::string> result;
  for (auto const& call : emu::nccl_calls(rank)) {
    result.push_back(emu::to_string(call));
  }
  return result;
}

/// Whether no communicator was misused or is left over during its life.
struct Tidy {
  ~Tidy() {
    CHECK(emu::nccl_misuses() == misuses);
    CHECK(emu::live_nccl_communicators() == 0);
  }
  std::size_t misuses = emu::nccl_misuses();
};

TEST_CASE("NCCL: the calls are those that one would write by hand") {
  test::Watchdog const watchdog{"NCCL calls"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  emu::clear_nccl_calls();
  auto const errors = Run{}(3, [&](auto& comm, cuda::RankDevice& device) {
    auto& stream = device.communication;
    test::DeviceArray<float> const memory{device, std::vector<float>(48, 1.0F)};
    test::DeviceArray<std::uint8_t> const scratch{device, 1024};
    std::span<float> const all{memory.data(), 48};
    comm.all_reduce(all, all, Sum{}, stream, {"bucket", 0});
    comm.all_reduce(all.subspan(0, 0), all.subspan(0, 0), Sum{}, stream, {"nothing"});
    comm.reduce_scatter(all, all.subspan(0, 16), Max{}, stream);
    comm.broadcast(all, 2, stream);
    all_reduce_ordered<NcclCommunicator, float>(
        comm, all, all, Sum{}, {reinterpret_cast<std::byte*>(scratch.data()), 1024}, stream);
  });
  CHECK(test::first_message(errors) == "");
  CHECK(calls(1) ==
        std::vector<std::string>{"ncclAllReduce 48 float32 sum", "ncclReduceScatter 16 float32 max",
                                 "ncclBroadcast 48 float32 from 2", "ncclSend 16 float32 to 0",
                                 "ncclSend 16 float32 to 2", "ncclRecv 16 float32 from 0",
                                 "ncclRecv 16 float32 from 2", "ncclSend 16 float32 to 0",
                                 "ncclSend 16 float32 to 2", "ncclRecv 16 float32 from 0",
                                 "ncclRecv 16 float32 from 2"});
  auto const one = emu::nccl_calls(1);
  CHECK(one[0].group == 0);
  CHECK(one[3].group == one[6].group);
  CHECK(one[3].group != one[7].group);
  CHECK(one[7].group == one[10].group);
  CHECK(emu::aborted_nccl_communicators() == aborted);  // they were closed in good order
}

TEST_CASE("NCCL: a ring adds in another order, so the ordered all-reduce is needed") {
  Ranks all{4};
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(test::numbers<float>(Numbers::wild, 1000, rank, 1));
  }
  auto const ordered = test::host_all_reduce(in, Sum{});
  all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, in[static_cast<std::size_t>(comm.rank())]};
    data.fill();
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK_FALSE(test::same_bits(data.result(), ordered));
  });
}

TEST_CASE("NCCL: several processes") {
  test::Watchdog const watchdog{"NCCL processes"};
  Tidy const tidy;
  test::check_all_reduce<float>(Run{2}, 4, Numbers::small, Sum{}, {1, 1000});
  test::check_messages<float>(Run{4}, 4);
}

TransportOptions impatient(int ms) {
  return {.timeout = std::chrono::milliseconds{ms},
          .describe_progress =
              [](int rank, std::uint64_t progress) {
                return "rank " + std::to_string(rank) + " is at action " + std::to_string(progress);
              },
          .name = "replicas"};
}

TEST_CASE("NCCL: a rank that does not come while NCCL connects is named when time is up") {
  test::Watchdog const watchdog{"NCCL time-out in a call"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{3, impatient(200)};
    all.group(1).progress(1) = 17;
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.barrier(device.communication, {"start"});
      if (comm.rank() != 1) {
        comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 1});
        comm.broadcast(data.span(), 0, device.communication, {"weights", 1});
      }
    });
    std::string const expected =
        "replicas: rank 1 did not reach broadcast #3 (weights 1) within 200 ms; it was last in "
        "barrier #1 (start), rank 1 is at action 17";
    bool const first = message_of<TimeoutError>(errors[0]) == expected;
    bool const third = message_of<TimeoutError>(errors[2]) == expected;
    CHECK((first || third));
    CHECK((first || message_of<AbortedError>(errors[0]) == expected));
    CHECK((third || message_of<AbortedError>(errors[2]) == expected));
    CHECK_THROWS_AS(all.group(1).poll(1), AbortedError);
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 3);  // each once
}

TEST_CASE("NCCL: a rank that does not come on the device is named when time is up") {
  test::Watchdog const watchdog{"NCCL time-out on the device"};
  Tidy const tidy;
  Ranks all{2, impatient(200), 2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    comm.warm_up(device.communication);
    if (comm.rank() == 0) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 1});
    }
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "replicas: rank 0 waited 200 ms for its GPU, last in all-reduce #2 (bucket 1), rank 0 is "
        "at action 0; rank 0 has come so far: look at the other processes, where the others live");
  CHECK(errors[1] == nullptr);  // a process of its own, which has not failed
}

TEST_CASE("NCCL: abort() wakes those who wait, in a call and for the GPU") {
  test::Watchdog const watchdog{"NCCL abort"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{4};
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.warm_up(device.communication);
      if (comm.rank() == 0) {
        comm.broadcast(data.span(), 0, device.communication);  // waits for a connection
      } else if (comm.rank() == 1) {
        comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        all.group(comm.rank()).abort(comm.rank(), "it ran out of luck");  // two at once
      }
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      std::string const message = message_of<AbortedError>(errors[rank]);
      CHECK((message == "rank 2 failed: it ran out of luck" ||
             message == "rank 3 failed: it ran out of luck"));
      CHECK(message == message_of<AbortedError>(errors[0]));
    }
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 4);
}

TEST_CASE(
    "NCCL: a replayed graph whose peer does not come ends in time, though the graph lives on") {
  test::Watchdog const watchdog{"NCCL time-out of a graph"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{2, impatient(200)};
    std::vector<cuda::Graph> graphs(2);  // destroyed before the group, as NCCL wants it
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.warm_up(device.communication);
      cuda::Capture capture{device.communication};
      data.fill();
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 0});
      auto const rank = static_cast<std::size_t>(comm.rank());
      graphs[rank] = capture.finish();
      if (rank == 0) {
        graphs[rank].launch(device.communication);
        all.wait(0);
      }
    });
    CHECK(message_of<TimeoutError>(errors[0]) ==
          "replicas: rank 0 waited 200 ms for its GPU, last in all-reduce #2 (bucket 0), rank 0 is "
          "at action 0; all ranks have come so far: do their calls match?");
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 2);
}

TEST_CASE("NCCL: an error that NCCL notices later comes out of poll()") {
  test::Watchdog const watchdog{"NCCL asynchronous error"};
  Ranks all{2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    comm.warm_up(device.communication);
    if (comm.rank() == 0) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      emu::break_nccl(0, ncclRemoteError);
    }
  });
  std::string const message = message_of<NcclError>(errors[0]);
  CHECK(message.find("NCCL: remote process exited or there was a network error; another process "
                     "has ended or cannot be reached: look at its output first (") == 0);
  CHECK(message.find("group.hpp:") != std::string::npos);
}

TEST_CASE("NCCL: a process that does not come, or shares a GPU, is a sentence") {
  test::Watchdog const watchdog{"NCCL connect"};
  Tidy const tidy;
  ncclUniqueId const id = make_unique_id({}, std::chrono::seconds{1});
  std::vector<cuda::Device> const two{{0}, {1}};
  std::string message;
  try {
    NcclGroup const group{4, 2, two, id, impatient(100)};
  } catch (TimeoutError const& error) {
    message = error.what();
  }
  CHECK(message ==
        "replicas: NCCL did not connect all 4 ranks, of which ranks 2 and 3 live in this process: "
        "another process did not come within 100 ms");
  std::vector<cuda::Device> const same{{1}, {1}};
  message.clear();
  try {
    NcclGroup const group{2, 0, same, make_unique_id({}, std::chrono::seconds{1})};
  } catch (NcclError const& error) {
    message = error.what();
    CHECK(error.code() == ncclInvalidUsage);
  }
  CHECK(message.find("NCCL: invalid usage; are two ranks on one GPU?") == 0);
}

TEST_CASE("NCCL: after finish() no call is possible, and nothing is aborted") {
  test::Watchdog const watchdog{"NCCL finish"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  Ranks all{2, {}, 2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    comm.barrier(device.communication);
    all.wait(comm.rank());
    all.group(comm.rank()).finish();
    CHECK_THROWS_AS(comm.barrier(device.communication), ContractError);
  });
  CHECK(message_of<ContractError>(errors[0]).find("used after finish()") != std::string::npos);
  CHECK(emu::aborted_nccl_communicators() == aborted);
}

#endif  // TANDEM_CUDA_EMULATED

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL
