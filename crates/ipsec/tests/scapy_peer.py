"""A foreign end for ESP and AH packets: one JSON object a line in, one out.

{"do": "protect"|"unprotect", "protocol", "spi", "mode", "encryption", "key", "check_bytes", "integrity", "integrity_key", "esn", "number",
 "source", "destination", "packet"} -> {"packet"} or {"error"} or {"skipped"}; bytes in hexadecimal.
"""
import json
import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.layers.inet import IP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.ipsec import AH, ESP, SecurityAssociation  # noqa: E402


def parse(raw):
    return IP(raw) if raw[0] >> 4 == 4 else IPv6(raw)


def association(ask):
    arguments = {"spi": ask["spi"], "seq_num": ask["number"] & 0xFFFFFFFF}
    if ask["encryption"]:
        arguments.update(crypt_algo=ask["encryption"], crypt_key=bytes.fromhex(ask["key"]))
    if ask["encryption"] == "AES-CCM":
        arguments.update(crypt_icv_size=ask["check_bytes"])
    if ask["integrity"]:
        arguments.update(auth_algo=ask["integrity"], auth_key=bytes.fromhex(ask["integrity_key"]))
    if ask["mode"] == "tunnel":
        header = IPv6 if ":" in ask["source"] else IP
        arguments.update(tunnel_header=header(src=ask["source"], dst=ask["destination"]))
    if ask["esn"]:
        arguments.update(esn_en=True, esn=ask["number"] >> 32)
    return SecurityAssociation(ESP if ask["protocol"] == "esp" else AH, **arguments)


def answer(ask):
    try:
        peer = association(ask)
    except TypeError as error:
        return {"skipped": str(error)}
    raw = bytes.fromhex(ask["packet"])
    if ask["do"] == "protect":
        return {"packet": bytes(peer.encrypt(parse(raw))).hex()}
    return {"packet": bytes(peer.decrypt(parse(raw))).hex()}


for line in sys.stdin:
    try:
        result = answer(json.loads(line))
    except Exception as error:  # whatever it is, the other side has to hear it
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
