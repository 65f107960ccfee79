// SPDX-License-Identifier: Apache-2.0
// The concepts of backends, transports and ops: an archetype of each trains as Host does; who
// models them; and for each requirement a type without just it, which is refused.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <tandem/measure/profile/backend.hpp>
#include <tandem/tandem.hpp>

#include <archetype.hpp>
#include <compare.hpp>
#include <logging_transport.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace archetype_test {

using test::Archetype;
using test::ArchetypeTransport;

// Who models them.
template <class B>
inline constexpr bool is_backend = ComputeBackend<B>&& HasVerbs<B>;
static_assert(is_backend<Archetype> && is_backend<Null>);
static_assert(is_backend<Host> && is_backend<BasicHost<Portable>>);
static_assert(is_backend<BasicHost<Portable, Fp64>> && is_backend<BasicHost<OneDnn>>);
static_assert(is_backend<BasicHost<OneDnn, Bf16>> && is_backend<Profiled<Host>>);
static_assert(!is_backend<int> && !is_backend<Cuda>);  // only named here

static_assert(RankTransport<ArchetypeTransport<1>> && RankTransport<ArchetypeTransport<4>>);
static_assert(RankTransport<ThreadsTransport<1>> && RankTransport<ThreadsTransport<4>>);
static_assert(RankTransport<RecordingTransport<1>> && RankTransport<RecordingTransport<4>>);
static_assert(RankTransport<test::LoggingTransport<1>> && RankTransport<test::LoggingTransport<4>>);
static_assert(!RankTransport<int> && !RankTransport<ThreadsCommunicator>);

template <class B>
inline constexpr bool has_ops = ParameterOp<Op<Conv2d<2, Kernel<3>>, B>, B>&& ParameterOp<
    Op<Linear<3>, B>, B>&& BackwardOp<Op<ReLU, B>, B>&& BackwardOp<Op<MaxPool2d<Kernel<2>>, B>, B>&&
    BackwardOp<Op<ConcatJoin, B>, B>&& NodeOp<Op<AddJoin, B>, B>&&
        ComputesLoss<LossOp<SoftmaxCrossEntropy<>, B>, SoftmaxCrossEntropy<>, B>&&
            CountsMetric<MetricOp<Accuracy, SoftmaxCrossEntropy<>, B>, SoftmaxCrossEntropy<>, B>;
static_assert(has_ops<Archetype> && has_ops<BasicHost<Portable>> && has_ops<Null>);
static_assert(has_ops<Host> && has_ops<BasicHost<Portable, Fp64>>);
static_assert(PhasedOp<Op<SyncBatchNorm2d<>, BasicHost<Portable>>, BasicHost<Portable>>);
static_assert(PhasedOp<Op<SyncBatchNorm2d<>, Host>, Host>);
static_assert(!PhasedOp<Op<BatchNorm2d<>, Host>, Host>);
using Words = Op<WordSlice<Vocabulary<5>>, BasicHost<Portable>>;
static_assert(PhasedOp<Words, BasicHost<Portable>>);
static_assert(PhasedOp<Op<WordSlice<Vocabulary<5>>, Host>, Host>);
struct GathersFloats : Words {
  using Words::Words;
  [[nodiscard]] std::span<float> floats(Operands<float> const& o, Pass<host::Device> const&) const {
    return {o.y, 1};
  }
  using ForwardPhases = Phases<Gather<Axis::tensor, &GathersFloats::floats>>;
};
static_assert(!PhasedOp<GathersFloats, BasicHost<Portable>>);
struct JoinsFloats : Op<SyncBatchNorm2d<>, BasicHost<Portable>> {
  using Op::Op;
  [[nodiscard]] std::span<float> floats(Operands<float> const& o) const { return {o.y, 1}; }
  using ForwardPhases = Phases<Collective<Axis::data, Joined::sum, &JoinsFloats::floats>>;
};
struct ComputesAlone : Op<SyncBatchNorm2d<>, BasicHost<Portable>> {
  using Op::Op;
  void no_pass(Operands<float> const& /*o*/) const {}
  using InputGradientPhases = Phases<Compute<&ComputesAlone::no_pass>>;
};
static_assert(!PhasedOp<JoinsFloats, BasicHost<Portable>>);
static_assert(!PhasedOp<ComputesAlone, BasicHost<Portable>>);
static_assert(!ParameterOp<Op<ReLU, Archetype>, Archetype>);
static_assert(!BackwardOp<Op<AddJoin, Archetype>, Archetype>);
static_assert(!NodeOp<int, Host>);
#if defined(TANDEM_ONEDNN)
static_assert(PackingOp<Op<Conv2d<2, Kernel<3>>, Host>, Host>);
#endif

