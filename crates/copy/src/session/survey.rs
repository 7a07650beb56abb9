//! The account of a target that its sender gets before it sends anything: entries that need not be sent again.

use sealane_tree::{EntryType, ExistingFile, Metadata, RelativePath, Target};

use crate::{
    content,
    error::Error,
    journal::{Identity, State as JournalState},
    options::Wishes,
    proto::{
        entry::{UNKNOWN_ATTRIBUTES, path_hash},
        message::{HAVE_PER_MESSAGE, Have, Held, Message, VersionHeld},
    },
    receive::{movable::Movable, permit::Permit},
    send::fill::POSSESSIONS_MAX,
    transfer::known::Knowing,
};

/// The entries of a target that are reported to the sender.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    pub(crate) target: &'a Target,
    /// The names that may arrive: other entries are not examined.
    pub(crate) permit: Permit,
    /// Decide whether files are reported, and by what they count as the same; owners and extended attributes that are kept are
    /// compared too, but these are not known of files that are reported here.
    pub(crate) wishes: &'a Wishes,
    /// Reports files by path, size and content, read by this many threads.
    pub(crate) checksum: Option<u16>,
    /// Folders are passed over, because they are compared as wholes.
    pub(crate) without_folders: bool,
    /// Reports files that may be compared with what is sent.
    pub(crate) versions: bool,
    /// Notes those that may have been moved.
    pub(crate) movable: Option<&'a Movable>,
}

/// Returns the paths of the target's folders that arriving entries may change; an empty one is the target itself.
pub(crate) fn starting_folders(target: &Target, permit: &Permit) -> Result<Vec<Vec<u8>>, Error> {
    Ok(match names_that_may_arrive(target, permit)? {
        Some(paths) => paths.into_iter().map(|path| path.as_bytes().to_vec()).collect(),
        None => vec![Vec::new()],
    })
}

/// Returns the names at the target's top that may arrive; `None` if all may.
fn names_that_may_arrive(target: &Target, permit: &Permit) -> Result<Option<Vec<RelativePath>>, Error> {
    Ok(match permit.names() {
        Some(names) => Some(names.filter_map(|name| RelativePath::new(name).ok()).collect()),
        None if permit.has_patterns() => Some(target.names(|name| permit.may_begin(name))?),
        None => None,
    })
}

