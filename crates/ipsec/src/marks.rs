//! Congestion and service marks across a tunnel (RFC 6040; RFC 4301, section 5.1.2).
//!
//! Guarantees: a congestion mark on the outer header is never lost if the inner header can carry it, and a packet
//! with a dangerous combination of marks is dropped, as RFC 6040's tables require.

/// The two congestion bits of an IP header (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The ends do not support congestion marks.
    NotCapable = 0,
    /// The ends support congestion marks, codepoint 1.
    Capable1 = 1,
    /// The ends support congestion marks, codepoint 0.
    Capable0 = 2,
    /// Congestion was experienced.
    Congested = 3,
}

impl Ecn {
    /// Returns the bits of a type-of-service or traffic-class byte.
    pub fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Congested,
        }
    }

    /// Returns `traffic_class` with these bits.
    pub fn put(self, traffic_class: u8) -> u8 {
        traffic_class & !3 | self as u8
    }
}

/// Returns the traffic class of the outer header: the service class and congestion bits of the inner one (RFC 6040,
/// section 4.1, normal mode; RFC 4301, section 5.1.2.1, copies the service class).
pub fn encapsulated(inner_traffic_class: u8) -> u8 {
    inner_traffic_class
}

/// Returns the congestion bits of the packet that leaves the tunnel (RFC 6040, section 4.2, figure 4); `None` if the
/// packet is to be dropped.
pub fn decapsulated(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotCapable, Ecn::Congested) => None,
        (Ecn::NotCapable, _) => Some(Ecn::NotCapable),
        (Ecn::Congested, _) | (_, Ecn::Congested) => Some(Ecn::Congested),
        (Ecn::Capable0, Ecn::Capable1) => Some(Ecn::Capable1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_rfc_6040() {
        use Ecn::{Capable0 as E0, Capable1 as E1, Congested as Ce, NotCapable as Not};
        let outers = [Not, E0, E1, Ce];
        let table = [
            (Not, [Some(Not), Some(Not), Some(Not), None]),
            (E0, [Some(E0), Some(E0), Some(E1), Some(Ce)]),
            (E1, [Some(E1), Some(E1), Some(E1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in table {
            assert_eq!(outers.map(|outer| decapsulated(inner, outer)), row, "{inner:?}");
        }
        for class in 0..=255u8 {
            assert_eq!(Ecn::of(class).put(class), class);
            assert_eq!(Ecn::Congested.put(class), class | 3);
            assert_eq!(encapsulated(class), class);
        }
    }
}