// What NodePasses asks of a host, and hosts without just one thing.
template <class Joins>
struct HostOn : Joins {
  using T = float;
  using PassType = int;
  using Table = int;
  static constexpr bool has_branches = false;
  static constexpr bool has_slices = false;
  static constexpr bool uses_parameters = false;
  int device;
  void bucket_ready(int bucket, int leaf);
  void finish_empty_bucket(int bucket, bool adds, int leaf);
  void gather_outgoing(int node, float const* const* forks, int count, std::int64_t elements,
                       float* to);
};
using StagesHost = HostOn<PhaseHost<float>>;
struct HostWithoutBuckets : StagesHost {
  int bucket_ready;
};
struct HostWithoutEmptyBuckets : StagesHost {
  int finish_empty_bucket;
};
struct NoJoins {};
using HostWithoutJoins = HostOn<NoJoins>;
struct HostWithoutOutgoing : StagesHost {
  int gather_outgoing;
};
static_assert(StageHost<StagesHost>);
static_assert(!StageHost<HostWithoutBuckets> && !StageHost<HostWithoutEmptyBuckets>);
static_assert(!StageHost<HostWithoutJoins>);
static_assert(!StageHost<HostWithoutOutgoing>);

// A backend without just one thing.
template <class D, class S = Archetype::Stream>
inline constexpr bool is_device = ComputeDevice<D, S>;
using Device = Archetype::Device;
using Stream = Archetype::Stream;
static_assert(is_device<Device> && !is_device<Device, host::Queue>);

struct NoSpec : Device {
  NoSpec() : Device{DeviceSpec{}} {}
};
struct NoMark : Device {
  using Device::Device;

 private:
  using Mark = int;
};
struct NoStamp : Device {
  using Device::Device;

 private:
  using Stamp = int;
};
struct NoCommunication : Device {
  using Device::Device;
  int communication = 0;
};
struct NoScratch : Device {
  using Device::Device;
  void scratch() {}
};
struct NoScratchBytes : Device {
  using Device::Device;
  void scratch_bytes() {}
};
struct NoMakeStream : Device {
  using Device::Device;
  void make_stream() {}
};
struct NoMakeMark : Device {
  using Device::Device;
  void make_mark() {}
};
struct NoMakeStamp : Device {
  using Device::Device;
  void make_stamp() {}
};
struct NoBegin : Device {
  using Device::Device;
  void begin_on() {}
};
struct NoMarkOn : Device {
  using Device::Device;
  void mark_on() {}
};
struct NoAwait : Device {
  using Device::Device;
  void await_on() {}
};
struct NoStampOfCompute : Device {
  using Device::Device;
  void stamp() {}
};
struct NoStampOn : Device {
  using Device::Device;
  void stamp_on() {}
};
struct NoMicroseconds : Device {
  using Device::Device;
  void microseconds(Stamp const&, Stamp const&) {}
};
struct NoFinish : Device {
  using Device::Device;
  void finish(int) {}
};
struct NoShare : Device {
  using Device::Device;
  void share_with() {}
};
struct NoDebug : Device {
  using Device::Device;
  void debug() {}
};
struct NoSettle : Device {
  using Device::Device;
  void settle() {}
};
static_assert(!is_device<NoSpec> && !is_device<NoMark> && !is_device<NoStamp>);
static_assert(!is_device<NoCommunication> && !is_device<NoScratch> && !is_device<NoScratchBytes>);
static_assert(!is_device<NoMakeStream> && !is_device<NoMakeMark> && !is_device<NoMakeStamp>);
static_assert(!is_device<NoBegin> && !is_device<NoMarkOn> && !is_device<NoAwait>);
static_assert(!is_device<NoStampOfCompute> && !is_device<NoStampOn>);
static_assert(!is_device<NoMicroseconds> && !is_device<NoFinish> && !is_device<NoShare>);
static_assert(!is_device<NoDebug> && !is_device<NoSettle>);

