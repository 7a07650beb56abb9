# Tunnels step by step, between hosts that are network namespaces of one machine. Run by the test beside this folder, as root in
# namespaces of its own: what is mounted and made here ends with it. $1 is the program, $2 a folder for scratch.
set -eu
program=$1
scratch=$2
mount --make-rprivate /
cp -a /etc "$scratch/etc"
rm -rf "$scratch/etc/sealane" "$scratch/etc/netns"
mount --bind "$scratch/etc" /etc
root=/root
for folder in $root /run; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/netns /run/sshd /run/sealane /etc/sealane "$scratch/bin"
ln -s "$program" "$scratch/bin/sealane"
printf '127.0.0.1 localhost\n192.0.2.1 hq\n192.0.2.2 branch\n192.0.2.5 office\n192.0.2.3 laptop\n192.0.2.6 admin\n' >/etc/hosts
# The user that the package makes.
grep -q ^sealane: /etc/passwd || echo 'sealane:x:64321:64321::/var/lib/sealane:/usr/sbin/nologin' >>/etc/passwd

# All are in one network, and `home` is behind a router in it.
ip netns add net
ip -n net link add bridge type bridge
ip -n net link set bridge up
for host in hq branch laptop router home office admin; do
    ip netns add $host
    ip -n $host link set lo up
    mkdir -p /etc/netns/$host/sealane "$scratch/run-$host"
done
attach() { # attach HOST ADDRESS
    ip link add $1 netns net type veth peer name eth0 netns $1
    ip -n net link set $1 master bridge up
    ip -n $1 link set eth0 up
    ip -n $1 address add $2/24 dev eth0
}
attach hq 192.0.2.1
attach branch 192.0.2.2
attach laptop 192.0.2.3
attach router 192.0.2.4
attach office 192.0.2.5
attach admin 192.0.2.6
ip link add eth1 netns router type veth peer name eth0 netns home
ip -n router link set eth1 up
ip -n home link set eth0 up
ip -n router address add 192.168.7.1/24 dev eth1
ip -n home address add 192.168.7.2/24 dev eth0
ip -n home route add default via 192.168.7.1
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
ip netns exec router nft -f - <<'END'
table ip nat {
    chain postrouting {
        type nat hook postrouting priority srcnat; policy accept;
        oifname "eth0" masquerade
    }
}
END
# A network behind each gateway.
ip -n hq address add 10.91.1.1/24 dev lo
ip -n branch address add 10.91.2.1/24 dev lo
ip -n office address add 10.91.5.1/24 dev lo

# root may log in at these.
ssh-keygen -q -t ed25519 -N '' -f "$scratch/host"
mkdir -m 700 $root/.ssh
ssh-keygen -q -t ed25519 -N '' -f $root/.ssh/id_ed25519
cp $root/.ssh/id_ed25519.pub $root/.ssh/authorized_keys
for host in branch laptop office admin; do
    printf '%s %s\n' $host "$(cut -d' ' -f1,2 "$scratch/host.pub")" >>$root/.ssh/known_hosts
done
cat >"$scratch/sshd" <<END
HostKey $scratch/host
AuthorizedKeysFile $root/.ssh/authorized_keys
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
SetEnv PATH=$scratch/bin:/usr/sbin:/usr/bin:/sbin:/bin
END
# Each daemon has its host's folders, if they are there when it starts.
cp -r /etc/swanctl /etc/netns/office/swanctl
daemons=
trap 'kill $daemons 2>/dev/null || :' EXIT
for host in branch laptop office admin; do
    ip netns exec $host "$(command -v sshd)" -f "$scratch/sshd" -D 2>/dev/null &
    daemons="$daemons $!"
done

