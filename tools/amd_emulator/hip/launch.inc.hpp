// ------------------------------------------------------------------------------------------------
// launch
struct Dims {
  u32 x, y, z;
};
static u64 vol(const Dims& d) { return (u64)d.x * d.y * d.z; }

template <class T>
static void append(string& s, const T& v) {
  s.append((const char*)&v, sizeof v);
}
static void append_str(string& s, const string& t) {
  append(s, (u32)t.size());
  s += t;
}

// grid in blocks; rem = size of a partial last block (only from the Ext/Hcc launches), kb = kernarg
// bytes with the explicit part set
static hipError_t exec_kernel(const char* api, Kernel* k, Dims grid, Dims block, Dims rem, u64 dyn,
                              const std::vector<u8>& kb, bool hostcall, u32 sid);
static hipError_t run_kernel(const char* api, Kernel* k, Dims grid, Dims block, Dims rem, u64 dyn,
                             std::vector<u8>& kb, hipStream_t st) {
  CodeObj* co = k->co;
  const Dev& d = g_devs[co->dev];
  if (!vol(grid) || !vol(block))
    return fail(hipErrorInvalidConfiguration, api, k->name + ": empty grid or block");
  if (vol(block) > 1024 || (u64)grid.x * block.x > 0xffffffffull ||
      (u64)grid.y * block.y > 0xffffffffull || (u64)grid.z * block.z > 0xffffffffull)
    return fail(hipErrorInvalidConfiguration, api,
                k->name + ": block of more than 1024 threads, or grid too large");
  if (vol(block) > k->max_wg)
    return fail(
        hipErrorLaunchFailure, api,
        fmt("%s: block of %llu threads, the kernel was compiled for at most %llu", k->name.c_str(),
            (unsigned long long)vol(block), (unsigned long long)k->max_wg));
  if (k->lds + dyn > d.lds)
    return fail(hipErrorInvalidValue, api,
                fmt("%s: %llu bytes of LDS (static %llu + dynamic %llu), %s has %llu",
                    k->name.c_str(), (unsigned long long)(k->lds + dyn), (unsigned long long)k->lds,
                    (unsigned long long)dyn, d.proc.c_str(), (unsigned long long)d.lds));
  if (k->wave != (u64)d.wave)
    return fail(hipErrorNotSupported, api,
                fmt("%s: wave size %llu is not modelled on %s", k->name.c_str(),
                    (unsigned long long)k->wave, d.proc.c_str()));
  bool hostcall = false;
  for (const Arg& a : k->args) {
    u64 v;
    const string& n = a.kind;
    if (n == "hidden_block_count_x")
      v = grid.x - (rem.x ? 1 : 0);
    else if (n == "hidden_block_count_y")
      v = grid.y - (rem.y ? 1 : 0);
    else if (n == "hidden_block_count_z")
      v = grid.z - (rem.z ? 1 : 0);
    else if (n == "hidden_group_size_x")
      v = block.x;
    else if (n == "hidden_group_size_y")
      v = block.y;
    else if (n == "hidden_group_size_z")
      v = block.z;
    else if (n == "hidden_remainder_x")
      v = rem.x;
    else if (n == "hidden_remainder_y")
      v = rem.y;
    else if (n == "hidden_remainder_z")
      v = rem.z;
    else if (n == "hidden_grid_dims")
      v = 3;  // HIP launches are always three-dimensional
    else if (n == "hidden_dynamic_lds_size")
      v = dyn;
    else {
      hostcall = hostcall || n == "hidden_hostcall_buffer" || n == "hidden_printf_buffer";
      continue;
    }
    memcpy(&kb[a.off], &v, std::min<u64>(a.size, 8));
  }
  if (g_async && created(st)) {
    st->q.push_back([=, kb = kb] {
      if (!g_sticky) (void)exec_kernel(api, k, grid, block, rem, dyn, kb, hostcall, st->id);
    });
    return hipSuccess;
  }
  return exec_kernel(api, k, grid, block, rem, dyn, kb, hostcall, stream_id(st));
}
static hipError_t exec_kernel(const char* api, Kernel* k, Dims grid, Dims block, Dims rem, u64 dyn,
                              const std::vector<u8>& kb, bool hostcall, u32 sid) {
  CodeObj* co = k->co;
  const Dev& d = g_devs[co->dev];
  WReply r{};
  string why, msg;
  double t0 = now();
  hipError_t e = hipSuccess;
  auto broken = [&](const string& m) {
    why = m;
    e = hipErrorLaunchFailure;
  };
  if (!worker_start(&why)) e = hipErrorLaunchFailure;
  if (e == hipSuccess && !co->sent) {
    string p;
    append(p, co->id);
    append(p, (u32)0);
    append(p, co->off);
    append_str(p, d.proc);
    p.append((const char*)co->elf.data(), co->elf.size());
    if (!worker_call(W_LOAD, p, &r, &msg)) {
      worker_drop(true);
      broken("the emulator process ended while it loaded the code object");
    } else if (r.status)
      broken(msg);
    else
      co->sent = true;
  }
  if (e == hipSuccess) {
    string p;
    append(p, co->id);
    for (u32 v : {grid.x, grid.y, grid.z, block.x, block.y, block.z, rem.x, rem.y, rem.z})
      append(p, v);
    append(p, dyn);
    append_str(p, k->name);
    append(p, (u32)kb.size());
    p.append((const char*)kb.data(), kb.size());
    append(p, (u32)g_live.size());
    for (auto& a : g_live) {
      append(p, a.second.off);
      append(p, a.second.off + a.second.size);
    }
    if (!worker_call(W_LAUNCH, p, &r, &msg)) {
      worker_drop(true);
      broken(msg.empty() ? "the emulator process ended during the launch" : msg);
    } else if (r.status) {
      if (r.fault) msg += " [" + mem_describe(r.fault) + "]";
      if (hostcall && r.status == 2)
        msg += " (note: the kernel may use printf or assert, whose host service is not modelled)";
      broken(msg);
    } else if (r.races && g_race == "error")
      broken(fmt("%u LDS races (see the messages above)", r.races));
  }
  double dt = now() - t0;
  string hex;
  for (size_t i = 0; i < kb.size() && i < std::max<u64>(k->explicit_end, 0) && i < 512; i++)
    hex += fmt("%02x", kb[i]);
  log_line(
      fmt("{\"event\": \"launch\", \"pid\": %d, \"stream\": %u, \"arch\": %s, \"kernel\": %s, "
          "\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], "
          "\"lds_static\": %llu, \"lds_dynamic\": %llu, \"kernarg_size\": %zu, \"kernarg\": "
          "\"%s\", \"instructions\": %llu, "
          "\"workgroups\": %u, \"seconds\": %.4f, \"emulation_s\": %.4f, \"compile_s\": %.4f, "
          "\"races\": %u, \"status\": %s, \"message\": %s}",
          getpid(), sid, json(d.proc).c_str(), json(k->name).c_str(), grid.x, grid.y, grid.z,
          block.x, block.y, block.z, (unsigned long long)k->lds, (unsigned long long)dyn, kb.size(),
          hex.c_str(), (unsigned long long)r.insts, r.wgs, dt, r.seconds, r.compile, r.races,
          e == hipSuccess ? "\"ok\"" : "\"error\"", json(why).c_str()));
  if (e != hipSuccess) {
    (void)fail(e, api,
               "kernel " + k->name +
                   fmt(" grid %u,%u,%u block %u,%u,%u failed on %s: ", grid.x, grid.y, grid.z,
                       block.x, block.y, block.z, d.proc.c_str()) +
                   why);
    set_sticky(e);
  }
  return e;
}
static hipError_t pack_args(const char* api, Kernel* k, void** args, void** extra,
                            std::vector<u8>& kb) {
  kb.assign(std::max(k->kernarg, k->explicit_end), 0);
  if (extra) {
    const void* buf = nullptr;
    size_t n = 0;
    for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2)
      if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
        buf = extra[i + 1];
      else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE)
        n = *(size_t*)extra[i + 1];
      else
        return fail(hipErrorInvalidValue, api, "unknown entry in extra[]");
    if (args || !buf || n < k->explicit_end || n > kb.size())
      return fail(hipErrorInvalidValue, api,
                  fmt("%s takes %llu bytes of arguments, the buffer has %zu", k->name.c_str(),
                      (unsigned long long)k->explicit_end, n));
    memcpy(kb.data(), buf, n);
    return hipSuccess;
  }
  if (k->nexplicit && !args)
    return fail(hipErrorInvalidValue, api, k->name + ": no arguments given");
  int i = 0;
  for (const Arg& a : k->args)
    if (a.kind.compare(0, 7, "hidden_") != 0) {
      if (!args[i])
        return fail(hipErrorInvalidValue, api,
                    fmt("%s: argument %d is a null pointer", k->name.c_str(), i));
      memcpy(&kb[a.off], args[i++], a.size);
    }
  return hipSuccess;
}
