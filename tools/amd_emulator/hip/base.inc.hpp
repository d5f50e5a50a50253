// ------------------------------------------------------------------------------------------------
// small helpers
static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}
static const char* env(const char* name, const char* dflt = "") {
  const char* v = getenv(name);
  return v && *v ? v : dflt;
}
static string fmt(const char* f, ...) __attribute__((format(printf, 1, 2)));
static string fmt(const char* f, ...) {
  va_list ap;
  va_start(ap, f);
  char* p = nullptr;
  int n = vasprintf(&p, f, ap);
  va_end(ap);
  string s = n >= 0 ? string(p, n) : string();
  free(p);
  return s;
}
static u64 env_size(const char* name, u64 dflt) {
  const char* v = getenv(name);
  if (!v || !*v) return dflt;
  char* end = nullptr;
  double x = strtod(v, &end);
  switch (end ? *end | 32 : 0) {
    case 'k':
      x *= 1024.;
      break;
    case 'm':
      x *= 1048576.;
      break;
    case 'g':
      x *= 1073741824.;
      break;
  }
  return (u64)x;
}
static string json(const string& s) {
  string r = "\"";
  for (unsigned char c : s)
    if (c == '"' || c == '\\')
      (r += '\\') += (char)c;
    else if (c < 32)
      r += fmt("\\u%04x", c);
    else
      r += (char)c;
  return r + "\"";
}

// ------------------------------------------------------------------------------------------------
// errors, log
static thread_local hipError_t tl_last = hipSuccess;
static std::atomic<int> g_sticky{0};
static pid_t g_owner;   // the process that set the emulated device up
static int g_log = -2;  // EMUHIP_LOG: -2 not tried yet, -1 none
static bool g_quiet;

