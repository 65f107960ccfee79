// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where bodies stand. What a program needs once, as a plan, a check or a sentence, is TANDEM_ONCE:
/// declared above, its body at the end of its header behind `#if TANDEM_BODIES`, at whose top the
/// header includes what only bodies need. By default every unit has the bodies, as templates, so
/// that only those are compiled that are called. With TANDEM_SEPARATE_COMPILATION headers declare,
/// and one unit of the program, which includes <tandem/impl/src.hpp>, has all bodies.

#if !defined(TANDEM_SEPARATE_COMPILATION)
#define TANDEM_ONCE template <class...>
#define TANDEM_BODIES 1
#elif defined(TANDEM_IMPL_SRC)
#define TANDEM_ONCE
#define TANDEM_BODIES 1
#else
#define TANDEM_ONCE
#define TANDEM_BODIES 0
#endif

// What changes bodies is in the name of a symbol that the unit with the bodies defines and every
// other asks for: units of one program that differ do not link, and the linker's message says in
// what.
#if defined(TANDEM_SEPARATE_COMPILATION)
#if defined(NDEBUG)
#define TANDEM_NAME_OF_ASSERTIONS without_assertions
#else
#define TANDEM_NAME_OF_ASSERTIONS with_assertions
#endif
#if defined(TANDEM_ONEDNN)
#define TANDEM_NAME_OF_ONEDNN with_onednn
#else
#define TANDEM_NAME_OF_ONEDNN without_onednn
#endif
#if defined(TANDEM_ZLIB)
#define TANDEM_NAME_OF_ZLIB with_zlib
#else
#define TANDEM_NAME_OF_ZLIB without_zlib
#endif
#if defined(TANDEM_IMAGES)
#define TANDEM_NAME_OF_IMAGES with_images
#else
#define TANDEM_NAME_OF_IMAGES without_images
#endif
#if defined(__AVX512F__)
#define TANDEM_NAME_OF_VECTORS for_avx512
#else
#define TANDEM_NAME_OF_VECTORS for_any_processor
#endif
#define TANDEM_JOIN_NAMES(a, b, c, d, e) tandem_bodies_##a##_##b##_##c##_##d##_##e
#define TANDEM_NAME_OF_BODIES(a, b, c, d, e) TANDEM_JOIN_NAMES(a, b, c, d, e)
#define TANDEM_BODIES_NAME                                                                     \
  TANDEM_NAME_OF_BODIES(TANDEM_NAME_OF_ASSERTIONS, TANDEM_NAME_OF_ONEDNN, TANDEM_NAME_OF_ZLIB, \
                        TANDEM_NAME_OF_IMAGES, TANDEM_NAME_OF_VECTORS)
extern char const TANDEM_BODIES_NAME;
#if defined(TANDEM_IMPL_SRC)
char const TANDEM_BODIES_NAME = 0;
#elif (defined(__GNUC__) || defined(__clang__)) && !defined(TANDEM_IMPL_CUDA)
namespace tandem::detail {
[[gnu::used]] static char const* const bodies_elsewhere = &TANDEM_BODIES_NAME;
}
#endif
#undef TANDEM_BODIES_NAME
#undef TANDEM_NAME_OF_BODIES
#undef TANDEM_JOIN_NAMES
#undef TANDEM_NAME_OF_VECTORS
#undef TANDEM_NAME_OF_IMAGES
#undef TANDEM_NAME_OF_ZLIB
#undef TANDEM_NAME_OF_ONEDNN
#undef TANDEM_NAME_OF_ASSERTIONS
#endif
