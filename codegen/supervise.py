"""Commands that end with whoever started them, even one that is killed.

Nothing in a process runs when it is killed, and ninja gives each compiler a process group of its
own. So a command gets a session of its own and a shell above it, which reads a pipe that the
starting process holds open: at its end, whatever ended it, the shell ends the session. That does
not depend on the thread that started the command, as the signal of Linux for a dead parent does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence

_GRACE_SECONDS = 3
# Signals only end the wait: the command gets them, too, and its end is waited for. What is left in
# the session then (compilers that do not listen) is killed; /proc tells who is in it.
_SHELL = f"""\
exec 3<&0 </dev/null
ended=
trap 'ended=1' HUP INT TERM
"$@" 3<&- &
child=$!
exec >/dev/null 2>&1
{{
  trap '' HUP INT TERM
  read -r line
  kill -TERM 0
  sleep {_GRACE_SECONDS}
  kill -KILL $child
}} <&3 3<&- &
watcher=$!
exec 3<&-
wait $child
code=$?
while [ $code -gt 128 ] && kill -0 $child; do
  wait $child
  code=$?
done
if [ -n "$ended" ]; then
  for folder in /proc/[0-9]*; do
    pid=${{folder#/proc/}}
    read -r line < $folder/stat || continue
    set -- ${{line##*) }}
    [ "$4" = $$ ] && [ $pid != $$ ] && kill -KILL $pid
  done
fi
kill -KILL $watcher
wait $watcher
exit $code
"""


class Supervised:
    """A command under a supervising shell; what it prints, errors too, is ``process.stdout``."""

    def __init__(
        self, command: Sequence[str], folder: str | os.PathLike[str] | None, **options: object
    ) -> None:
        read, self._held = os.pipe()
        try:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL, "sh", *command],
                cwd=folder,
                stdin=read,
                stdout=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                **options,  # type: ignore[call-overload]
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            os.close(read)

    def _let_go(self) -> None:
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def end(self) -> None:
        """End the command with all its children."""
        self._let_go()
        try:
            self.process.wait(timeout=3 * _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def supervised(
    command: Sequence[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    stderr: int = subprocess.STDOUT,
) -> Iterator[Supervised]:
    """Run ``command`` in ``folder``; it has ended, with all its children, when the block has.

    :class:`OSError` if no process can be started.
    """
    running = Supervised(command, folder, env=env, stderr=stderr)
    try:
        with running.process:
            try:
                yield running
            except BaseException:
                running.end()
                raise
    finally:
        running._let_go()
