"""The container whose life is watched: counts as examples/wordcount.py does, and says all the while that it lives.

Every 20 ms it appends a line to `$BEATS/beats-<index>.jsonl`, one write each, so the file's order is the order in
which lines were written, by whichever copy. A copy that is stopped appends nothing, and one that wakes up appends on.

$MANNER says how it takes a SIGTERM:
  polite      ends, as the wordcount does
  ignores     does not hear it, and counts on
  catches     catches every signal and every error, the end that the wordcount wants included, and stays
  descendant  polite, but has left a process behind that left its group and session and says that it lives, too

While the file $HOLD is there it counts so slowly that it does not come to an end.
"""
import json, os, signal, sys, threading, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
import wordcount

MANNER = os.environ["MANNER"]
BEAT = 0.02  # seconds


def beat(who):
    path = os.path.join(os.environ["BEATS"], f"beats-{os.environ['STEADFAST_TASK_INDEX']}.jsonl")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    line = {"who": who, "attempt": int(os.environ["STEADFAST_ATTEMPT"]), "id": os.environ["EXECUTION_RESOURCE_ID"]}
    while True:
        line["boottimeMs"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        os.write(file, json.dumps(line).encode() + b"\n")
        time.sleep(BEAT)


def leave_a_descendant():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            beat("descendant")
        os._exit(0)
    os.wait()


def pause(seconds, sleep=time.sleep):
    """What the wordcount does between two pieces, and two tries."""
    sleep(0.25 if os.path.exists(os.environ["HOLD"]) else min(seconds, 0.1))


os.makedirs(os.environ["BEATS"], exist_ok=True)
if MANNER == "descendant":
    leave_a_descendant()
threading.Thread(target=beat, args=("program",), daemon=True).start()
if MANNER in ("ignores", "catches"):
    for name in signal.valid_signals() if MANNER == "catches" else [signal.SIGTERM]:
        try:
            signal.signal(name, signal.SIG_IGN if MANNER == "ignores" else lambda *_: None)
        except (OSError, ValueError):
            pass  # SIGKILL and SIGSTOP are nobody's to catch
    wordcount.signal.signal = lambda *_: None
wordcount.PIECE_BYTES = 512
wordcount.time = type("Time", (), {"sleep": staticmethod(pause), "monotonic": staticmethod(time.monotonic)})
try:
    wordcount.main()
except BaseException:
    while MANNER == "catches":
        time.sleep(BEAT)
    raise
