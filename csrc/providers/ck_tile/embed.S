// Puts a code object (or a bundle of one) into an object of the host.
//
//   CKDISP_CODE_FILE      the file
//   CKDISP_CODE_KERNELS   names of its kernels, separated by commas
//
// For each kernel: ckdisp_k_<name>_code, the bytes, and ckdisp_k_<name>_modules, room for one module
// handle for each device. Kernels of one file share both. Tools find the bytes by the section, whose
// name and alignment are those that HIP's compilers use.

#define STRING_(x) #x
#define STRING(x) STRING_(x)

        .section .hip_fatbin, "a", @progbits
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
