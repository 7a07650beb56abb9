//! Examples of each command, for its help and its manual page.

/// An example: the command, and what it does.
pub(crate) type Example = (&'static str, &'static str);

/// Examples by the words of the command, joined by `-`. Every command has some.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "sealane",
        &[
            ("sealane cp -r data user@host:/srv/", "copy a tree over ssh"),
            ("sealane lab quick", "measure what protection costs here"),
        ],
    ),
    (
        "sealane-cp",
        &[
            ("sealane cp -r data user@host:/srv/", "push a tree over ssh; it becomes /srv/data"),
            ("sealane cp -r host:/srv/data .", "pull it; the same command goes on after an interruption"),
            ("sealane cp -rn data host:/srv/", "say what would be copied, and change nothing"),
            (
                "sealane cp -aT --delete data host:/srv/data",
                "make /srv/data a mirror: delete there what data does not have; -n lists first",
            ),
            ("sealane cp 'host:/var/log/*.log' logs/", "files by a pattern, which the far end expands"),
            (
                "git ls-files -z | sealane cp -0 --files-from - . host:/srv/work",
                "exactly the files of a list, with the folders they are in",
            ),
            ("sealane cp -r one:/srv/data two:/srv/", "from one far host to another, through this one"),
            (
                "sealane cp --install-far-end -r data host:/srv/",
                "copy sealane itself to ~/.local/bin there first, if host has none",
            ),
            (
                "sealane cp --level safe --digest big.img host:",
                "authenticate only; print a digest both ends checked",
            ),
            ("tar c data | sealane cp - host:data.tar", "copy from a pipe"),
            (
                "sealane cp --through-ssh big.img host:",
                "send the data inside ssh, where other ports are blocked",
            ),
            ("sealane cp data.bin sealane://host:7522/incoming/", "copy to a daemon"),
        ],
    ),
    (
        "sealane-serve",
        &[
            (
                "sealane serve /srv/data --listen 0.0.0.0:7522",
                "serve a folder to the peers in authorised-peers",
            ),
            ("sealane serve /srv/data --listen '[::]:7522' --read-only", "let peers read only"),
        ],
    ),
    (
        "sealane-tunnel",
        &[
            ("sealane tunnel check site.toml", "check the site file and its key files"),
            ("sealane tunnel up site.toml", "bring the gateway up"),
        ],
    ),
    (
        "sealane-tunnel-up",
        &[
            ("sealane tunnel up site.toml", "run until Ctrl-C or `sealane tunnel down`"),
            (
                "sealane tunnel up lab.toml --allow-manual-counter",
                "AES-GCM under keys from files, for a laboratory",
            ),
        ],
    ),
    ("sealane-tunnel-down", &[("sealane tunnel down sl0", "end the gateway with this device")]),
    (
        "sealane-tunnel-status",
        &[
            ("sealane tunnel status", "the only gateway that runs"),
            ("sealane tunnel status sl0 --json", "for programs"),
        ],
    ),
    ("sealane-tunnel-stats", &[("sealane tunnel stats sl0", "for a collector's text file")]),
    (
        "sealane-tunnel-check",
        &[("sealane tunnel check site.toml", "say whether it is good, or which line is not")],
    ),
    (
        "sealane-id",
        &[("sealane id", "print your public key, which a daemon's operator gives to `sealane authorise`")],
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
            ("sealane peers", "who may come in, and which daemons are known"),
            ("sealane peers --remove ada@laptop", "let it in no more; a daemon that runs notices"),
        ],
    ),
    ("sealane-lab", &[("sealane lab quick", "a report of what each level costs here, in under two minutes")]),
    (
        "sealane-lab-quick",
        &[
            ("sealane lab quick", "everything, with sealane-report.html as the result"),
            (
                "sealane lab quick --tree ~/src --size 2G --no-peers",
                "your own tree, a larger file, no other programs",
            ),
        ],
    ),
    ("sealane-lab-tunnel", &[("sealane lab tunnel", "as root: what IPsec costs, through our gateways")]),
    (
        "sealane-lab-capture",
        &[(
            "sealane lab capture --stack 3des/tcp/md5/ip/fddi stack.pcap",
            "triple DES above TCP, MD5 below it, as Wireshark sees them with docs/digest.lua",
        )],
    ),
    ("sealane-lab-list", &[("sealane lab list", "every study with its id")]),
    ("sealane-lab-run", &[("sealane lab run N26 B21", "two of them, one after the other")]),
    (
        "sealane-lab-link",
        &[
            ("sealane lab link --rtt 20ms --rate 1M -- sh", "a shell behind a slow, distant link"),
            (
                "sealane lab link --rtt 100ms --loss 0.1% -- sealane cp --streams 8 FILE COPY",
                "a copy over 100 ms, with one packet of a thousand lost",
            ),
        ],
    ),
    (
        "sealane-lab-stacks",
        &[
            ("sealane lab stacks --report stacks.html", "the whole study, with plots"),
            ("sealane lab stacks --only N26,N27 --json", "packet-level parallelism alone, an object a line"),
            (
                "sealane lab stacks --profile paper --only N26",
                "by the paper's rule: ten runs of 30 s after 30 s",
            ),
        ],
    ),
    (
        "sealane-lab-predict",
        &[
            ("sealane lab predict --stack tcp/md5/ip/fddi --lanes 64", "beside the paper's own curve"),
            ("sealane lab predict --stack aes-128-gcm/tcp/ip/fddi --lanes 16", "what one would build today"),
        ],
    ),
    (
        "sealane-lab-network-processor",
        &[
            ("sealane lab network-processor --report study.html", "the whole study, with plots"),
            (
                "sealane lab network-processor --machine IXP2800 -a aes,des --level 2 --engines 8 --threads 8",
                "two ciphers on a whole chip",
            ),
            (
                "sealane lab network-processor --machine IXP2800 --print-machine > mine.toml",
                "a machine to start from",
            ),
            ("sealane lab network-processor --compilers", "the kernels in C, by compiler and option"),
        ],
    ),
    (
        "sealane-lab-transfer",
        &[
            ("sealane lab transfer", "streams and lanes at each level"),
            ("sealane lab transfer --ends send --profile full", "the sender alone, ten runs of every cell"),
        ],
    ),
    (
        "sealane-speed",
        &[
            ("sealane speed", "well-known algorithms on one lane"),
            ("sealane speed aes-128-gcm md5 --vs openssl --bytes 64,1408", "two of them beside OpenSSL"),
            ("sealane speed -a all --tier all --json", "the whole catalogue, one JSON object a line"),
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
];

/// Examples of the command whose words, joined by `-`, are `name`.
pub(crate) fn of(name: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(found, _)| *found == name).map_or(&[], |(_, examples)| examples)
}

/// As a section of the help text: each command, and below it what it does.
pub(crate) fn section(name: &str) -> String {
    let lines = of(name).iter().map(|(command, what)| format!("  {command}\n      {what}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
