# SPDX-License-Identifier: Apache-2.0
# Set-up that test/run.sh and examples/quickstart.sh share; to be sourced by bash. Sets `root`, `jobs`,
# `generator`, and CXX if the default compiler is too old; changes into the root of the tree.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc)

fail() {
  echo "tandem: $*" >&2
  exit 1
}

# Whether what the package $1 (a Debian name) brings is there, however it came.
is_there() {
  case $1 in
    g++ | cmake | clang | clang-format | python3) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    coinor-cbc) command -v cbc ;;
    debhelper) command -v dh && command -v dpkg-buildpackage ;;
    pkgconf) command -v pkg-config ;;
    doctest-dev) has_header doctest/doctest.h ;;
    libbenchmark-dev) has_header benchmark/benchmark.h ;;
    libcli11-dev) has_header CLI/CLI.hpp ;;
    zlib1g-dev) has_header zlib.h ;;
    libdnnl-dev) has_header oneapi/dnnl/dnnl.h ;;
    libjpeg-dev) has_header jpeglib.h ;;
    libpng-dev) has_header png.h ;;
    libopenmpi-dev) command -v mpicxx ;;
    openmpi-bin) command -v mpirun ;;
    libsentencepiece-dev) has_header sentencepiece_trainer.h ;;
    libclang-rt-*-dev) fuzzer_links ;;
    dataset-fashion-mnist) ls /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ;;
    sword-text-kjv) ls /usr/share/sword/mods.d/engKJV2006eb.conf ;;
    *) fail "setup.sh cannot tell whether '$1' is installed" ;;
  esac >/dev/null 2>&1
}

has_header() { printf '#include <stdio.h>\n#include <%s>\n' "$1" | ${CXX:-g++} -x c++ -E - ; }

fuzzer_links() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer - -o /dev/null
}

missing_of() {
  local package
  for package in "$@"; do
    is_there "$package" || echo "$package"
  done
}

# install PACKAGE ...: with apt-get, as root or by a sudo that asks nothing. Fails if it may not.
install() {
  local as_root=(env)
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as_root=(sudo -n env)
  fi
  if [ -z "${package_lists_are_new:-}" ]; then
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq update || return 1
    package_lists_are_new=1
  fi
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    "$@" </dev/null >/dev/null
}

# require PACKAGE ...: installs those that are missing, or says what to install and ends.
require() {
  local missing
  missing=$(missing_of "$@" | xargs)
  [ -n "$missing" ] || return 0
  echo "tandem: installing $missing"
  install $missing || true
  missing=$(missing_of $missing | xargs)
  [ -z "$missing" ] || fail "these packages are needed: run 'apt-get install $missing' as root"
}

# wish_for PACKAGE ...: as require, but goes on without those that cannot be had; their tests skip.
wish_for() {
  local package
  for package in $(missing_of "$@"); do
    echo "tandem: installing $package"
    install "$package" && is_there "$package" ||
      echo "tandem: $package is missing; what needs it is skipped"
  done
}

# wish_for_python MODULE=PACKAGE ...: of PyPI, in build/python, whose programs are found from then on; goes on without
# those that cannot be had.
wish_for_python() {
  local folder=$root/build/python wish
  export PATH=$PATH:$folder/bin
  for wish in "$@"; do
    ! "$folder/bin/python3" -c "import ${wish%%=*}" 2>/dev/null || continue
    echo "tandem: installing ${wish#*=} of PyPI"
    { [ -x "$folder/bin/pip" ] || python3 -m venv "$folder"; } >/dev/null 2>&1 &&
      "$folder/bin/pip" install --quiet --retries 1 --timeout 10 "${wish#*=}" >/dev/null 2>&1 ||
      echo "tandem: ${wish#*=} is missing; what needs it is skipped"
  done
}

# The tools that every build needs, in versions that can do it.
require_toolchain() {
  require g++ cmake
  wish_for ninja-build zlib1g-dev libdnnl-dev

  local version compiler
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  [ "$(printf '%s\n' 3.23 "$version" | sort -V | head -1)" = 3.23 ] ||
    fail "CMake 3.23 or newer is needed, this is $version; 'pip install cmake' brings a newer one"

  if [ -z "${CXX:-}" ] && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
    for compiler in g++-14 g++-13 g++-12; do
      command -v "$compiler" >/dev/null && export CXX=$compiler && break
    done
    [ -n "${CXX:-}" ] || fail "g++ 12 or newer is needed: run 'apt-get install g++-12' as root"
  fi

  generator="Unix Makefiles"
  ! is_there ninja-build || generator=Ninja
}
