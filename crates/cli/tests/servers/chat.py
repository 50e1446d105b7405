"""A chat by lines, in rooms of two (docs/chat.md), with limits of its own to be found.

chat.py PORT [backlog=N] [accept_ms=N] [accepts=N] [login_ms=N] [each=BYTES] [places=N] [declines=1] [address=IP]

accept_ms is slept, login_ms computed; after so many as accepts says nobody is accepted any more.
"""

import selectors
import socket
import sys
import time

options = dict(word.split("=") for word in sys.argv[2:])
backlog = int(options.get("backlog", 1024))
accept_s = int(options.get("accept_ms", 0)) / 1000
accepts = int(options.get("accepts", 1 << 30))
login_s = int(options.get("login_ms", 0)) / 1000
each = int(options.get("each", 0))
declines = "declines" in options
places = int(options.get("places", 1 << 30))

listener = socket.create_server((options.get("address", "127.0.0.1"), int(sys.argv[1])), backlog=backlog)
listener.setblocking(False)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
users = {}  # socket: [name, room partner's socket, memory]
alone = []


def send(to, text):
    try:
        to.sendall(text)
    except OSError:
        pass


def leave(user):
    ready.unregister(user)
    _, partner, _ = users.pop(user)
    if partner in users:
        users[partner][1] = None
        alone.append(partner)
    elif user in alone:
        alone.remove(user)
    user.close()


def accept():
    global accepts
    accepts -= 1
    if accepts < 0:
        return ready.unregister(listener)
    try:
        user, _ = listener.accept()
    except BlockingIOError:
        return
    except OSError:  # no descriptor left: nobody is let in until somebody leaves
        time.sleep(0.01)
        return
    time.sleep(accept_s)
    user.setblocking(False)
    ready.register(user, selectors.EVENT_READ)
    users[user] = [None, None, None]


def login(user, name):
    until = time.thread_time() + login_s
    while time.thread_time() < until:
        pass
    if sum(1 for other in users.values() if other[0]) >= places:
        return send(user, b"error no place\n")
    users[user][0] = name
    users[user][2] = bytearray(b"x") * each
    if alone:
        partner = alone.pop()
        users[user][1], users[partner][1] = partner, user
    else:
        alone.append(user)
    send(user, b"ok\n")


def serve(user):
    try:
        read = user.recv(65536)
    except OSError:
        read = b""
    if not read:
        return leave(user)
    # A client of these tests has one thing under way, which fits into a segment.
    for line in read.split(b"\n")[:-1]:
        word, _, rest = line.partition(b" ")
        if word == b"login":
            login(user, rest)
        elif word == b"say" and declines:
            send(user, b"error refused\n")
        elif word == b"say":
            name, partner, _ = users[user]
            if partner is not None:
                send(partner, b"from " + name + b" " + rest + b"\n")
            send(user, b"said\n")
        elif word == b"ping":
            send(user, b"pong\n")


while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            accept()
        elif key.fileobj in users:
            serve(key.fileobj)
