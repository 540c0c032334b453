// SPDX-License-Identifier: GPL-2.0-only
// A pointer that is computed once.
#ifndef DRFQ_PINNED_HH
#define DRFQ_PINNED_HH

namespace drfq {

/// Returns p. The compiler does not know where it comes from. Otherwise GCC finds the address of an
/// array's element again at each use in a long function.
template <class T>
inline T *pinned(T *p) {
  asm("" : "+r"(p));
  return p;
}

}  // namespace drfq

#endif
