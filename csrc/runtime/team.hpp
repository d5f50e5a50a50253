// How many threads a kernel may use.
#pragma once

namespace ckdisp::detail {

// The threads, at most `wanted`, that the calling thread and new ones can be.
//
// An OpenMP runtime that cannot make a thread ends the whole process, so threads are made here
// first: once for each number that is higher than before, since the runtime keeps those it has. If
// there are fewer, the first call of the process that meets this says so on stderr.
int team(int wanted);

// The calling thread has no threads any more: it was left by a fork.
void forget_team();

}  // namespace ckdisp::detail
