//! Examples of each command, for its help and its manual page.

use sealane_terminal::help::Example;

/// Examples by the words of the command, joined by `-`. Every command has some; those of commands that are not built are not shown.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "sealane",
        &[
            #[cfg(feature = "copy")]
            ("sealane cp -r data user@host:/srv/", "copy a tree over ssh"),
            #[cfg(feature = "tunnel")]
            ("sealane tunnel up site.toml", "start a gateway"),
            ("sealane lab quick", "measure what protection costs here"),
        ],
    ),
    (
        "sealane-cp",
        &[
            ("sealane cp -r data user@host:/srv/", "push a tree over ssh; it becomes /srv/data"),
            ("sealane cp -r host:/srv/data .", "pull it; the same command continues after an interruption"),
            ("sealane cp -rn data host:/srv/", "list what would be copied, and change nothing"),
            (
                "sealane cp -aT --delete data host:/srv/data",
                "make /srv/data a mirror: delete there what data does not have; try -n first",
            ),
            ("sealane cp 'host:/var/log/*.log' logs/", "copy files by a pattern, which the far end expands"),
            (
                "git ls-files -z | sealane cp -0 --files-from - . host:/srv/work",
                "copy the files of a list, with their parent folders",
            ),
            ("sealane cp -r one:/srv/data two:/srv/", "copy from one far host to another, through this one"),
            (
                "sealane cp --install-far-end -r data host:/srv/",
                "if host has no sealane, copy it to ~/.local/bin there first",
            ),
            (
                "sealane cp --level safe --digest big.img host:",
                "authenticate without encryption; print a digest that both ends have checked",
            ),
            #[cfg(feature = "fleet")]
            (
                "sealane cp -r 'src[1-4]:/data' 'dst[1-8]:/in'",
                "copy a tree from four hosts to eight, which share the work; it becomes /in/data",
            ),
            ("tar c data | sealane cp - host:data.tar", "copy from a pipe"),
            (
                "sealane cp --through-ssh big.img host:",
                "send the data inside ssh, if other ports are blocked",
            ),
            ("sealane cp data.bin sealane://host:7522/incoming/", "copy to a daemon"),
        ],
    ),
    (
        "sealane-fleet",
        &[
            ("sealane cp -r 'src[1-4]:/data' 'dst[1-8]:/in'", "start a run"),
            ("sealane fleet status", "list the runs that were started here"),
        ],
    ),
    (
        "sealane-fleet-status",
        &[
            ("sealane fleet status 3f0c", "show how far a run is"),
            ("sealane fleet status head:3f0c --json", "the same as JSON, from another host"),
        ],
    ),
    ("sealane-fleet-failed", &[("sealane fleet failed 3f0c", "list what could not be copied, and why")]),
    ("sealane-fleet-retry", &[("sealane fleet retry 3f0c", "go on, and try again what failed")]),
    (
        "sealane-fleet-work",
        &[(
            "sealane fleet work --queue tls://head:4222 --run 3f0c12ab90 --key sealane1:aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp5kszg",
            "copy shares of a run from this host, until there are none",
        )],
    ),
    ("sealane-fleet-stop", &[("sealane fleet stop 3f0c", "stop a run, which `retry` goes on with")]),
    (
        "sealane-serve",
        &[
            ("sealane serve /srv/data --listen 0.0.0.0:7522", "serve a folder to the authorised peers"),
            ("sealane serve /srv/data --listen '[::]:7522' --read-only", "let peers read, but not write"),
        ],
    ),
    (
        "sealane-tunnel",
        &[
            ("sealane tunnel check site.toml", "check the site file and its key files"),
            ("sealane tunnel up site.toml", "start the gateway"),
        ],
    ),
    (
        "sealane-tunnel-up",
        &[
            ("sealane tunnel up site.toml", "run until Ctrl-C or `sealane tunnel down`"),
            ("sealane tunnel up lab.toml --allow-manual-counter", "AES-GCM with keys from files, for tests"),
        ],
    ),
    ("sealane-tunnel-down", &[("sealane tunnel down sl0", "stop the gateway with this device")]),
    (
        "sealane-tunnel-status",
        &[
            ("sealane tunnel status", "show the gateway that runs"),
            ("sealane tunnel status sl0 --json", "show one gateway as JSON"),
        ],
    ),
    (
        "sealane-tunnel-reload",
        &[(
            "sealane tunnel reload --site /etc/sealane/branch.toml",
            "let the gateway of this file read it again",
        )],
    ),
    (
        "sealane-tunnel-stats",
        &[("sealane tunnel stats sl0", "print counters for the text-file collector of Prometheus")],
    ),
    (
        "sealane-tunnel-new",
        &[(
            "sealane tunnel new hq laptop --peer-key $KEY --endpoint 192.0.2.1:4500 --address 10.91.0.1 --peer-address 10.91.0.2",
            "write laptop.toml for this host and hq.toml for the laptop, which calls",
        )],
    ),
    (
        "sealane-tunnel-pki",
        &[(
            "sealane tunnel pki pki vpn.example.org",
            "make an authority in the folder pki, and the key and certificate of the gateway vpn.example.org",
        )],
    ),
    (
        "sealane-tunnel-profile",
        &[(
            "sealane tunnel profile clients.toml alice",
            "write alice.mobileconfig, alice.ps1 and alice.sswan for the user's devices",
        )],
    ),
    (
        "sealane-tunnel-check",
        &[("sealane tunnel check site.toml", "say whether it is valid, or which line is not")],
    ),
    (
        "sealane-engine",
        &[
            (
                "sealane engine serve --passphrase-file /etc/sealane/engine-passphrase --policy /etc/sealane/engine.toml",
                "run the engine",
            ),
            ("sealane engine keys import web /etc/ssl/private/web.key", "hand a key over to it"),
        ],
    ),
    (
        "sealane-engine-serve",
        &[
            (
                "sealane engine serve --passphrase-file pass --keys ./keys --socket ./socket --allow-swap",
                "try it without root",
            ),
            (
                "sealane engine serve --keyring sealane-engine",
                "take the passphrase from the kernel's keyring",
            ),
        ],
    ),
    ("sealane-engine-status", &[("sealane engine status --json", "show clients and counters as JSON")]),
    (
        "sealane-engine-stats",
        &[("sealane engine stats", "print counters for the text-file collector of Prometheus")],
    ),
    (
        "sealane-engine-keys",
        &[
            ("sealane engine keys generate web rsa-2048", "make a key"),
            ("sealane engine keys list", "list the keys that you may use"),
        ],
    ),
    (
        "sealane-engine-keys-list",
        &[("sealane engine keys list --json", "list names, kinds and public halves")],
    ),
    (
        "sealane-engine-keys-generate",
        &[("sealane engine keys generate web p256 > web.pub", "make a key, and keep its public half")],
    ),
    (
        "sealane-engine-keys-import",
        &[(
            "sealane engine keys import web web.p12 --passphrase-file pass",
            "hand over the key of a PKCS#12 file",
        )],
    ),
    (
        "sealane-engine-keys-certificate",
        &[
            ("sealane engine keys certificate web chain.pem", "keep certificates beside a key"),
            ("sealane engine keys certificate web", "print them"),
        ],
    ),
    (
        "sealane-engine-keys-test",
        &[(
            "sealane engine keys test web --user www-data",
            "see whether the web server's user may use a key",
        )],
    ),
    ("sealane-engine-keys-public", &[("sealane engine keys public web", "print the public half")]),
    (
        "sealane-engine-keys-reference",
        &[(
            "sealane engine keys reference web > /etc/nginx/web.key",
            "write the file that nginx takes as ssl_certificate_key",
        )],
    ),
    ("sealane-engine-keys-remove", &[("sealane engine keys remove web", "delete a key for ever")]),
    (
        "sealane-engine-check",
        &[
            ("sealane engine check", "compute something with each key that you may use"),
            ("sealane engine check --policy /etc/sealane/engine.toml", "check a policy file"),
        ],
    ),
    (
        "sealane-id",
        &[
            #[cfg(feature = "serve")]
            ("sealane id", "print your public key, for `sealane authorise` at the daemon"),
            #[cfg(feature = "tunnel")]
            (
                "sealane id --system",
                "print the public key of this system's tunnels, for the peer's site file",
            ),
            (
                "sealane id --hybrid",
                "print your public key; a new one is proved by ML-DSA-65 as well, against quantum computers",
            ),
        ],
    ),
    (
        "sealane-authorise",
        &[
            ("sealane authorise KEY ada@laptop", "let ada's laptop read"),
            (
                "sealane authorise KEY ada@laptop read,write,delete --path /ada",
                "let it mirror into one folder",
            ),
        ],
    ),
    (
        "sealane-peers",
        &[
            ("sealane peers", "list everyone whose key is known"),
            #[cfg(feature = "serve")]
            ("sealane peers --remove ada@laptop", "remove a peer; running daemons notice"),
            #[cfg(not(feature = "serve"))]
            ("sealane peers --forget host:7522", "forget the key of a daemon that has a new one"),
        ],
    ),
    (
        "sealane-md5",
        &[
            ("sealane md5 *.iso > MD5SUMS", "digest files as md5sum does"),
            ("sealane md5 --check MD5SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha1",
        &[
            ("sealane sha1 *.iso > SHA1SUMS", "digest files as sha1sum does"),
            ("sealane sha1 --check SHA1SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha224",
        &[
            ("sealane sha224 *.iso > SHA224SUMS", "digest files as sha224sum does"),
            ("sealane sha224 --check SHA224SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha256",
        &[
            ("sealane sha256 *.iso > SHA256SUMS", "digest files as sha256sum does"),
            ("sealane sha256 --check SHA256SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha384",
        &[
            ("sealane sha384 *.iso > SHA384SUMS", "digest files as sha384sum does"),
            ("sealane sha384 --check SHA384SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha512",
        &[
            ("sealane sha512 *.iso > SHA512SUMS", "digest files as sha512sum does"),
            ("sealane sha512 --check SHA512SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha3-224",
        &[
            ("sealane sha3-224 *.iso > SHA3SUMS", "digest files"),
            ("sealane sha3-224 --check SHA3SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha3-256",
        &[
            ("sealane sha3-256 *.iso > SHA3SUMS", "digest files"),
            ("sealane sha3-256 --check SHA3SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha3-384",
        &[
            ("sealane sha3-384 *.iso > SHA3SUMS", "digest files"),
            ("sealane sha3-384 --check SHA3SUMS", "check them"),
        ],
    ),
    (
        "sealane-sha3-512",
        &[
            ("sealane sha3-512 *.iso > SHA3SUMS", "digest files"),
            ("sealane sha3-512 --check SHA3SUMS", "check them"),
        ],
    ),
    (
        "sealane-kt128",
        &[("sealane kt128 *.iso > KTSUMS", "digest files"), ("sealane kt128 --check KTSUMS", "check them")],
    ),
    (
        "sealane-kt256",
        &[("sealane kt256 *.iso > KTSUMS", "digest files"), ("sealane kt256 --check KTSUMS", "check them")],
    ),
    (
        "sealane-blake3",
        &[
            ("sealane blake3 *.iso > B3SUMS", "digest files as b3sum does"),
            ("sealane blake3 --check B3SUMS", "check them"),
        ],
    ),
    (
        "sealane-completions",
        &[(
            "sealane completions bash > ~/.local/share/bash-completion/completions/sealane",
            "complete in bash",
        )],
    ),
    (
        "sealane-man",
        &[("sealane man ~/.local/share/man/man1", "write the manual pages where man finds them")],
    ),
    ("sealane-lab", &[("sealane lab quick", "report what each level costs here, in under two minutes")]),
    (
        "sealane-speed",
        &[
            ("sealane speed", "show what to use on this machine"),
            ("sealane speed aes-128-gcm md5 --vs openssl", "measure two algorithms beside OpenSSL"),
        ],
    ),
];
