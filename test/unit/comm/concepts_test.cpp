// SPDX-License-Identifier: Apache-2.0
// The communicators' concepts: what satisfies them, and for each requirement a type without just
// it.

#include <doctest/doctest.h>

#include <span>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/recording.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads.hpp>

namespace tandem {
namespace {

struct Stream {};

/// Everything, for float and Sum only.
struct Complete {
  using Stream = tandem::Stream;
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&) {}
  void broadcast(std::span<float>, int, Stream&) {}
  void barrier(Stream&) {}
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};

struct NoStream {
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct NoRank {
  using Stream = tandem::Stream;
  int size() const noexcept { return 1; }
};
struct NoSize {
  using Stream = tandem::Stream;
  int rank() const noexcept { return 0; }
};
struct RankMayThrow {
  using Stream = tandem::Stream;
  int rank() const { return 0; }
  int size() const noexcept { return 1; }
};
struct SizeMayThrow {
  using Stream = tandem::Stream;
  int rank() const noexcept { return 0; }
  int size() const { return 1; }
};
struct RankIsLong {
  using Stream = tandem::Stream;
  long rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct RankChangesIt {
  using Stream = tandem::Stream;
  int rank() noexcept { return 0; }
  int size() const noexcept { return 1; }
};

struct GroupOnly {
  using Stream = tandem::Stream;
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
};
struct AllReduceReturns : GroupOnly {
  int all_reduce(std::span<float const>, std::span<float>, Sum, Stream&) { return 0; }
};
struct AllReduceWantsMutableInput : GroupOnly {
  void all_reduce(std::span<float>, std::span<float>, Sum, Stream&) {}
};
struct AllReduceWithoutStream : GroupOnly {
  void all_reduce(std::span<float const>, std::span<float>, Sum) {}
};
struct AllReduceWithoutGroup {
  using Stream = tandem::Stream;
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&) {}
};
struct BroadcastWithoutRoot : GroupOnly {
  void broadcast(std::span<float>, Stream&) {}
};
struct BroadcastReturns : GroupOnly {
  int broadcast(std::span<float>, int, Stream&) { return 0; }
};
struct BarrierWithoutStream : GroupOnly {
  void barrier() {}
};
struct BarrierReturns : GroupOnly {
  bool barrier(Stream&) { return true; }
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
static_assert(!AllReduces<AllReduceWithoutGroup, float, Sum>);

static_assert(Broadcasts<Complete, float>);
static_assert(!Broadcasts<Complete, double>);
static_assert(!Broadcasts<GroupOnly, float>);
static_assert(!Broadcasts<BroadcastWithoutRoot, float>);
static_assert(!Broadcasts<BroadcastReturns, float>);

static_assert(Barriers<Complete>);
static_assert(!Barriers<GroupOnly>);
static_assert(!Barriers<BarrierWithoutStream>);
static_assert(!Barriers<BarrierReturns>);

template <class C, class T>
inline constexpr bool does_everything =
    AllReduces<C, T, Sum>&& AllReduces<C, T, Max>&& Broadcasts<C, T>&& Barriers<C>;

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

TEST_CASE("a complete communicator without labels can be recorded") {
  Recording<Complete> recording{Complete{}};
  Stream stream;
  float x[3] = {};
  recording.all_reduce<float>(x, x, Sum{}, stream, {"bucket", 1});
  recording.broadcast(std::span<float>{x}, 0, stream);
  recording.barrier(stream);
  CHECK(recording.log().size() == 3);
}

}  // namespace
}  // namespace tandem
