//! Gateways as services of a system: the keys that they use, the users that they run as, and the changes that they
//! make to their host.

mod program;

use std::fs;

use program::isolated::{good, missing, run};
use program::{Ends, text, unless};

/// Site files of two hosts that know each other, at `a.toml` and `b.toml`, with identities beside them.
const SITES: &str = r#"
two_hosts
site() { # site HOST OWN-NUMBER OTHER-NUMBER KEY: on standard output
    printf 'device = "sl0"\nlisten = "192.0.2.%s:4500"\naddresses = ["10.91.0.%s/32"]\nidentity = "%s.identity"\n' $2 $2 $1
    [ ! -e $1.more ] || cat $1.more
    printf '[[peers]]\nname = "other"\nkey = "%s"\nendpoint = "192.0.2.%s:4500"\nnetworks = ["10.91.0.%s/32"]\n' $4 $3 $3
}
a_key=$(sealane id --identity a.identity)
b_key=$(sealane id --identity b.identity)
site a 1 2 $b_key >a.toml
site b 2 1 $a_key >b.toml
up() { # up HOST: brings its gateway up
    # Not by a function, whose process would be the shell's.
    ip netns exec $1 sealane tunnel up $1.toml --run "$SCRATCH/$1.run" 2>$1.log &
    eval "$1=$!"
    eventually grep -q 'is up' $1.log || { cat $1.log >&2; exit 1; }
}
tunnel() { host=$1; shift; on $host sealane tunnel "$@" --run "$SCRATCH/$host.run"; }
"#;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_service_without_a_home_has_the_systems_identity() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    let said = good(
        scratch.path(),
        r#"
        rmdir /etc/sealane
        peer=$(sealane id --identity peer.identity 2>/dev/null)
        cat >site.toml <<END
device = "sl0"
listen = "127.0.0.1:4500"
[[peers]]
name = "other"
key = "$peer"
networks = ["10.91.2.0/24"]
END
        sealane tunnel check site.toml
        made=$(sealane id --system 2>/dev/null)
        test "$made" = "$(sealane id --system)"
        stat -c '%a %U' /etc/sealane /etc/sealane/identity
        sealane tunnel check site.toml | grep -c "$made (/etc/sealane/identity)"
        sealane tunnel up site.toml 2>log &
        eventually grep 'sl0 is up' log || { cat log >&2; exit 1; }
        sealane tunnel status >/dev/null
        sealane tunnel down
        wait
        test "$made" = "$(sealane id --system)"
        # An identity that root has had from before stays the gateway's until the system has one.
        mkdir -p own/.config/sealane
        mv /etc/sealane/identity own/.config/sealane/
        HOME=$SCRATCH/own sealane tunnel check site.toml | grep -c "$made ($SCRATCH/own/.config/sealane/identity)"
        "#,
    );
    assert!(said.contains("no key yet"), "{said}");
    assert!(said.ends_with("755 root\n600 root\n1\n1\n"), "{said}");
}

#[test]
fn a_peer_with_the_gateways_own_key_is_refused() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    for command in ["tunnel check site.toml", "tunnel up site.toml"] {
        let script = format!(
            r#"
            own=$(sealane id --system)
            printf 'device = "sl0"\nlisten = "127.0.0.1:4500"\n[[peers]]\nname = "other"\nkey = "%s"\n' $own >site.toml
            echo 'networks = ["10.91.2.0/24"]' >>site.toml
            sealane {command}
            "#
        );
        let refused = run(scratch.path(), &script);
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let said = text(&refused.stderr);
        assert!(said.contains("key of this gateway itself (/etc/sealane/identity)"), "{said}");
    }
}

