// Reads the kernels of a code object: a plain ELF, a bundle of them, or a compressed bundle.
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

// A MessagePack document that is read front to back. Anything malformed sets `bad`.
typedef struct {
  const unsigned char *at, *end;
  int bad;
} Reader;
typedef enum { kNumber, kText, kArray, kMap, kOther } Type;
typedef struct {
  Type type;
  uint64_t number;  // the value, or the length of what follows
  const char* text;
} Item;

static uint64_t big_endian(Reader* in, unsigned bytes) {
  uint64_t value = 0;
  if ((size_t)(in->end - in->at) < bytes) {
    in->bad = 1;
    return 0;
  }
  while (bytes-- > 0) value = value << 8 | *in->at++;
  return value;
}

// `type` and length; the bytes of texts and of types without use here are passed over.
static Item item(Reader* in, Type type, uint64_t length, uint64_t passed) {
  Item read = {type, length, (const char*)in->at};
  if (in->bad || passed > (size_t)(in->end - in->at)) {
    in->bad = 1;
    return (Item){kOther, 0, NULL};
  }
  in->at += passed;
  return read;
}

static Item next(Reader* in) {
  const unsigned tag = (unsigned)big_endian(in, 1);
  uint64_t n;
  if (tag < 0x80) return item(in, kNumber, tag, 0);
  if (tag < 0x90) return item(in, kMap, tag & 15, 0);
  if (tag < 0xa0) return item(in, kArray, tag & 15, 0);
  if (tag < 0xc0) return item(in, kText, tag & 31, tag & 31);
  switch (tag) {
    case 0xc4 ... 0xc6:  // bytes
      n = big_endian(in, 1u << (tag - 0xc4));
      return item(in, kOther, n, n);
    case 0xc7 ... 0xc9:  // extensions of any length
      n = big_endian(in, 1u << (tag - 0xc7));
      return item(in, kOther, n, n + 1);
    case 0xca ... 0xcb:  // floating point
      return item(in, kOther, 0, tag == 0xca ? 4 : 8);
    case 0xcc ... 0xcf:
      return item(in, kNumber, big_endian(in, 1u << (tag - 0xcc)), 0);
    case 0xd0 ... 0xd3:
      return item(in, kNumber, big_endian(in, 1u << (tag - 0xd0)), 0);
    case 0xd4 ... 0xd8:  // extensions of 1, 2, 4, 8 and 16 bytes
      return item(in, kOther, 0, 1 + (1u << (tag - 0xd4)));
    case 0xd9 ... 0xdb:
      n = big_endian(in, 1u << (tag - 0xd9));
      return item(in, kText, n, n);
    case 0xdc ... 0xdd:
      return item(in, kArray, big_endian(in, tag == 0xdc ? 2 : 4), 0);
    case 0xde ... 0xdf:
      return item(in, kMap, big_endian(in, tag == 0xde ? 2 : 4), 0);
    default:
      return item(in, kOther, 0, 0);  // nil, false, true and small negative numbers
  }
}

static void skip(Reader* in) {
  for (uint64_t left = 1; left > 0 && !in->bad; left--) {
    const Item read = next(in);
    if (read.type == kArray) left += read.number;
    if (read.type == kMap) left += 2 * read.number;
  }
}

static int is(Item read, const char* text) {
  return read.type == kText && read.number == strlen(text) &&
         memcmp(read.text, text, read.number) == 0;
}

static void read_arguments(Reader* in, StubKernel* kernel) {
  const Item list = next(in);
  for (uint64_t i = 0; list.type == kArray && i < list.number && !in->bad; i++) {
    const Item fields = next(in);
    StubArgument argument = {0, 0};
    int hidden = 0;
    for (uint64_t j = 0; fields.type == kMap && j < fields.number && !in->bad; j++) {
      const Item name = next(in);
      if (is(name, ".offset")) {
        argument.offset = (uint32_t)next(in).number;
      } else if (is(name, ".size")) {
        argument.bytes = (uint32_t)next(in).number;
      } else if (is(name, ".value_kind")) {
        const Item kind = next(in);
        hidden = kind.type == kText && kind.number > 6 && memcmp(kind.text, "hidden", 6) == 0;
      } else {
        skip(in);
      }
    }
    const uint32_t end = argument.offset + argument.bytes;
    if (hidden || kernel->argument_count == sizeof kernel->arguments / sizeof argument) continue;
    kernel->arguments[kernel->argument_count++] = argument;
    if (end > kernel->argument_bytes) kernel->argument_bytes = end;
  }
}

static void read_kernels(Reader* in, StubCode* code) {
  const Item list = next(in);
  for (uint64_t i = 0; list.type == kArray && i < list.number && !in->bad; i++) {
    const Item fields = next(in);
    StubKernel* kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) abort();
    kernel->next = code->kernels;
    code->kernels = kernel;
    for (uint64_t j = 0; fields.type == kMap && j < fields.number && !in->bad; j++) {
      const Item name = next(in);
      if (is(name, ".name")) {
        const Item text = next(in);
        free(kernel->name);
        kernel->name = text.type == kText ? strndup(text.text, text.number) : NULL;
      } else if (is(name, ".args")) {
        read_arguments(in, kernel);
      } else if (is(name, ".max_flat_workgroup_size")) {
        kernel->max_block = (uint32_t)next(in).number;
      } else {
        skip(in);
      }
    }
  }
}

