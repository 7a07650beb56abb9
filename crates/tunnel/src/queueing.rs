//! The choice between queues. The site file says which one is its default.

/// The order in which packets of the device leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Flows take turns, and none stands for long (FQ-CoDel, RFC 8290).
    FqCodel,
    /// As they come; whatever the link does not take yet waits in the socket.
    Fifo,
}

impl Queueing {
    /// Returns whether flows take turns.
    pub fn is_fq_codel(self) -> bool {
        self == Self::FqCodel
    }
}
