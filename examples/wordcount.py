#!/usr/bin/env python3
"""The wordcount of examples/wordcount, in Python: counts lines, words and bytes of a file with several containers,
each byte exactly once, however often containers are killed.

It knows nothing of leases: the wrapper around it does that. What it does itself is the recipe of the Rust one: position
and counts are one value; the value goes through the coordinator, which refuses it once a newer container exists; a start
is a resume; the part file is a function of the last accepted value, and is replaced as a whole.
"""
import argparse, json, os, signal, sys, time, urllib.error, urllib.request

PIECE_BYTES = 64 * 1024
COMMIT_INTERVAL = 0.2  # seconds; the coordinator takes ten checkpoints a second
SPACE = b" \t\n\x0b\x0c\r"


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # it would carry the secret away


HTTP = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}))


def checkpoint(value=None):
    """Reads the task group's checkpoint, or makes `value` the checkpoint. Asks until a coordinator knows."""
    while True:
        for url in os.environ["STEADFAST_COORDINATORS"].split(","):
            url = url.strip("/ ") + "/checkpoint?execution_resource_id=" + os.environ["EXECUTION_RESOURCE_ID"]
            request = urllib.request.Request(url, data=value, method="GET" if value is None else "PUT")
            request.add_header("Authorization", "Bearer " + os.environ["STEADFAST_CONTAINER_SECRET"])
            try:
                with HTTP.open(request, timeout=2) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                if error.code in (400, 401, 403, 404, 409, 413):  # final: a newer container, or a mistake
                    sys.exit(f"the checkpoint is refused: {error.code} {error.read().decode(errors='replace')}")
            except OSError:
                pass  # in doubt: it may have been taken, and putting it again is harmless
        time.sleep(0.1)


def line_start(file, length, at):
    """The first start of a line at or behind `at`: both neighbours find the same cut."""
    if at == 0:
        return 0
    file.seek(at - 1)
    file.readline()
    return min(file.tell(), length)


def count(piece, state):
    words = len(piece.split())
    if words and state["inWord"] and piece[0] not in SPACE:
        words -= 1  # the first one began in the piece before
    state["lines"] += piece.count(b"\n")
    state["words"] += words
    state["bytes"] += len(piece)
    state["inWord"] = piece[-1] not in SPACE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not 0, which means: this task group is finished
    index, tasks = int(os.environ["STEADFAST_TASK_INDEX"]), int(os.environ["STEADFAST_TASK_COUNT"])
    pause = float(os.environ.get("PAUSE", "0"))  # seconds after each piece, for those who want to disturb it
    progress = int(os.environ.get("STEADFAST_PROGRESS_FD", "-1"))

    with open(arguments.input, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        start, end = (line_start(file, length, length * i // tasks) for i in (index, index + 1))
        saved = checkpoint()
        state = json.loads(saved) if saved else dict(start=start, end=end, lines=0, words=0, bytes=0, inWord=False)
        if (state["start"], state["end"]) != (start, end):
            sys.exit("the input has changed since this job began to count it: submit the job anew")
        file.seek(start + state["bytes"])
        saved_at = time.monotonic()
        while (left := end - start - state["bytes"]) > 0:
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                sys.exit("the input was cut short while it was counted")
            count(piece, state)
            if progress >= 0:
                os.write(progress, b".")
            time.sleep(pause)
            if time.monotonic() - saved_at > COMMIT_INTERVAL:
                checkpoint(json.dumps(state).encode())
                saved_at = time.monotonic()
        checkpoint(json.dumps(state).encode())

    os.makedirs(arguments.output, exist_ok=True)
    draft = os.path.join(arguments.output, f".part-{index}.tmp")
    with open(draft, "w") as file:
        json.dump({name: state[name] for name in ("lines", "words", "bytes")}, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, os.path.join(arguments.output, f"part-{index}.json"))


if __name__ == "__main__":
    main()
