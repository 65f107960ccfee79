#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-format (the first argument) would change a source; run in the root of the tree.
status=0
for source in $(find include examples bench docs test -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' \
                                                 -o -name '*.cu' | sort); do
  "$1" --dry-run --Werror "$source" 2>/dev/null || { echo "run: clang-format -i $source"; status=1; }
done
exit $status
