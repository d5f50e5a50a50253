// Running kernels in a process made by fork().
#pragma once

namespace ckdisp::detail {

// Makes run_launch() know about forks from now on.
void watch_forks();

// Calls function(argument), which may start OpenMP threads.
//
// The thread that returns from fork() in the child believes that it still has the OpenMP threads it
// had in the parent, and would wait for them for ever. Its work is done on a thread that never had
// any, which is kept for the next call. Every other thread works itself.
void run_launch(void (*function)(void* argument), void* argument);

}  // namespace ckdisp::detail
