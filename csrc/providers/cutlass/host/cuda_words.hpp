// What CUTLASS's headers expect of nvcc, declared for a C++ compiler. Only templates that no host
// code instantiates use most of it.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#if !defined(__CUDACC_VER_MAJOR__)
#error "give __CUDACC_VER_MAJOR__ and __CUDACC_VER_MINOR__: without them CUTLASS makes no TMA maps"
#endif

extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;

void __syncthreads();
void __syncwarp(unsigned = 0xffffffffu);
void __threadfence();
void __nanosleep(unsigned);
void __trap();
unsigned __activemask();
int __any_sync(unsigned, int);
int __all_sync(unsigned, int);
unsigned __ballot_sync(unsigned, int);
int __popc(unsigned);
int __ffs(int);
int __dp4a(int, int, int);
unsigned __dp4a(unsigned, unsigned, unsigned);
long long clock64();
template <class T>
T __shfl_sync(unsigned, T, int, int = 32);
template <class T>
T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T>
T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T>
T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T>
T __ldg(const T*);
template <class T>
T __brev(T);
template <class T, class U>
T atomicAdd(T*, U);
template <class T, class U>
T atomicMax(T*, U);
template <class T, class U>
T atomicMin(T*, U);
template <class T, class U>
T atomicExch(T*, U);
template <class T, class U>
T atomicCAS(T*, U, U);
template <class T, class U>
T atomicOr(T*, U);

namespace nvcuda::wmma {
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
template <class, int, int, int, class, class = void>
class fragment;
template <class... T>
void load_matrix_sync(T&&...);
template <class... T>
void store_matrix_sync(T&&...);
template <class... T>
void mma_sync(T&&...);
template <class... T>
void bmma_sync(T&&...);
template <class... T>
void fill_fragment(T&&...);
namespace experimental {
namespace precision {
struct u4;
struct s4;
struct b1;
}  // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental
}  // namespace nvcuda::wmma

namespace cutlass::arch {
int SmId();
}
