//! File trees as a copy tool needs them, on Linux: sources that are walked and read safely, and targets that no peer
//! can break out of. The crate contains no network code and no cryptography.
//!
//! - [`RelativePath`] is a path that cannot leave its root; [`Metadata`] and [`Kind`] travel beside a file's bytes.
//! - [`Source`] holds the roots of a copy, [`Walk`] lists their entries in bounded memory, a [`Reader`] per thread
//!   opens them.
//! - [`Target`] is the directory a tree is built in; a [`Writer`] per thread makes its entries, [`PartFile`] takes
//!   the bytes of one large file from many threads. An entry under its final name is complete.
//!
//! Below the roots no symbolic link is followed, on either side, unless a source is opened with that option.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bases;
mod basis;
mod beneath;
mod bytes;
mod changes;
mod compare;
mod copied;
mod descent;
mod differences;
mod error;
mod extraneous;
mod filter;
mod filter_files;
mod folders;
mod glob;
mod inner;
#[allow(unsafe_code, reason = "a system call that no library wraps")]
mod list_xattrs;
mod metadata;
mod options;
mod part;
mod path;
mod patterns;
mod place;
mod ranges;
mod reader;
mod root;
mod small;
mod source;
mod specials;
mod successor;
mod survey;
mod target;
mod temporary;
mod waiting;
mod walk;
mod writer;
mod xattrs;

pub use bases::{Basis, BasisUse};
pub use beneath::Resolution;
pub use changes::{Changes, ModeChange, ModeChangeOf, Renumbering};
pub use descent::Identity;
pub use differences::Differences;
pub use error::{EntryType, Error, Operation, Result};
pub use extraneous::{Extra, Extraneous, Judgement};
pub use filter::{Filter, FilterFile, Rule};
pub use filter_files::TargetRules;
pub use folders::{Folders, Memory, Seen, SeenFolder, Visitor};
pub use glob::{ExpandedName, Expansion, ExpansionBounds, Glob, is_pattern};
pub use inner::Dropped;
pub use metadata::{
    Kind, LinkTarget, MAX_LINK_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS, MODE_BITS,
    Metadata, Owner, Special, Timestamp, Xattr,
};
pub use options::{Backups, SmallFiles, TargetOptions};
pub use part::PartFile;
pub use path::{MAX_COMPONENT_BYTES, MAX_PATH_BYTES, PathError, RelativePath, ShownPath};
pub use patterns::PatternError;
pub use ranges::{Division, RANGES_MAX};
pub use reader::{Extents, Looked, OpenFile, Reader};
pub use root::{Anchor, Spot, TargetRoot};
pub use source::{Following, Naming, Selection, Source, SourceRoot};
pub use successor::Successor;
pub use survey::{ExistingFile, Files};
pub use target::{FinishReport, Target, may_give_away, may_set_privileges};
pub use temporary::{FileMark, TempName};
pub use walk::{Entry, EntryKind, Walk, WalkOptions};
pub use writer::{Existing, Writer};
pub use xattrs::Xattrs;
