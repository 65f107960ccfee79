// SPDX-License-Identifier: Apache-2.0

#include "asynchronous.hpp"

template std::vector<tandem::bench::Method>
tandem::bench::asynchronous_methods<tandem::bench::SmallResidual>();
