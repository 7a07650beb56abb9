# A ProxyCommand of ssh: connects standard input and output to a port, with a delay each way. Arguments: port, seconds.
import collections
import os
import select
import socket
import sys
import time

port, delay = int(sys.argv[1]), float(sys.argv[2])
far = socket.create_connection(('127.0.0.1', port))
far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
ways = [(0, far.fileno(), collections.deque()), (far.fileno(), 1, collections.deque())]
ended = set()
while True:
    now = time.monotonic()
    for _, into, queue in ways:
        while queue and queue[0][0] <= now:
            data = queue.popleft()[1]
            if not data:
                os._exit(0)
            while data:
                data = data[os.write(into, data):]
    dues = [queue[0][0] for _, _, queue in ways if queue]
    reads = [out for out, _, queue in ways if out not in ended and len(queue) < 64]
    for ready in select.select(reads, [], [], max(0, min(dues) - now) if dues else None)[0]:
        data = os.read(ready, 1 << 16)
        queue = next(queue for out, _, queue in ways if out == ready)
        queue.append((time.monotonic() + delay, data))
        if not data:
            ended.add(ready)
