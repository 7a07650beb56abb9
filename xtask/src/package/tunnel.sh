# The packaged unit of tunnels, with the functions of trial.sh.
echo 'the tunnel'
ip netns add far
ip link add near type veth peer name far netns far
ip address add 192.0.2.1/24 dev near
ip link set near up
ip -n far address add 192.0.2.2/24 dev far
ip -n far link set far up
far_key=$(sealane id --identity /srv/trial/far.identity)
sealane tunnel new here far --folder /etc/sealane --peer-key "$far_key" --endpoint 192.0.2.1:4500 --address 10.91.0.1 \
    --peer-endpoint 192.0.2.2:4500 --peer-address 10.91.0.2
mv /etc/sealane/here.toml /srv/trial/
sed -i '1a identity = "far.identity"' /srv/trial/here.toml
ip netns exec far sealane tunnel up /srv/trial/here.toml --run /srv/trial/far.run 2>/srv/trial/far.log &
sed -i '1a forwarding = true' /etc/sealane/far.toml
(umask 077; echo 0123456789abcdef0123456789abcdef >/etc/sealane/first.psk)
# ike_peer NAME NETWORK: the entry of a peer that speaks IKE and never comes.
ike_peer() {
    printf '\n[[peers]]\nname = "%s"\nnetworks = ["%s"]\n[peers.ike]\nid = "%s"\nlocal-id = "here"\npsk-file = "first.psk"\n' "$1" "$2" "$1"
}
ike_peer first 10.91.8.0/24 >>/etc/sealane/far.toml
sysctl -qw net.ipv4.ip_forward=0
# forwards DEVICE: its setting.
forwards() {
    sysctl -n "net.ipv4.conf.$1.forwarding"
}
systemctl enable --now sealane-tunnel@far
# The service is there only when packets can flow.
sealane tunnel status
eventually ping -c 1 -W 1 10.91.0.2
closed sealane-tunnel@far sealane
test "$(forwards sl0)$(forwards near)" = 11
# The files are read again.
ike_peer second 10.91.9.0/24 >>/etc/sealane/far.toml
systemctl reload sealane-tunnel@far
sealane tunnel status | grep -q '^second '
ip route show 10.91.9.0/24 | grep -q sl0
cp /etc/sealane/far.toml /srv/trial/good.toml
echo 'no = "such"' >>/etc/sealane/far.toml
if systemctl reload sealane-tunnel@far; then exit 1; fi
cp /srv/trial/good.toml /etc/sealane/far.toml
ping -c 1 -W 1 10.91.0.2 >/dev/null
systemctl kill --signal KILL sealane-tunnel@far
eventually systemctl is-active sealane-tunnel@far
eventually ping -c 1 -W 1 10.91.0.2
systemctl stop sealane-tunnel@far
test "$(systemctl show --property Result --value sealane-tunnel@far)" = success
test ! -e /sys/class/net/sl0
test "$(forwards near)" = 0

echo 'the tunnel with commands'
sed -i '1a up = ["echo $SEALANE_DEVICE >/run/sealane/told"]\ndown = ["rm /run/sealane/told"]' /etc/sealane/far.toml
systemctl start sealane-tunnel@far
test "$(cat /run/sealane/told)" = sl0
eventually ping -c 1 -W 1 10.91.0.2
sealane tunnel down
test ! -e /run/sealane/told
test ! -e /sys/class/net/sl0

echo 'a site file that is wrong'
chmod 666 /etc/sealane/far.toml
if systemctl start sealane-tunnel@far; then exit 1; fi
journalctl --no-pager --unit sealane-tunnel@far | grep -q 'go-w'

systemctl stop sealane-tunnel@far 2>/dev/null || :
