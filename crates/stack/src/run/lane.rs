//! A lane of a crew.
//!
//! Guarantees: it runs only work that the placement assigns to it, and hands all other work over; it waits nowhere
//! but in [`sealane_lanes::run_lane`].

use std::{
    collections::VecDeque,
    io,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::{Queue, Submitter};
use sealane_transform::debug_only;

use super::{Crew, RunError, Task, counts, line_of};
use crate::{
    Outbox, Way,
    parts::{Part, cut_blocks, join_parts, split_functions},
};
use sealane_lanes::{At, LONGEST_SLEEP, LaneWork, Placement, Turn};
use sealane_port::Batch;

/// The maximum number of tasks that a lane takes from a queue in one turn.
const TASKS_PER_TURN: usize = 16;

/// The owner of a work that is at the engine.
#[derive(Debug)]
enum Owner {
    Batch {
        batch: Batch,
        line: usize,
        step: usize,
    },
    /// This lane's part of a batch whose other parts are at other lanes.
    Own {
        join: usize,
    },
    /// Another lane's part.
    Part {
        part: Part,
        home: usize,
        join: usize,
    },
}

/// A batch in parts.
#[derive(Debug, Default)]
struct Join {
    batch: Batch,
    line: usize,
    step: usize,
    /// The number of parts that are not done.
    missing: usize,
    parts: Vec<Part>,
}

/// One lane of a [`Crew`].
pub struct Lane<'a> {
    crew: &'a Crew,
    lane: usize,
    engine: Submitter<Owner>,
    joins: Vec<Join>,
    free_joins: Vec<usize>,
    todo: VecDeque<Task>,
    outbox: Outbox<'a>,
    spare: Option<Batch>,
    /// The line whose source was asked first.
    first_line: usize,
}

