// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether a build affords the models at their full size. A step of two seconds takes a minute
/// without optimisation and three under the address sanitizer.

#include <type_traits>

#include <tandem/graph/network.hpp>

#include <sanitizers.hpp>

namespace tandem::test {

#if !defined(__OPTIMIZE__) || TANDEM_TEST_SANITIZED
inline constexpr bool affords_large_models = false;
#else
inline constexpr bool affords_large_models = true;
#endif

/// The network on other inputs; from the first Linear after a Flatten on, its sizes differ too.
template <class Net, class Input>
struct OnInput : Network<Input, typename Net::body> {};

/// Net where that is affordable, else Net on the smaller Input.
template <class Net, class Input>
using Affordable = std::conditional_t<affords_large_models, Net, OnInput<Net, Input>>;

}  // namespace tandem::test