static hipError_t read_metadata(const char* bytes, size_t count, const StubDevice* device,
                                StubCode* code) {
  Reader in = {(const unsigned char*)bytes, (const unsigned char*)bytes + count, 0};
  const Item top = next(&in);
  int right_arch = 0;
  for (uint64_t i = 0; top.type == kMap && i < top.number && !in.bad; i++) {
    const Item name = next(&in);
    if (is(name, "amdhsa.kernels")) {
      read_kernels(&in, code);
    } else if (is(name, "amdhsa.target")) {
      const char* prefix = "amdgcn-amd-amdhsa--";
      const Item target = next(&in);
      const size_t skipped = strlen(prefix), length = strlen(device->arch);
      right_arch = target.type == kText && target.number >= skipped + length &&
                   memcmp(target.text + skipped, device->arch, length) == 0 &&
                   (target.number == skipped + length || target.text[skipped + length] == ':');
    } else {
      skip(&in);
    }
  }
  if (in.bad) return hipErrorInvalidImage;
  return right_arch ? hipSuccess : hipErrorNoBinaryForGpu;
}

static hipError_t read_elf(const char* image, const StubDevice* device, StubCode* code) {
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)image;
  if (header->e_machine != EM_AMDGPU || header->e_shentsize != sizeof(Elf64_Shdr)) {
    return hipErrorInvalidImage;
  }
  for (int i = 0; i < header->e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, image + header->e_shoff + (size_t)i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOTE) continue;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= section.sh_size;) {
      Elf64_Nhdr note;
      memcpy(&note, image + section.sh_offset + at, sizeof note);
      const size_t name = at + sizeof note, text = name + (note.n_namesz + 3u) / 4 * 4;
      if (note.n_type == 32 && text + note.n_descsz <= section.sh_size) {  // NT_AMDGPU_METADATA
        return read_metadata(image + section.sh_offset + text, note.n_descsz, device, code);
      }
      at = text + (note.n_descsz + 3u) / 4 * 4;
    }
  }
  return hipErrorInvalidImage;
}

static uint64_t little_endian(const char* at, unsigned bytes) {
  uint64_t value = 0;
  memcpy(&value, at, bytes);
  return value;
}

static const char kBundle[] = "__CLANG_OFFLOAD_BUNDLE__";

static hipError_t read_bundle(const char* image, const StubDevice* device, StubCode* code) {
  const uint64_t count = little_endian(image + 24, 8);
  const char* at = image + 32;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t offset = little_endian(at, 8), length = little_endian(at + 16, 8);
    const char* name = at + 24;
    at = name + length;
    // hipv4-amdgcn-amd-amdhsa--gfx942:xnack-
    const size_t arch = strlen(device->arch);
    for (const char* dashes = name; dashes + 2 + arch <= name + length; dashes++) {
      if (memcmp(dashes, "--", 2) != 0 || memcmp(dashes + 2, device->arch, arch) != 0) continue;
      if (dashes + 2 + arch != name + length && dashes[2 + arch] != ':') continue;
      return read_elf(image + offset, device, code);
    }
  }
  return hipErrorNoBinaryForGpu;
}

static hipError_t read_compressed(const char* image, const StubDevice* device, StubCode* code) {
  typedef size_t (*Decompress)(void*, size_t, const void*, size_t);
  const unsigned version = (unsigned)little_endian(image + 4, 2);
  const unsigned method = (unsigned)little_endian(image + 6, 2);
  const unsigned width = version >= 3 ? 8 : 4;  // of the two sizes that versions 2 and 3 have
  const uint64_t total = little_endian(image + 8, width);
  const uint64_t plain = little_endian(image + 8 + width, width);
  const size_t header = 16 + 2 * width;
  void* library = dlopen("libzstd.so.1", RTLD_NOW);
  Decompress decompress = NULL;
  if (library != NULL) *(void**)&decompress = dlsym(library, "ZSTD_decompress");
  if (decompress == NULL || method != 1 || version < 2) {
    code->opaque = 1;
    return hipSuccess;
  }
  char* bytes = malloc(plain);
  if (bytes == NULL) return hipErrorOutOfMemory;
  const size_t got = decompress(bytes, plain, image + header, total - header);
  const hipError_t error = got == plain ? read_bundle(bytes, device, code) : hipErrorInvalidImage;
  free(bytes);
  return error;
}

hipError_t stub_code_load(const void* image, const StubDevice* device, StubCode** code) {
  if (image == NULL) return hipErrorInvalidImage;
  *code = calloc(1, sizeof **code);
  if (*code == NULL) return hipErrorOutOfMemory;
  hipError_t error = hipErrorInvalidImage;
  if (memcmp(image, ELFMAG, SELFMAG) == 0) {
    error = read_elf(image, device, *code);
  } else if (memcmp(image, "CCOB", 4) == 0) {
    error = read_compressed(image, device, *code);
  } else if (memcmp(image, kBundle, strlen(kBundle)) == 0) {
    error = read_bundle(image, device, *code);
  }
  if (error != hipSuccess) {
    stub_code_free(*code);
    *code = NULL;
  }
  return error;
}

void stub_code_free(StubCode* code) {
  while (code->kernels != NULL) {
    StubKernel* kernel = code->kernels;
    code->kernels = kernel->next;
    free(kernel->name);
    free(kernel);
  }
  free(code);
}

StubKernel* stub_code_find(StubCode* code, const char* name) {
  for (StubKernel* kernel = code->kernels; kernel != NULL; kernel = kernel->next) {
    if (kernel->name != NULL && strcmp(kernel->name, name) == 0) return kernel;
  }
  if (!code->opaque) return NULL;
  StubKernel* kernel = calloc(1, sizeof *kernel);
  if (kernel == NULL) abort();
  kernel->name = strdup(name);
  kernel->next = code->kernels;
  code->kernels = kernel;
  return kernel;
}
