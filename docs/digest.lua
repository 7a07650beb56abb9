-- Wireshark's view of a digest's header: what `md5` and its like put between a transport and IP (protocol 253).
--
--   tshark -X lua_script:docs/digest.lua -r stack.pcap
--
-- A byte each: protocol of what follows, bytes of the digest, bytes of the packet's number (8 with a MAC that takes a
-- nonce, else 0), zero. Then the number, and the digest, over header and packet, its own bytes taken as zero.

local digest = Proto("sealane-digest", "Sealane digest")

local f = {
  next = ProtoField.uint8("sealane-digest.next", "Next protocol"),
  bytes = ProtoField.uint8("sealane-digest.bytes", "Digest's length"),
  number = ProtoField.uint64("sealane-digest.number", "Number"),
  digest = ProtoField.bytes("sealane-digest.digest", "Digest"),
}
digest.fields = { f.next, f.bytes, f.number, f.digest }

local by_protocol = DissectorTable.get("ip.proto")

function digest.dissector(buffer, pinfo, tree)
  if buffer:len() < 4 then return 0 end
  local bytes = buffer(1, 1):uint()
  local number = buffer(2, 1):uint()
  local header = 4 + number + bytes
  if buffer:len() < header then return 0 end
  local part = tree:add(digest, buffer(0, header))
  part:add(f.next, buffer(0, 1))
  part:add(f.bytes, buffer(1, 1))
  if number == 8 then part:add(f.number, buffer(4, 8)) end
  part:add(f.digest, buffer(4 + number, bytes))
  pinfo.cols.protocol = "Digest"
  local rest = buffer(header):tvb()
  local next = buffer(0, 1):uint()
  if rest:len() > 0 and not by_protocol:try(next, rest, pinfo, tree) then
    Dissector.get("data"):call(rest, pinfo, tree)
  end
  return buffer:len()
end

by_protocol:add(253, digest)
