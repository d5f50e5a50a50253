// ------------------------------------------------------------------------------------------------
// stream and event API
EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* s, unsigned fl, int prio) {
  SETUP("hipStreamCreate");
  STICKY();
  if (!s) return fail(hipErrorInvalidValue);
  static u32 next_id = 1;
  *s = new ihipStream_t{tl_dev, fl, prio, next_id++, {}};
  g_streams.insert(*s);
  return hipSuccess;
}
EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* s, unsigned fl) {
  return hipStreamCreateWithPriority(s, fl, 0);
}
EXPORT hipError_t hipStreamCreate(hipStream_t* s) { return hipStreamCreateWithPriority(s, 0, 0); }
EXPORT hipError_t hipStreamDestroy(hipStream_t s) {
  SETUP("hipStreamDestroy");
  if (!s || !g_streams.count(s))
    return fail(hipErrorInvalidHandle, "hipStreamDestroy", "not a stream");
  flush_stream(s);
  g_streams.erase(s);
  delete s;
  return hipSuccess;
}
static hipError_t stream_sync(const char* api, hipStream_t s) {
  SETUP(api);
  CHECK_STREAM(api, s);
  wait_on(s);
  STICKY();
  return hipSuccess;
}
EXPORT hipError_t hipStreamSynchronize(hipStream_t s) {
  return stream_sync("hipStreamSynchronize", s);
}
EXPORT hipError_t hipStreamSynchronize_spt(hipStream_t s) {
  return stream_sync("hipStreamSynchronize", s);
}
EXPORT hipError_t hipStreamQuery(hipStream_t s) {
  SETUP("hipStreamQuery");
  CHECK_STREAM("hipStreamQuery", s);
  if (!created(s))
    flush(false);
  else if (!s->q.empty())
    run_front(s);
  STICKY();
  return created(s) && !s->q.empty() ? hipErrorNotReady : hipSuccess;
}
EXPORT hipError_t hipStreamWaitEvent(hipStream_t s, hipEvent_t e, unsigned) {
  SETUP("hipStreamWaitEvent");
  CHECK_STREAM("hipStreamWaitEvent", s);
  if (!g_events.count(e)) return fail(hipErrorInvalidHandle, "hipStreamWaitEvent", "not an event");
  u64 upto = e->want;
  if (g_async && created(s) && e->done < upto)
    s->q.push_back([=] { wait_event(e, upto); });
  else
    wait_event(e, upto);
  STICKY();
  return hipSuccess;
}
EXPORT hipError_t hipStreamGetFlags(hipStream_t s, unsigned* f) {
  SETUP("hipStreamGetFlags");
  CHECK_STREAM("hipStreamGetFlags", s);
  if (!f) return fail(hipErrorInvalidValue);
  *f = (u64)s > 2 ? s->flags : 0;
  return hipSuccess;
}
EXPORT hipError_t hipStreamGetPriority(hipStream_t s, int* p) {
  SETUP("hipStreamGetPriority");
  CHECK_STREAM("hipStreamGetPriority", s);
  if (!p) return fail(hipErrorInvalidValue);
  *p = (u64)s > 2 ? s->prio : 0;
  return hipSuccess;
}
EXPORT hipError_t hipStreamGetDevice(hipStream_t s, hipDevice_t* d) {
  SETUP("hipStreamGetDevice");
  CHECK_STREAM("hipStreamGetDevice", s);
  if (!d) return fail(hipErrorInvalidValue);
  *d = stream_dev(s);
  return hipSuccess;
}
EXPORT int hipGetStreamDeviceId(hipStream_t s) {
  Guard g;
  return stream_ok(s) ? stream_dev(s) : -1;
}
EXPORT hipError_t hipStreamIsCapturing(hipStream_t s, hipStreamCaptureStatus* st) {
  SETUP("hipStreamIsCapturing");
  CHECK_STREAM("hipStreamIsCapturing", s);
  if (!st) return fail(hipErrorInvalidValue);
  *st = hipStreamCaptureStatusNone;
  return hipSuccess;
}
EXPORT hipError_t hipStreamAddCallback(hipStream_t s, hipStreamCallback_t cb, void* u, unsigned) {
  if (!cb) return fail(hipErrorInvalidValue);
  {
    SETUP("hipStreamAddCallback");
    CHECK_STREAM("hipStreamAddCallback", s);
    if (g_async && created(s)) {
      s->q.push_back([=] { cb(s, (hipError_t)g_sticky.load(), u); });
      return hipSuccess;
    }
    flush(false);
  }
  cb(s, (hipError_t)g_sticky.load(), u);
  return hipSuccess;
}
EXPORT hipError_t hipLaunchHostFunc(hipStream_t s, hipHostFn_t fn, void* u) {
  if (!fn) return fail(hipErrorInvalidValue);
  {
    SETUP("hipLaunchHostFunc");
    CHECK_STREAM("hipLaunchHostFunc", s);
    STICKY();
    if (g_async && created(s)) {
      s->q.push_back([=] { fn(u); });
      return hipSuccess;
    }
    flush(false);
  }
  fn(u);
  return hipSuccess;
}
EXPORT hipError_t hipExtStreamGetCUMask(hipStream_t s, u32 n, u32* m) {
  SETUP("hipExtStreamGetCUMask");
  CHECK_STREAM("hipExtStreamGetCUMask", s);
  if (!m || !n) return fail(hipErrorInvalidValue);
  int c = g_devs[stream_dev(s)].cus;
  for (u32 i = 0; i < n; i++, c -= 32) m[i] = c >= 32 ? 0xffffffffu : c > 0 ? (1u << c) - 1 : 0;
  return hipSuccess;
}
EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* e, unsigned fl) {
  SETUP("hipEventCreate");
  STICKY();
  if (!e) return fail(hipErrorInvalidValue);
  *e = new ihipEvent_t{tl_dev, fl, 0, 0, 0, nullptr};
  g_events.insert(*e);
  return hipSuccess;
}
EXPORT hipError_t hipEventCreate(hipEvent_t* e) { return hipEventCreateWithFlags(e, 0); }
#define CHECK_EVENT(api, e) \
  SETUP(api);               \
  if (!e || !g_events.count(e)) return fail(hipErrorInvalidHandle, api, "not an event")
