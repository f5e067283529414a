"""A validator inside a Python program: what crates/validator does, by the contract in docs/http-api.md.

    watch = validator.Watch(loop.stop)   # comes back after the first "yes"; without one it exits, 70 or 73
    loop.run()                           # calls watch.step() for each step of its work
    sys.exit(watch.finish())             # 0, 70 told invalid, 71 lease expired; a loop that hangs: 72
"""
import json, os, random, sys, threading, time, urllib.parse, urllib.request

L, G, POLL = (int(os.environ[f"STEADFAST_{name}_MS"]) / 1000 for name in ("LEASE", "GRACE", "SCHEDULE"))
M = 0.1 + 0.02 * L  # for clocks that drift and a machine that is busy
NO_REDIRECT = type("", (urllib.request.HTTPRedirectHandler,), {"redirect_request": lambda *_: None})
HTTP = urllib.request.build_opener(NO_REDIRECT, urllib.request.ProxyHandler({}))  # the secret stays here

def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps

class Watch:
    def __init__(self, shutdown):
        self.shutdown, self.steps, self.epoch, self.stop_at, give_up = shutdown, 0, 0, None, now() + L
        while self.stop_at is None:  # no yes, no start
            pause = self.ask()
            if self.outcome is not None or now() > give_up:
                sys.exit(self.outcome or 73)
            time.sleep(min(pause, POLL) if self.stop_at is None else 0)
        for thread in (self.poll, self.end):  # neither can hold up the other
            threading.Thread(target=thread, daemon=True).start()

    outcome = property(lambda self: vars(self).get("decided"))

    def decide(self, code):  # once, and before anybody is told, so that a fast loop cannot exit with 0
        return vars(self).setdefault("decided", code)

    def ask(self):  # one round; returns the pause before the next
        for url in os.environ["STEADFAST_COORDINATORS"].split(","):
            nonce, sent = random.getrandbits(52), now()  # the lease counts from the sending
            query = dict(execution_resource_id=os.environ["EXECUTION_RESOURCE_ID"], nonce=nonce, progress=self.steps)
            request = urllib.request.Request(url.strip("/ ") + "/isContainerValid?" + urllib.parse.urlencode(query))
            request.add_header("Authorization", "Bearer " + os.environ["STEADFAST_CONTAINER_SECRET"])
            try:
                said = json.load(HTTP.open(request, timeout=min(2, L / 6)))
                if said["nonce"] != nonce or said["coordinatorEpoch"] < self.epoch:
                    continue
                if said["isValid"]:
                    stop_at, pause = sent + min(said["leaseMs"] / 1000, L) - G - M, said["nextPollMs"] / 1000
                    if now() < min(stop_at, self.stop_at or stop_at):  # one that comes too late moves nothing
                        self.stop_at = stop_at
                elif said["reason"]:
                    pause = self.decide(70)
                self.epoch = said["coordinatorEpoch"]
                return pause
            except Exception:
                continue  # an error, a page, another status: no verdict, and the lease runs on
        return random.random() * POLL  # not all in one millisecond

    def poll(self):
        while self.outcome is None:
            time.sleep(min(self.ask(), (L - G - M) / 2))

    def end(self):
        while self.outcome is None and now() < self.stop_at:
            time.sleep(0.01)
        kill_at, told = min(self.stop_at, now()) + G, not self.decide(71)
        while self.steps is not None:
            if now() >= kill_at and self.outcome:
                os._exit(72)
            if not told:  # once, on a thread of its own, as it may block
                told = threading.Thread(target=self.shutdown, daemon=True).start() or True
            time.sleep(0.01)

    def step(self):
        self.steps += 1

    def finish(self):
        outcome, self.steps = self.decide(0), None
        return outcome
