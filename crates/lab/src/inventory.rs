//! The inventory of the five papers: every numbered row, what the paper says there, and the reason if the lab has no
//! study of the row.
//!
//! Guarantees: each id occurs once, in the papers' order; a row without a study gives the reason; the text states what
//! the paper says and never what was found here.

/// A row of a paper: a table, a figure, a claim, or a part of its text.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The id, such as N26.
    pub id: &'static str,
    /// The place in the paper.
    pub place: &'static str,
    /// The paper's content at that place: what is drawn, with the printed numbers.
    pub says: &'static str,
    /// The meaning for a reader who has not read the paper; may be empty.
    pub means: &'static str,
    /// The reason for the absence of a study, which counts only if the lab has none.
    pub absent: &'static str,
}

const TEXT: &str = "Text without a figure: there is nothing to measure.";
const PRODUCT: &str = "A part that the product has, and no measurement.";
const METHOD: &str = "A rule of method, which every study follows.";

/// Returns the row of an id.
pub fn row(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

/// Makes rows: of each row its id; then the place, what the paper says there and what that means, if a study repeats it; or
/// what the paper says, and why the row has no study of its own.
macro_rules! rows {
    ($($id:literal $(at $place:literal $says:literal, $means:literal)? $($told:literal has no study: $absent:expr)?;)*) => {
        &[$(Row {
            id: $id,
            $(place: $place, says: $says, means: $means, absent: "The lab has no study of this row.",)?
            $(place: "", says: $told, means: "", absent: $absent,)?
        }),*]
    };
}

/// Every row.
pub const ROWS: &[Row] = rows! {
    "N1" "The standards that need cryptography: secure IP, Secure HTTP, SSL." has no study: TEXT;
    "N2" "The algorithms of a secured connection: bulk cipher, digest, key exchange, signature." has no study: TEXT;
    "N3" "Ciphers and digests cost time for every packet, RSA and Diffie-Hellman only at set-up."
        has no study: "Text; N29 measures a signature for each packet, and R17 counts handshakes.";
    "N4" "Five reasons for cryptography in software." has no study: TEXT;
    "N5" "Definitions of authentication, integrity and confidentiality." has no study: TEXT;
    "N6" "The machines of the time: SGI Challenge, Sun SPARCCenter, DEC AlphaServer." has no study: TEXT;
    "N7" "Fig 1: layers as the unit of concurrency." has no study: "A part of the taxonomy; N36 measures it.";
    "N8" "Fig 1: connections as the unit." has no study: "A part of the taxonomy; N31 to N34 measure it.";
    "N9" "Fig 1: packets as the unit." has no study: "A part of the taxonomy; N26 to N29 measure it.";
    "N10" "Functions of a layer as the unit." has no study: "A part of the taxonomy; N36 measures it.";
    "N11" "Pieces of one message as the unit." has no study: "A part of the taxonomy; N36 measures it.";
    "N12" "Processing elements: a processor, a process, or a thread." has no study: TEXT;
    "N13" "What decides between the units." has no study: "Text; N20, N26, N31 and N36 measure the units.";
    "N14" "A parallel x-kernel on a 12-processor SGI Challenge XL with MIPS R4400 of 100 MHz."
        has no study: "The machine cannot be had; the stacks of `sealane lab run stacks` stand for it.";
    "N15" "TCP of Net/2 with fixes, IP, and FDDI." has no study: "A part of the test bed, which every stack has.";
    "N16" "MD5 without a key, between TCP and IP." has no study: "A layer of the stacks of N26 to N33.";
    "N17" at "Section 3"
        "DES in CBC mode above TCP, by tables of two S-boxes each (64 KB); 3-DES is DES three times.",
        "A cipher by tables trades memory for look-ups: larger tables need fewer, as long as they stay in a near \
         cache.";
    "N18" "Each buffer is filled with a new random sequence." has no study: METHOD;
    "N19" "The data path only: connections and keys exist already." has no study: METHOD;
    "N20" at "Section 3"
        "Packets go to threads as they arrive; locks surround TCP's state and each protocol's map of sessions.",
        "Packets of one connection can be worked on by many cores only if they agree on the connection's state. This \
         study varies how they agree: one lock or several, order kept or not, and one map for all or a filter in \
         front.";
    "N21" "A thread for each connection, behind a packet filter."
        has no study: "N31 to N34 give connections to lanes by their number, without a thread for each and without a \
                       filter.";
    "N22" "Drivers in memory in place of a network, packets of about 4 KB."
        has no study: "The test bed of every stack.";
    "N23" "Receivers take packets that were made before, and ignore the results."
        has no study: "The test bed of N27, N32.";
    "N24" "Fig 2: the throughput test over the stack over a simulated receiver."
        has no study: "The test bed of every stack.";
    "N25" "Ten runs of 30 s after 30 s of warm-up, 90 % intervals." has no study: "The rule of `--profile paper`.";
    "N26" at "Figs 3 and 4"
        "Sending, packets of one connection on 1 to 12 processors, four stacks. Fig 3 draws Mb/s: on one processor \
         138 (TCP/IP), 18 (with MD5), 4.6 (with DES and MD5) and 1.5 (3-DES). Fig 4 draws the speedup with an ideal \
         line: TCP/IP gains next to nothing, MD5 8 times at 12 processors, DES and 3-DES nearly 12 times.",
        "One connection's packets are shared out over all cores. The connection's own state is behind a lock, so \
         without encryption more cores hardly help. A cipher works outside that lock: the dearer it is, the nearer \
         the gain comes to the number of cores.";
    "N27" at "Figs 5 and 6"
        "Receiving, otherwise as Figs 3 and 4: as the cryptography grows, throughput falls and the speedup rises; \
         3-DES is essentially linear. The points of the plots are lost.",
        "The same question for the receiving end: it must put packets back into order before TCP sees them, and \
         decrypts outside the lock.";
    "N28" at "Table 1"
        "Microseconds of a packet by layers, sending and receiving: TCP/IP 236 and 189; with MD5 1737 and 1708; with \
         DES and MD5 8982 and 9179; 3-DES 21461 and 21121.",
        "Each layer's share of a packet's time on one core. If the shares simply add up, the cost of a new \
         combination can be predicted from its parts.";
    "N29" at "Section 4.1"
        "The locked part of TCP carries about 200 Mb/s; the bottleneck would come at about 16 processors with MD5 \
         and 30 with DES.",
        "A connection's lock is a ceiling that no number of cores can pass. Its height follows from the time under \
         the lock, and the number of useful cores from the time outside it.";
    "N30" at "Section 4.1, not drawn"
        "UDP's speedup without cryptography is much better than TCP's; with cryptography the difference essentially \
         disappears.",
        "UDP has no shared state to lock. The difference to TCP shows what the lock costs, and how a cipher hides \
         it.";
    "N31" at "Figs 7 and 8"
        "Sending over 12 connections, each owned by one of 1 to 12 processors: the sum in Mb/s (axis to 1800) and \
         the speedup, which is good without and essentially linear with any cryptography. DES at 12 processors \
         carries about 50 Mb/s, with packets as with connections as the unit.",
        "If every core has connections of its own, nothing is shared and all stacks gain. This needs many \
         connections: one connection alone would use one core.";
    "N32" at "Figs 9 and 10"
        "Receiving over 12 connections: the baseline is better than in sending, with the same trends.",
        "The receiving side of the same arrangement, where each arriving packet first has to be led to its \
         connection's core.";
    "N33" at "Table 2"
        "Microseconds of a packet with 12 connections, sending and receiving: TCP/IP 226 and 214; with MD5 1772 and \
         1769; with DES and MD5 8694 and 8985; with 3-DES and MD5 23150 and 23237.",
        "The same shares as in N28 when each core serves several connections: a check that the arrangement itself \
         costs nothing.";
    "N34" at "Fig 11"
        "12 to 384 connections on 12 processors, a thread for each connection beside a thread for each processor. \
         Without cryptography the former carries more, the latter is fairer; with cryptography the difference \
         disappears. The plot is lost.",
        "A thread for each connection is easy to write, but the system then decides who is served. This compares \
         throughput and fairness of both ways as connections grow far beyond cores.";
    "N35" "The ratio of computing to memory decides the speedup; with cryptography both units are alike."
        has no study: "An explanation; the claims of N26, N31 and N34 test it.";
    "N36" at "Section 5"
        "Finer grain: ECB is parallel but open to substitution, CBC is serial to encrypt and parallel to decrypt, \
         MD5 is not parallel. Modes are wanted that let sender and receiver use different granularity.",
        "Beside packets and connections, work can be cut into layers, into functions of one layer, or into blocks of \
         one message. Each helps only where the algorithm permits it.";
    "G1" "Levels: clear, authentication, integrity (safe), private." has no study: PRODUCT;
    "G2" "A security context with a key for each TCP connection." has no study: PRODUCT;
    "G3" "A chain of blocks cannot be divided within a stream." has no study: "Text; N36 measures it.";
    "G4" "Security makes the CPU the bottleneck, so people do without."
        has no study: "Text; G10 to G13 measure the cost.";
    "G5" at "Text"
        "Checksums after the transfer count as transfer time, read everything again, and cannot be divided over \
         streams.",
        "Whether to check a copy while it moves or afterwards.";
    "G6" "Parallel streams, each with a chain of its own." has no study: "The means of G10 to G16.";
    "G7" "More cores bring no more memory, bus or network." has no study: TEXT;
    "G8" at "Text"
        "Memory depends on delay and rate, not on the number of streams.",
        "Whether more streams need more memory.";
    "G9" "A stream for each processor gains nearly linearly."
        has no study: "A statement that G10 to G13 and G16 test.";
    "G10" at "Method"
        "Single (one thread) and Pool (several), with one stream (P1) and two (P2), at four levels.",
        "Encrypting a transfer is slow on one core and does not divide within a stream. With two streams on two \
         threads each core has a stream of its own, and the cost halves.";
    "G11" at "Pentium dual core 1.1 GHz"
        "Mb/s, Single P1, Single P2, Pool P1, Pool P2: clear 814 818 816 818; authenticated 812 814 813 816; safe \
         169 178 164 285; private 76 78 75 138.",
        "The paper's slowest machine: encryption leaves a tenth of the clear rate, and the second core nearly \
         doubles it.";
    "G12" at "Itanium dual core 1.2 GHz"
        "Mb/s, in the same order: clear 903 905 903 906; authenticated 899 each; safe 488 517 488 770; private 177 \
         183 177 340.",
        "The same on a machine whose arithmetic is faster: encryption leaves a fifth, and the second core doubles \
         it.";
    "G13" at "Opteron dual core 2.4 GHz"
        "Mb/s, in the same order: clear and authenticated 897 each; safe 254 268 254 471; private 100 101 100 196.",
        "The same on a third machine: two streams on two threads carry 1.96 times what one carries.";
    "G14" "A Xeon with hyper-threading, two plots."
        has no study: "The plots are lost. Where cores have two threads, G16's run compares them with two cores.";
    "G15" "An “Opteron dual core 1GHz with hyper threading” (as printed), two plots."
        has no study: "The plots are lost, and no Opteron had hyper-threading. Where cores have two threads, G16's \
                       run compares them with two cores.";
    "G16" at "Four slides, plots lost"
        "More streams than threads and processors bring little; more threads than processors bring nothing and seem \
         to hurt.",
        "How many streams and threads are enough: as many as there are cores.";
    "G17" at "Stripes"
        "Four stripes of two cores each over Gigabit cards.",
        "Whether several processes, each with its own share of a tree, carry more than one process with as many \
         cores.";
    "G18" at "Claim"
        "Six cores may suffice for a fully encrypted transfer at the rate of a clear one over Gigabit Ethernet.",
        "How many cores are needed until encryption no longer slows a copy through a link of 1 Gb/s.";
    "G19" at "Stripes"
        "Two stripes of one thread beat one stripe of two threads; two network cards are suspected.",
        "Whether a second process or a second link makes two stripes faster than one.";
    "G20" at "Two slides, plots lost"
        "Plots of stripes: S1,C2 and S2,C2.",
        "The same runs, drawn: one process with two threads beside two processes.";
    "R1" "The protocols compared: IPsec, SSL, SSH, and clear ones." has no study: "The rows of R13 to R17.";
    "R2" "Deployment between hosts, routers, and edges." has no study: "The topologies of R10.";
    "R3" "Wire protocols, key exchange, and policy." has no study: PRODUCT;
    "R4" "A security association: keys, algorithms and their order." has no study: PRODUCT;
    "R5" "The path of packets in OpenBSD." has no study: PRODUCT;
    "R6" "Aims of the framework: asynchronous, balanced, without dependence on hardware." has no study: PRODUCT;
    "R7" "Drivers, consumers, and software of last resort." has no study: PRODUCT;
    "R8" "Network cards with IPsec: no measurements, for lack of documentation." has no study: TEXT;
    "R9" at "Fig 1"
        "Mb/s of a cryptographic card over packets of 64 to 32768 bytes, axis to 250.",
        "A card costs a fixed time for each request. Whether it is faster than software, and from which length of \
         packets on.";
    "R10" at "Figs 2 to 4"
        "Host to host over 1 Gb/s; through two gateways; three hosts with 100 Mb/s each to a gateway and a fourth \
         host.",
        "Where a tunnel begins and ends decides which machine pays. Three hosts on links of 100 Mb/s can bring 300 \
         Mb/s to one gateway and no more.";
    "R11" at "Section 3.1"
        "Five variables: utility, algorithm, topology, hardware or not, and the effect on the rest of the system.",
        "One table over the variables that a user can choose: what is run, with which algorithm, between which \
         machines, and with how much help.";
    "R12" at "x axis of Figs 5 to 8"
        "No encryption, AES-128, AES-192, AES-256, DES, 3DES, DES and 3DES by a card.",
        "The choice of algorithm is the choice of speed: which one costs how much, and whether a card changes that.";
    "R13" at "Figs 5 to 8"
        "ttcp over TCP with buffers of 65535 bytes and writes of 64 to 8192 bytes, by algorithm. Fig 5 (axis to 300 \
         Mb/s) is between hosts, Fig 6 (to 450) through gateways, Fig 8 from three hosts. Throughput at 512 bytes is \
         an anomaly.",
        "How much of a network's throughput is left when every packet is encrypted, for small and for large writes.";
    "R14" at "Section 3"
        "IPsec in software leaves 40 % (small writes) to 30 % (8 KB) of the clear throughput; hardware improves \
         software by more than 100 %.",
        "The headline of the study, beside the tests that are usual now: TCP, UDP and round trips.";
    "R15" at "Figs 9 and 10"
        "200 MB by ftp, scp, sftp, and ftp over IPsec, on disk (plot lost) and in memory, between hosts and through \
         gateways; five runs.",
        "How long a large file takes with each tool, and which part of the time is protection.";
    "R16" at "Figs 11 and 12"
        "200 MB by curl: http, https, and http over IPsec, axis to 120 s. IPsec beats HTTPS.",
        "The same file by the web's protocols: protection by TLS in the server and the client, or by a tunnel under \
         them.";
    "R17" at "Fig 13"
        "1,000 tiny files by curl, one after another: IPsec adds 10 % to HTTP, negotiated keys cost as much as \
         manual ones, and HTTPS pays a handshake for each file.",
        "A tunnel is set up once, TLS for each connection. Where transfers are tiny, the handshakes are the cost.";
    "R18" at "Fig 14"
        "Run time of a prime sieve in 10⁹ cycles (axis to 140 and more) under constant background traffic: idle, \
         HTTP, HTTPS, HTTP over IPsec, FTP, SCP, SFTP, each with and without a card.",
        "What protected traffic takes from a program that has nothing to do with it.";
    "R19" at "Text on Fig 14"
        "The scheduler lowers the priority of CPU hogs: the sieve finishes sooner beside scp than beside IPsec.",
        "Whether protection in a program of its own is fairer to other programs than protection in the system. The \
         paper's system was BSD, whose scheduler is not Linux's.";
    "R20" at "Fig 15, plot lost"
        "A mirror of 728 files with 21,882,048 bytes by wget, for each protocol.",
        "A real web site instead of one large or many tiny files.";
    "R21" at "Fig 16"
        "A kernel build over NFS: local, NFS, NFS over 3DES in software and by a card, over AES-256, axis to 500 s.",
        "A whole working day's load: computing, many small files, and a network file system under protection.";
    "R22" at "Section 4"
        "Current accelerators are not enough for encryption everywhere; faster networks would raise only the clear \
         rates.",
        "What remains of a fast network's throughput with today's algorithms.";
    "B1" "On network processors the bottleneck is memory latency." has no study: "A thesis; B18 to B20 test it.";
    "B2" "Contributions, with a gain of 145 % on one thread." has no study: "Text; B22 and B24 measure the gains.";
    "B3" "Three versions of the benchmark under an academic licence." has no study: "The code cannot be had.";
    "B4" "Related suites."
        has no study: "Text; B17 counts own kernels of packet processing: CRC, route look-up, DRR, URL matching, \
                       LZW.";
    "B5" "Fig 1: the target, a control core and many small engines."
        has no study: "The machine that the simulator is.";
    "B6" at "Table I"
        "Ten algorithms cover OpenPGP 5/8, S/MIME 3/3, SSH 6/7, SSL/TLS 6/7, IPsec 3/3, WEP 2/2, WPA2 2/2, WTLS 5/5.",
        "Whether the ten chosen algorithms are those that protocols use.";
    "B7" "The ten algorithms." has no study: "The rows of every table of the study.";
    "B8" at "Table II"
        "Block and key sizes, rounds and bytes of tables: AES 4096, DES 512, Blowfish 4096, RC4 256, IDEA and the \
         hashes 0.",
        "How much memory an algorithm needs close by. What fits a nearby memory is fast.";
    "B9" "Kernels only, in C, without set-up." has no study: METHOD;
    "B10" "Levels of optimisation 0 to 3." has no study: "A definition; B22 and B24 measure the levels.";
    "B11" "Intel's compilers and simulator."
        has no study: "Intel's tools cannot be had; our simulator takes their place.";
    "B12" "Table III: engines, clocks, and cycles of each memory of three processors."
        has no study: "Parameters: `sealane lab run network-processor --machine IXP2800 --print-machine` shows ours.";
    "B13" at "Table IV"
        "Bytes of keys and tables in near and far memory: AES 176/5120, DES 2176/0, Blowfish 72/4096, RC4 0/1024 on \
         the IXP1200.",
        "Which algorithms must keep a part of their state in slow memory.";
    "B14" "Lines of code: under 250 for most ciphers."
        has no study: "Microengine C cannot be had; B21 has bytes of code.";
    "B15" at "Fig 2"
        "The static instruction mix on three platforms. The bars are lost.",
        "Which kinds of instructions the code consists of, as it is written.";
    "B16" at "Table V"
        "The dynamic mix: simple ALU 78.9 %, complex 5.9, branches 2.0, immediates 3.3, loads 7.0, stores 0.5, \
         others 2.4, beside CommBench, NPBench and NetBench.",
        "Which kinds of instructions actually run. Ciphers compute much and branch little, unlike other network \
         programs.";
    "B17" at "Section IV-C"
        "Simple ALU 71.5 to 78.9 %, complex 1.2 to 5.9 %, branches 10.1 to 2.0 %; memory from 0.2 % (MD5) to 24.5 % \
         (AES).",
        "The same mix of our own kernels on a general processor.";
    "B18" at "Fig 3"
        "Throughput of one thread of one engine at level 0: MD5 at least 45 times the slowest, hashes twice the \
         ciphers, stream above block ciphers. The bars are lost.",
        "How fast each algorithm is on a processor without caches, before anybody optimises it.";
    "B19" at "Fig 4"
        "Engines execute at most 60 % of the time and idle for more than 42 %; six algorithms idle more on the newer \
         processors.",
        "Whether engines wait for memory most of the time, and whether a faster clock makes them wait more.";
    "B20" at "Fig 5"
        "Cycles by kind of instruction: memory takes more than 50 % of the time on average.",
        "Where the time goes: how much of it into waiting for memory.";
    "B21" at "Figs 6 and 7"
        "Three compilers by three options: O0 about 17 % slower than O2 and 65 % longer than O1; versions are alike.",
        "How much a compiler's options matter, for the size of the code and for its speed.";
    "B22" at "Section VI-B, levels 1 and 2"
        "Split tables, unrolled loops, precalculated constants, several memory references at once: 145 % on one \
         thread.",
        "What hand optimisation gains step by step, here on a general processor.";
    "B23" "Level 2: memory instructions reordered, several references under way."
        has no study: "A method; B22 measures it on this processor, and B18 to B25 in simulation.";
    "B24" at "Fig 8"
        "1 to 8 engines by 1 to 8 threads, flows and blocks: the second engine nearly doubles, nothing grows from 4 \
         to 8 threads, and at 8 engines only DES, IDEA and SHA-1 are near linear.",
        "How far more engines help, until they all wait for the same memory.";
    "B25" at "Fig 9"
        "Larger bursts gain 72.1 %, a faster memory 14.5 %, on 8 engines of 8 threads.",
        "Whether fetching more at once helps more than a faster memory.";
    "B26" at "Section VII"
        "Advice to designers: more than 4 KB of memory in each engine, larger queues for memory and commands, memory \
         with a lower latency.",
        "Which change of the hardware would help ciphers most.";
    "A1" "Authentication at 640 Mb/s in hardware, 140 Mb/s in software." has no study: TEXT;
    "A2" at "Stand-alone test"
        "MD5 as in the RFC and optimised, with caches off, with external, and with internal cache.",
        "A digest reads every byte once, so where the bytes lie decides its speed if its arithmetic is fast enough.";
    "A3" at "Yardstick"
        "UDP carries 100 and 120 Mb/s between programs on two SPARCs; MD5 is a third to a half of what is needed.",
        "Whether a digest keeps up with the network: if it is slower than UDP, authentication is the limit.";
    "A4" "The switches of the MD5 driver." has no study: "`sealane md5 -t` has them.";
    "A5" "The form of the driver's report." has no study: "`sealane md5 -t` prints it.";
    "A6" "`-c 60 -l 100000`: 47.1 Mb/s, after rearrangement of instructions 100.3 Mb/s, digest 36023ea6…."
        has no study: "`sealane md5 -t -c 60 -l 100000` prints the same digest; a compiler rearranges the \
                       instructions now.";
    "A7" "Optimisations of MD5." has no study: "Our kernels have them; A2 measures the result.";
    "A8" "Changes of the driver." has no study: "`sealane md5 -t` has them.";
    "A9" at "Alternate hash"
        "AHA, over twice as fast as MD5, would take its place.",
        "Whether a simpler digest is much faster. The paper's definition is lost, so ours is a reconstruction.";
    "A10" at "Kernel measurements"
        "TCP with the authentication header in parts: none, null, touching, Internet checksum, MD5 in three forms, \
         AHA, and Rogaway's. The plot is lost.",
        "The cost of authentication has three parts: laying the header, touching the data, and arithmetic.";
    "A11" "SPARCstation 20/71 with Myrinet, about 90 Mb/s of TCP." has no study: "The machine cannot be had.";
    "A12" at "Integrated layer processing"
        "Digest and checksum both touch every byte: do both in one loop instead of two.",
        "One pass over the data instead of several saves memory accesses. It helps if the data is not in a cache.";
    "quick" at ""
        "Not in the papers: one file and one tree at four levels, beside the installed tools.",
        "The first question of most users: how long a copy takes with protection, without it, and with other \
         programs.";
    "kernels" at ""
        "Not in the papers: the algorithms of today on this machine.",
        "Which algorithm to use here.";
    "public-key" at ""
        "Not in the papers: public-key operations by tier, which NPCryptBench names as its future work (B26).",
        "What eight operations side by side gain over one after the other.";
    "providers" at ""
        "Not in the papers: the same copy with own kernels and with AWS-LC.",
        "Whether the product's own kernels are as fast as a well-known library's.";
    "tools" at ""
        "Not in the papers: one large file beside scp, sftp, rsync, HTTPS and others.",
        "How long other programs take for the same copy.";
    "streams" at ""
        "Not in the papers: the default number of streams beside fixed ones, by delay and loss.",
        "Whether the product's own choice of streams is as good as the best fixed number.";
    "sftp" at ""
        "Not in the papers: a far end that has only sshd, beside scp and rsync.",
        "The cost of copying to a host that does not have this program.";
    "repeat" at ""
        "Not in the papers: the copy of a tree made again, unchanged or with 100 files changed, beside rsync.",
        "What comparing costs where there is little to copy.";
    "delta" at ""
        "Not in the papers: a large file of which a hundredth changed, through a slow link, beside rsync.",
        "Whether the line or the processors decide how long it takes.";
    "compress" at ""
        "Not in the papers: compression through a slow link, beside rsync.",
        "What compression gains on a log, and what it costs where there is nothing to gain.";
    "trains" at ""
        "Not in the papers: links that split GSO packets, and rates without loss.",
        "What a tunnel carries where the network takes one packet at a time, and how many small packets it carries \
         at all.";
    "O1" at "Text"
        "A null algorithm through the framework shows the framework's own cost.",
        "The cost of asking the engine for work, beside the work itself.";
    "O2" at "Table 1"
        "One card of four units: throughput by threads and lengths of operations.",
        "How many requests a card needs at the same time until it is busy.";
    "O3" at "Table 2"
        "Several cards: throughput by threads and lengths of operations.",
        "Whether a second card doubles the rate, and from how many threads on.";
    "links" at ""
        "Not in the papers: links with delay and loss.",
        "A long or lossy link slows a single stream; several streams recover.";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::{self, paper_of};

    /// The five papers' numbers: N1–N36, G1–G20, R1–R22, B1–B26, A1–A12.
    const COUNTS: [(char, usize); 5] = [('N', 36), ('G', 20), ('R', 22), ('B', 26), ('A', 12)];

    /// The papers' numbered sections that rows may name; of the others no text is left.
    const SECTIONS: [(char, &[&str]); 3] = [
        ('N', &["1", "2", "3", "3.1", "3.2", "3.3", "4", "4.1", "4.2", "5"]),
        ('R', &["1", "2", "2.1", "2.2", "2.3", "3", "3.1", "3.2", "3.3", "4"]),
        (
            'B',
            &[
                "I", "II", "III", "IV", "IV-A", "IV-B", "IV-C", "V-A", "V-B", "V-C", "VI-A", "VI-B", "VI-C",
                "VI-D", "VII",
            ],
        ),
    ];

    #[test]
    fn rows_name_sections_that_the_papers_have() {
        let mut named = 0;
        for row in ROWS {
            let Some((_, place)) = row.place.split_once("Section ") else { continue };
            let section = place.split([',', ' ']).next().unwrap();
            let of_paper = SECTIONS.iter().find(|(paper, _)| row.id.starts_with(*paper));
            assert!(of_paper.is_some_and(|(_, all)| all.contains(&section)), "{}: {}", row.id, row.place);
            named += 1;
        }
        assert!(named > 8, "{named}");
    }

    #[test]
    fn every_id_of_the_papers_is_a_study_or_has_a_reason() {
        let numbered = |(paper, count)| (1..=count).map(move |at| format!("{paper}{at}"));
        let ids: Vec<String> = COUNTS.into_iter().flat_map(numbered).collect();
        for id in &ids {
            assert_eq!(ROWS.iter().filter(|row| row.id == id).count(), 1, "{id}");
            let row = row(id).unwrap();
            assert!(!row.says.is_empty() && !row.absent.is_empty(), "{id}");
            match studies::find(id) {
                Some(study) => {
                    assert_eq!(study.paper, paper_of(id), "{id}");
                    assert!(!row.means.is_empty(), "{id}: a study has a sentence for readers");
                }
                None => assert!(studies::absent().any(|absent| absent.id == id), "{id}"),
            }
        }
        for row in ROWS.iter().filter(|row| !ids.iter().any(|id| id == row.id)) {
            assert!(studies::find(row.id).is_some_and(|study| study.paper == paper_of(row.id)), "{}", row.id);
        }
    }
}
