# In a system with systemd where the package is installed: the engine by its unit and its socket, as shipped, and servers that sign
# with it, by the steps of docs/engine.md. Sourced, with `eventually` and `closed`. What is not installed is left out; where `quick`
# is set, so are the servers that take long.
quick=${quick:-}
has() { command -v "$1" >/dev/null; }

echo 'the engine'
mkdir -p /srv/trial
held=0000000000000000
if ! prlimit --memlock=unlimited:unlimited true 2>/dev/null; then
    # In a container without CAP_SYS_RESOURCE nobody raises limits, so that the unit alone cannot lock memory.
    echo 'this system cannot raise limits: memory is locked by CAP_IPC_LOCK instead of the limit of the unit'
    mkdir -p /etc/systemd/system/sealane-engine.service.d
    printf '[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK\nAmbientCapabilities=CAP_IPC_LOCK\n' \
        >/etc/systemd/system/sealane-engine.service.d/lock.conf
    held=0000000000004000
fi
systemctl enable --now sealane-engine.socket
# Nothing has started it but the socket.
test "$(systemctl is-active sealane-engine || :)" = inactive
sealane engine keys generate web rsa-2048 >/srv/trial/web.public
sealane engine status | tee /srv/trial/status
grep -q 'locked in memory' /srv/trial/status
closed sealane-engine sealane-engine $held
test "$(stat -c %U:%a /var/log/sealane-engine/audit.jsonl)" = sealane-engine:600

echo 'a policy that changes'
cat >>/etc/sealane/engine.toml <<'END'

[[allow]]
users = ["www-data", "haproxy", "postgres", "stunnel4", "postfix", "dovenull", "nobody", "a-user-who-was-deleted"]
keys = ["web"]
uses = ["sign"]
END
sealane engine check --policy /etc/sealane/engine.toml | tee /srv/trial/explained
grep -q 'user www-data: may sign with web' /srv/trial/explained
if sealane engine keys test web --user www-data; then exit 1; fi
systemctl reload sealane-engine
eventually sealane engine keys test web --user www-data
sealane engine keys reference web >/srv/trial/web.key 2>/srv/trial/told
grep -q 'may be used by root, .*www-data' /srv/trial/told
# What makes no sense is said, and the old one stays.
cp /etc/sealane/engine.toml /srv/trial/good.toml
echo nonsense >>/etc/sealane/engine.toml
systemctl reload sealane-engine
eventually sh -c "journalctl --no-pager --unit sealane-engine | grep -q 'the policy stays the old one'"
sealane engine keys test web --user www-data
# An engine that cannot start is tried again until it can.
systemctl kill --signal KILL sealane-engine
sleep 2
cp /srv/trial/good.toml /etc/sealane/engine.toml
eventually sealane engine keys test web --user www-data

echo 'the log'
mv /var/log/sealane-engine/audit.jsonl /var/log/sealane-engine/audit.jsonl.1
systemctl reload sealane-engine
eventually test -e /var/log/sealane-engine/audit.jsonl

echo 'servers'
export OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf
openssl req -x509 -new -key sealane:web -subj /CN=localhost -addext subjectAltName=DNS:localhost -days 30 \
    -out /srv/trial/web.crt
unset OPENSSL_CONF
# told_about SERVICE: systemd gives it the configuration with the provider.
told_about() {
    mkdir -p "/etc/systemd/system/$1.service.d"
    printf '[Service]\nEnvironment=OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf\n' \
        >"/etc/systemd/system/$1.service.d/sealane.conf"
    systemctl daemon-reload
}
# shakes_hands PORT [OPTION...]: a client verifies the certificate, and that its server has the key.
shakes_hands() {
    port=$1
    shift
    timeout 20 openssl s_client -connect "127.0.0.1:$port" -CAfile /srv/trial/web.crt -verify_return_error -servername localhost "$@" \
        </dev/null >/dev/null 2>&1
}
# uses: the number of operations with the key.
uses() { sealane engine stats --keys | sed -n 's/^sealane_engine_key_uses_total{key="web"} //p'; }
# signs PORT [OPTION...]: handshakes succeed, and the engine is who signs.
signs() {
    eventually shakes_hands "$@"
    before=$(uses)
    for attempt in 1 2 3 4 5 6 7 8 9 10; do shakes_hands "$@"; done
    test $(($(uses) - before)) -ge 10
}

