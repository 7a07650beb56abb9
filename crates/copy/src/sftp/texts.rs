//! The texts of far links, from servers that tell where links lead instead.

use futures_util::future::join;
use sealane_sftp::Request;

use crate::sftp::{
    far::{Far, Trouble},
    link::Link,
    place::{below, parent},
};

/// Returns the text of the link `at` that leads to `said`, if there is one of this length: ProFTPD's server tells where links
/// lead, and the lengths of their texts.
pub(super) async fn text_of_link(
    far: &Far,
    link: &Link,
    (at, shown): (&[u8], &str),
    said: &[u8],
    bytes: u64,
) -> Result<Vec<u8>, Trouble> {
    let folder = parent(at);
    let (folder, home) = join(
        link.path_of(&Request::RealPath { path: &folder }),
        link.path_of(&Request::RealPath { path: b"." }),
    )
    .await;
    let (folder, home) = match (folder, home) {
        (Ok(folder), Ok(home)) => (folder, home),
        (Err(fault), _) | (_, Err(fault)) => {
            return Err(far.trouble(link, b".", "read it", shown, fault).await);
        }
    };
    let said = if said.starts_with(b"/") { said.to_vec() } else { below(&home, said) };
    let relative = relative(&folder, &said);
    let forms = ["", "./"].into_iter().flat_map(|front| ["", "/"].map(|end| (front, end)));
    let mut texts = forms.map(|(front, end)| [front.as_bytes(), &relative, end.as_bytes()].concat());
    texts.find(|text| text.len() as u64 == bytes).ok_or_else(|| {
        let host = &far.host;
        Trouble::Entry(format!("{shown}: {host} tells where it leads, and not what it says"))
    })
}

/// Returns the relative path from a folder to another place, both absolute.
fn relative(folder: &[u8], place: &[u8]) -> Vec<u8> {
    let parts = |path| <[u8]>::split(path, |&byte| byte == b'/').filter(|part| !part.is_empty());
    let shared = parts(folder).zip(parts(place)).take_while(|(one, other)| one == other).count();
    let up = parts(folder).skip(shared).map(|_| &b".."[..]);
    up.chain(parts(place).skip(shared)).collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_from_a_folder_to_a_place() {
        for (folder, place, expected) in [
            ("/a/b", "/a/b/c", "c"),
            ("/a/b", "/a", ".."),
            ("/a/b", "/c/d", "../../c/d"),
            ("/", "/c/d", "c/d"),
            ("/a/b/", "/a/c", "../c"),
        ] {
            assert_eq!(
                relative(folder.as_bytes(), place.as_bytes()),
                expected.as_bytes(),
                "{folder} {place}"
            );
        }
    }
}
