//! One measured line of a public-key operation, in a form for programs.

use crate::experiment::Value;
use serde::Serialize;

/// One measurement. Its JSON has exactly these fields in this order; a field that does not apply is `null`. The last
/// one is present for means of runs only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublicKeyRow {
    /// Name in the catalogue.
    pub algorithm: &'static str,
    /// The kind of operation: `sign`, `verify`, `agree` and others.
    pub step: &'static str,
    /// The tier that ran: `native` is AWS-LC's operation, one after the other.
    pub tier: &'static str,
    /// The instruction set to which it was limited.
    pub isa: &'static str,
    /// Threads, each with its own operations.
    pub lanes: usize,
    /// Operations handed over together.
    pub batch: usize,
    /// Operations per second, all lanes together.
    pub ops_per_s: f64,
    /// The time of one lane per operation.
    pub us_per_operation: f64,
    /// The library that is compared in the same run.
    pub peer: Option<&'static str>,
    /// The rate of that library.
    pub peer_ops_per_s: Option<f64>,
    /// Our rate over the peer's.
    pub ratio: Option<f64>,
    /// The 90 % interval of [`Self::ops_per_s`], if that is a mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_per_s_interval: Option<[f64; 2]>,
}

impl PublicKeyRow {
    /// Returns the rate, with its interval.
    pub(in super::super) fn rate(&self) -> Value {
        match self.ops_per_s_interval {
            Some([low, high]) => Value::Range { value: self.ops_per_s, low, high },
            None => Value::Number(self.ops_per_s),
        }
    }
}

#[cfg(test)]
impl PublicKeyRow {
    /// Returns a row with arbitrary figures.
    pub(super) fn of_test(algorithm: &'static str, step: &'static str, batch: usize) -> Self {
        Self {
            algorithm,
            step,
            tier: "batch",
            isa: "avx512",
            lanes: 1,
            batch,
            ops_per_s: 1000.0,
            us_per_operation: 1000.0,
            peer: None,
            peer_ops_per_s: None,
            ratio: None,
            ops_per_s_interval: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_these_fields_in_this_order() {
        let text = serde_json::to_string(&PublicKeyRow::of_test("x25519", "agree", 8)).unwrap();
        let expected = "{\"algorithm\":\"x25519\",\"step\":\"agree\",\"tier\":\"batch\",\"isa\":\"avx512\",\
                        \"lanes\":1,\"batch\":8,\"ops_per_s\":1000.0,\"us_per_operation\":1000.0,\
                        \"peer\":null,\"peer_ops_per_s\":null,\"ratio\":null}";
        assert_eq!(text, expected);
    }
}
