//! The cost of a message as a line over its length: a cost per message, and a cost per byte.
//!
//! Guarantees: exact on points that lie on a line, no panics on any input, and a result only if two lengths differ.

/// `per_message_ns + per_byte_ns * bytes`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// The cost of a message without its bytes, in ns. It is negative if short messages are cheaper per byte.
    pub(super) per_message_ns: f64,
    /// The cost of each byte, in ns.
    pub(super) per_byte_ns: f64,
}

/// Fits a line through `(bytes, ns)`, with relative errors weighed alike: the error of a measurement is proportional
/// to it, and with unweighted squares the longest message alone would determine the intercept.
pub(super) fn fit(points: &[(f64, f64)]) -> Option<Cost> {
    let usable = || {
        points.iter().filter(|(bytes, ns)| bytes.is_finite() && ns.is_finite() && *ns > 0.0).map(
            |&(bytes, ns)| {
                let weight = 1.0 / (ns * ns);
                (weight, bytes, ns)
            },
        )
    };
    // This is checked before any division: with rounding, two very close lengths could not be distinguished from one.
    let first = usable().next().map(|(_, bytes, _)| bytes)?;
    if usable().all(|(_, bytes, _)| bytes == first) {
        return None;
    }
    let total: f64 = usable().map(|(weight, _, _)| weight).sum();
    let mean_bytes = usable().map(|(weight, bytes, _)| weight * bytes).sum::<f64>() / total;
    let mean_ns = usable().map(|(weight, _, ns)| weight * ns).sum::<f64>() / total;
    let spread: f64 = usable().map(|(weight, bytes, _)| weight * (bytes - mean_bytes).powi(2)).sum();
    let joint: f64 = usable().map(|(weight, bytes, ns)| weight * (bytes - mean_bytes) * (ns - mean_ns)).sum();
    let per_byte_ns = joint / spread;
    let cost = Cost { per_message_ns: mean_ns - per_byte_ns * mean_bytes, per_byte_ns };
    (spread > 0.0 && per_byte_ns.is_finite() && cost.per_message_ns.is_finite()).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_length_makes_no_line() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(64.0, 100.0)]), None);
        assert_eq!(fit(&[(64.0, 100.0), (64.0, 110.0)]), None);
        assert_eq!(fit(&[(1408.0, 2401.3)]), None);
        assert_eq!(fit(&[(64.0, f64::NAN), (128.0, 3.0)]), None);
    }

    /// The test uses the crypto framework's line of the IPsec study, with errors of measurement of 1 %.
    #[test]
    fn noise_on_long_messages_leaves_the_intercept_alone() {
        let points: Vec<(f64, f64)> = [64.0, 256.0, 1024.0, 4096.0, 16384.0]
            .into_iter()
            .zip([1.01, 0.99, 1.01, 0.99, 1.01])
            .map(|(bytes, error)| (bytes, (38_300.0 + 96.7 * bytes) * error))
            .collect();
        let cost = fit(&points).unwrap();
        assert!((cost.per_message_ns / 38_300.0 - 1.0).abs() < 0.03, "{cost:?}");
        assert!((cost.per_byte_ns / 96.7 - 1.0).abs() < 0.03, "{cost:?}");
    }

    proptest! {
        #[test]
        fn points_on_a_line_give_the_line(
            intercept in 0.0..1e5f64, slope in 0.001..100.0f64,
            lengths in prop::collection::btree_set(1u32..100_000, 2..12),
        ) {
            let points: Vec<_> =
                lengths.iter().map(|&n| (f64::from(n), intercept + slope * f64::from(n))).collect();
            let cost = fit(&points).unwrap();
            for (bytes, ns) in points {
                let found = cost.per_message_ns + cost.per_byte_ns * bytes;
                prop_assert!((found / ns - 1.0).abs() < 1e-6, "{cost:?}");
            }
        }
    }
}
