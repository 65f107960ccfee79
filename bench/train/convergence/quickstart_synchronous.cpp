// SPDX-License-Identifier: Apache-2.0

#include "synchronous.hpp"

template std::vector<tandem::bench::Method>
tandem::bench::synchronous_methods<tandem::bench::Quickstart>();
