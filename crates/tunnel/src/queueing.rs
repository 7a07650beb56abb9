//! The choice between queues. Whichever is the default (`#[default]`), tests and documents name the one that they mean.

/// The order in which packets of the device leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queueing {
    /// Flows take turns, and none stands for long (FQ-CoDel, RFC 8290). The default, because most lines are slower than the processor.
    #[default]
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
