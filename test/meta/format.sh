#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-format (the first argument) would change a source, or if a comment that it leaves as it is, which has
# hanging indents (CommentPragmas of .clang-format), has more than 100 columns; run in the root of the tree.
sources=$(find include examples bench docs test -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu')
if LC_ALL=C.UTF-8 grep -nE '^.{101}' $sources | grep -E '^[^:]*:[0-9]*: *//'; then
  echo "these comments have more than 100 columns; break them where they stand"
  exit 1
fi
faults=$("$1" --dry-run --Werror $sources 2>&1) && exit 0
echo "$faults" | sed -n 's/^\([^ :]*\):[0-9].*should be clang-formatted.*/run: clang-format -i \1/p' | sort -u | grep . ||
  echo "$faults"
exit 1
