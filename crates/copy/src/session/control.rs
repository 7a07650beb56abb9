//! The control channel while data moves.
//!
//! Guarantees: both ends show signs of life, and a silent one is given up after the agreed time; whatever ends a
//! transfer, the other end is informed, lanes stop, and no thread is left waiting.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, never};
use rustix::event::{PollFd, PollFlags};
use sealane_lanes::{CpuClock, Pinning, run_lanes};
use sealane_peer::{Channel, Received};
use sealane_tree::Walk;

use crate::{
    error::{Error, ErrorKind},
    proto::message::{Complete, Finished, Message},
    receive::{
        self,
        lane::Receiving,
        prune::{Prune, Pruned, Step},
    },
    send::{
        self,
        lane::Sending,
        removal::{Removal, Removed},
    },
    session::{
        carriage::Carriage,
        line::{Lines, is_small},
        messages,
    },
    shared::{NO_THREAD, Threads, drain_until},
    summary::{Notice, Observer, Progress},
    transfer::{
        leftovers,
        outcome::{Outcome, completion, conclusion},
        receiving::finish_folders,
    },
};

/// The index of this thread's bell among the control bells.
const CONTROL: usize = 0;
/// The interval between two signs of life.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The destination of notices: the user at the client, the channel at the server.
pub(crate) enum Notices<'a> {
    User(&'a mut dyn Observer),
    Peer,
}

/// One end's view of a running transfer.
pub(crate) struct Control<'a> {
    pub(crate) channel: &'a mut Channel,
    pub(crate) notices: Notices<'a>,
    pub(crate) pending: Receiver<Notice>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) timeout: Duration,
    pub(crate) clock: CpuClock,
    /// Openings, by stream, that were reported to the client as lost here.
    pub(crate) told: Vec<u32>,
    /// The name of the other end in messages; `None` if it is this host, or if nobody here reads them.
    pub(crate) far: Option<String>,
    /// The other end was asked to report its changes.
    pub(crate) hears_changes: bool,
    /// Entries that arrived are removed from the source, at the end.
    pub(crate) removes_sources: bool,
    /// Nobody waits for anything that this end could say after its `Finished`, or needs the answer: a sender ends.
    pub(crate) ends_first: bool,
    /// The deletions of a receiver at the end.
    pub(crate) prune: Option<Prune>,
    /// The data stream inside the channel.
    pub(crate) carriage: Carriage,
}

/// The effect of a message on the loop.
enum Turn {
    Nothing,
    Message(Message),
}