debug_only!(Lane<'_> { lane });

impl<'a> Lane<'a> {
    pub(super) fn new(crew: &'a Crew, lane: usize, engine: Box<dyn Queue>) -> Self {
        let batches = crew.plan.batches;
        Self {
            crew,
            lane,
            engine: Submitter::new(engine, batches),
            joins: Vec::new(),
            free_joins: Vec::new(),
            todo: VecDeque::with_capacity(batches),
            outbox: Outbox::new(&crew.pool, lane),
            spare: None,
            first_line: 0,
        }
    }

    fn broken(&self, flow: usize, error: &io::Error) {
        self.crew.stop.fail(RunError { flow, message: error.to_string() }, &self.crew.bells);
    }

    fn run_task(&mut self, task: Task) {
        match task {
            Task::Batch { batch, line, step, is_turned } => self.advance(batch, line, step, is_turned),
            Task::Part { mut part, home, join } => {
                let work = std::mem::take(&mut part.work);
                self.engine.submit(work, Owner::Part { part, home, join });
            }
            Task::Joined { part, join } => {
                self.joins[join].parts.push(part);
                self.part_done(join);
            }
        }
    }

    fn count(&self, counter: impl Fn(&counts::Counting) -> &std::sync::atomic::AtomicU64, count: u64) {
        counts::add(counter(&self.crew.counts[self.lane]), count);
    }

    fn hand_over(&self, lane: usize, task: Task) {
        self.count(|counts| &counts.handed_over, 1);
        self.crew.hand_over(lane, task);
    }

    /// Processes a batch from a step on, as far as this lane may. `is_turned` says that its turn at that step, which
    /// is serial, is over.
    fn advance(&mut self, mut batch: Batch, line: usize, mut step: usize, mut is_turned: bool) {
        let crew = self.crew;
        let path = &crew.lines[line];
        loop {
            let at = path.at(step);
            if !crew.may_run(self.lane, at) {
                self.hand_over(crew.owner(at), Task::Batch { batch, line, step, is_turned });
                return;
            }
            let layer = path.layers.get(step);
            if let Some(point) = path.point_at(step)
                && !is_turned
            {
                if let Some(layer) = layer {
                    layer.enter(path.way, &mut batch);
                }
                let depth = &crew.counts[self.lane].reorder_depth;
                depth.store(depth.load(Relaxed).max(path.order(point).ahead(batch.ticket)), Relaxed);
                match path.order(point).restore(path.place(point, batch.ticket), batch) {
                    Ok(()) => self.drain(line, point),
                    Err(refused) => crew.pool.give(refused.into_inner()),
                }
                return;
            }
            let layer = layer.expect("beyond the last step all is over");
            if !is_turned {
                layer.enter(path.way, &mut batch);
            } else if batch.is_unwritten {
                crew.pool.settle(self.lane, &mut batch);
            }
            if batch.work.pending() > 0 {
                self.run_jobs(batch, line, step);
                return;
            }
            layer.leave(path.way, &mut batch);
            batch.clear_jobs(batch.work.direction);
            step += 1;
            is_turned = false;
        }
    }

    /// Hands a batch's jobs to the engine, in parts if the placement requires that.
    fn run_jobs(&mut self, mut batch: Batch, line: usize, step: usize) {
        self.count(|counts| &counts.batches, 1);
        let bytes: usize = batch.packets.iter().map(|packet| packet.len()).sum();
        self.count(|counts| &counts.bytes, bytes as u64);
        let mut parts = self.parts(&mut batch, line, step);
        if parts.is_empty() {
            let work = std::mem::take(&mut batch.work);
            self.engine.submit(work, Owner::Batch { batch, line, step });
            return;
        }
        let join = self.free_joins.pop().unwrap_or_else(|| {
            self.joins.push(Join::default());
            self.joins.len() - 1
        });
        let at = self.crew.lines[line].at(step);
        let work = std::mem::take(&mut batch.work);
        self.joins[join] = Join { batch, line, step, missing: parts.len() + 1, parts: Vec::new() };
        for (number, part) in (1..).zip(parts.drain(..)) {
            let owner = self.crew.owner(At { part: number, ..at });
            self.hand_over(owner, Task::Part { part, home: self.lane, join });
        }
        self.engine.submit(work, Owner::Own { join });
    }

    /// Returns the parts of a batch for other lanes; none if they would not help, or if there is no room for parts.
    fn parts(&self, batch: &mut Batch, line: usize, step: usize) -> Vec<Part> {
        let crew = self.crew;
        let others = crew.plan.lanes.get() - 1;
        let path = &crew.lines[line];
        let functions = match crew.plan.placement {
            Placement::Function => path.layers[step].functions(path.way),
            Placement::Block => None,
            _ => return Vec::new(),
        };
        let wanted = match (crew.plan.placement, functions) {
            (Placement::Function, None) => 0,
            (Placement::Function, Some(_)) => others.min(1),
            _ => others,
        };
        let mut parts = Vec::with_capacity(wanted);
        parts.extend(std::iter::from_fn(|| crew.parts.take()).take(wanted));
        match functions {
            Some(functions) if !parts.is_empty() => split_functions(batch, functions, &mut parts[0]),
            _ => cut_blocks(batch, &mut parts),
        }
        while parts.last().is_some_and(Part::is_empty) {
            parts.pop().into_iter().for_each(|part| crew.parts.give(part));
        }
        parts
    }

    /// Processes the works that the engine has finished.
    fn collect(&mut self) -> bool {
        let mut any = false;
        while let Some((work, owner)) = self.engine.finished() {
            any = true;
            match owner {
                Owner::Batch { mut batch, line, step } => {
                    batch.work = work;
                    self.leave(batch, line, step);
                }
                Owner::Own { join } => {
                    self.joins[join].batch.work = work;
                    self.part_done(join);
                }
                Owner::Part { mut part, home, join } => {
                    part.work = work;
                    let task = Task::Joined { part, join };
                    if home == self.lane { self.todo.push_back(task) } else { self.hand_over(home, task) }
                }
            }
        }
        any
    }

    fn part_done(&mut self, join: usize) {
        self.joins[join].missing -= 1;
        if self.joins[join].missing > 0 {
            return;
        }
        let Join { mut batch, line, step, parts, .. } = std::mem::take(&mut self.joins[join]);
        self.free_joins.push(join);
        join_parts(&parts, &mut batch);
        parts.into_iter().for_each(|part| self.crew.parts.give(part));
        self.leave(batch, line, step);
    }

    /// Ends a step whose jobs have run, and goes on.
    fn leave(&mut self, mut batch: Batch, line: usize, step: usize) {
        let path = &self.crew.lines[line];
        path.layers[step].leave(path.way, &mut batch);
        batch.clear_jobs(batch.work.direction);
        self.advance(batch, line, step + 1, false);
    }

    /// Takes on the batches that have arrived at a point, in order, and then those at the earlier points that waited
    /// for that.
    fn drain(&mut self, line: usize, point: usize) {
        let path = &self.crew.lines[line];
        let taken = if path.is_end(point) {
            path.finish(&self.crew.pool).unwrap_or_else(|error| {
                self.broken(path.flow, &error);
                0
            })
        } else {
            self.take_turns(line, point)
        };
        if taken == 0 {
            return;
        }
        // There is room again, for sources and for waiting batches.
        self.crew.wake();
        if let Some(before) = point.checked_sub(1)
            && !path.is_clear(point)
        {
            let Self { crew, todo, .. } = self;
            let step = path.step_of(before);
            let go_on = |batch| put_aside(crew, todo, Task::Batch { batch, line, step, is_turned: true });
            if path.send_on(point, std::iter::empty(), go_on) {
                self.drain_both(line, before);
            }
        }
    }

    /// Returns the line and point at which the packets of the other direction arrive at the serial layer of a point.
    fn opposite(&self, line: usize, point: usize) -> Option<(usize, usize)> {
        let path = &self.crew.lines[line];
        let (other, step) = (line ^ 1, path.layers.len() - 1 - path.step_of(point));
        self.crew.lines[other].point_at(step).map(|point| (other, point))
    }

    /// Drains a serial layer in both directions: both may have waited for the same place.
    fn drain_both(&mut self, line: usize, point: usize) {
        self.drain(line, point);
        if let Some((line, point)) = self.opposite(line, point) {
            self.drain(line, point);
        }
    }

    /// Takes the batches that have arrived at a serial layer, in both directions, through it; returns at once if
    /// another lane does that, which then takes along these batches. Batches that leave the layer get their tickets
    /// before the turn ends.
    fn take_turns(&mut self, line: usize, point: usize) -> usize {
        let crew = self.crew;
        let path = &crew.lines[line];
        let sides = [Some((line, point)), self.opposite(line, point)];
        let mut taken = 0;
        loop {
            let Ok(turn) = path.turn(path.step_of(point)).try_lock() else {
                self.count(|counts| &counts.found_busy, 1);
                return taken;
            };
            let began = Instant::now();
            let count: usize =
                sides.into_iter().flatten().map(|(line, point)| self.drain_layer(line, point)).sum();
            drop(turn);
            if let Some(due) = path.layers[path.step_of(point)].poll_timeout() {
                crew.note_due(due);
            }
            self.count(|counts| &counts.turns, count as u64);
            self.count(|counts| &counts.turn_ns, began.elapsed().as_nanos() as u64);
            taken += count;
            // A lane that brought a batch meanwhile found the turn taken, and relies on this look.
            if !sides.into_iter().flatten().any(|(line, point)| crew.lines[line].is_ready(point)) {
                return taken;
            }
        }
    }

    fn drain_layer(&mut self, line: usize, point: usize) -> usize {
        let crew = self.crew;
        let path = &crew.lines[line];
        let step = path.step_of(point);
        let layer = &path.layers[step];
        let now = crew.clock.now();
        let Self { outbox, todo, .. } = self;
        path.order(point).drain(
            |_| path.is_clear(point + 1),
            |_, batch| {
                layer.serial(path.way, batch, now, outbox);
                send_out(crew, line, step, outbox, todo);
            },
        )
    }

    /// Calls every serial layer whose time has come. Only the first lane does this.
    fn time_out(&mut self) -> bool {
        let crew = self.crew;
        if self.lane != 0 || !crew.has_serial {
            return false;
        }
        let now = crew.clock.now();
        if !crew.take_due(now) {
            return false;
        }
        let mut any = false;
        for (line, path) in crew.lines.iter().enumerate().filter(|(_, path)| path.way == Way::Down) {
            for (step, layer) in path.layers.iter().enumerate() {
                let Some(due) = layer.poll_timeout() else { continue };
                if due <= now {
                    any = true;
                    let turn = path.turn(step).lock().expect("no lane panics in its turn");
                    layer.handle_timeout(now, &mut self.outbox);
                    send_out(crew, line, step, &mut self.outbox, &mut self.todo);
                    drop(turn);
                    // A lane that found the turn taken relies on this.
                    if let Some(point) = path.point_at(step) {
                        self.drain_both(line, point);
                    }
                }
                layer.poll_timeout().into_iter().for_each(|due| crew.note_due(due));
            }
        }
        any
    }

    /// Runs the tasks that this lane has put aside for itself. The loop ends, because each batch goes on until it
    /// waits, leaves, or goes to another lane.
    fn run_todo(&mut self) -> bool {
        let mut any = false;
        while let Some(task) = self.todo.pop_front() {
            any = true;
            self.run_task(task);
            self.collect();
        }
        any
    }

    /// Receives a batch from every source that this lane may ask.
    fn receive(&mut self) -> bool {
        let crew = self.crew;
        let mut any = false;
        // The first flow alternates; otherwise it would get all batches when they are few.
        self.first_line = (self.first_line + 2) % crew.lines.len().max(1);
        let lines = crew.lines.iter().enumerate();
        let in_turn = lines.clone().skip(self.first_line).chain(lines.take(self.first_line));
        for (line, path) in in_turn.filter(|(_, path)| path.has_source()) {
            let is_asked = crew.may_run(self.lane, path.at(0))
                && path.order(0).has_room()
                && path.has_room()
                && crew.pool.has_more_than(crew.left_by(path.way));
            if !is_asked {
                continue;
            }
            let Some(mut batch) = self.spare.take().or_else(|| crew.pool.take(self.lane)) else { break };
            match path.receive(&mut batch) {
                Ok(true) => {
                    any = true;
                    self.advance(batch, line, 0, false);
                    self.collect();
                    // The tasks that result from it run first; otherwise flows that are asked early would fill the
                    // pool with waiting batches.
                    self.run_todo();
                }
                Ok(false) => {
                    batch.clear();
                    self.spare = Some(batch);
                }
                Err(error) => self.broken(path.flow, &error),
            }
        }
        if !any && let Some(spare) = self.spare.take() {
            // Another lane may need it.
            crew.pool.give(spare);
        }
        any
    }
}

/// Puts a task aside for this lane; if any lane may run it and this lane has another task already, puts it into the
/// shared queue. A lane that kept all tasks for which it has found a place would leave no work to the others, whose
/// batches have to wait for it.
fn put_aside(crew: &Crew, todo: &mut VecDeque<Task>, task: Task) {
    if crew.plan.placement == Placement::Packet && !todo.is_empty() {
        crew.shared.put.try_send(task).expect("a queue has room for everything that exists");
        crew.wake();
    } else {
        todo.push_back(task);
    }
}

/// Sends the batches that a serial layer has put out in their directions.
fn send_out(crew: &Crew, line: usize, step: usize, outbox: &mut Outbox<'_>, todo: &mut VecDeque<Task>) {
    let path = &crew.lines[line];
    for way in [Way::Down, Way::Up] {
        let target = line_of(path.flow, way);
        let step = if way == path.way { step } else { path.layers.len() - 1 - step };
        let Some(point) = crew.lines[target].point_at(step) else {
            while let Some(batch) = outbox.next(way) {
                crew.pool.give(batch);
            }
            continue;
        };
        let batches = std::iter::from_fn(|| outbox.next(way));
        crew.lines[target].send_on(point + 1, batches, |batch| {
            put_aside(crew, todo, Task::Batch { batch, line: target, step, is_turned: true });
        });
    }
}

impl LaneWork for Lane<'_> {
    fn step(&mut self) -> Turn {
        let crew = self.crew;
        let mut moved = self.collect() | self.run_todo();
        for queue in [&crew.inboxes[self.lane].take, &crew.shared.take] {
            for task in queue.try_iter().take(TASKS_PER_TURN) {
                moved = true;
                self.run_task(task);
                self.collect();
                // The tasks that result from it run first: they are older than the waiting ones, and their data are
                // in the cache.
                self.run_todo();
            }
        }
        for (line, path) in crew.lines.iter().enumerate() {
            let end = path.layers.len();
            if path.blocked.load(SeqCst)
                && crew.may_run(self.lane, path.at(end))
                && let Some(point) = path.point_at(end)
            {
                let was = moved;
                self.drain(line, point);
                moved = was || !path.blocked.load(SeqCst);
            }
        }
        moved |= self.time_out();
        moved |= self.receive();
        if moved { Turn::Moved } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        let mut deadline = if self.lane == 0 { self.crew.due() } else { None };
        for path in &self.crew.lines {
            let is_asked = path.has_source() && self.crew.may_run(self.lane, path.at(0));
            if is_asked && path.order(0).has_room() && path.has_room() {
                deadline = [deadline, path.source_timeout()].into_iter().flatten().min();
                fds.extend(path.source_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            }
            if path.blocked.load(SeqCst) {
                fds.extend(path.sink_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
            }
        }
        fds.extend(self.engine.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let until = |deadline: Instant| deadline.saturating_duration_since(self.crew.clock.now());
        deadline.map_or(LONGEST_SLEEP, until)
    }
}