static void log_line(const string& s) {
  if (g_log == -2) {
    const char* f = getenv("EMUHIP_LOG");
    g_log = f && *f ? open(f, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (f && *f && g_log < 0)
      fprintf(stderr, "[emuhip] cannot write the log %s: %s\n", f, strerror(errno));
  }
  if (g_log < 0) return;
  string l = s + "\n";
  if (write(g_log, l.data(), l.size()) < 0) {
  }
}
static void report(const char* api, const string& msg) {
  if (!g_quiet) fprintf(stderr, "[emuhip] %s: %s\n", api, msg.c_str());
  log_line(fmt("{\"event\": \"error\", \"pid\": %d, \"api\": %s, \"message\": %s}", getpid(),
               json(api).c_str(), json(msg).c_str()));
}
static hipError_t fail(hipError_t e) {
  if (e != hipSuccess) tl_last = e;
  return e;
}
static hipError_t fail(hipError_t e, const char* api, const string& msg) {
  report(api, msg);
  return fail(e);
}
EXPORT hipError_t emuhip_unsupported(const char* name) {
  static std::mutex m;
  static std::set<string> seen;
  {
    std::lock_guard<std::mutex> g(m);
    if (!seen.insert(name).second) return fail(hipErrorNotSupported);
  }
  return fail(hipErrorNotSupported, name,
              "not provided by the emulated device (hipErrorNotSupported)");
}

// ------------------------------------------------------------------------------------------------
// devices
struct Dev {
  string proc, name;  // gfx942; gfx942:sramecc+:xnack-
  std::map<string, char> feat;
  int major = 0, minor = 0, step = 0, wave = 32, cus = 32, mhz = 2100, busw = 256, memmhz = 1250,
      simds = 4, vgprs = 1536, vgran = 24, wavesmax = 16;
  u64 lds = 65536, l2 = 4 << 20;
  u64 used = 0;
  bool cdna = false;
};
// (objects with destructors are leaked on purpose: exit handlers of other libraries may still call
// in here)
static std::vector<Dev>& g_devs = *new std::vector<Dev>;
static u64 g_mem;
static bool g_strict, g_stick, g_abort, g_async, g_logmem;
static string& g_race = *new string;

static void make_dev(const string& arch) {
  Dev d;
  size_t p = arch.find(':');
  d.proc = arch.substr(0, p);
  d.name = arch;
  const string& q = d.proc;
  if (q.size() >= 5) {
    d.step = (int)strtol(q.substr(q.size() - 1).c_str(), nullptr, 16);
    d.minor = (int)strtol(q.substr(q.size() - 2, 1).c_str(), nullptr, 16);
    d.major = atoi(q.substr(3, q.size() - 5).c_str());
  }
  if (d.major == 9) {
    d.cdna = true;
    d.wave = 64;
    d.vgprs = 512;
    d.vgran = 8;
    d.wavesmax = 8;
    d.busw = 8192;
    d.mhz = 2100;
    d.memmhz = 2600;
    d.cus = q == "gfx950" ? 256 : q == "gfx942" ? 304 : 104;
    d.lds = q == "gfx950" ? 163840 : 65536;
    d.feat["sramecc"] = '+';
    d.feat["xnack"] = '-';
    if (p == string::npos) d.name = q + ":sramecc+:xnack-";
  } else {
    d.cus = q == "gfx1201"   ? 32
            : q == "gfx1200" ? 16
            : q == "gfx1100" ? 48
            : q == "gfx1151" ? 20
                             : 16;
    d.mhz = 2500;
  }
  for (; p != string::npos;) {
    size_t e = arch.find(':', p + 1);
    string f = arch.substr(p + 1, e == string::npos ? e : e - p - 1);
    if (f.size() > 1) d.feat[f.substr(0, f.size() - 1)] = f.back();
    p = e;
  }
  if (*env("EMUHIP_ARCHNAME")) d.name = env("EMUHIP_ARCHNAME");
  if (*env("EMUHIP_CUS")) d.cus = std::max(1, atoi(env("EMUHIP_CUS")));
  g_devs.push_back(d);
}

static std::recursive_mutex& g_mu = *new std::recursive_mutex;
static bool g_inited;
static void init_locked() {
  if (g_inited) return;
  g_inited = true;
  g_mem = env_size("EMUHIP_MEM", 2ull << 30);
  g_strict = strcmp(env("EMUHIP_STRICT", "1"), "0") != 0;
  g_stick = strcmp(env("EMUHIP_STICKY", "1"), "0") != 0;
  g_abort = strcmp(env("EMUHIP_ABORT", "0"), "0") != 0;
  g_quiet = strcmp(env("EMUHIP_QUIET", "0"), "0") != 0;
  g_async = strcmp(env("EMUHIP_ASYNC", "0"), "0") != 0;
  g_logmem = strcmp(env("EMUHIP_LOG_MEM", "0"), "0") != 0;
  g_race = env("EMUHIP_RACE", "error");
  std::vector<string> all;
  string a = env("EMUHIP_ARCH");
  for (size_t i = 0; i <= a.size();) {
    size_t e = a.find(',', i);
    if (e == string::npos) e = a.size();
    if (e > i) all.push_back(a.substr(i, e - i));
    i = e + 1;
  }
  // HIP_VISIBLE_DEVICES / ROCR_VISIBLE_DEVICES: indices; the list ends at the first one that is not
  // valid
  for (const char* v : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const char* s = getenv(v);
    if (!s) continue;
    std::vector<string> keep;
    while (*s) {
      char* e = nullptr;
      long k = strtol(s, &e, 10);
      if (e == s || k < 0 || k >= (long)all.size()) break;
      keep.push_back(all[k]);
      s = *e == ',' ? e + 1 : "";
    }
    all = keep;
  }
  for (auto& x : all) make_dev(x);
}
static thread_local int tl_dev = 0;

struct Guard  // entry of every API function that touches shared state
{
  std::lock_guard<std::recursive_mutex> g;
  Guard() : g(g_mu) { init_locked(); }
};
#define SETUP(api)                                   \
  Guard guard_;                                      \
  if (g_devs.empty()) return fail(hipErrorNoDevice); \
  if (!g_owner) g_owner = getpid();                  \
  if (getpid() != g_owner)                           \
  return fail(hipErrorNotInitialized, api, "called in a forked child; HIP does not survive fork()")
#define STICKY() \
  if (g_sticky) return fail((hipError_t)g_sticky.load())

static void set_sticky(hipError_t e) {
  if (g_stick) g_sticky = e;
  if (g_abort) {
    fprintf(stderr, "[emuhip] EMUHIP_ABORT is set: aborting\n");
    abort();
  }
}