impl Control<'_> {
    /// Passes on the notices of the lanes.
    fn drain_notices(&mut self) -> Result<(), Error> {
        while let Ok(notice) = self.pending.try_recv() {
            self.tell(notice)?;
        }
        Ok(())
    }

    fn tell(&mut self, notice: Notice) -> Result<(), Error> {
        match &mut self.notices {
            Notices::User(observer) => observer.notice(notice),
            Notices::Peer => {
                let message = match notice {
                    Notice::EntryFailed { path, reason } => Message::EntryFailed { path, reason },
                    Notice::WouldSend { change, bytes } => Message::WouldChange { change, bytes },
                    Notice::Changed(change) => Message::Changed(change),
                    Notice::Deleted { path } => Message::Deleted { path },
                    Notice::Left { path } => Message::Left { path },
                    // The client's own end has these.
                    _ => return Ok(()),
                };
                messages::send(self.channel, &message)?;
            }
        }
        Ok(())
    }

    /// Reports an entry that failed at the other end, with that end's reason.
    fn far_failed(&mut self, path: Vec<u8>, reason: String) {
        if let Notices::User(observer) = &mut self.notices {
            let reason = match &self.far {
                Some(far) => format!("{far}: {reason}"),
                None => reason,
            };
            observer.notice(Notice::EntryFailed { path, reason });
        }
    }

    /// Returns whether this end is the client's, where the user is.
    fn is_client(&self) -> bool {
        matches!(self.notices, Notices::User(_))
    }

    /// The client opens streams, so it must know which ones are lost here: a firewall may have informed this end
    /// only.
    fn tell_lost(&mut self, lines: &Lines) -> Result<(), Error> {
        if self.is_client() {
            return Ok(());
        }
        self.told.resize(usize::from(lines.count()), 0);
        for stream in 0..lines.count() {
            let generation = lines.generation(stream);
            let told = &mut self.told[usize::from(stream)];
            if generation > *told && lines.is_cut(stream) {
                *told = generation;
                let narrowed = lines.narrowed(stream);
                messages::send(self.channel, &Message::StreamLost { stream, generation, narrowed })?;
            }
        }
        Ok(())
    }

    /// Waits for a message or a ring, at most for a heartbeat, and handles everything that is common to both ends.
    fn turn(&mut self, lines: &Lines, heard: &mut Instant) -> Result<Turn, Error> {
        if let Some(error) = lines.stop().reason() {
            return Err(error);
        }
        if self.progress.cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        // A peer may have said its last and be gone, which is noticed when it is heard.
        let is_busy = self.carriage.work(self.channel).unwrap_or(false);
        let received = {
            let bell = lines.control().fd(CONTROL);
            let (stream, for_room) = self.carriage.wants();
            let bell = PollFd::new(&bell, PollFlags::IN);
            let both = [bell.clone(), stream.clone().unwrap_or(bell)];
            let wakes = &both[..1 + usize::from(stream.is_some())];
            let patience = if is_busy { Duration::ZERO } else { HEARTBEAT / 5 };
            self.channel.recv_or_wake(Instant::now() + patience, wakes, for_room)
        };
        lines.control().awake(CONTROL);
        match received? {
            Received::Frame(frame) => {
                *heard = Instant::now();
                match Message::decode(&frame).map_err(|error| Error::protocol(error.to_string()))? {
                    Message::Abort(abort) => Err(abort.into()),
                    Message::EntryFailed { path, reason } => {
                        self.far_failed(path, reason);
                        Ok(Turn::Nothing)
                    }
                    Message::WouldChange { change, bytes } if self.hears_changes => {
                        if let Notices::User(observer) = &mut self.notices {
                            observer.notice(Notice::WouldSend { change, bytes });
                        }
                        Ok(Turn::Nothing)
                    }
                    Message::Left { path } => {
                        if let Notices::User(observer) = &mut self.notices {
                            observer.notice(Notice::Left { path });
                        }
                        Ok(Turn::Nothing)
                    }
                    Message::Changed(change) if self.hears_changes => {
                        if let Notices::User(observer) = &mut self.notices {
                            observer.notice(Notice::Changed(change));
                        }
                        Ok(Turn::Nothing)
                    }
                    Message::Deleted { path } if self.hears_changes => {
                        if let Notices::User(observer) = &mut self.notices {
                            observer.notice(Notice::Deleted { path });
                        }
                        Ok(Turn::Nothing)
                    }
                    Message::StreamLost { stream, generation, narrowed } if self.is_client() => {
                        match lines.lost(stream, generation, narrowed) {
                            true => Ok(Turn::Nothing),
                            false => Err(Error::protocol("a stream was lost that there is not")),
                        }
                    }
                    Message::Carry { opening, bytes } => {
                        self.carriage.take(opening, &bytes)?;
                        Ok(Turn::Nothing)
                    }
                    Message::Carried { opening, bytes } => {
                        self.carriage.make_room(opening, bytes)?;
                        Ok(Turn::Nothing)
                    }
                    message => Ok(Turn::Message(message)),
                }
            }
            Received::Woken | Received::Deadline if heard.elapsed() > self.timeout => Err(messages::silent()),
            Received::Woken | Received::Deadline => Ok(Turn::Nothing),
        }
    }

    /// Runs a sending end. `keep` maintains the streams until the transfer stops; `walk` finds entries to send in
    /// addition to those in the queue.
    pub(crate) fn send_all(
        &mut self,
        sending: &Arc<Sending>,
        walk: Option<Walk>,
        removal: Option<Removal>,
        reader: impl Fn() -> sealane_tree::Reader + Sync,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let lines = Lines::Send(sending.clone());
        let clock = self.clock.clone();
        let own = clock.share();
        thread::scope(|scope| {
            let workers = Threads::new(scope, &sending.stop, &sending.bells);
            workers.start("lanes", || {
                let abandon = || sending.stop.finish(&sending.bells);
                let run = run_lanes(sending.lanes, Pinning::Free, abandon, |lane| {
                    let _share = clock.share();
                    send::lane::run(sending, lane, reader());
                });
                lanes_ended(run, &lines);
            });
            let keeper = Threads::new(scope, &sending.stop, &sending.bells);
            keeper.start("streams", || {
                let _share = clock.share();
                keep(&lines);
            });
            workers.start("scan", || {
                let _share = clock.share();
                match walk {
                    Some(walk) => send::scan::run(sending, walk, &reader),
                    None => send::scan::finish(sending),
                }
            });
            let deltas = &sending.filling.deltas;
            let comparing = if deltas.are_wanted() { sending.lanes } else { 0 };
            for _ in 0..comparing {
                workers.start("delta", || {
                    let _share = clock.share();
                    send::fill::delta::run(sending);
                });
            }
            let sent = self.watch_sending(sending, &lines);
            sending.filling.queue.stop();
            deltas.stop();
            sending.stop.finish(&sending.bells);
            sending.control.ring();
            let late = sending.filling.drain_until(&workers.ended(), &self.pending);
            let told = sent.and_then(|()| {
                late.into_iter().try_for_each(|notice| self.tell(notice))?;
                self.drain_notices()?;
                let cpu_us = clock.ended_us() + own.elapsed_us();
                let finished = Finished { cpu_us, ..conclusion(sending) };
                messages::send(self.channel, &Message::Finished(finished.clone()))?;
                let complete = match self.ends_first {
                    true => Complete::default(),
                    false => self.await_complete(&lines)?,
                };
                Ok((finished, complete))
            });
            sending.filling.drain_until(&keeper.ended(), &self.pending);
            let (finished, complete) = told?;
            // Everything is in place, and the receiver needs nothing more.
            let removed = match removal {
                Some(removal) => self.remove_sources(removal, sending, &finished, &complete)?,
                None => Removed::default(),
            };
            if let (true, false) = (self.removes_sources, self.is_client()) {
                let Removed { removed, unremoved } = removed;
                messages::send(self.channel, &Message::Removed { removed, unremoved })?;
            }
            Ok(Outcome { finished, complete, removed })
        })
    }

    /// Removes arrived entries from the source, if all have arrived.
    fn remove_sources(
        &mut self,
        removal: Removal,
        sending: &Sending,
        finished: &Finished,
        complete: &Complete,
    ) -> Result<Removed, Error> {
        let has_failures = finished.failed > 0 || complete.failed > 0;
        let mut beat = Instant::now();
        removal.run(&sending.filling.sent, has_failures, |notice| {
            match notice {
                Some(notice) => self.tell(notice)?,
                None if beat.elapsed() > HEARTBEAT => {
                    beat = Instant::now();
                    let found = self.progress.snapshot();
                    let (bytes, files) = (found.bytes_found, found.files_found);
                    messages::send(self.channel, &Message::Found { bytes, files, complete: true })?;
                }
                None => {}
            }
            Ok(())
        })
    }

    /// Returns when everything was sent and acknowledged.
    fn watch_sending(&mut self, sending: &Sending, lines: &Lines) -> Result<(), Error> {
        let mut heard = Instant::now();
        let mut beat = Instant::now();
        let mut is_measured = false;
        loop {
            lines.control().announce(CONTROL);
            let done = sending.filling.queue.is_done();
            self.drain_notices()?;
            while let Some(known) = sending.filling.manifest.take() {
                messages::send(self.channel, &Message::Known(known))?;
            }
            while let Some(entry) = sending.filling.preview.take() {
                messages::send(self.channel, &Message::WouldSend(Box::new(entry)))?;
            }
            while let Some(message) = sending.filling.deltas.next_message() {
                messages::send(self.channel, &message)?;
            }
            if done && sending.stop.reason().is_none() {
                return Ok(());
            }
            // A receiver that connects opens no streams beside ssh for little data.
            if !is_measured && is_small(&self.progress).is_some() {
                is_measured = true;
                self.say_found()?;
            }
            self.tell_found(&mut beat)?;
            self.tell_lost(lines)?;
            match self.turn(lines, &mut heard)? {
                Turn::Nothing | Turn::Message(Message::Taken { .. }) => {}
                Turn::Message(Message::Complete(_)) => {
                    return Err(Error::protocol("the receiver has completed before the end"));
                }
                Turn::Message(message) => {
                    if !sending.filling.deltas.hear(sending, message)? {
                        return Err(Error::protocol("an unexpected message from the receiver"));
                    }
                }
            }
        }
    }

    /// Waits for the receiver's last message.
    fn await_complete(&mut self, lines: &Lines) -> Result<Complete, Error> {
        let mut heard = Instant::now();
        let mut beat = Instant::now();
        loop {
            lines.control().announce(CONTROL);
            self.drain_notices()?;
            // A receiver may have said its last and be gone, which is noticed when it is heard.
            let _ = self.tell_found(&mut beat);
            match self.turn(lines, &mut heard)? {
                Turn::Nothing | Turn::Message(Message::Taken { .. }) => {}
                Turn::Message(Message::Complete(complete)) => return Ok(complete),
                Turn::Message(_) => return Err(Error::protocol("an unexpected message from the receiver")),
            }
        }
    }

    /// Sends the totals of the scan, once in a while, which is also a sender's sign of life.
    fn tell_found(&mut self, beat: &mut Instant) -> Result<(), Error> {
        if beat.elapsed() <= HEARTBEAT {
            return Ok(());
        }
        *beat = Instant::now();
        self.say_found()
    }

    fn say_found(&mut self) -> Result<(), Error> {
        let found = self.progress.snapshot();
        let (bytes, files, complete) = (found.bytes_found, found.files_found, found.scan_complete);
        messages::send(self.channel, &Message::Found { bytes, files, complete })
    }

    /// Runs a receiving end.
    pub(crate) fn receive_all(
        &mut self,
        receiving: &Arc<Receiving>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let lines = Lines::Receive(receiving.clone());
        let clock = self.clock.clone();
        let own = clock.share();
        thread::scope(|scope| {
            let threads = Threads::new(scope, &receiving.stop, &receiving.bells);
            threads.start("lanes", || {
                let abandon = || receiving.stop.finish(&receiving.bells);
                let run = run_lanes(receiving.lanes, Pinning::Free, abandon, |lane| {
                    let _share = clock.share();
                    receive::lane::run(receiving, lane);
                });
                lanes_ended(run, &lines);
            });
            threads.start("streams", || {
                let _share = clock.share();
                keep(&lines);
            });
            let deltas = receiving.files.deltas.as_ref();
            for deltas in deltas.into_iter().flat_map(|deltas| (0..receiving.lanes).map(move |_| deltas)) {
                let clock = &clock;
                threads.start("delta", move || {
                    let _share = clock.share();
                    receive::files::versions::run(receiving, deltas);
                });
            }
            let finished = self.watch_receiving(receiving, &lines);
            let finished_at = Instant::now();
            deltas.into_iter().for_each(receive::files::versions::Deltas::stop);
            receiving.stop.finish(&receiving.bells);
            receiving.control.ring();
            // Lanes that wait to pass on a notice must not wait for ever, and their notices must still be reported.
            let late = drain_until(&threads.ended(), &self.pending, (&never::<()>(), &never::<()>()));
            let finished = finished?;
            // All notices are reported before the first deletion, including those of lanes after the last check.
            late.into_iter().try_for_each(|notice| self.tell(notice))?;
            self.drain_notices()?;
            let pruned = self.settle_files(receiving, &finished)?;
            self.drain_notices()?;
            let active = receiving.first_byte.get().map_or(Duration::ZERO, |first| finished_at - *first);
            let own_cpu_us = clock.ended_us() + own.elapsed_us();
            let complete = Complete {
                active_us: active.as_micros() as u64,
                cpu_us: own_cpu_us,
                ..completion(&receiving.files, pruned)
            };
            // Whatever happens to the message, a later run finds the entries in place.
            remove_journal(receiving, &finished)?;
            let told = messages::send(self.channel, &Message::Complete(complete.clone()));
            let removed = match (self.is_client(), self.removes_sources) {
                (true, true) => told.and_then(|()| self.await_removal())?,
                // A sender whose part is done may be gone.
                (true, false) => Removed::default(),
                (false, _) => told.map(|()| Removed::default())?,
            };
            Ok(Outcome { finished, complete, removed })
        })
    }

    fn watch_receiving(&mut self, receiving: &Receiving, lines: &Lines) -> Result<Finished, Error> {
        let mut preview = receiving.files.preview();
        let mut heard = Instant::now();
        let mut beat = Instant::now();
        loop {
            lines.control().announce(CONTROL);
            self.drain_notices()?;
            if beat.elapsed() > HEARTBEAT {
                beat = Instant::now();
                let done = self.progress.snapshot();
                messages::send(
                    self.channel,
                    &Message::Taken { bytes: done.bytes_moved, files: done.files_done },
                )?;
            }
            self.tell_lost(lines)?;
            while let Some(message) =
                receiving.files.deltas.as_ref().and_then(receive::files::versions::Deltas::next_message)
            {
                messages::send(self.channel, &message)?;
            }
            match self.turn(lines, &mut heard)? {
                Turn::Nothing => {}
                Turn::Message(message @ (Message::Version { .. } | Message::Sign(_))) => {
                    let deltas = receiving.files.deltas.as_ref();
                    let deltas =
                        deltas.ok_or_else(|| Error::protocol("the sender compares, which was not agreed"))?;
                    match message {
                        Message::Version { file, path, elsewhere } => {
                            deltas.open(&receiving.files, file, path, elsewhere)?;
                        }
                        Message::Sign(sign) => deltas.sign(sign)?,
                        _ => {}
                    }
                }
                Turn::Message(Message::Found { bytes, files, complete }) => {
                    self.progress.bytes_found.store(bytes, Relaxed);
                    self.progress.files_found.store(files, Relaxed);
                    self.progress.files_measured.store(files, Relaxed);
                    self.progress.scan_complete.store(complete, Relaxed);
                }
                Turn::Message(Message::Known(known)) => match &mut self.prune {
                    Some(prune) => prune.learn(&known),
                    // In a dry run there may be no target yet, and nothing to delete.
                    None if preview.is_some() => {}
                    None => return Err(Error::protocol("the sender tells names that nobody asked for")),
                },
                Turn::Message(Message::WouldSend(entry)) => match &mut preview {
                    Some(preview) => {
                        let Some(change) = preview.look(&receiving.files, &entry)? else { continue };
                        if let (true, Some(prune)) = (change.differences.gives_way, &mut self.prune) {
                            prune.replaced.push(entry.path.clone());
                        }
                        let bytes = entry.content_bytes();
                        self.tell(Notice::WouldSend { change, bytes })?;
                    }
                    None => return Err(Error::protocol("the sender does not send, but tells what it would")),
                },
                Turn::Message(Message::Finished(finished)) => {
                    if receiving.files.open_count() > 0 && !receiving.blind {
                        return Err(Error::protocol("the sender has finished, but files are incomplete"));
                    }
                    return Ok(finished);
                }
                Turn::Message(_) => return Err(Error::protocol("an unexpected message from the sender")),
            }
        }
    }

    /// Everything has arrived: deletes entries that the source does not have, and gives directories their modes and
    /// times.
    fn settle_files(&mut self, receiving: &Receiving, finished: &Finished) -> Result<Pruned, Error> {
        let files = &receiving.files;
        // This happens before folders get their times.
        if is_complete(receiving, finished) {
            files.discard_abandoned();
            leftovers::settle(files);
        }
        files.discard_ranges();
        let pruned = self.prune_target(receiving, finished)?;
        finish_folders(files, || self.drain_notices())?;
        Ok(pruned)
    }

    /// Deletes entries that the source does not have, if requested.
    fn prune_target(&mut self, receiving: &Receiving, finished: &Finished) -> Result<Pruned, Error> {
        let Some(mut prune) = self.prune.take() else { return Ok(Pruned::default()) };
        let refusal = prune.refusal(finished.failed.saturating_sub(finished.unfit));
        let mut beat = Instant::now();
        prune.run_unless(refusal, |step| {
            match step {
                Step::NotReplaced(path, why) => {
                    receiving.files.not_replaced(&path, &why);
                    self.drain_notices()?;
                }
                step => {
                    let notice = step.notice(|path| receiving.files.shown(path));
                    notice.into_iter().try_for_each(|notice| self.tell(notice))?;
                }
            }
            if beat.elapsed() > HEARTBEAT {
                beat = Instant::now();
                self.show_life()?;
            }
            Ok(())
        })
    }

    /// Sends a sign of life during long work of this thread, and checks whether the other end has given up.
    fn show_life(&mut self) -> Result<(), Error> {
        // A sender whose part is done may be gone.
        let may_be_gone = self.is_client() && !self.removes_sources;
        let done = self.progress.snapshot();
        let told =
            messages::send(self.channel, &Message::Taken { bytes: done.bytes_moved, files: done.files_done });
        if !may_be_gone {
            told?;
        }
        if self.progress.cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        loop {
            let frame = match self.channel.recv(Instant::now()) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(_) if may_be_gone => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match Message::decode(&frame).map_err(|error| Error::protocol(error.to_string()))? {
                Message::Abort(abort) => return Err(abort.into()),
                Message::Found { .. } | Message::EntryFailed { .. } => {}
                // A stream inside the channel has brought everything already.
                Message::Carry { .. } | Message::Carried { .. } => {}
                // No more streams are needed.
                Message::StreamLost { .. } if self.is_client() => {}
                _ => return Err(Error::protocol("an unexpected message from the sender")),
            }
        }
    }

    /// Waits until the server has removed the entries that arrived from its source; it shows signs of life meanwhile.
    fn await_removal(&mut self) -> Result<Removed, Error> {
        loop {
            match messages::receive(self.channel, Instant::now() + self.timeout)?.0 {
                Message::Removed { removed, unremoved } => return Ok(Removed { removed, unremoved }),
                Message::Abort(abort) => return Err(abort.into()),
                Message::EntryFailed { path, reason } => self.far_failed(path, reason),
                // A server may say this until it learns that everything is in place.
                Message::Found { .. } | Message::StreamLost { .. } => {}
                Message::Carry { .. } | Message::Carried { .. } => {}
                _ => return Err(Error::protocol("an unexpected message from the sender")),
            }
        }
    }
}

/// If lanes could not be started, the transfer ends for that reason.
fn lanes_ended<T>(run: std::io::Result<T>, lines: &Lines) {
    if let Err(error) = run {
        lines.stop().fail(Error::io(NO_THREAD, &error), lines.bells());
        lines.control().ring();
    }
}

/// Returns whether no entry failed that a later run may copy by continuing this one.
fn is_complete(receiving: &Receiving, finished: &Finished) -> bool {
    finished.failed == finished.unfit && receiving.files.counters.failed.load(Relaxed) == 0
}

/// Removes the journal, unless a later run can continue with it. An empty journal is useless if nothing was made
/// either.
fn remove_journal(receiving: &Receiving, finished: &Finished) -> Result<(), Error> {
    let made_nothing = receiving.files.counters.entries.load(Relaxed) == 0;
    match &receiving.files.journal {
        Some(journal) if is_complete(receiving, finished) || (made_nothing && journal.is_unused()) => {
            journal.remove().map_err(|error| Error::io("cannot remove the journal", &error))
        }
        _ => Ok(()),
    }
}
