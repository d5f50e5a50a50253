// Puts a code object (or a bundle of one) into an object of the host.
//
//   CKDISP_CODE_FILE      the file
//   CKDISP_CODE_SECTION   the section of the bytes, by which tools find them; default: that of HIP
//   CKDISP_CODE_KERNELS   names of its kernels, separated by commas
//
// For each kernel: ckdisp_k_<name>_code, the bytes, and ckdisp_k_<name>_modules, room for one module
// handle for each device. Kernels of one file share both. The alignment is
// that which HIP's compilers use.

#if !defined(CKDISP_CODE_SECTION)
#define CKDISP_CODE_SECTION .hip_fatbin
#endif
#define STRING_(x) #x
#define STRING(x) STRING_(x)

        .section CKDISP_CODE_SECTION, "a", @progbits
        .p2align 12
        .irp name, CKDISP_CODE_KERNELS
        .globl ckdisp_k_\name\()_code
        .hidden ckdisp_k_\name\()_code
        .type ckdisp_k_\name\()_code, @object
ckdisp_k_\name\()_code:
        .endr
        .incbin STRING(CKDISP_CODE_FILE)
        .byte 0

        .bss
        .p2align 3
        .irp name, CKDISP_CODE_KERNELS
        .globl ckdisp_k_\name\()_modules
        .hidden ckdisp_k_\name\()_modules
        .type ckdisp_k_\name\()_modules, @object
ckdisp_k_\name\()_modules:
        .endr
        .zero 64 * 8

        .section .note.GNU-stack, "", @progbits
