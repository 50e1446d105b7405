"""HTTP/1.1 on one thread, with so much work for each answer: python3 server.py PORT LOOPS."""

import selectors
import socket
import sys

PORT, LOOPS = int(sys.argv[1]), int(sys.argv[2])
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
listener.setblocking(False)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(connection, selectors.EVENT_READ)
            continue
        connection = key.fileobj
        request = connection.recv(65536)
        if not request:
            ready.unregister(connection)
            connection.close()
            continue
        for _ in range(LOOPS):
            pass
        connection.sendall(ANSWER)
