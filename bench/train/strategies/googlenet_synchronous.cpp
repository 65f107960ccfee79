// SPDX-License-Identifier: Apache-2.0

#include "training.hpp"

template void tandem::bench::add_synchronous<tandem::bench::CifarGoogLeNet>(Contenders&, int);
