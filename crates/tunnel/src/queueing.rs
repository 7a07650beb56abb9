//! The choice between queues for packets of the device.

/// The order in which packets of the device leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queueing {
    /// Flows take turns, and none stands for long. Not the default: where the processor is the limit its rate is not yet that of
    /// [`Self::Fifo`].
    Fair,
    /// As they come; whatever the link does not take yet waits in the socket.
    #[default]
    Fifo,
}

impl Queueing {
    /// Returns whether flows take turns.
    pub fn is_fair(self) -> bool {
        self == Self::Fair
    }
}
