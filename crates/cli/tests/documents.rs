//! The program accepts the examples in the documents: every `sealane` line in a code block of a document parses.

use std::path::Path;

/// Returns the lines of code blocks that start with the program's name, without comments and without the shell's
/// syntax around them.
fn commands(markdown: &str) -> Vec<Vec<String>> {
    let mut in_block = false;
    let mut found = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let line = line.trim_start().trim_start_matches("$ ");
        if !in_block || !line.starts_with("sealane ") {
            continue;
        }
        let mut whole = line.to_owned();
        while let Some(more) = whole.strip_suffix('\\') {
            whole = format!("{more} {}", lines.next().unwrap_or_default());
        }
        let shell = ["#", "|", ">", "<", "&", "&&", "||", ";", "2>"];
        let words = whole.split_whitespace().take_while(|word| !shell.contains(word));
        found.push(words.map(|word| word.trim_matches(['\'', '"']).to_owned()).collect());
    }
    found
}

#[test]
fn commands_of_a_document_are_found() {
    let text =
        "sealane cp no\n```sh\n$ sealane cp a \\\n  b:c  # why\nsealane id > key\nls\n```\nsealane no\n";
    assert_eq!(commands(text), [vec!["sealane", "cp", "a", "b:c"], vec!["sealane", "id"]]);
}

/// Returns a line's words as a shell would split them; only blanks and single quotes occur.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// The heading of the table of rsync's options.
const OPTIONS_OF_RSYNC: &str = "## Every option of rsync";

/// Returns the words in a cell of a table that are marked as code, as far as they are options.
fn options(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter(|word| word.starts_with('-') && *word != "-").collect()
}

/// The list has the names of each option in a line, in the order of `rsync --help` of this version.
#[test]
fn every_option_of_rsync_is_in_the_table_once_and_what_is_here_exists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path.join("../../docs/habits.md")).expect("the table of habits");
    let (_, table) = text.split_once(OPTIONS_OF_RSYNC).expect("the table of options");
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let cells = |row: &'_ str| {
        row.trim_matches('|').split_once('|').map(|(names, here)| (names.to_owned(), here.to_owned()))
    };
    let rows: Vec<_> = rows.into_iter().filter_map(cells).collect();
    let found: Vec<String> = rows.iter().map(|(names, _)| options(names).join(" ")).collect();
    let listed = include_str!("data/rsync-3.5.0-options.txt");
    let listed: Vec<&str> = listed.lines().collect();
    assert!(listed.len() > 150, "{} options", listed.len());
    assert_eq!(found, listed);
    let command = sealane_cli::command();
    let cp = command.find_subcommand("cp").expect("the command");
    let has = |word: &str| match word.strip_prefix("--") {
        Some(long) => cp.get_arguments().any(|known| {
            let aliases = known.get_visible_aliases().unwrap_or_default();
            known.get_long() == Some(long) || aliases.contains(&long)
        }),
        None => cp.get_arguments().any(|known| known.get_short() == word.chars().nth(1)),
    };
    for (names, here) in &rows {
        assert!(!here.trim().is_empty(), "{names}");
        for word in options(here) {
            let word = word.split(['=', ' ']).next().unwrap_or_default();
            assert!(word == "--help" || word == "-h" || has(word), "{word} in the row of {names}");
        }
    }
}

#[test]
fn every_habit_has_a_command_that_parses() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/habits.md");
    let text = std::fs::read_to_string(path).expect("the table of habits");
    let (text, _) = text.split_once(OPTIONS_OF_RSYNC).expect("the table of options");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    for row in &rows {
        let command = row.rsplit('`').nth(1).unwrap_or_default();
        assert!(command.starts_with("sealane "), "{row}");
        let parsed = sealane_cli::command().try_get_matches_from(words(command));
        // Lists of patterns are read when arguments are parsed, and the file named in the document belongs to the
        // reader.
        if let Err(error) = parsed {
            assert!(error.to_string().contains("No such file or directory"), "{command}: {error}");
        }
    }
    assert!(rows.len() > 30, "{} habits", rows.len());
}

#[test]
fn every_command_of_every_document_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = 0;
    for entry in std::fs::read_dir(&root).expect("the root of the workspace") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        documents += 1;
        for words in commands(&std::fs::read_to_string(&path).expect("a document")) {
            if let Err(error) = sealane_cli::command().try_get_matches_from(&words) {
                assert!(!error.use_stderr(), "{}: {}\n{error}", path.display(), words.join(" "));
            }
        }
    }
    assert!(documents >= 3, "the documents are not where this test looks");
}
