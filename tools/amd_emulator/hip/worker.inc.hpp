// ------------------------------------------------------------------------------------------------
// worker
struct Worker {
  int fd = -1;
  pid_t pid = 0;
} g_w;
enum { W_MAGIC = 0x50494855, W_HELLO = 1, W_LOAD = 2, W_LAUNCH = 3 };
struct WHead {
  u32 magic, cmd;
  u64 len;
};
struct WReply {
  u32 magic;
  int32_t status;
  u64 insts, fault, msglen;
  double seconds, compile;
  u32 races, wgs;
};

static bool io_all(int fd, void* p, size_t n, bool out) {
  u8* b = (u8*)p;
  while (n) {
    ssize_t r = out ? send(fd, b, n, MSG_NOSIGNAL) : recv(fd, b, n, 0);
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) return false;
    b += r;
    n -= r;
  }
  return true;
}
static void worker_drop(bool wait_for_it) {
  if (g_w.fd >= 0) close(g_w.fd);
  if (wait_for_it && g_w.pid > 0 && g_owner == getpid())
    for (int i = 0; i < 200 && waitpid(g_w.pid, nullptr, WNOHANG) == 0; i++) usleep(10000);
  g_w = Worker();
  for (auto& c : g_cos) c.second->sent = false;
}
static bool worker_call(u32 cmd, const string& payload, WReply* r, string* msg) {
  WHead h{W_MAGIC, cmd, payload.size()};
  if (!io_all(g_w.fd, &h, sizeof h, true) ||
      !io_all(g_w.fd, (void*)payload.data(), payload.size(), true))
    return false;
  static const double limit = atof(env("EMUHIP_TIMEOUT", "0"));  // seconds for one launch, 0: none
  for (double end = now() + limit; limit > 0;) {
    pollfd p{g_w.fd, POLLIN, 0};
    double left = end - now();
    int n = left > 0 ? poll(&p, 1, (int)std::min(left * 1e3 + 1, 1e9)) : 0;
    if (n > 0) break;
    if (n == 0) {
      if (g_w.pid > 0) kill(g_w.pid, SIGKILL);
      *msg = fmt("stopped after %g s (EMUHIP_TIMEOUT)", limit);
      return false;
    }
  }
  if (!io_all(g_w.fd, r, sizeof *r, false) || r->magic != W_MAGIC) return false;
  msg->resize(r->msglen);
  return io_all(g_w.fd, &(*msg)[0], r->msglen, false);
}
static bool worker_hello(string* why) {
  u64 pay[7] = {g_base, TOTAL,         DEV_SZ + HOST_SZ + CODE_SZ, SCR_SZ,
                1,      (u64)getpid(), (u64)(g_race != "off")};
  WHead h{W_MAGIC, W_HELLO, sizeof pay};
  iovec iov[2] = {{&h, sizeof h}, {pay, sizeof pay}};
  char cbuf[CMSG_SPACE(2 * sizeof(int))] = {};
  int fds[2] = {g_memfd, 2};  // memory, and our stderr (a server's child prints there)
  msghdr m{};
  m.msg_iov = iov;
  m.msg_iovlen = 2;
  m.msg_control = cbuf;
  m.msg_controllen = sizeof cbuf;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fds);
  memcpy(CMSG_DATA(c), fds, sizeof fds);
  if (sendmsg(g_w.fd, &m, MSG_NOSIGNAL) != (ssize_t)(sizeof h + sizeof pay)) {
    *why = "the worker does not take the greeting";
    return false;
  }
  WReply r;
  if (!io_all(g_w.fd, &r, sizeof r, false) || r.magic != W_MAGIC) {
    *why = "the worker ended before it was ready (see its messages above)";
    return false;
  }
  string msg(r.msglen, 0);
  if (!io_all(g_w.fd, &msg[0], r.msglen, false) || r.status) {
    *why = "worker: " + msg;
    return false;
  }
  return true;
}
static string own_dir() {
  Dl_info i;
  if (!dladdr((void*)&own_dir, &i) || !i.dli_fname) return ".";
  char* rp = realpath(i.dli_fname, nullptr);
  string s = rp ? rp : i.dli_fname;
  free(rp);
  size_t p = s.rfind('/');
  return p == string::npos ? "." : s.substr(0, p);
}
static bool worker_start(string* why) {
  if (g_w.fd >= 0) return true;
  if (*env("EMUHIP_SERVER")) {
    sockaddr_un sa{};
    sa.sun_family = AF_UNIX;
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", env("EMUHIP_SERVER"));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(s, (sockaddr*)&sa, sizeof sa) == 0) {
      g_w.fd = s;
      if (worker_hello(why)) return true;
      worker_drop(false);
      return false;
    }
    fprintf(stderr, "[emuhip] no server at %s (%s); starting an own worker\n", env("EMUHIP_SERVER"),
            strerror(errno));
    close(s);
  }
  string script = env("EMUHIP_WORKER");
  if (script.empty()) script = own_dir() + "/worker.py";
  if (access(script.c_str(), R_OK) != 0) {
    *why = "no worker script " + script + " (set EMUHIP_WORKER)";
    return false;
  }
  int sv[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0) {
    *why = strerror(errno);
    return false;
  }
  if (sv[1] < 10) {
    int n = fcntl(sv[1], F_DUPFD_CLOEXEC, 10);
    close(sv[1]);
    sv[1] = n;
  }
  std::vector<char*> ev;
  for (char** e = environ; *e; e++) {
    bool skip = false;
    for (const char* x : {"LD_PRELOAD=", "PYTHONPATH=", "PYTHONHOME=", "PYTHONSTARTUP=",
                          "PYTHONINSPECT=", "ASAN_OPTIONS="})
      skip = skip || strncmp(*e, x, strlen(x)) == 0;
    if (!skip) ev.push_back(*e);
  }
  ev.push_back(nullptr);
  string py = env("EMUHIP_PYTHON", "python3");
  const char* argv[] = {py.c_str(), "-s", script.c_str(), "--fd", "3", nullptr};
  posix_spawn_file_actions_t fa;
  posix_spawn_file_actions_init(&fa);
  posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&fa, 2, 1);
  posix_spawn_file_actions_adddup2(&fa, sv[1], 3);
  posix_spawnattr_t at;
  posix_spawnattr_init(&at);
  sigset_t none, dfl;
  sigemptyset(&none);
  sigemptyset(&dfl);
  sigaddset(&dfl, SIGPIPE);
  sigaddset(&dfl, SIGTERM);
  posix_spawnattr_setsigmask(&at, &none);
  posix_spawnattr_setsigdefault(&at, &dfl);
  posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int rc = posix_spawnp(&g_w.pid, py.c_str(), &fa, &at, (char* const*)argv, ev.data());
  posix_spawn_file_actions_destroy(&fa);
  posix_spawnattr_destroy(&at);
  close(sv[1]);
  if (rc) {
    close(sv[0]);
    g_w = Worker();
    *why = "cannot start " + py + ": " + strerror(rc);
    return false;
  }
  g_w.fd = sv[0];
  if (worker_hello(why)) return true;
  worker_drop(true);
  return false;
}
// ------------------------------------------------------------------------------------------------
// streams, events Work is done at once, or, with EMUHIP_ASYNC=1, queued on created streams until
// something waits for it.
struct ihipStream_t {
  int dev;
  unsigned flags;
  int prio;
  u32 id;
  std::deque<std::function<void()>> q;
};
struct ihipEvent_t {
  int dev;
  unsigned flags;
  double t;
  u64 want, done;
  hipStream_t st;
};
static std::set<void*>&g_streams = *new std::set<void*>, &g_events = *new std::set<void*>;
static bool stream_ok(hipStream_t s) {
  return !s || s == (hipStream_t)1 || s == (hipStream_t)2 || g_streams.count(s);
}
static bool created(hipStream_t s) { return (u64)s > 2; }
static u32 stream_id(hipStream_t s) { return created(s) ? s->id : 0; }
static void run_front(hipStream_t s) {
  auto f = std::move(s->q.front());
  s->q.pop_front();
  f();
}
static void flush_stream(hipStream_t s) {
  while (!s->q.empty()) run_front(s);
}
static void flush(bool all)  // blocking streams (what the null stream waits for), or all
{
  if (!g_async) return;
  std::vector<hipStream_t> v;
  for (void* p : g_streams) v.push_back((hipStream_t)p);
  std::sort(v.begin(), v.end(), [](hipStream_t a, hipStream_t b) {
    return a->id > b->id;
  });  // youngest first: no accidental order
  for (hipStream_t x : v)
    if (all || !(x->flags & hipStreamNonBlocking)) flush_stream(x);
}
static void wait_on(hipStream_t s) {
  if (created(s))
    flush_stream(s);
  else
    flush(false);
}
static void wait_event(hipEvent_t e, u64 upto) {
  while (g_events.count(e) && e->done < upto && g_streams.count(e->st) && !e->st->q.empty())
    run_front(e->st);
}
static int stream_dev(hipStream_t s) { return s && (u64)s > 2 ? s->dev : tl_dev; }
#define CHECK_STREAM(api, s) \
  if (!stream_ok(s)) return fail(hipErrorInvalidHandle, api, fmt("%p is not a stream", (void*)(s)))
