// SPDX-License-Identifier: Apache-2.0
// The communicators' concepts: what satisfies them, and for each requirement a type without just
// it.

#include <doctest/doctest.h>

#include <span>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/recording.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads/communicator.hpp>

namespace tandem {
namespace concepts_test {

struct Stream {};

/// Everything, for float and Sum only.
struct Complete {
  using Stream = concepts_test::Stream;
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&, Label) {}
  void broadcast(std::span<float>, int, Stream&, Label) {}
  void reduce_scatter(std::span<float const>, std::span<float>, Sum, Stream&, Label) {}
  void all_gather(std::span<float const>, std::span<float>, Stream&, Label) {}
  void send(std::span<float const>, int, Stream&, Label) {}
  void receive(std::span<float>, int, Stream&, Label) {}
  void exchange(std::span<Outgoing<float> const>, std::span<Incoming<float> const>, Stream&,
                Label) {}
  void barrier(Stream&, Label) {}
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};

struct NoStream {
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct NoRank {
  using Stream = concepts_test::Stream;
  int size() const noexcept { return 1; }
};
struct NoSize {
  using Stream = concepts_test::Stream;
  int rank() const noexcept { return 0; }
};
struct RankMayThrow {
  using Stream = concepts_test::Stream;
  int rank() const { return 0; }
  int size() const noexcept { return 1; }
};
struct SizeMayThrow {
  using Stream = concepts_test::Stream;
  int rank() const noexcept { return 0; }
  int size() const { return 1; }
};
struct RankIsLong {
  using Stream = concepts_test::Stream;
  long rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct RankChangesIt {
  using Stream = concepts_test::Stream;
  int rank() noexcept { return 0; }
  int size() const noexcept { return 1; }
};

struct GroupOnly {
  using Stream = concepts_test::Stream;
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct AllReduceReturns : GroupOnly {
  int all_reduce(std::span<float const>, std::span<float>, Sum, Stream&, Label) { return 0; }
};
struct AllReduceWantsMutableInput : GroupOnly {
  void all_reduce(std::span<float>, std::span<float>, Sum, Stream&, Label) {}
};
struct AllReduceWithoutStream : GroupOnly {
  void all_reduce(std::span<float const>, std::span<float>, Sum, Label) {}
};
struct AllReduceWithoutLabel : GroupOnly {
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&) {}
};
struct AllReduceWithoutGroup {
  using Stream = concepts_test::Stream;
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&, Label) {}
};
struct BroadcastWithoutRoot : GroupOnly {
  void broadcast(std::span<float>, Stream&, Label) {}
};
struct BroadcastWithoutLabel : GroupOnly {
  void broadcast(std::span<float>, int, Stream&) {}
};
struct BroadcastReturns : GroupOnly {
  int broadcast(std::span<float>, int, Stream&, Label) { return 0; }
};
struct BarrierWithoutStream : GroupOnly {
  void barrier(Label) {}
};
struct BarrierReturns : GroupOnly {
  bool barrier(Stream&, Label) { return true; }
};

struct ReduceScatterReturns : GroupOnly {
  int reduce_scatter(std::span<float const>, std::span<float>, Sum, Stream&, Label) { return 0; }
};
struct ReduceScatterWithoutOp : GroupOnly {
  void reduce_scatter(std::span<float const>, std::span<float>, Stream&, Label) {}
};
struct AllGatherReturns : GroupOnly {
  int all_gather(std::span<float const>, std::span<float>, Stream&, Label) { return 0; }
};
struct AllGatherWantsMutableInput : GroupOnly {
  void all_gather(std::span<float>, std::span<float>, Stream&, Label) {}
};
struct SendOnly : GroupOnly {
  void send(std::span<float const>, int, Stream&, Label) {}
};
struct ReceiveOnly : GroupOnly {
  void receive(std::span<float>, int, Stream&, Label) {}
};
struct SendWithoutLabel : ReceiveOnly {
  void send(std::span<float const>, int, Stream&) {}
};
struct SendWithoutPeer : ReceiveOnly {
  void send(std::span<float const>, Stream&, Label) {}
};
struct ExchangeOfOne : GroupOnly {
  void exchange(Outgoing<float>, Incoming<float>, Stream&, Label) {}
};
struct ExchangeReturns : GroupOnly {
  int exchange(std::span<Outgoing<float> const>, std::span<Incoming<float> const>, Stream&, Label) {
    return 0;
  }
};

static_assert(RankGroup<Complete> && RankGroup<GroupOnly>);
static_assert(!RankGroup<NoStream>);
static_assert(!RankGroup<NoRank>);
static_assert(!RankGroup<NoSize>);
static_assert(!RankGroup<RankMayThrow>);
static_assert(!RankGroup<SizeMayThrow>);
static_assert(!RankGroup<RankIsLong>);
static_assert(!RankGroup<RankChangesIt>);
static_assert(!RankGroup<int>);

static_assert(AllReduces<Complete, float, Sum>);
static_assert(!AllReduces<Complete, double, Sum>);
static_assert(!AllReduces<Complete, float, Max>);
static_assert(!AllReduces<GroupOnly, float, Sum>);
static_assert(!AllReduces<AllReduceReturns, float, Sum>);
static_assert(!AllReduces<AllReduceWantsMutableInput, float, Sum>);
static_assert(!AllReduces<AllReduceWithoutStream, float, Sum>);
static_assert(!AllReduces<AllReduceWithoutLabel, float, Sum>);
static_assert(!AllReduces<AllReduceWithoutGroup, float, Sum>);

static_assert(Broadcasts<Complete, float>);
static_assert(!Broadcasts<Complete, double>);
static_assert(!Broadcasts<GroupOnly, float>);
static_assert(!Broadcasts<BroadcastWithoutRoot, float>);
static_assert(!Broadcasts<BroadcastWithoutLabel, float>);
static_assert(!Broadcasts<BroadcastReturns, float>);

static_assert(ReduceScatters<Complete, float, Sum>);
static_assert(!ReduceScatters<Complete, double, Sum>);
static_assert(!ReduceScatters<Complete, float, Max>);
static_assert(!ReduceScatters<GroupOnly, float, Sum>);
static_assert(!ReduceScatters<ReduceScatterReturns, float, Sum>);
static_assert(!ReduceScatters<ReduceScatterWithoutOp, float, Sum>);

static_assert(AllGathers<Complete, float>);
static_assert(!AllGathers<Complete, double>);
static_assert(!AllGathers<GroupOnly, float>);
static_assert(!AllGathers<AllGatherReturns, float>);
static_assert(!AllGathers<AllGatherWantsMutableInput, float>);

static_assert(SendsAndReceives<Complete, float>);
static_assert(!SendsAndReceives<Complete, double>);
static_assert(!SendsAndReceives<GroupOnly, float>);
static_assert(!SendsAndReceives<SendOnly, float>);
static_assert(!SendsAndReceives<ReceiveOnly, float>);
static_assert(!SendsAndReceives<SendWithoutLabel, float>);
static_assert(!SendsAndReceives<SendWithoutPeer, float>);

static_assert(Exchanges<Complete, float>);
static_assert(!Exchanges<Complete, double>);
static_assert(!Exchanges<GroupOnly, float>);
static_assert(!Exchanges<ExchangeOfOne, float>);
static_assert(!Exchanges<ExchangeReturns, float>);

static_assert(Barriers<Complete>);
static_assert(!Barriers<GroupOnly>);
static_assert(!Barriers<BarrierWithoutStream>);
static_assert(!Barriers<BarrierReturns>);

template <class C, class T>
inline constexpr bool does_everything =
    AllReduces<C, T, Sum>&& AllReduces<C, T, Max>&& ReduceScatters<C, T, Sum>&& AllGathers<C, T>&&
        Broadcasts<C, T>&& SendsAndReceives<C, T>&& Exchanges<C, T>&& Barriers<C>;

static_assert(does_everything<SelfCommunicator, float>);
static_assert(does_everything<ThreadsCommunicator, float>);
static_assert(does_everything<ThreadsCommunicator, double>);
static_assert(does_everything<ThreadsCommunicator, int>);
static_assert(does_everything<Recording<SelfCommunicator>, float>);
static_assert(does_everything<Recording<ThreadsCommunicator>, double>);

// Recording offers what its communicator does, and no more.
static_assert(AllReduces<Recording<Complete>, float, Sum>);
static_assert(!AllReduces<Recording<Complete>, double, Sum>);
static_assert(RankGroup<Recording<GroupOnly>>);
static_assert(!AllReduces<Recording<GroupOnly>, float, Sum>);
static_assert(!Broadcasts<Recording<GroupOnly>, float>);
static_assert(!Barriers<Recording<GroupOnly>>);
static_assert(!ReduceScatters<Recording<GroupOnly>, float, Sum>);
static_assert(!AllGathers<Recording<GroupOnly>, float>);
static_assert(!SendsAndReceives<Recording<GroupOnly>, float>);
static_assert(!Exchanges<Recording<GroupOnly>, float>);

struct OpMayThrow {
  float operator()(float a, float b) const { return a + b; }
};
struct OpReturnsDouble {
  double operator()(float a, float b) const noexcept { return double{a} + double{b}; }
};
struct OpOwns {
  OpOwns(OpOwns const&) {}
  float operator()(float a, float b) const noexcept { return a + b; }
};
struct OpTakesOne {
  float operator()(float a) const noexcept { return a; }
};

static_assert(Reduction<Sum, float> && Reduction<Max, float> && Reduction<Sum, short>);
static_assert(!Reduction<OpMayThrow, float>);
static_assert(!Reduction<OpReturnsDouble, float>);
static_assert(!Reduction<OpOwns, float>);
static_assert(!Reduction<OpTakesOne, float>);
static_assert(!AllReduces<ThreadsCommunicator, float, OpMayThrow>);
static_assert(!AllReduces<SelfCommunicator, float, OpMayThrow>);

TEST_CASE("a complete communicator can be recorded") {
  Recording<Complete> recording{Complete{}};
  Stream stream;
  float x[3] = {};
  recording.all_reduce<float>(x, x, Sum{}, stream, {"bucket", 1});
  recording.broadcast(std::span<float>{x}, 0, stream);
  recording.barrier(stream);
  std::span<float> const all{x};
  recording.reduce_scatter(all, all, Sum{}, stream);
  recording.all_gather(all, all, stream);
  recording.send(all, 1, stream);
  recording.receive(all, 1, stream);
  recording.exchange<float>({}, {}, stream);
  CHECK(recording.log().size() == 7);
}

}  // namespace concepts_test
}  // namespace tandem
