# Starts systemd in the root $1 and waits until it has ended: as a container does it, in namespaces and in a control group of its own,
# so that nothing of this system is seen or changed. Its status is that of the script /trial.sh, which is its only work.
set -eu
root=$1
unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$unified/sealane-trial-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :' EXIT
mkdir -p "$root/etc/systemd/system"
cat >"$root/etc/systemd/system/trial.service" <<'END'
[Unit]
Description=Trial of the packaged services
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /trial.sh
StandardOutput=append:/trial.log
StandardError=append:/trial.log
TimeoutStartSec=400
ExecStopPost=/bin/sh -c 'echo $EXIT_STATUS >/trial.status; systemctl exit'
END
# These would change settings of the kernel, which is not the trial's.
for unit in systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
rm -f "$root/trial.log" "$root/trial.status"
timeout --kill-after=10 450 sh -c "echo \$\$ >'$group/cgroup.procs'; exec \"\$@\"" sh \
    unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child sh -eu -c '
    mount --make-rprivate /
    mount --bind "$1" "$1"
    cd "$1"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs tmpfs run
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir dev/net dev/pts dev/shm
    for device in null zero full random urandom tty net/tun; do
        touch dev/$device
        mount --bind /dev/$device dev/$device
    done
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    ip link set lo up
    mkdir -p mnt
    pivot_root . mnt
    umount -l /mnt
    # Credentials of services are mounted by a process of its own, and seen by the others only so.
    mount --make-rshared /
    exec env -i container=sealane PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=trial.service \
        --log-target=null --show-status=no
    ' sh "$root" || :
cat "$root/trial.log"
test "$(cat "$root/trial.status")" = 0