EXPORT hipError_t hipEventRecord(hipEvent_t e, hipStream_t s) {
  CHECK_EVENT("hipEventRecord", e);
  CHECK_STREAM("hipEventRecord", s);
  if (!created(s)) flush(false);
  STICKY();
  stamp(e, s);
  return hipSuccess;
}
EXPORT hipError_t hipEventRecord_spt(hipEvent_t e, hipStream_t s) { return hipEventRecord(e, s); }
EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t e, hipStream_t s, unsigned) {
  return hipEventRecord(e, s);
}
EXPORT hipError_t hipEventSynchronize(hipEvent_t e) {
  CHECK_EVENT("hipEventSynchronize", e);
  wait_event(e, e->want);
  STICKY();
  return hipSuccess;
}
EXPORT hipError_t hipEventQuery(hipEvent_t e) {
  CHECK_EVENT("hipEventQuery", e);
  if (e->done < e->want) wait_event(e, e->done + 1);
  STICKY();
  return e->done < e->want ? hipErrorNotReady : hipSuccess;
}
EXPORT hipError_t hipEventDestroy(hipEvent_t e) {
  CHECK_EVENT("hipEventDestroy", e);
  wait_event(e, e->want);
  g_events.erase(e);
  delete e;
  return hipSuccess;
}
EXPORT hipError_t hipEventElapsedTime(float* ms, hipEvent_t a, hipEvent_t b) {
  CHECK_EVENT("hipEventElapsedTime", a);
  if (!b || !g_events.count(b) || !a->want || !b->want ||
      ((a->flags | b->flags) & hipEventDisableTiming))
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime",
                "an event was not recorded, or has no timing");
  if (!ms) return fail(hipErrorInvalidValue);
  if (a->done < a->want || b->done < b->want) return hipErrorNotReady;
  *ms = (float)std::max(1e-6, (b->t - a->t) * 1e3);
  return hipSuccess;
}
