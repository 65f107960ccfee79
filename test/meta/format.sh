#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-format (the first argument) would change a source; run in the root of the tree.
faults=$("$1" --dry-run --Werror $(find include examples bench docs test -name '*.hpp' -o -name '*.cuh' \
  -o -name '*.cpp' -o -name '*.cu') 2>&1) && exit 0
echo "$faults" | sed -n 's/^\([^ :]*\):[0-9].*should be clang-formatted.*/run: clang-format -i \1/p' | sort -u | grep . ||
  echo "$faults"
exit 1
