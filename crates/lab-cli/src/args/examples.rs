//! Examples of each command of the laboratory, for its help and its manual page. They are written as users type them: `sealane`
//! starts this program.

use sealane_terminal::help::Example;

/// Examples by the words of the command, joined by `-`. Every command has some.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    ("sealane-lab", &[("sealane lab quick", "report what each level costs here, in under two minutes")]),
    (
        "sealane-lab-quick",
        &[
            ("sealane lab quick", "measure everything, and write sealane-report.html"),
            (
                "sealane lab quick --tree ~/src --size 2G --no-peers",
                "use your own tree and a larger file, without other programs",
            ),
        ],
    ),
    (
        "sealane-lab-run-tunnel",
        &[
            (
                "sealane lab run tunnel",
                "as root: measure what IPsec costs, through our gateways and other tunnels",
            ),
            ("sealane lab run tunnel --only ah", "the parts of AH: header, touching the data, arithmetic"),
            (
                "sealane lab run tunnel --topology host-host --only tcp1,rtt-loaded --between sealane,wireguard-go --json",
                "two tests of two tunnels, one JSON object a run",
            ),
            (
                "sealane lab run tunnel --topology host-host --only tcp1,no-loss64 --between sealane,sealane-direct,null-gso,wireguard-go",
                "beside a tunnel that only moves packets, which shows what a tunnel costs without cryptography",
            ),
        ],
    ),
    (
        "sealane-lab-run-macro",
        &[
            ("sealane lab run macro --report macro.html", "as root: what IPsec costs users, with plots"),
            (
                "sealane lab run macro --only build --tree ~/busybox --build make",
                "build your own tree over a network file system",
            ),
        ],
    ),
    (
        "sealane-lab-run-cards",
        &[("sealane lab run cards", "a simulated card beside this machine's software")],
    ),
    (
        "sealane-lab-capture",
        &[(
            "sealane lab capture --stack 3des/tcp/md5/ip/fddi stack.pcap",
            "triple DES above TCP and MD5 below it, for Wireshark with docs/digest.lua",
        )],
    ),
    ("sealane-lab-list", &[("sealane lab list", "list every study with its id")]),
    (
        "sealane-lab-run",
        &[
            ("sealane lab run N26 B21", "run two studies, one after the other"),
            ("sealane lab run all", "run all studies, and keep their results in `sealane-results`"),
            ("sealane lab run stacks --lanes 1,2,4", "run one family of studies, with options of its own"),
        ],
    ),
    ("sealane-lab-site", &[("sealane lab site ~/site", "make pages of the results in `sealane-results`")]),
    (
        "sealane-lab-fleet",
        &[("sealane lab fleet run N26 --hosts 'n[1-4]'", "share a study between four hosts, over ssh")],
    ),
    (
        "sealane-lab-fleet-run",
        &[
            (
                "sealane lab fleet run N26 N34 --hosts 'n[1-4]' --report out",
                "share two studies between four hosts",
            ),
            (
                "sealane lab fleet run N26 --queue tls://head --json",
                "leave the samples to workers that a scheduler starts, as `sealane lab fleet work`",
            ),
        ],
    ),
    (
        "sealane-lab-link",
        &[
            ("sealane lab link --rtt 20ms --rate 1M -- sh", "run a shell behind a slow link with delay"),
            (
                "sealane lab link --rtt 100ms --loss 0.1% -- sealane cp --streams 8 FILE COPY",
                "copy over 100 ms, with one packet in a thousand lost",
            ),
        ],
    ),
    (
        "sealane-lab-run-stacks",
        &[
            ("sealane lab run stacks --report stacks.html", "the whole study, with plots"),
            ("sealane lab run stacks --only N26,N27 --json", "packet-level parallelism only, as JSON"),
            (
                "sealane lab run stacks --profile paper --only N26",
                "by the paper's rule: ten runs of 30 s after 30 s",
            ),
        ],
    ),
    (
        "sealane-lab-predict",
        &[
            ("sealane lab predict --stack tcp/md5/ip/fddi", "compare with the paper's own curve"),
            ("sealane lab predict --stack aes-128-gcm/tcp/ip/fddi --lanes 16", "predict a stack of today"),
        ],
    ),
    (
        "sealane-lab-run-network-processor",
        &[
            ("sealane lab run network-processor --report study.html", "the whole study, with plots"),
            (
                "sealane lab run network-processor --machine IXP2800 -a aes,des --level 2 --engines 8 --threads 8",
                "two ciphers on a whole chip",
            ),
            (
                "sealane lab run network-processor --machine IXP2800 --print-machine > mine.toml",
                "write a machine file to change",
            ),
            (
                "sealane lab run network-processor --compilers",
                "compare the kernels in C by compiler and option",
            ),
        ],
    ),
    (
        "sealane-lab-run-transfer",
        &[
            ("sealane lab run transfer", "streams and lanes at each level"),
            (
                "sealane lab run transfer --ends send --profile full",
                "the sender only, ten runs of every cell",
            ),
        ],
    ),
    (
        "sealane-lab-speed",
        &[
            ("sealane speed", "what to use on this machine"),
            ("sealane speed aes-128-gcm md5 --vs openssl --bytes 64,1408", "two algorithms beside OpenSSL"),
            ("sealane speed x25519 --vs aws-lc,crypto-mb", "key agreement, 1, 8 and 64 at a time"),
            ("sealane speed -a all --tier all --json", "the whole catalogue, one JSON object a line"),
            ("sealane speed --story --only ladder,caches", "two of the papers' tables"),
            (
                "sealane speed sha256 --bytes 1408 --profile paper",
                "the mean of ten runs of 30 s, with its interval",
            ),
        ],
    ),
    (
        "sealane-lab-fleet-work",
        &[(
            "sealane lab fleet work --queue tls://head:4222 --run 3f0c12ab90 --key sealane1:aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp5kszg",
            "take samples of a run on this host, until there are none to take",
        )],
    ),
    (
        "sealane-lab-completions",
        &[(
            "sealane lab completions bash > ~/.local/share/bash-completion/completions/sealane-lab",
            "complete in bash",
        )],
    ),
    (
        "sealane-lab-man",
        &[("sealane lab man ~/.local/share/man/man1", "write the manual pages where man finds them")],
    ),
];