struct NotFromDevice : Archetype::Buffer {
  NotFromDevice(Device& device) : Archetype::Buffer{device, 1} {}
};
struct NoData : Archetype::Buffer {
  using Archetype::Buffer::Buffer;
  float* data() const { return nullptr; }
};
struct NoAs : Archetype::Buffer {
  using Archetype::Buffer::Buffer;
  void as() const {}
};
struct NoBytes : Archetype::Buffer {
  using Archetype::Buffer::Buffer;
  int bytes() const { return 0; }
};
static_assert(DeviceBuffer<Archetype::Buffer, Device> && !DeviceBuffer<NotFromDevice, Device>);
static_assert(!DeviceBuffer<NoData, Device> && !DeviceBuffer<NoAs, Device>);
static_assert(!DeviceBuffer<NoBytes, Device>);

struct NoScalar : Archetype {
 private:
  using Scalar = float;
};
struct NoMaster : Archetype {
 private:
  using Master = float;
};
struct OtherStream : Archetype {
  using Stream = host::Queue;
};
struct OtherDevice : Archetype {
  using Device = NoAwait;
};
struct OtherBuffer : Archetype {
  using Buffer = NoBytes;
};
struct NoVerbs : Archetype {};
static_assert(!ComputeBackend<NoScalar> && !ComputeBackend<NoMaster>);
static_assert(!ComputeBackend<OtherStream> && !ComputeBackend<OtherDevice>);
static_assert(!ComputeBackend<OtherBuffer>);
static_assert(ComputeBackend<NoVerbs> && !HasVerbs<NoVerbs>);

// A transport without just one thing.
using Four = ArchetypeTransport<4>;
struct NotFromOptions : Four {
  NotFromOptions() : Four{TransportOptions{}} {}
};
struct NoCommunicatorType : Four {
  using Four::Four;

 private:
  using Communicator = int;
};
struct NoFirst : Four {
  using Four::Four;
  void first_rank() const {}
};
struct NoLocal : Four {
  using Four::Four;
  void local_ranks() const {}
};
struct NoDeviceOf : Four {
  using Four::Four;
  int device_of() const { return 0; }
};
struct NoGroups : Four {
  using Four::Four;
  Communicator communicator(int rank) { return Four::communicator(rank); }
};
struct NoProgress : Four {
  using Four::Four;
  int* progress(int) { return nullptr; }
};
struct NoAbort : Four {
  using Four::Four;
  void abort(int) {}
};
struct NoPoll : Four {
  using Four::Four;
  void poll(int) {}
};
static_assert(!RankTransport<NotFromOptions> && !RankTransport<NoCommunicatorType>);
static_assert(!RankTransport<NoFirst> && !RankTransport<NoLocal> && !RankTransport<NoDeviceOf>);
static_assert(!RankTransport<NoGroups> && !RankTransport<NoProgress>);
static_assert(!RankTransport<NoAbort> && !RankTransport<NoPoll>);