impl Survey<'_> {
    /// Calls `each` for every file that arriving entries may replace, until it returns false. Unreadable files are
    /// skipped, and so are sent.
    fn files(&self, mut each: impl FnMut(ExistingFile) -> Result<bool, Error>) -> Result<(), Error> {
        let Some(paths) = names_that_may_arrive(self.target, &self.permit)? else {
            return match self.permit.is_recursive() && !self.without_folders {
                true => visit(self.target.files()?, &mut each).map(drop),
                false => Ok(()),
            };
        };
        let mut writer = self.target.writer();
        for path in paths {
            let Ok(Some(found)) = writer.existing(&path) else { continue };
            let goes_on = match found.entry_type {
                EntryType::File => each(ExistingFile { path, metadata: found.metadata })?,
                EntryType::Directory if self.permit.is_recursive() && !self.without_folders => {
                    match self.target.files_below(&path) {
                        Ok(files) => visit(files, &mut each)?,
                        Err(_) => true,
                    }
                }
                _ => true,
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn visit(
    files: sealane_tree::Files,
    each: &mut impl FnMut(ExistingFile) -> Result<bool, Error>,
) -> Result<bool, Error> {
    for file in files.flatten() {
        if !each(file)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reports the entries that the sender need not send again: from the journal, and from the tree. Unless it `ends` with them,
/// folders follow.
pub(crate) fn possessions(
    journal: &JournalState,
    survey: Option<Survey<'_>>,
    ends: bool,
    mut tell: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    // Their attributes follow if the tree is examined as well.
    let unknown = |&identity: &Identity| Held { identity, attributes: UNKNOWN_ATTRIBUTES };
    let mut have = Have::default();
    // A comparison of contents counts no file that was not read.
    if survey.as_ref().is_none_or(|survey| survey.checksum.is_none()) {
        have.done = journal.done.keys().map(unknown).collect();
    }
    let mut told = 0;
    if let Some(survey) = survey {
        let (wishes, knowing) = (survey.wishes, Knowing::of(survey.wishes));
        let mut content = Unread { survey: &survey, files: Vec::new(), bytes: 0 };
        survey.files(|file| {
            have.dated.extend(knowing.dated(&file.path, &file.metadata));
            have.versions.extend(
                survey.versions.then(|| version_held(&file.path, &file.metadata, survey.movable)).flatten(),
            );
            if survey.checksum.is_some() {
                if content.is_full() {
                    have.done.extend(content.read(&mut tell)?);
                }
                content.push(file);
            } else if wishes.skip_same {
                let held = knowing.held(&file.path, &file.metadata);
                have.done.push(match wishes.preserve.kinds_of_xattrs().any() {
                    true => Held { attributes: UNKNOWN_ATTRIBUTES, ..held },
                    false => held,
                });
            }
            let count = have.done.len() + have.dated.len() + have.versions.len();
            if count >= HAVE_PER_MESSAGE {
                told += count;
                tell_all(std::mem::take(&mut have), &mut tell)?;
            }
            Ok(told <= POSSESSIONS_MAX)
        })?;
        have.done.extend(content.read(&mut tell)?);
    }
    tell_all(have, &mut tell)?;
    if ends { tell(Message::HaveEnd) } else { Ok(()) }
}

/// Returns what a sender is told of a file that may be compared with another version of it, if the file is long enough.
pub(crate) fn version_held(
    path: &RelativePath,
    metadata: &Metadata,
    movable: Option<&Movable>,
) -> Option<VersionHeld> {
    let bytes = metadata.size_bytes;
    (bytes >= VERSION_BYTES_MIN).then(|| {
        let traits = movable.and_then(|movable| movable.add(path, metadata));
        VersionHeld { path: path_hash(path), bytes, traits }
    })
}

/// Shorter versions are not told: one is hardly of use for a file that is long enough to be compared.
const VERSION_BYTES_MIN: u64 = 64 << 10;

/// Files whose content has not been read yet.
struct Unread<'a> {
    survey: &'a Survey<'a>,
    files: Vec<ExistingFile>,
    bytes: u64,
}

impl Unread<'_> {
    fn is_full(&self) -> bool {
        self.files.len() >= UNREAD_FILES || self.bytes >= UNREAD_BYTES
    }

    fn push(&mut self, file: ExistingFile) {
        self.bytes = self.bytes.saturating_add(file.metadata.size_bytes);
        self.files.push(file);
    }

    /// Reads them all.
    fn read(&mut self, tell: &mut impl FnMut(Message) -> Result<(), Error>) -> Result<Vec<Held>, Error> {
        let files = std::mem::take(&mut self.files);
        self.bytes = 0;
        let (target, threads) = (self.survey.target, self.survey.checksum.unwrap_or(1));
        let preserve = &self.survey.wishes.preserve;
        let compared = (preserve.owner.is_wanted(), preserve.kinds_of_xattrs());
        content::identities(target, &files, threads, compared, || tell(Message::Have(Have::default())))
    }
}

/// The number of files whose contents are read before the search for others continues.
const UNREAD_FILES: usize = HAVE_PER_MESSAGE / 4;
const UNREAD_BYTES: u64 = 4 << 30;

/// Sends everything, in messages that fit a frame.
fn tell_all(have: Have, tell: &mut impl FnMut(Message) -> Result<(), Error>) -> Result<(), Error> {
    for chunk in have.done.chunks(HAVE_PER_MESSAGE) {
        tell(Message::Have(Have { done: chunk.to_vec(), ..Have::default() }))?;
    }
    for chunk in have.dated.chunks(HAVE_PER_MESSAGE) {
        tell(Message::Have(Have { dated: chunk.to_vec(), ..Have::default() }))?;
    }
    for chunk in have.versions.chunks(HAVE_PER_MESSAGE) {
        tell(Message::Have(Have { versions: chunk.to_vec(), ..Have::default() }))?;
    }
    Ok(())
}
