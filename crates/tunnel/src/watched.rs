//! The files of a gateway, as its keeper reads them: the site file, and the credentials of peers that speak IKE.
//!
//! Guarantees: files are read only where nobody else could have written them, and secrets where nobody else reads them.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    credentials::{Contents, Reader},
    site::{Keys, PeerSite, Site},
};

/// The files that a keeper reads for its gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// The site file.
    pub site: PathBuf,
    /// The file of the gateway's own key, if the site file does not name one.
    pub own_key: Option<PathBuf>,
    /// The files that the site file names.
    pub files: Vec<PathBuf>,
}

/// The content of the files.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// The text of the site file.
    pub site: String,
    files: Vec<(PathBuf, String)>,
}

impl Drop for Bundle {
    fn drop(&mut self) {
        self.files.iter_mut().for_each(|(_, content)| content.zeroize());
    }
}

/// Returns the files of credentials that a site names.
fn named(site: &Site, own_key: Option<&Path>) -> Vec<PathBuf> {
    let own_key = site.identity.as_deref().or(own_key);
    let of_peer = |peer: &PeerSite| match &peer.keys {
        Keys::Ike(ike) => ike.proof.files(own_key),
        _ => Vec::new(),
    };
    let all: BTreeSet<PathBuf> = site.peers.iter().flat_map(of_peer).collect();
    all.into_iter().collect()
}

impl Watched {
    /// Returns the files of a gateway.
    pub fn new(path: &Path, site: &Site, own_key: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let files = named(site, own_key).iter().map(|path| absolute(path)).collect();
        Self { site: absolute(path), own_key: own_key.map(absolute), files }
    }

    /// Returns a text that changes with the files.
    pub fn stamp(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for path in std::iter::once(&self.site).chain(&self.files) {
            let found = fs::metadata(path).ok();
            let of = |found: fs::Metadata| {
                let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
                let rest = [found.ino(), found.size(), found.mode().into(), found.uid().into()];
                times.map(i64::to_be_bytes).concat().into_iter().chain(rest.map(u64::to_be_bytes).concat())
            };
            let words: Vec<u8> = found.map(of).into_iter().flatten().collect();
            hasher.update(&(words.len() as u64).to_be_bytes());
            hasher.update(&words);
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Reads and checks the files.
    ///
    /// # Errors
    /// Fails with the reason why one of them is refused.
    pub fn read(&mut self) -> Result<Bundle, String> {
        let (site, text) = Site::load_with_text(&self.site).map_err(|error| error.to_string())?;
        self.files = named(&site, self.own_key.as_deref());
        let mut reader = Reader::new(site.identity.as_deref().or(self.own_key.as_deref()));
        for peer in &site.peers {
            if let Keys::Ike(ike) = &peer.keys {
                reader.read(ike).map_err(|error| format!("peer {:?}: {error}", peer.name))?;
            }
        }
        let files = reader.into_contents();
        let files = files.iter().map(|(path, content)| (path.clone(), BASE64.encode(content))).collect();
        Ok(Bundle { site: text, files })
    }
}

impl Bundle {
    /// Returns the content by file.
    ///
    /// # Errors
    /// Fails if the text is garbled.
    pub fn contents(&self) -> Result<Contents, String> {
        let decode = |(path, text): &(PathBuf, String)| {
            Some((path.clone(), Zeroizing::new(BASE64.decode(text.as_bytes()).ok()?)))
        };
        self.files.iter().map(decode).collect::<Option<Contents>>().ok_or_else(|| "garbled files".to_owned())
    }
}