# enter HOST COMMAND: runs it on a host, with that host's folders.
enter() {
    ip netns exec "$1" env HOME=$root PATH="$scratch/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        sh -c "mount --bind '$scratch/run-$1' /run/sealane; cd; $2" </dev/null
}
# on HOST COMMAND: shows it and what it says.
on() {
    printf 'root@%s$ %s\n' "$1" "$2"
    status=0
    enter "$1" "$2" 2>&1 || status=$?
    [ $status = 0 ] || printf '[exit status %s]\n' $status
}
# up HOST COMMAND: shows a command in the background and what it says until the gateway is up.
up() {
    printf 'root@%s$ %s &\n' "$1" "$2"
    : >"$scratch/$1.log"
    enter "$1" "exec $2" 2>"$scratch/$1.log" &
    daemons="$daemons $!"
    eventually grep -q 'is up' "$scratch/$1.log"
    grep 'is up' "$scratch/$1.log"
}
eventually() {
    for attempt in $(seq 1 300); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "never: $*" >&2
    cat "$scratch"/*.log >&2
    return 1
}
# key HOST: its public key, without a word.
key() { enter "$1" 'sealane id --system' 2>/dev/null; }
# answers FROM TO OPTIONS: waits until it does.
answers() { eventually enter "$1" "ping -c 1 -W 1 ${3:-} $2"; }
chapter() { printf '\n# %s\n\n' "$1"; }
prose() { printf '> %s\n' "$@"; }
brief='| head -2'

chapter 'Two sites'
prose 'Each gateway makes its key, once. The other end is told the public part, so nothing secret travels.'
on branch 'sealane id --system'
prose '`tunnel new` writes the files of both ends: `branch.toml` for this host, and `hq.toml` for the other.'
on hq "sealane tunnel new hq branch --folder /etc/sealane --peer-key $(key branch) \\
    --endpoint 192.0.2.1:4500 --address 10.91.0.1 --networks 10.91.1.0/24 \\
    --peer-endpoint 192.0.2.2:4500 --peer-address 10.91.0.2 --peer-networks 10.91.2.0/24"
on hq 'cat /etc/sealane/branch.toml'
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    ip netns exec branch bash -c 'exec 3<>/dev/tcp/127.0.0.1/22' 2>/dev/null && break
    sleep 0.2
done
on hq 'sealane cp /etc/sealane/hq.toml root@branch:/etc/sealane/ && rm /etc/sealane/hq.toml'
on branch 'sealane tunnel check /etc/sealane/hq.toml'
up hq 'sealane tunnel up /etc/sealane/branch.toml'
up branch 'sealane tunnel up /etc/sealane/hq.toml'
answers branch 10.91.1.1 '-I 10.91.2.1'
on branch "ping -c 1 -I 10.91.2.1 10.91.1.1 $brief"
on branch 'sealane tunnel status | head -7'
on branch 'sealane tunnel down'

chapter 'A laptop'
prose 'Nobody knows where it will be, so it has no endpoint, and calls. Each tunnel of a host has a device and a port of its own.'
on laptop 'sealane id --system'
on hq "sealane tunnel new hq laptop --folder /etc/sealane --peer-key $(key laptop) --device sl1 \\
    --endpoint 192.0.2.1:4501 --address 10.91.0.1 --networks 10.91.1.0/24 --peer-address 10.91.0.3"
on hq 'sealane cp /etc/sealane/hq.toml root@laptop:/etc/sealane/ && rm /etc/sealane/hq.toml'
up hq 'sealane tunnel up /etc/sealane/laptop.toml'
up laptop 'sealane tunnel up /etc/sealane/hq.toml'
answers laptop 10.91.1.1
on laptop "ping -c 1 10.91.1.1 $brief"
prose 'It goes on where it is next: hq answers where its newest genuine packet came from.'
on laptop 'ip address add 192.0.2.77/24 dev eth0 && ip address del 192.0.2.3/24 dev eth0'
enter laptop 'ip address replace 192.0.2.77/24 dev eth0'
answers laptop 10.91.1.1
on laptop "ping -c 1 10.91.1.1 $brief"
on laptop 'sealane tunnel down'

chapter 'Behind a router that translates addresses'
prose 'The end behind it calls; the other one needs no endpoint for it.'
on home 'sealane id --system'
on hq "sealane tunnel new hq home --folder /etc/sealane --peer-key $(key home) --device sl2 \\
    --endpoint 192.0.2.1:4502 --address 10.91.0.1 --networks 10.91.1.0/24 --peer-address 10.91.0.4"
# There is no way to log in there from hq, so the file goes by hand.
host=home
mv /etc/netns/hq/sealane/hq.toml /etc/netns/$host/sealane/
prose 'With `hq.toml` in `/etc/sealane` at home:'
up hq 'sealane tunnel up /etc/sealane/home.toml'
up home 'sealane tunnel up /etc/sealane/hq.toml'
answers home 10.91.1.1
answers hq 10.91.0.4
on hq "ping -c 1 10.91.0.4 $brief"
on home 'sealane tunnel down'

chapter 'With strongSwan'
# Its ESP is in user space here, so that the kernel needs no IPsec.
ip netns exec office sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
cat >/etc/netns/office/strongswan.conf <<'END'
charon-systemd {
    load = random nonce openssl pem pkcs1 pkcs8 x509 revocation pubkey constraints kdf hmac kernel-libipsec kernel-netlink socket-default vici
    plugins {
        kernel-libipsec {
            allow_peer_ts = yes
        }
    }
    journal {
        default = -1
    }
}
swanctl {
    load = random openssl pem pkcs1 pkcs8 x509
}
END
cat >/etc/netns/office/swanctl/conf.d/branch.conf <<'END'
connections {
    branch {
        version = 2
        proposals = aes256gcm16-prfsha384-x25519
        encap = yes
        local {
            auth = psk
            id = office.example
        }
        remote {
            auth = psk
            id = branch.example
        }
        children {
            net {
                local_ts = 10.91.5.0/24
                remote_ts = 10.91.2.0/24
                esp_proposals = aes256gcm16-x25519
            }
        }
    }
}
END
cat >/etc/netns/branch/sealane/office.toml <<'END'
device = "sl0"
listen = "0.0.0.0:4500"

[[peers]]
name = "office"
endpoint = "192.0.2.5:4500"
networks = ["10.91.5.0/24"]

[peers.ike]
id = "office.example"
local-id = "branch.example"
local-networks = ["10.91.2.0/24"]
psk-file = "office.psk"
END
enter office 'exec charon-systemd' >"$scratch/charon.log" 2>&1 &
daemons="$daemons $!"
eventually enter office 'swanctl --stats'
prose 'With the gateways of other makers Sealane negotiates by IKEv2, on UDP ports 500 and 4500. Here it is a strongSwan that expects us. Both ends' \
    'have one secret: one of them makes it, in the form that strongSwan has for random bytes, and we take that form too.'
on branch "(umask 077; printf '0s%s\n' \$(openssl rand -base64 32) >/etc/sealane/office.psk)"
on branch "(umask 077; cat >secret.conf) <<END
secrets {
    ike-branch {
        id = branch.example
        secret = \$(cat /etc/sealane/office.psk)
    }
}
END"
on branch 'sealane cp secret.conf root@office:/etc/swanctl/conf.d/ && rm secret.conf'
on office 'cat /etc/swanctl/conf.d/branch.conf'
on office 'swanctl --load-all --noprompt | tail -1'
on branch 'cat /etc/sealane/office.toml'
prose '`id` is who the peer is, and `local-id` who we are to it. `encap = yes` has strongSwan send ESP in UDP, which is what we send.'
on branch 'sealane tunnel check /etc/sealane/office.toml | head -1'
up branch 'sealane tunnel up /etc/sealane/office.toml'
answers branch 10.91.5.1 '-I 10.91.2.1'
on branch "ping -c 1 -I 10.91.2.1 10.91.5.1 $brief"
on branch "sealane tunnel status | grep -E '^  (ike|child)' | cut -d, -f1"
on office 'swanctl --list-sas | grep -o "ESTABLISHED, IKEv2"'
on branch 'sealane tunnel down'
prose 'Without an `endpoint` we wait for the peer to begin. In place of `psk-file` either end may have a certificate, of an authority whose' \
    'key stays where no gateway is:'
on admin 'sealane tunnel pki pki branch.example office.example'
prose 'The table then has `private-key`, `certificate` and `ca`; strongSwan takes the same files in `private`, `x509` and `x509ca`.' \
    'Between two gateways of ours, `key` needs no such files, is as strong, and renews keys by a handshake of its own each time;' \
    'a key of `sealane id --system --hybrid` withstands quantum computers too. IKE is for the rest of the world.'
prose 'ESP goes in UDP, which every NAT passes. A gateway that takes ESP only as a protocol of its own wants `encapsulation = "none"` beside' \
    '`listen`, and no NAT on the way.' \
    'With `children = 4` in `[peers.ike]` up to four pairs of associations share the flows (RFC 9611), so that lanes do not all count' \
    'in one sequence and one replay window. Both ends must allow it. All of them use one UDP port, so a network card sees one flow.' \
    '[Several queues](#several-queues) of the device have one pair each.' \
    '`sealane tunnel pki --ml-dsa pki-pq hq.example branch.example` makes certificates of ML-DSA-65 (FIPS 204), which a quantum computer does not' \
    'forge, for gateways of ours with `ml-dsa = true` beside `listen`. The standard for IKE is a draft (draft-ietf-ipsecme-ikev2-pqc-auth): without the line such' \
    'keys are refused, strongSwan 6.1 does not know them, and the two ends announce what they verify (RFC 9593). A certificate has 5 KB, so IKE sends it in' \
    'fragments (RFC 7383).'

chapter 'Phones and laptops'
# The strongSwan at the office becomes a laptop.
prose 'Phones and laptops speak IKEv2 too, and get addresses of a pool. The gateway has a certificate for the name that they connect' \
    'to, which is made elsewhere, and users with passwords, a line `NAME:PASSWORD` for each; only root may read these files.'
on admin 'sealane tunnel pki pki vpn.example'
on hq 'sealane cp root@admin:pki/vpn.example.key root@admin:pki/vpn.example.crt root@admin:pki/ca.crt /etc/sealane/'
on hq "(umask 077; echo 'alice:correct horse battery' >/etc/sealane/users)"
cat >/etc/netns/hq/sealane/clients.toml <<'END'
device = "sl3"
listen = "0.0.0.0:4500"

[pool]
networks = ["10.99.0.0/24"]
dns = ["10.91.1.53"]

[[peers]]
name = "clients"

[peers.ike]
any = true
local-id = "vpn.example"
local-networks = ["10.91.1.0/24"]
private-key = "vpn.example.key"
certificate = "vpn.example.crt"
users-file = "users"
END
on hq 'cat /etc/sealane/clients.toml'
on hq 'sealane tunnel profile /etc/sealane/clients.toml alice --name Office --device phone --folder /etc/sealane'
prose '`alice-phone.mobileconfig` is for iPhones and Macs, `.ps1` for Windows, and `.sswan` for the app of strongSwan on Android. A user has' \
    'files for each device, up to eight,' \
    'opens the file on the device, is asked for the password, and is connected. The files trust the authority of the gateway, so' \
    'send them in a way that nobody can alter them. In place of `users-file` or beside it, `users-ca = "people/ca.crt"` takes users with' \
    'certificates: `sealane tunnel pki people --user carol` makes one, and `sealane tunnel profile` with its `--certificate` and' \
    '`--private-key` puts both into the files, under a password that it prints. `local-networks` are what clients reach: with' \
    '`0.0.0.0/0` all of their traffic goes through the gateway, and with `masquerade = true`' \
    'beside `listen` their packets leave with its address.'
prose 'A gateway forwards between its device and the interfaces towards `local-networks` while it is up (`forwarding = false` leaves' \
    'that to the system).'
prose 'The gateway reads `users`, the certificates, lists of revoked ones (`crls`) and the site file again when they change, and by' \
    '`sealane tunnel reload`: who is removed or revoked is told and goes, and nobody else notices.'
enter hq 'sealane tunnel down sl0' || :
up hq 'sealane tunnel up /etc/sealane/clients.toml'
prose 'Another gateway of ours is a client as well:'
cat >/etc/netns/laptop/sealane/office.toml <<'END'
device = "sl0"
listen = "0.0.0.0:4500"

[[peers]]
name = "office"
endpoint = "192.0.2.1:4500"
networks = ["10.91.1.0/24"]

[peers.ike]
id = "vpn.example"
virtual-addresses = true
user = "alice"
password-file = "alice.password"
ca = "ca.crt"
END
on laptop 'sealane cp root@admin:pki/ca.crt /etc/sealane/'
on laptop "(umask 077; echo 'correct horse battery' >/etc/sealane/alice.password)"
on laptop 'cat /etc/sealane/office.toml'
up laptop 'sealane tunnel up /etc/sealane/office.toml'
answers laptop 10.91.1.1
on laptop "ping -c 1 10.91.1.1 $brief"
on hq "sealane tunnel status sl3 | grep -E '^  (ike|address|child)' | cut -d, -f1"
on laptop 'sealane tunnel down sl0'
on hq 'sealane tunnel down sl3'
enter hq 'exec sealane tunnel up /etc/sealane/branch.toml' 2>"$scratch/hq.log" &
daemons="$daemons $!"
eventually grep -q 'is up' "$scratch/hq.log"

chapter 'Commands and resolvers'
prose '`up` and `down` are commands of the shell, run by root when packets flow and when the gateway has ended. SEALANE_DEVICE is' \
    'the name of the device. With `dns = ["10.91.1.53"]` as well, this host asks that resolver meanwhile, by `resolvectl` or' \
    '`resolvconf`; with `dns-search = ["corp.example"]` only for names in that domain.'
on branch "sed -i '/^addresses/a up = [\"nft add table inet guests\"]\ndown = [\"nft delete table inet guests\"]' /etc/sealane/hq.toml"
on branch 'head -6 /etc/sealane/hq.toml'
up branch 'sealane tunnel up /etc/sealane/hq.toml'
# The commands run when it has said that it is up.
eventually enter branch 'nft list table inet guests'
on branch 'nft list tables inet | grep guests'
on branch 'sealane tunnel down'
on branch 'nft list tables inet | grep guests'

chapter 'In a container'
prose 'A gateway needs the device `/dev/net/tun` and CAP_NET_ADMIN; CAP_SETUID and CAP_SETGID too where the container has the user' \
    '`sealane`, which it then becomes, and CAP_NET_RAW for ESP without UDP. So `podman run --device /dev/net/tun --cap-add' \
    'NET_ADMIN -v ./sealane:/etc/sealane …` runs the same command. Here with no other capabilities:'
up laptop 'setpriv --bounding-set -all,+net_admin,+setuid,+setgid --no-new-privs sealane tunnel up /etc/sealane/hq.toml'
answers laptop 10.91.1.1
on laptop 'sealane tunnel down'

chapter 'As a service'
prose 'The Debian package has a unit for each file in `/etc/sealane`: `systemctl enable --now sealane-tunnel@branch` runs' \
    '`/etc/sealane/branch.toml` at every start of the system, and returns when packets can flow. `journalctl -u' \
    'sealane-tunnel@branch` has what the gateway said. Its sandbox lets commands in `up` and `down` change networks and' \
    '`/run/sealane`; more is given by `systemctl edit sealane-tunnel@branch`. `cargo xtask packages` tries it under a systemd.'
for name in branch laptop home; do
    device=sl0
    case $name in laptop) device=sl1 ;; home) device=sl2 ;; esac
    enter hq "sealane tunnel down $device"
done
