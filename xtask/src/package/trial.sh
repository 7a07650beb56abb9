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
sealane authorise "$(cat /srv/trial/client.key)" trial read,write --authorised-peers /etc/sealane/authorised-peers
systemctl enable --now sealane
echo text >/srv/trial/file
copy() {
    sealane cp --identity /srv/trial/client --known-peers /srv/trial/known --accept-new /srv/trial/file sealane://127.0.0.1/
}
eventually copy
cmp /srv/trial/file /srv/sealane/file
closed sealane sealane
systemctl stop sealane

. /tunnel.sh
. /engine.sh