#[test]
fn root_becomes_a_user_of_its_own_where_there_is_one() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    fs::create_dir(scratch.path().join("etc")).expect("a folder");
    let users = "root:x:0:0:root:/root:/bin/sh\nsealane:x:64321:64322::/var/lib/sealane:/usr/sbin/nologin\n";
    fs::write(scratch.path().join("etc/passwd"), users).expect("a list of users");
    let script = format!(
        "{SITES}\n{}",
        r#"
        up a
        up b
        eventually on a ping -c 1 -W 1 10.91.0.2
        for gateway in $a $b; do
            for thread in /proc/$gateway/task/*/status; do
                grep -qE '^Uid:[[:space:]]+64321[[:space:]]+64321[[:space:]]+64321[[:space:]]+64321$' $thread
                grep -qE '^Gid:[[:space:]]+64322[[:space:]]+64322[[:space:]]+64322[[:space:]]+64322$' $thread
                grep -qE '^Groups:[[:space:]]*$' $thread
                grep -qE '^CapPrm:[[:space:]]+0000000000000000$' $thread
                grep -qE '^NoNewPrivs:[[:space:]]+1$' $thread
            done
        done
        stat -c '%a %u' a.run/tunnel-sl0.sock
        # Neither that user's other processes nor anybody else can ask.
        if setpriv --reuid=64321 --clear-groups sealane tunnel status --run "$SCRATCH/a.run" 2>/dev/null; then exit 1; fi
        tunnel a status --json | grep -q '"received_packets"'
        tunnel a stats | grep -q sealane_tunnel_received_packets_total
        tunnel a down
        wait $a
        ls a.run
        # Killed, it leaves its socket, which is in nobody's way.
        kill -KILL $b
        wait $b || :
        test -S b.run/tunnel-sl0.sock
        up b
        tunnel b down
        wait $b
        ls b.run
        "#
    );
    assert_eq!(good(scratch.path(), &script), "600 0\n");
}

#[test]
fn keys_from_files_are_counted_on_by_that_user() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    fs::create_dir(scratch.path().join("etc")).expect("a folder");
    let users = "root:x:0:0:root:/root:/bin/sh\nsealane:x:64321:64322::/var/lib/sealane:/usr/sbin/nologin\n";
    fs::write(scratch.path().join("etc/passwd"), users).expect("a list of users");
    let said = good(
        scratch.path(),
        r#"
        umask 077
        head -c 48 /dev/urandom | od -An -tx1 >send.key
        head -c 48 /dev/urandom | od -An -tx1 >receive.key
        cat >site.toml <<END
device = "sl0"
listen = "127.0.0.1:4500"
[[peers]]
name = "other"
endpoint = "127.0.0.1:4501"
networks = ["10.91.2.0/24"]
[peers.manual]
suite = "aes-128-cbc+hmac-sha256-128"
send = { spi = 300, key-file = "send.key" }
receive = { spi = 300, key-file = "receive.key" }
END
        for run in 1 2; do
            : >log
            sealane tunnel up site.toml 2>log &
            eventually grep 'sl0 is up' log || { cat log >&2; exit 1; }
            sealane tunnel down
            wait
            cat send.key.counter
        done
        "#,
    );
    let counters: Vec<u64> = said.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(counters.len(), 2, "{said}");
    assert!(counters[0] > 1 && counters[1] > counters[0], "{said}");
}

#[test]
fn a_sites_commands_run_when_it_is_up_and_when_it_has_ended() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    let script = format!(
        "{}{SITES}\n{}",
        r#"
        cat >a.more <<'END'
up = ["echo up $SEALANE_DEVICE $(ip -o link show dev $SEALANE_DEVICE | wc -l) >>told", "echo second >>told"]
down = ["sleep 0.3; false", "echo down $SEALANE_DEVICE $(ip -o link show dev $SEALANE_DEVICE 2>/dev/null | wc -l) >>told"]
END
        "#,
        r#"
        gateway() { echo $(ps -o pid= --ppid $1 2>/dev/null || cat /proc/$1/task/$1/children); }
        up a
        eventually grep second told
        tunnel a down
        cat told; echo -- down
        wait $a
        ls a.run
        rm told
        # However it ends: by a signal to the process that was started, by one that kills the gateway itself.
        up a
        eventually grep second told
        kill -TERM $a
        wait $a
        cat told; echo -- TERM
        rm told
        up a
        eventually grep second told
        kill -KILL $(gateway $a)
        status=0
        wait $a || status=$?
        cat told; echo -- KILL $status
        # A gateway does not outlive the process that is to undo what was done.
        up a
        child=$(gateway $a)
        kill -KILL $a
        wait $a || :
        gone() { ! test -e /proc/$child/exe; }
        eventually gone
        # What fails is not kept up, and is undone.
        rm -f told
        sed -i 's/^up = .*/up = ["echo first >>told", "exit 7", "echo never >>told"]/' a.toml
        status=0
        on a sealane tunnel up a.toml --run "$SCRATCH/a.run" 2>a.log || status=$?
        cat told || cat a.log >&2; echo -- failed $status
        grep -c 'exit 7. failed' a.log
        "#
    );
    let said = good(scratch.path(), &script);
    let want = "up sl0 1\nsecond\ndown sl0 0\n-- down\nup sl0 1\nsecond\ndown sl0 0\n-- TERM\n\
                up sl0 1\nsecond\ndown sl0 0\n-- KILL 5\nfirst\ndown sl0 0\n-- failed 5\n1\n";
    assert_eq!(said, want);
}

