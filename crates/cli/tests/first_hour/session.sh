# The first hour of somebody new, on two hosts that are network namespaces of one machine. Run by the test beside it, as
# root in namespaces of its own: what is mounted and made here ends with it. $1 is the program, $2 a folder for scratch.
set -eu
program=$1
scratch=$2
mount --make-rprivate /
homes=/home
root=/root
for folder in $homes $root /srv /run; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/netns /run/sshd $homes/ada $homes/eve /srv/small "$scratch/bin"
mount -t tmpfs -o size=32M tmpfs /srv/small
ln -s "$program" "$scratch/bin/sealane"
printf '127.0.0.1 localhost\n10.77.0.1 laptop\n10.77.0.2 server\n' >"$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts
for host in laptop server; do
    ip netns add $host
    ip -n $host link set lo up
done
ip link add veth-laptop netns laptop type veth peer name veth-server netns server
ip -n laptop address add 10.77.0.1/24 dev veth-laptop
ip -n server address add 10.77.0.2/24 dev veth-server
ip -n laptop link set veth-laptop up
ip -n server link set veth-server up

# ada logs in as root on the server; her ssh knows its key.
ssh-keygen -q -t ed25519 -N '' -f "$scratch/host"
mkdir -m 700 $homes/ada/.ssh $root/.ssh
ssh-keygen -q -t ed25519 -N '' -f $homes/ada/.ssh/id_ed25519
cp $homes/ada/.ssh/id_ed25519.pub $root/.ssh/authorized_keys
printf 'server %s\n' "$(cut -d' ' -f1,2 "$scratch/host.pub")" >$homes/ada/.ssh/known_hosts
cat >$homes/ada/.ssh/config <<END
UserKnownHostsFile $homes/ada/.ssh/known_hosts
IdentityFile $homes/ada/.ssh/id_ed25519
GlobalKnownHostsFile /dev/null
END
# ssh looks for its files in the home that the system knows of, which is root's.
printf '#!/bin/sh\nexec ssh -F %s/ada/.ssh/config "$@"\n' $homes >"$scratch/ssh"
chmod 755 "$scratch/ssh"
cat >"$scratch/sshd" <<END
HostKey $scratch/host
AuthorizedKeysFile $root/.ssh/authorized_keys
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
SetEnv PATH=$scratch/bin:/usr/bin:/bin
END
ip netns exec server "$(command -v sshd)" -f "$scratch/sshd" -D 2>/dev/null &
daemons=$!
trap 'kill $daemons 2>/dev/null || :' EXIT

# on HOST USER COMMAND: shows it and what it says.
on() {
    case $2 in root) home=$root ;; *) home=$homes/$2 ;; esac
    printf '%s@%s$ %s\n' "$2" "$1" "$3"
    status=0
    ip netns exec "$1" env HOME=$home USER="$2" PATH="$scratch/bin:$PATH" SEALANE_SSH="$scratch/ssh" \
        sh -c "cd; $3" </dev/null 2>&1 || status=$?
    [ $status = 0 ] || printf '[exit status %s]\n' $status
}
quietly() { on "$@" >/dev/null; }
chapter() { printf '\n# %s\n\n' "$1"; }

quietly laptop ada 'mkdir -p data/sub; echo one >data/one; echo two >data/sub/two; head -c 64M /dev/urandom >big.img'
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    ip netns exec laptop bash -c 'exec 3<>/dev/tcp/server/22' 2>/dev/null && break
    sleep 0.2
done

chapter 'A tree over ssh, and once more'
on laptop ada 'sealane cp -rv data root@server:/srv/'
on laptop ada 'sealane cp -rn data root@server:/srv/'

chapter 'An interruption, and the same command again'
on laptop ada 'timeout --preserve-status -s INT 5 sealane cp --limit-rate 5M big.img root@server:/srv/'
on laptop ada 'sealane cp -v big.img root@server:/srv/'
cmp $homes/ada/big.img /srv/big.img
on server root 'ls -A /srv'

chapter 'A mirror'
on laptop ada 'rm data/one; echo three >data/three'
on laptop ada 'sealane cp -aTn --delete data root@server:/srv/data'
on laptop ada 'sealane cp -aTv --delete --max-delete 5 data root@server:/srv/data'
on server root 'ls /srv/data'

chapter 'A daemon'
on laptop ada 'sealane id'
key=$(ip netns exec laptop env HOME=$homes/ada "$program" id)
printf 'KEY=%s\n' "$key" >$root/key
on server root ". ./key; sealane authorise \$KEY ada@laptop read,write"
printf 'root@server$ sealane serve /srv --listen 0.0.0.0:7522 &\n'
ip netns exec server env HOME=$root "$program" serve /srv --listen 0.0.0.0:7522 >"$scratch/listening" 2>"$scratch/log" &
daemon=$!
daemons="$daemons $daemon"
for attempt in 1 2 3 4 5 6 7 8 9 10; do grep -q listening "$scratch/listening" && break || sleep 0.2; done
cat "$scratch/listening"
on laptop ada 'sealane cp --digest data/three sealane://server/'
on laptop ada 'sealane cp --accept-new --digest data/three sealane://server/'
on server root 'sealane peers'

chapter 'What is refused'
on laptop eve 'echo x >x; sealane cp --accept-new x sealane://server/'
on laptop ada 'sealane cp -rT --delete data sealane://server/data'
on laptop ada 'sealane cp --bwlimit=1000 big.img sealane://server/'
kill $daemon
wait $daemon 2>/dev/null || :
rm $root/.config/sealane/identity
ip netns exec server env HOME=$root "$program" serve /srv --listen 0.0.0.0:7522 >"$scratch/again" 2>>"$scratch/log" &
daemons="$daemons $!"
for attempt in 1 2 3 4 5 6 7 8 9 10; do grep -q listening "$scratch/again" && break || sleep 0.2; done
printf 'root@server$ rm .config/sealane/identity; sealane serve /srv --listen 0.0.0.0:7522 &\n'
on laptop ada 'sealane cp data/three sealane://server/'

chapter 'A full disk'
on laptop ada 'sealane cp big.img root@server:/srv/small/'
on server root 'mount -o remount,size=128M /srv/small'
on laptop ada 'sealane cp big.img root@server:/srv/small/'
cmp $homes/ada/big.img /srv/small/big.img
on server root 'ls -A /srv/small'
