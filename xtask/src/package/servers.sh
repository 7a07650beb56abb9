# More servers that sign with a key of the engine, by the lines of docs/engine.md: sourced by engine.sh, with its functions. Those that
# are not installed are left out.

if has apache2ctl; then
    echo 'Apache'
    a2enmod --quiet ssl
    : >/etc/apache2/ports.conf
    rm -f /etc/apache2/sites-enabled/*
    cat >/etc/apache2/conf-enabled/trial.conf <<'END'
ServerName localhost
Listen 127.0.0.1:8444 https
<VirtualHost 127.0.0.1:8444>
    SSLEngine on
    SSLCertificateFile /srv/trial/web.crt
    SSLCertificateKeyFile /srv/trial/web.key
</VirtualHost>
END
    told_about apache2
    systemctl start apache2
    signs 8444
fi

if has apache2ctl && has stunnel4; then
    echo 'stunnel in a jail'
    mkdir -p /srv/jail
    chown stunnel4 /srv/jail
    cat >/srv/trial/stunnel.conf <<'END'
foreground = yes
chroot = /srv/jail
setuid = stunnel4
pid =
[trial]
accept = 127.0.0.1:8445
connect = 127.0.0.1:8444
cert = /srv/trial/web.crt
key = /srv/trial/web.key
END
    systemd-run --quiet --unit=trial-stunnel --setenv=OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf \
        stunnel4 /srv/trial/stunnel.conf
    signs 8445
    systemctl stop trial-stunnel apache2
fi

if has postconf; then
    echo 'Postfix'
    test -e /etc/postfix/main.cf || cp /usr/share/postfix/main.cf.debian /etc/postfix/main.cf
    postconf -e inet_interfaces=127.0.0.1 inet_protocols=ipv4 mydestination=localhost myhostname=localhost \
        smtpd_tls_cert_file=/srv/trial/web.crt smtpd_tls_key_file=/srv/trial/web.key smtpd_tls_security_level=may \
        'import_environment = MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf'
    newaliases
    systemctl start postfix@-
    signs 25 -starttls smtp
    systemctl stop postfix@-
fi

if has doveconf; then
    echo 'Dovecot'
    cat >/etc/dovecot/dovecot.conf <<'END'
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = </srv/trial/web.crt
ssl_key = </srv/trial/web.key
import_environment = TZ CORE_OUTOFMEM CORE_ERROR LISTEN_PID LISTEN_FDS NOTIFY_SOCKET OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf
service imap-login {
  chroot =
  inet_listener imap {
    port = 0
  }
  inet_listener imaps {
    port = 8446
  }
}
END
    systemctl start dovecot
    signs 8446
    systemctl stop dovecot
fi

if has openvpn; then
    echo 'OpenVPN'
    mkdir -p /srv/jail/tmp
    vpn="openvpn --dev null --ca /srv/trial/web.crt --cert /srv/trial/web.crt --key /srv/trial/web.key --verb 3"
    systemd-run --quiet --unit=trial-vpn --setenv=OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf \
        $vpn --tls-server --dh none --proto tcp-server --local 127.0.0.1 --lport 8448 --user nobody --group nogroup --chroot /srv/jail
    before=$(uses)
    OPENSSL_CONF=/usr/share/sealane/openssl-provider.cnf timeout 60 $vpn --tls-client --proto tcp-client \
        --remote 127.0.0.1 8448 --nobind --connect-retry 1 >/srv/trial/vpn.log 2>&1 &
    client=$!
    eventually grep -q 'Initialization Sequence Completed' /srv/trial/vpn.log
    kill $client
    wait $client || :
    test $(($(uses) - before)) -ge 2
    systemctl stop trial-vpn
fi

if has sshd && has ssh-agent; then
    echo 'sshd'
    mkdir -p /run/sshd
    ssh-agent -a /run/sealane-agent >/dev/null
    SSH_AUTH_SOCK=/run/sealane-agent SSH_ASKPASS=/bin/true SSH_ASKPASS_REQUIRE=force \
        ssh-add -s /usr/lib/sealane/sealane-pkcs11.so </dev/null
    ssh-keygen -D /usr/lib/sealane/sealane-pkcs11.so >/srv/trial/host.pub
    systemd-run --quiet --unit=trial-sshd /usr/sbin/sshd -D -f /dev/null -p 8449 -o ListenAddress=127.0.0.1 -o PidFile=none \
        -o HostKeyAgent=/run/sealane-agent -o HostKey=/srv/trial/host.pub
    scanned() { ssh-keyscan -p 8449 -t rsa 127.0.0.1 2>/dev/null | grep -q ssh-rsa; }
    before=$(uses)
    eventually scanned
    test $(($(uses) - before)) -ge 1
    systemctl stop trial-sshd
fi
