// SPDX-License-Identifier: Apache-2.0
// expect-error: Sequential<Parts...>: at most 256 parts; nest a Sequential for more
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

template <std::size_t>
using Numbered = ReLU;
template <std::size_t... I>
Sequential<Numbered<I>...> repeat(std::index_sequence<I...>);
template <std::size_t Count>
using Many = decltype(repeat(std::make_index_sequence<Count>{}));

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Many<257>> {};
#else
struct Net : Network<Image<3, 8, 8>, Many<256>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
