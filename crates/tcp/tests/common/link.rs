//! A link that loses and reorders packets, under its user's clock.

use super::Random;

/// Packets under way in one direction, with the millisecond of their arrival.
#[derive(Default)]
pub(crate) struct Direction(Vec<(u64, Vec<u8>)>);

impl Direction {
    pub(crate) fn send(&mut self, packet: Vec<u8>, now_ms: u64, loss_permille: u64, random: &mut Random) {
        if !random.permille(loss_permille) {
            let late_ms = if random.permille(20) { 15 } else { 0 };
            self.0.push((now_ms + 5 + late_ms, packet));
        }
    }

    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        let (due, later) = std::mem::take(&mut self.0).into_iter().partition(|&(at_ms, _)| at_ms <= now_ms);
        self.0 = later;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}
