# In a system with systemd where the package is installed: both services by the steps of the documentation.
set -eu
trap 'status=$?; [ $status = 0 ] || journalctl --no-pager --lines 100; exit $status' EXIT

# eventually COMMAND: until it succeeds.
eventually() {
    for attempt in $(seq 1 100); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    echo "never: $*" >&2
    return 1
}
# closed SERVICE USER [CAPABILITIES]: its main process belongs to that user, has no capabilities, and leaves no core dump.
closed() {
    pid=$(systemctl show --property MainPID --value "$1")
    # Files of a process that cannot be dumped are root's.
    test "$(stat -c %U "/proc/$pid/environ")" = root
    grep -qE "^Uid:[[:space:]]$(id -u "$2")[[:space:]]" "/proc/$pid/status"
    grep -qE "^CapPrm:[[:space:]]${3:-0000000000000000}\$" "/proc/$pid/status"
    grep -q 'Max core file size  *0  *0 ' "/proc/$pid/limits"
}

mkdir -p /srv/trial
echo 'the daemon'
sealane id --identity /srv/trial/client >/srv/trial/client.key
sealane authorise "$(cat /srv/trial/client.key)" tester read,write --authorised-peers /etc/sealane/authorised-peers
systemctl enable --now sealane
echo text >/srv/trial/file
copy() {
    sealane cp --identity /srv/trial/client --known-peers /srv/trial/known --accept-new /srv/trial/file sealane://127.0.0.1/
}
eventually copy
cmp /srv/trial/file /srv/sealane/file
closed sealane sealane
systemctl stop sealane

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
systemctl enable --now sealane-tunnel@far
# The service is there only when packets can flow.
sealane tunnel status
eventually ping -c 1 -W 1 10.91.0.2
closed sealane-tunnel@far sealane
systemctl kill --signal KILL sealane-tunnel@far
eventually systemctl is-active sealane-tunnel@far
eventually ping -c 1 -W 1 10.91.0.2
systemctl stop sealane-tunnel@far
test "$(systemctl show --property Result --value sealane-tunnel@far)" = success
test ! -e /sys/class/net/sl0

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
. /engine.sh
