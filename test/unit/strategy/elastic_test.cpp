// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <concepts>
#include <utility>

#include <tandem/core/type_text.hpp>
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {
namespace elastic_test {

template <class Plan, int I, class S>
inline constexpr bool has = std::same_as<typename Plan::template At<I>, S>;

using Eight = Elastic<DataParallel<8, Reproducible<>>, DownTo<1>>;
static_assert(Eight::count == 4 && Eight::exact);
static_assert(has<Eight, 0, DataParallel<8, Reproducible<>>>);
static_assert(has<Eight, 1, DataParallel<4, Microbatches<2>, Reproducible<>>>);
static_assert(has<Eight, 2, DataParallel<2, Microbatches<4>, Reproducible<>>>);
static_assert(has<Eight, 3, DataParallel<1, Microbatches<8>, Reproducible<>>>);

// Microbatches of the type are counted anew, wherever they stand among the options.
using Six = Elastic<DataParallel<6, BucketBytes<1, 2>, Microbatches<2>>, DownTo<2>>;
static_assert(Six::count == 3 && !Six::exact);
static_assert(has<Six, 0, DataParallel<6, BucketBytes<1, 2>, Microbatches<2>>>);
static_assert(has<Six, 1, DataParallel<3, Microbatches<4>, BucketBytes<1, 2>>>);
static_assert(has<Six, 2, DataParallel<2, Microbatches<6>, BucketBytes<1, 2>>>);

// 12 leaves in a tree: replicas have 1, 2 or 4 of them, so that 12, 6 or 3 devices keep it.
using Twelve = Elastic<DataParallel<12, Reproducible<>>, DownTo<3>>;
static_assert(Twelve::count == 3 && Twelve::ranks[0] == 12 && Twelve::ranks[1] == 6 &&
              Twelve::ranks[2] == 3);

// Thousands of devices, and the number that has most divisors.
using Thousands = Elastic<DataParallel<65536, Reproducible<>>, DownTo<16384>>;
static_assert(Thousands::count == 3 && Thousands::ranks[0] == 65536);
static_assert(has<Thousands, 2, DataParallel<16384, Microbatches<4>, Reproducible<>>>);
constexpr detail::DevicesDown most = detail::devices_down<720720, 1>();
static_assert(most.count == 240 && most.devices[0] == 720720 && most.devices[239] == 1);
static_assert([] {
  for (int i = 1; i < most.count; ++i) {
    if (most.devices[i] >= most.devices[i - 1]) {
      return false;
    }
  }
  return true;
}());

using Listed =
    Elastic<Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>,
            DataParallel<2, Microbatches<2>, Reproducible<4>>,
            SingleDevice<Microbatches<4>, Reproducible<4>>>;
static_assert(Listed::count == 3 && Listed::exact && Listed::ranks[0] == 4);

// Sums of as many slices.
using Shared =
    Elastic<TensorParallel<2, Slices<4>, Reproducible<>>, SingleDevice<Slices<4>, Reproducible<>>>;
static_assert(Shared::exact);
static_assert(!Elastic<TensorParallel<2, Reproducible<>>, SingleDevice<Reproducible<>>>::exact);

using Unequal =
    Elastic<DataParallel<3, Weighted<4, 4, 3>>, SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>>;
static_assert(Unequal::count == 2 && !Unequal::exact);

static_assert(has<StrategiesOf<DataParallel<2>>::type, 0, DataParallel<2>>);
static_assert(std::same_as<StrategiesOf<Eight>::type, Eight>);

// Whether all of a plan cut a batch into so many microbatches, in so many leaves.
template <class Plan, int Microbatches, int Leaves>
inline constexpr bool cuts = []<int... I>(std::integer_sequence<int, I...>) {
  return ((Plan::template At<I>::batching.all_microbatches() == Microbatches) && ...) &&
         ((Plan::template At<I>::batching.replicas * Plan::template At<I>::batching.leaves ==
           Leaves) &&
          ...);
}
(std::make_integer_sequence<int, Plan::count>{});
static_assert(cuts<Eight, 8, 8> && cuts<Twelve, 12, 12> && !cuts<Eight, 4, 8>);
static_assert(cuts<Elastic<DataParallel<8, Microbatches<2>, Reproducible<8>>, DownTo<1>>, 16, 8>);

TEST_CASE("a strategy's text is what one writes") {
  CHECK(type_text<DataParallel<4, Microbatches<2>, Reproducible<>>>() ==
        "DataParallel<4, Microbatches<2>, Reproducible<0>>");
  CHECK(type_text<Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>>() ==
        "Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>");
}

}  // namespace elastic_test
}  // namespace tandem
