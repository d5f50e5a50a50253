"""A limit of processes below the number of threads: fewer threads, and no end of the process.

Each case runs in a child with another user id, for root has no such limit.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys, threading
import numpy as np
import ckdisp

limit, user = int(sys.argv[1]), int(sys.argv[2])
disp = ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=64)
a = np.random.default_rng(0).random((700, 700), np.float32)
q = np.random.default_rng(1).random((2, 16, 300, 64), np.float32)
x = np.random.default_rng(2).random((2, 32, 32, 64), np.float32).transpose(0, 3, 1, 2)
w = np.random.default_rng(3).random((64, 3, 3, 64), np.float32).transpose(0, 3, 1, 2)
g = np.random.default_rng(4).random((2, 64, 30, 30), np.float32)
alone = ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=1)
calls = {
    "gemm": lambda d: d.gemm(a, a),
    "fmha_fwd": lambda d: d.fmha_fwd(q, q, q),
    "fmha_splitkv": lambda d: d.fmha_splitkv(q, q, q, num_splits=2),
    "conv_fwd": lambda d: d.conv_fwd(x, w),
    "conv_bwd_data": lambda d: d.conv_bwd_data(g, w, input_shape=x.shape),
    "conv_bwd_weight": lambda d: d.conv_bwd_weight(x, g, weight_shape=w.shape),
}
wanted = {name: call(alone) for name, call in calls.items()}

resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)

def run():
    for _ in range(2):
        for name, call in calls.items():
            assert np.allclose(call(disp), wanted[name], rtol=2e-4, atol=2e-3), name

run()
threads = len(os.listdir("/proc/self/task"))
assert threads <= max(limit, 1), threads
if limit > 20:  # a thread of its own has a team of its own
    failed = []
    def checked():
        try:
            run()
        except BaseException as error:
            failed.append(error)
    other = threading.Thread(target=checked)
    try:
        other.start()
    except RuntimeError:
        pass
    else:
        other.join()
    assert not failed, failed
print(threads)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user id needs the rights of root")
@pytest.mark.parametrize("limit", [1, 2, 5, 40, 63, 64, 65, 1000])
def test_fewer_threads_where_no_more_can_be_made(limit: int) -> None:
    user = 60000 + (os.getpid() * 8 + limit) % 5000
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit), str(user)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no thread but those of the kernels
    )
    assert done.returncode == 0, done.stderr
    told = "ckdisp: not all of 64 threads can be made, so kernels run on"
    assert limit >= 64 or done.stderr.count(told) == 1
    assert (int(done.stdout) == 64) == (limit >= 64)
