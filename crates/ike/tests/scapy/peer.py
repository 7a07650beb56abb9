"""Dissects messages of IKEv2, and builds them anew from the fields: a message in hexadecimal per line in; out, per line, the
names of its layers, a space, and the message that was built, or "error" and its text.
"""
import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.contrib.ikev2 import IKEv2  # noqa: E402


def answer(raw):
    message = IKEv2(raw)
    names = ",".join(layer.__name__ for layer in message.layers())
    # Otherwise scapy would return the bytes that it was given.
    message.clear_cache()
    layer = message
    while layer:
        # Lengths are computed anew.
        if "length" in layer.fields:
            layer.length = None
        layer = layer.payload
    return f"{names} {bytes(message).hex()}"


for line in sys.stdin:
    try:
        result = answer(bytes.fromhex(line))
    except Exception as error:  # whatever it is, the other side has to hear it
        result = f"error {type(error).__name__}: {error}"
    print(result, flush=True)