if has nginx; then
    echo 'nginx'
    rm -f /etc/nginx/sites-enabled/*
    cat >/etc/nginx/conf.d/trial.conf <<'END'
server {
    listen 127.0.0.1:8441 ssl;
    ssl_certificate /srv/trial/web.crt;
    ssl_certificate_key /srv/trial/web.key;
    ssl_session_tickets off;
}
END
    told_about nginx
    systemctl start nginx
    signs 8441
    # The engine is killed under load: its socket stays, and whoever asks waits until it is there again.
    for attempt in 1 $([ "$quick" ] || echo 2 3); do
        systemctl kill --signal KILL sealane-engine
        signs 8441
    done
fi
if has haproxy; then
    echo 'HAProxy in its jail'
    cat /srv/trial/web.crt /srv/trial/web.key >/srv/trial/haproxy.pem
    cat >>/etc/haproxy/haproxy.cfg <<'END'
frontend trial
    bind 127.0.0.1:8442 ssl crt /srv/trial/haproxy.pem
    http-request return status 200
END
    grep -q '^[[:space:]]*chroot /var/lib/haproxy' /etc/haproxy/haproxy.cfg
    told_about haproxy
    systemctl start haproxy
    signs 8442
    worker=$(pgrep -n haproxy)
    test "$(readlink "/proc/$worker/root")" = /var/lib/haproxy
    systemctl kill --signal KILL sealane-engine
    signs 8442
    # As jobs, for which it lacks the thread that takes answers.
    sed -i 's/^global$/global\n\tssl-mode-async/' /etc/haproxy/haproxy.cfg
    systemctl restart haproxy
    signs 8442
    grep -q '^[[:space:]]*ssl-mode-async' /etc/haproxy/haproxy.cfg
    systemctl stop haproxy
fi
postgres=$(echo /usr/lib/postgresql/*/bin)
if [ ! "$quick" ] && test -x "$postgres/pgbench"; then
    echo 'PostgreSQL with 300 sessions'
    data=/var/lib/postgresql/trial
    install -d -o postgres -g postgres -m 700 "$data"
    as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
    as "$postgres/initdb" --pgdata "$data" --auth trust --no-sync >/dev/null
    install -o postgres -m 600 /srv/trial/web.key "$data/server.key"
    install -o postgres -m 600 /srv/trial/web.crt "$data/server.crt"
    cat >>"$data/postgresql.conf" <<'END'
listen_addresses = '127.0.0.1'
port = 8443
unix_socket_directories = ''
ssl = on
max_connections = 330
shared_buffers = 16MB
fsync = off
END
    systemd-run --quiet --unit=trial-postgres --uid=postgres --property=Type=notify \
        --setenv=OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf "$postgres/postgres" -D "$data"
    before=$(uses)
    export PGHOST=127.0.0.1 PGPORT=8443 PGUSER=postgres PGDATABASE=postgres PGSSLMODE=require
    echo 'SELECT 1' >/srv/trial/select.sql
    "$postgres/pgbench" --no-vacuum --client 300 --jobs 2 --transactions 1 --file /srv/trial/select.sql 2>&1 | tail -12
    test $(($(uses) - before)) -ge 300
    systemctl stop trial-postgres
fi

if [ ! "$quick" ]; then . /servers.sh; fi

echo 'a second socket, in a jail'
mkdir -p /etc/systemd/system/sealane-engine.socket.d
printf '[Socket]\nListenSequentialPacket=/srv/jail/engine\n' >/etc/systemd/system/sealane-engine.socket.d/jail.conf
systemctl daemon-reload
systemctl stop sealane-engine
systemctl restart sealane-engine.socket
sealane engine keys test web --socket /srv/jail/engine
sealane engine keys test web

echo 'a key that follows another one'
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out /srv/trial/next.pem 2>/dev/null
sealane engine keys import web /srv/trial/next.pem --replace >/srv/trial/next.public
if has nginx; then
    # nginx has the certificate of the key before until it is told of the next one.
    signs_with_old() { eventually shakes_hands 8441; }
    for attempt in 1 2 3; do signs_with_old; done
    systemctl kill --signal KILL sealane-engine
    signs_with_old
    OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf openssl req -x509 -new -key sealane:web -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -days 30 -out /srv/trial/web.crt
    systemctl reload nginx
    signs 8441
    systemctl stop nginx
fi
sealane engine keys remove web --previous
systemctl stop sealane-engine.socket sealane-engine
test "$(systemctl show --property Result --value sealane-engine)" = success
