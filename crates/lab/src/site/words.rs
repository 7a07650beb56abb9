//! The site's questions and its glossary.

/// A question of a reader, and the studies that answer it. Ids without a study are skipped.
pub(super) struct Question {
    pub(super) question: &'static str,
    pub(super) ids: &'static [&'static str],
}

/// The questions, the most frequent first.
pub(super) const QUESTIONS: [Question; 9] = [
    Question {
        question: "Does encryption slow my copy?",
        ids: &["quick", "R15", "R16", "G10", "G11", "G12", "G13", "G18", "providers"],
    },
    Question {
        question: "How many streams and cores does a copy need?",
        ids: &["G16", "G18", "G10", "links"],
    },
    Question {
        question: "What does a tunnel leave of my network?",
        ids: &["R13", "R14", "R10", "R11", "R12", "R22", "A10", "trains"],
    },
    Question {
        question: "Which algorithm is fast on this machine?",
        ids: &["kernels", "public-key", "R12", "A2", "A9", "B22", "B8", "B13", "providers"],
    },
    Question {
        question: "Do more cores speed up a single connection?",
        ids: &["N26", "N27", "N29", "N20", "N30", "N36", "N28"],
    },
    Question {
        question: "Are many connections served fast, and fairly?",
        ids: &["N31", "N32", "N34", "N33"],
    },
    Question { question: "What do many small transfers cost?", ids: &["R17", "R20", "R21", "quick"] },
    Question {
        question: "What does it take from the rest of the machine, and would hardware help?",
        ids: &["R18", "R9", "R21", "R11", "R14"],
    },
    Question {
        question: "Where does the time of a cipher go?",
        ids: &["B16", "B17", "B15", "B18", "B19", "B20", "B21", "B24", "B25", "A12", "B6"],
    },
];

/// Terms of the pages, in alphabetical order.
pub(super) const GLOSSARY: [(&str, &str); 44] = [
    (
        "3DES, DES",
        "Ciphers of the papers' time, broken or outdated now. They are measured for comparison only.",
    ),
    ("AEAD", "A cipher that also detects changes, such as AES-GCM. Present-day protocols use nothing else."),
    ("AH, ESP", "IPsec's two headers: AH authenticates a packet, ESP encrypts it too (RFC 4302, RFC 4303)."),
    ("association", "The keys and sequence numbers of one flow in one direction."),
    ("authenticated", "A level: the ends know each other, and the content is neither encrypted nor checked."),
    ("batch", "As a tier: code that processes many messages at once, side by side in vector registers."),
    ("best", "As a tier: the code that the program itself would choose."),
    ("block", "As a unit of concurrency: pieces of one message on several lanes."),
    (
        "CBC",
        "A mode of ciphers in which each block depends on the block before it, so that encryption is serial.",
    ),
    ("claim", "A statement of a paper, or a target of ours, as a number with bounds."),
    ("clear", "A level: no protection at all; what everything else is compared with."),
    ("connection", "As a unit of concurrency: a connection is owned by one lane."),
    ("CPU s/GiB", "The processor time of all ends, in seconds, for 2³⁰ bytes of content."),
    (
        "disturbed",
        "Other programs, or the host of a virtual machine, took processor time during the run. The run is repeated, and both are kept.",
    ),
    ("does not hold", "The whole interval of our figure lies outside the claimed bounds."),
    (
        "function",
        "As a unit of concurrency: two functions of a layer, such as cipher and authenticator, on two lanes.",
    ),
    ("generic", "As a tier: code with tables, without special instructions."),
    (
        "guesses",
        "What a paper does not say and a simulation needs. Each guess is varied; a range covers all of them.",
    ),
    ("holds", "The whole interval of our figure lies inside the claimed bounds."),
    ("ideal", "The line on which twice the lanes give twice the rate."),
    (
        "interval, 90 %",
        "In nine of ten repetitions of the study, such an interval contains the true median. It is made by resampling, from five samples on.",
    ),
    ("Jain’s index", "Fairness: 1 if all connections get the same, 1/n if one of n gets everything."),
    ("lane", "A thread of the program on a core of its own."),
    (
        "layer",
        "As a unit of concurrency: each layer of a stack is owned by one lane, as in an assembly line.",
    ),
    ("legacy suite", "The algorithms of the papers’ time, such as 3DES with HMAC-SHA1."),
    (
        "median",
        "The middle one of the sorted samples. Figures are medians, unless a page says that they are means.",
    ),
    ("modern suite", "Present-day algorithms, such as AES-GCM."),
    ("native", "As a tier: code with this processor’s instructions, one message after another."),
    ("NE", "No encryption, in the study of 2002."),
    (
        "not decidable",
        "The interval contains the bound, or there are fewer than five samples. More runs may decide.",
    ),
    (
        "not decidable here: the machine was busy",
        "Other work disturbed more than a third of the runs of a figure (†). A run on a quiet machine may decide.",
    ),
    (
        "not judged at this size",
        "The sentence is about a number of files or bytes that this run did not have. Its figure is shown, and a longer profile \
         decides it.",
    ),
    ("packet", "As a unit of concurrency: any lane takes the next packet, and order is restored afterwards."),
    ("private", "A level: everything is encrypted and checked."),
    (
        "profile",
        "The thoroughness: smoke shows only that everything works, quick takes five short runs, full takes ten.",
    ),
    (
        "published",
        "A figure that a paper prints, on the paper’s machine. Only its relation to others can be compared.",
    ),
    ("reference", "As a tier: the plainest code, as in the standard."),
    ("safe", "A level: content is checked for changes, and not encrypted."),
    ("sealane-native", "Our tunnel, one packet after another, as the machines of 2002 worked."),
    ("Single, Pool, P1, P2", "One thread or several, with one stream or two, in the study of 2007."),
    ("stream", "One of the TCP connections that a copy uses at the same time."),
    ("tier", "The kind of code that runs an algorithm: reference, generic, native, or batch."),
    ("token bucket", "A limit of the rate on a device, which makes a link of 1 Gb/s out of a faster one."),
    ("turn", "The time in which a packet holds the lock of its connection."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory;

    #[test]
    fn questions_name_rows_and_terms_are_in_order() {
        for Question { question, ids } in QUESTIONS {
            assert!(ids.iter().all(|id| inventory::row(id).is_some()), "{question}");
        }
        let terms: Vec<String> = GLOSSARY.iter().map(|(term, _)| term.to_lowercase()).collect();
        assert!(terms.is_sorted(), "{terms:?}");
    }
}
