//! One measured line, in a form for programs.

use crate::experiment::{Runs, Value};
use sealane_transform::{Algorithm, Cipher, Direction, Mode};
use serde::Serialize;

/// One measurement. Its JSON has exactly these fields in this order; a field that does not apply is `null`. The last
/// one is present for means of runs only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name in the catalogue.
    pub algorithm: String,
    /// `ecb`, `cbc`, `ctr` or `gcm`, if there is a mode.
    pub mode: Option<&'static str>,
    /// `encrypt` or `decrypt`, `seal` or `open`; digests have none.
    pub direction: Option<&'static str>,
    /// The tier that ran.
    pub tier: &'static str,
    /// The instruction set to which it was limited.
    pub isa: &'static str,
    /// Mean length of a message.
    pub bytes: usize,
    /// Threads, each with its own batches.
    pub lanes: usize,
    /// Messages handed over together.
    pub batch: usize,
    /// 10⁶ bytes per second, all lanes together.
    pub mb_per_s: f64,
    /// The time of one lane per message.
    pub ns_per_message: f64,
    /// Cycles of one lane per byte, at the time stamp counter's rate.
    pub cycles_per_byte: Option<f64>,
    /// The library that is compared in the same run.
    pub peer: Option<&'static str>,
    /// The rate of that library.
    pub peer_mb_per_s: Option<f64>,
    /// Our rate over the peer's.
    pub ratio: Option<f64>,
    /// The 90 % interval of [`Self::mb_per_s`], if that is a mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_per_s_interval: Option<[f64; 2]>,
    /// Whether messages have different lengths.
    #[serde(skip)]
    pub is_ragged: bool,
    /// The 90 % interval of [`Self::mb_per_s`] over the slices of its own run. Rows that are measured one after the other
    /// may differ by more.
    #[serde(skip)]
    pub(super) spread: Option<[f64; 2]>,
    /// The slices of both sides.
    #[serde(skip)]
    pub(super) runs: Runs,
}

impl Row {
    /// Returns the catalogue's entry.
    pub(super) fn entry(&self) -> Option<Algorithm> {
        self.algorithm.parse().ok()
    }

    /// Returns the algorithm with its direction.
    pub(super) fn name(&self) -> String {
        self.direction.map_or_else(|| self.algorithm.clone(), |way| format!("{} {way}", self.algorithm))
    }

    /// Returns the rate, with its interval.
    pub(super) fn rate(&self) -> Value {
        match self.mb_per_s_interval {
            Some([low, high]) => Value::Range { value: self.mb_per_s, low, high },
            None => Value::Number(self.mb_per_s),
        }
    }
}

/// Returns the mode in which an algorithm chains blocks, if that is part of its name.
pub(super) fn mode(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::Cipher(Cipher::Block(_, mode)) => Some(mode.name()),
        Algorithm::Aead(aead) => aead.name().ends_with("gcm").then_some("gcm"),
        Algorithm::Digest(_) | Algorithm::Cipher(_) | Algorithm::Gmac(_) => None,
    }
}

/// Returns the direction's name for this kind of algorithm.
pub(super) fn direction(algorithm: Algorithm, direction: Direction) -> Option<&'static str> {
    match (algorithm, direction) {
        (Algorithm::Digest(_) | Algorithm::Gmac(_), _) => None,
        (Algorithm::Cipher(_), Direction::Encrypt) => Some("encrypt"),
        (Algorithm::Cipher(_), Direction::Decrypt) => Some("decrypt"),
        (Algorithm::Aead(_), Direction::Encrypt) => Some("seal"),
        (Algorithm::Aead(_), Direction::Decrypt) => Some("open"),
    }
}

/// Returns the largest length up to `bytes` that the algorithm accepts, and at least one granule.
pub(super) fn fitting(algorithm: Algorithm, bytes: usize) -> usize {
    let granule = match algorithm {
        Algorithm::Cipher(cipher @ Cipher::Block(_, Mode::Ecb | Mode::Cbc)) => cipher.granule_bytes(),
        _ => 1,
    };
    (bytes / granule * granule).max(granule)
}

#[cfg(test)]
impl Row {
    /// Returns a row with arbitrary figures.
    pub(super) fn of_test(name: &str, bytes: usize) -> Self {
        Self {
            algorithm: name.to_owned(),
            mode: None,
            direction: None,
            tier: "batch",
            isa: "avx512",
            bytes,
            lanes: 1,
            batch: 512,
            mb_per_s: 3174.5,
            ns_per_message: 443.5,
            cycles_per_byte: None,
            peer: None,
            peer_mb_per_s: None,
            ratio: None,
            mb_per_s_interval: None,
            is_ragged: false,
            spread: None,
            runs: Runs::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_these_fields_in_this_order() {
        let row = Row { mode: Some("cbc"), direction: Some("encrypt"), ..Row::of_test("des-cbc", 1408) };
        let text = serde_json::to_string(&row).unwrap();
        let expected = "{\"algorithm\":\"des-cbc\",\"mode\":\"cbc\",\"direction\":\"encrypt\",\"tier\":\"batch\",\
                        \"isa\":\"avx512\",\"bytes\":1408,\"lanes\":1,\"batch\":512,\"mb_per_s\":3174.5,\
                        \"ns_per_message\":443.5,\"cycles_per_byte\":null,\"peer\":null,\"peer_mb_per_s\":null,\
                        \"ratio\":null}";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_follow_the_kind() {
        let named = |name: &str| {
            let algorithm: Algorithm = name.parse().unwrap();
            (mode(algorithm), direction(algorithm, Direction::Decrypt), fitting(algorithm, 1500))
        };
        assert_eq!(named("md5"), (None, None, 1500));
        assert_eq!(named("aes-128-cbc"), (Some("cbc"), Some("decrypt"), 1488));
        assert_eq!(named("des-ctr"), (Some("ctr"), Some("decrypt"), 1500));
        assert_eq!(named("aes-256-gcm"), (Some("gcm"), Some("open"), 1500));
        assert_eq!(named("chacha20-poly1305").0, None);
        assert_eq!(fitting("aes-128-ecb".parse().unwrap(), 3), 16);
    }
}