#[test]
fn the_host_asks_a_sites_resolvers_while_it_is_up() {
    let Some(()) = unless(missing()) else { return };
    for (program, more, want) in [
        (
            "resolvectl",
            "dns = [\"10.91.2.53\", \"fd91::53\"]",
            "resolvectl dns sl0 10.91.2.53 fd91::53\nresolvectl domain sl0 ~.\n",
        ),
        (
            "resolvectl",
            "dns = [\"10.91.2.53\"]\ndns-search = [\"corp.example\", \"lab.example\"]",
            "resolvectl dns sl0 10.91.2.53\nresolvectl domain sl0 corp.example lab.example\n",
        ),
        (
            "resolvconf",
            "dns = [\"10.91.2.53\"]\ndns-search = [\"corp.example\"]",
            "resolvconf -a sl0\nnameserver 10.91.2.53\nsearch corp.example\nresolvconf -d sl0\n",
        ),
    ] {
        let scratch = scratch();
        let script = format!(
            "printf '%s\\n' '{more}' >a.more\nprogram={program}\n{SITES}\n{}",
            r#"
            for tool in resolvectl resolvconf; do
                printf '#!/bin/sh\nexit 127\n' >bin/$tool
            done
            cat >bin/$program <<'END'
#!/bin/sh
case $1 in status | --version) exit 0 ;; esac
echo "${0##*/} $*" >>told
[ "$1" != -a ] || cat >>told
END
            chmod 755 bin/resolvectl bin/resolvconf
            up a
            eventually test -s told
            tunnel a down
            cat told
            "#
        );
        assert_eq!(good(scratch.path(), &script), want, "{more}");
    }
    let scratch = scratch();
    let script = format!(
        "echo 'dns = [\"10.91.2.53\"]' >a.more\n{SITES}\n{}",
        // The path has no programs except this one and those of the script.
        r#"
        mkdir few
        for tool in ip sealane; do ln -s "$(command -v $tool)" few/; done
        PATH=$SCRATCH/few on a sealane tunnel up a.toml --run "$SCRATCH/a.run"
        "#
    );
    run(scratch.path(), &script).complains(5, &["systemd-resolved or resolvconf"]);
}

#[test]
fn the_service_manager_is_told_when_packets_flow() {
    use std::os::unix::net::UnixDatagram;
    let Some(()) = unless(missing()) else { return };
    for more in ["", "up = [\"echo done >told\"]"] {
        let scratch = scratch();
        let socket = UnixDatagram::bind(scratch.path().join("notify")).expect("a socket");
        let script = format!(
            "[ -z '{more}' ] || echo '{more}' >a.more\n{SITES}\n{}",
            r#"
            export NOTIFY_SOCKET=$SCRATCH/notify
            up a
            eventually tunnel a status
            tunnel a down
            "#
        );
        good(scratch.path(), &script);
        let mut said = [0; 64];
        socket.set_nonblocking(true).expect("a socket");
        let bytes = socket.recv(&mut said).expect("it was told");
        assert_eq!(&said[..bytes], b"READY=1\n");
        assert!(more.is_empty() || scratch.path().join("told").exists(), "only when the commands have run");
    }
}

#[test]
fn both_files_of_a_new_tunnel_work() {
    let Some(()) = unless(missing()) else { return };
    let scratch = scratch();
    let said = good(
        scratch.path(),
        r#"
        two_hosts
        mkdir a b
        a_key=$(sealane id --identity a/identity)
        b_key=$(sealane id --identity b/identity)
        # Behind both there are networks, and only one is reached.
        ip -n a address add 10.91.1.1/24 dev lo
        ip -n b address add 10.91.2.1/24 dev lo
        new() {
            sealane tunnel new hq branch --folder a --identity a/identity --peer-key "$1" --endpoint 192.0.2.1:4600 \
                --address 10.91.0.1 --networks 10.91.1.0/24 --peer-address 10.91.0.2 --peer-networks 10.91.2.0/24
        }
        for wrong in "$a_key" sealane1:nonsense; do
            status=0
            new "$wrong" 2>log || status=$?
            test $status = 2
        done
        ls a
        new "$b_key" 2>log
        # Nothing is overwritten.
        status=0
        new "$b_key" 2>log || status=$?
        echo $status
        stat -c %a a/branch.toml
        mv a/hq.toml b/
        sed -i '1a identity = "identity"' b/hq.toml
        for host in a b; do on $host sealane tunnel check $host/*.toml >/dev/null; done
        on a sealane tunnel up a/branch.toml --run "$SCRATCH/a.run" 2>a.log &
        on b sealane tunnel up b/hq.toml --run "$SCRATCH/b.run" 2>b.log &
        eventually on b ping -c 1 -W 1 -I 10.91.2.1 10.91.1.1 || { cat a.log b.log >&2; exit 1; }
        on a ping -c 1 -W 1 10.91.2.1 >/dev/null
        "#,
    );
    assert_eq!(said, "identity\na/branch.toml\na/hq.toml\n2\n644\n");
}
