"""A member of a version that does not know the recovery ledger: it says feature level 0, beats, and runs nothing.

Arguments: the coordinators' base URLs, separated by commas. It goes from one to the next until one of them says
welcome, as agents do, and for as long as it lives. Nothing but Python's own library, as `pip` is nobody's duty here.
"""
import base64, json, os, socket, struct, sys, time, urllib.parse, uuid

BEAT = 1.0  # seconds
TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
OWN = str(uuid.uuid4())


def connect(url):
    """The socket of a WebSocket that was accepted; anything else is an error."""
    address = urllib.parse.urlsplit(url)
    connection = socket.create_connection((address.hostname, address.port), timeout=2)
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET /agent HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            raise OSError("hung up")
        head += byte
    if b" 101 " not in head.split(b"\r\n")[0]:
        raise OSError(head.split(b"\r\n")[0].decode())
    connection.settimeout(BEAT)
    return connection


def send(connection, kind, payload):
    """One frame, which a client has to mask (RFC 6455)."""
    mask = os.urandom(4)
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack("!H", len(payload))
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    connection.sendall(bytes([0x80 | kind]) + length + mask + masked)


def frames(received):
    """The whole frames of what was received, and the rest."""
    found = []
    while len(received) >= 2:
        kind, length, start = received[0] & 0xF, received[1] & 0x7F, 2
        if length >= 126:
            width = 2 if length == 126 else 8
            length, start = int.from_bytes(received[2 : 2 + width], "big"), 2 + width
        if len(received) < start + length:
            break
        found.append((kind, received[start : start + length]))
        received = received[start + length :]
    return found, received


def serve(connection, welcomed):
    """Says hello and beats until the connection ends; whether it was ever welcome."""
    hello = {
        "type": "hello", "uuid": OWN, "host": "of-before", "pid": os.getpid(), "slots": 4, "tags": {},
        "version": "0.0.1", "featureLevel": 0, "welcomed": welcomed, "highestEpoch": 0, "containers": [],
    }
    send(connection, TEXT, json.dumps(hello).encode())
    received, beaten = b"", time.monotonic()
    while True:
        try:
            part = connection.recv(65536)
            if not part:
                return welcomed
            received += part
        except TimeoutError:
            pass
        found, received = frames(received)
        for kind, payload in found:
            if kind == PING:
                send(connection, PONG, payload)
            elif kind == CLOSE:
                return welcomed
            elif kind == TEXT:
                welcomed |= json.loads(payload)["type"] == "welcome"
        if time.monotonic() - beaten >= BEAT:
            send(connection, TEXT, b'{"type":"beat"}')
            beaten = time.monotonic()


urls, welcomed = sys.argv[1].split(","), False
while True:
    for url in urls:
        try:
            with connect(url) as connection:
                welcomed = serve(connection, welcomed)
        except OSError:
            pass  # the next one
        time.sleep(0.05)