// A communicator is asked for what its program sends, and for no more.
struct Losses {
  using Stream = archetype_test::Stream;
  int rank() const noexcept { return 0; }
  int size() const noexcept { return 1; }
  void all_reduce(std::span<double const>, std::span<double>, Sum, Stream&, Label) {}
};
struct Gradients : Losses {
  using Losses::all_reduce;
  void all_reduce(std::span<float const>, std::span<float>, Sum, Stream&, Label) {}
};
struct Messages : Losses {
  void send(std::span<float const>, int, Stream&, Label) {}
  void receive(std::span<float>, int, Stream&, Label) {}
};
using InTwo = ModelParallel<Split<3>, Split<6>>;
template <class S>
using ProgramOf = Program<test::TinyNet, S, 4, Rewrites{}>;
template <class C, class S>
inline constexpr bool carries = Carries<C, Archetype, ProgramOf<S>>;
static_assert(carries<Losses, SingleDevice<>>);
static_assert(!carries<Losses, DataParallel<2>> && carries<Gradients, DataParallel<2>>);
static_assert(!carries<Losses, InTwo> && carries<Messages, InTwo>);
static_assert(!carries<Messages, Hybrid<DataParallel<2>, InTwo>>);
static_assert(!carries<SelfCommunicator, SingleDevice<>>);  // on another stream

using Both = Hybrid<DataParallel<2>, InTwo>;
using Archetypal =
    Trainer<test::TinyNet, Both, Archetype, SoftmaxCrossEntropy<>, Accuracy, ArchetypeTransport>;
using OnHost = Trainer<test::TinyNet, Both, BasicHost<Portable>>;

TrainerOptions options() {
  return {.batch = 7,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .clip_norm = 0.5,
          .threads_per_device = 1};
}

int calls(test::Verb verb) { return test::verb_calls[static_cast<std::size_t>(verb)]; }

TEST_CASE("an archetype of a backend and of a transport train as Host does, bit for bit") {
  test::Watchdog const watchdog{"archetypes"};
  Archetypal own{options()};
  OnHost host{options()};
  for (int step = 0; step < 3; ++step) {
    test::Samples<float> const batch{OnHost::input, 5, 7, static_cast<std::uint64_t>(step)};
    StepResult const a = own.step(batch.x, batch.y);
    StepResult const b = host.step(batch.x, batch.y);
    CHECK(a.loss == b.loss);
    CHECK(a.metric == b.metric);
    CHECK(a.gradient_norm == b.gradient_norm);
  }
  CHECK(test::first_difference(own.parameters(), host.parameters()) == "");
  auto const data = test::dataset(OnHost::input, 5, 9);
  CHECK(own.evaluate(data).loss == host.evaluate(data).loss);
  CHECK(own.predict(data) == host.predict(data));
}

TEST_CASE("the engine calls every verb of an archetype's device") {
  test::Watchdog const watchdog{"archetypes: verbs"};
  for (auto& verb : test::verb_calls) {
    verb = 0;
  }
  TrainerOptions watched = options();
  watched.record = false;
  Archetypal trainer{watched};
  test::Samples<float> const batch{Archetypal::input, 5, 7};
  CHECK_FALSE(trainer.trace_step(batch.x, batch.y).events.empty());
  trainer.step(batch.x, batch.y);
  ArchetypeTransport<Both::ranks>::fails = true;
  CHECK_THROWS_WITH_AS(static_cast<void>(trainer.step(batch.x, batch.y)),
                       doctest::Contains("this communicator was told to fail"), RankError);
  ArchetypeTransport<Both::ranks>::fails = false;
  for (auto const verb : {test::Verb::make_stream, test::Verb::begin, test::Verb::mark,
                          test::Verb::await, test::Verb::stamp, test::Verb::finish,
                          test::Verb::share, test::Verb::debug, test::Verb::settle}) {
    CAPTURE(static_cast<int>(verb));
    CHECK(calls(verb) > 0);
  }
}

}  // namespace archetype_test
}  // namespace tandem
