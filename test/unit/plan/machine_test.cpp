// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/plan/machine/machines.hpp>

namespace machine_test {

using namespace tandem;

constexpr MathPrecision precisions[] = {MathPrecision::fp64, MathPrecision::fp32,
                                        MathPrecision::tf32, MathPrecision::bf16};

static_assert(LinkSpeed{.bandwidth = 10, .latency = 3}.seconds(20) == 5);
static_assert(PeakMath{1, 2, 3, 4}.of(MathPrecision::fp64) == 1);
static_assert(PeakMath{1, 2, 3, 4}.of(MathPrecision::fp32) == 2);
static_assert(PeakMath{1, 2, 3, 4}.of(MathPrecision::tf32) == 3);
static_assert(PeakMath{1, 2, 3, 4}.of(MathPrecision::bf16) == 4);
static_assert(PeakMath{1, 2, 3, 4}.of(MathPrecision::fp16) == 4);

TEST_CASE("every name is a machine that passes the check") {
  for (std::string_view const name : machine_names) {
    CAPTURE(std::string{name});
    Machine const* const machine = find_machine(name);
    REQUIRE(machine != nullptr);
    CHECK(machine->name == name);
    CHECK_NOTHROW(check_machine(*machine));
    double before = 0;
    for (MathPrecision const precision : precisions) {  // lower precisions are not slower
      CHECK(machine->peak.of(precision) >= before);
      before = machine->peak.of(precision);
      CHECK(machine->math(precision) == machine->efficiency * before);
    }
    CHECK(machine->inside.bandwidth >= machine->between.bandwidth);
    CHECK(machine->inside.bandwidth <= machine->memory_bandwidth);
    CHECK(machine->inside.latency <= machine->between.latency);
  }
  CHECK(find_machine("dgx-h300") == nullptr);
  CHECK(find_machine("") == nullptr);
}

TEST_CASE("figures of the data sheets") {
  Machine const v100 = dgx1_v100();
  CHECK(v100.peak == PeakMath{7.8e12, 15.7e12, 15.7e12, 125e12});
  CHECK(v100.memory == 16'000'000'000);
  CHECK(v100.adapters == 4);
  CHECK(dgx_a100().adapters == 8);
  Machine const h100 = dgx_h100();
  Machine h200 = dgx_h200();
  CHECK(h200.memory == 141'000'000'000);
  CHECK(h200.memory_bandwidth == 4.8e12);
  h200.name = h100.name;
  h200.memory = h100.memory;
  h200.memory_bandwidth = h100.memory_bandwidth;
  h200.kernels = h100.kernels;
  CHECK(h200 == h100);
  CHECK(h100.adapters == 8);
  CHECK(pcie_box().adapters == 1);
  CHECK(two_cpus().adapters == 1);
  CHECK(pcie_box().inside.bandwidth < dgx_a100().inside.bandwidth / 9);
}

TEST_CASE("how many devices there are") {
  CHECK(dgx_h100().has(1));
  CHECK(dgx_h100().has(1024));
  CHECK(!dgx_h100().has(0));
  CHECK(two_cpus().has(2));
  CHECK(!two_cpus().has(3));
  Machine machine = dgx_h100();
  machine.nodes = 2;
  CHECK(machine.has(16));
  CHECK(!machine.has(17));
}

template <class Change>
void refused(Change const& change, char const* what) {
  Machine machine = two_cpus();
  change(machine);
  CHECK_THROWS_WITH_AS(check_machine(machine), doctest::Contains(what), ContractError);
}

TEST_CASE("what is no machine is refused") {
  refused([](Machine& m) { m.devices_per_node = 0; }, "at least one device a node");
  refused([](Machine& m) { m.nodes = -1; }, "nodes that are not negative");
  refused([](Machine& m) { m.adapters = 0; }, "one adapter or more");
  refused([](Machine& m) { m.adapters = 3; }, "no more than it has devices");
  refused([](Machine& m) { m.peak.fp64 = 0; }, "each peak");
  refused([](Machine& m) { m.peak.fp32 = 0; }, "each peak");
  refused([](Machine& m) { m.peak.tf32 = 0; }, "each peak");
  refused([](Machine& m) { m.peak.bf16 = 0; }, "each peak");
  refused([](Machine& m) { m.memory_bandwidth = 0; }, "memory_bandwidth");
  refused([](Machine& m) { m.memory = 0; }, "memory");
  refused([](Machine& m) { m.efficiency = 0; }, "efficiency above 0");
  refused([](Machine& m) { m.efficiency = 1.01; }, "not above 1");
  refused([](Machine& m) { m.launch_overhead = -1; }, "not negative");
  refused([](Machine& m) { m.inside.latency = -1; }, "not negative");
  refused([](Machine& m) { m.between.latency = -1; }, "not negative");
  refused([](Machine& m) { m.inside.bandwidth = 0; }, "a positive bandwidth");
  refused([](Machine& m) { m.between.bandwidth = 0; }, "a positive bandwidth");
}

}  // namespace machine_test
