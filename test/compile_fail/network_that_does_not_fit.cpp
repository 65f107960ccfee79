// SPDX-License-Identifier: Apache-2.0
// expect-error: a GoogLeNet step of 128 does not fit into
#include <cstdint>

#include <tandem/models/googlenet.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/strategy/fits.hpp>

using namespace tandem;

struct Net : models::GoogLeNet<10> {};

#ifdef TANDEM_COMPILE_FAIL
constexpr std::int64_t bytes = std::int64_t{1} << 30;
#else
constexpr std::int64_t bytes = std::int64_t{8} << 30;
#endif

static_assert(fits<Net, Pipeline<OneFOneB, 4, Auto<2>>, Sgd, Fp32>(128, bytes),
              "a GoogLeNet step of 128 does not fit into the memory of a device");

int main() { return 0; }
