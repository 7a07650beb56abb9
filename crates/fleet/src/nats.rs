//! The queue of a NATS server (JetStream), for hosts that no coordinator reaches: those of a scheduler, or more than
//! a hundred.
//!
//! Guarantees: those of [`Queue`]. A lease is the server's acknowledgement wait: a lost worker is noticed
//! [`ACK_WAIT`] after its last sign of life. A result is kept before its job is acknowledged, so a worker or server
//! that is killed in between costs at most the work, never the result; and the first result of a job is the only one,
//! because the server accepts a result only if there is none yet. No content of files passes the server.
//!
//! Each client has subjects of its own, named by its key, to which a server can restrict it ([`rights`]); then a worker
//! neither announces an order nor speaks in the name of another. Orders count by their signature alone.
//!
//! The server's setting `sync_interval: always` decides if acknowledged messages survive a power cut; no client can
//! see it. All of this crate's asynchronous code runs on one thread that belongs to the queue.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{self, AckKind, ErrorCode, Message};
use async_nats::{ConnectOptions, ServerAddr};
use futures_util::StreamExt;
use sealane_peer::{HostPort, PublicKey, QueueTls, chain};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{FleetError, Result};
use crate::journal::Journal;
use crate::queue::{
    CoordinatorQueue, Finished, Job, JobId, Lease, Outcome, Put, Queue, RESULT_BYTES_PER_ANSWER,
    RESULTS_PER_ANSWER, Standing, Taken, Weight, check_body, check_order, check_result,
};
use crate::wire::{decode, encode};
use crate::work::Report;

/// A worker that was silent for this time is lost. A mover reports twice per second.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// The server forgets after this time which jobs were put; a client that puts them again finds their results.
const DUPLICATES: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of workers that wait for work, and of jobs that are held.
const WORKERS_MAX: i64 = 4096;
/// The maximum time for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(30);
/// The port for an address without one.
pub const DEFAULT_PORT: u16 = 4222;
/// The oldest supported server: earlier ones do not know `sync_interval`.
const VERSION_MIN: (u32, u32) = (2, 10);
/// The one consumer that all workers share.
const CONSUMER: &str = "workers";

/// A server's address: `tls://HOST[:PORT]`, or `nats://HOST[:PORT]` without protection, for this host only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address at which it listens.
    pub address: HostPort,
    /// The connection uses TLS.
    pub is_protected: bool,
}

impl std::str::FromStr for Server {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self> {
        let fault = |fault: &str| FleetError::Hosts { text: text.to_owned(), fault: fault.to_owned() };
        let (is_protected, rest) = match (text.strip_prefix("tls://"), text.strip_prefix("nats://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(fault("a queue is tls://HOST[:PORT]")),
        };
        let bare = rest.trim_end_matches('/');
        let mut address: HostPort = bare.parse()?;
        if !bare.ends_with(&format!(":{}", address.port)) {
            address.port = DEFAULT_PORT;
        }
        let is_here = address.host == "localhost"
            || address.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        match is_protected || is_here {
            true => Ok(Self { address, is_protected }),
            false => Err(fault(
                "over a network a queue is tls://HOST: nats:// is neither encrypted nor authenticated",
            )),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_protected { "tls" } else { "nats" }, self.address)
    }
}

/// The server's settings for a queue.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// Jobs that may wait.
    pub jobs: i64,
    /// The time of silence after which a worker is lost.
    pub ack_wait: Duration,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { jobs: 1024, ack_wait: ACK_WAIT }
    }
}

/// A run's queue on a NATS server.
#[derive(Debug)]
pub struct NatsQueue {
    engine: Engine,
    context: Context,
    jobs: Stream,
    results: Stream,
    workers: Consumer<pull::Config>,
    run: String,
    /// The last part of the subjects of this client.
    name: String,
    /// The messages that this process holds.
    held: Mutex<HashMap<u64, Message>>,
}

/// The thread on which all asynchronous code runs.
#[derive(Debug)]
struct Engine {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(FleetError::Thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("queue".into());
        let thread = thread.spawn(move || {
            // It also ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
        });
        Ok(Self { handle, stop: Some(stop), thread: Some(thread.map_err(FleetError::Thread)?) })
    }

    fn run<T>(&self, patience: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let bounded = async { tokio::time::timeout(patience, work).await };
        self.handle
            .block_on(bounded)
            .unwrap_or_else(|_| Err(FleetError::Queue("the server does not answer".into())))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Nothing in it panics, and there is nothing left to lose.
            let _ = thread.join();
        }
    }
}

fn failed(error: impl std::error::Error) -> FleetError {
    FleetError::Queue(chain(&error))
}

impl NatsQueue {
    /// Connects to a run's queue; with `keeping` it is created if it does not exist.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, is not trusted or is too old, or has no such queue.
    pub fn connect(
        server: &Server,
        tls: Option<&QueueTls>,
        run: &str,
        keeping: Option<Keeping>,
    ) -> Result<Self> {
        let engine = Engine::start()?;
        let name = client_name(tls)?;
        let mut options = ConnectOptions::new().name("sealane").connection_timeout(Duration::from_secs(10));
        options = options.custom_inbox_prefix(inbox(&name));
        if let Some(tls) = tls {
            options = options.require_tls(true).tls_client_config(tls.config()?);
        }
        let scheme = if tls.is_some() { "tls" } else { "nats" };
        let address: ServerAddr = format!("{scheme}://{}", server.address)
            .parse()
            .map_err(|error: std::io::Error| FleetError::Usage(error.to_string()))?;
        // There is one attempt, without retries, so that a refusal is reported.
        let connected = engine.run(PATIENCE, async { options.connect(address).await.map_err(failed) });
        if let Some(tls) = tls {
            tls.judge(connected.is_ok())?;
        }
        let client = connected
            .map_err(|error| FleetError::Queue(format!("cannot connect to {}: {error}", server.address)))?;
        let version = client.server_info().version;
        let number =
            |at: usize| version.split('.').nth(at).and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
        if (number(0), number(1)) < VERSION_MIN {
            let printable: String =
                version.chars().filter(|character| !character.is_control()).take(40).collect();
            return Err(FleetError::Queue(format!(
                "{} is NATS {printable}; 2.10 is the oldest that can keep what it acknowledges",
                server.address
            )));
        }
        // The context starts a task at once.
        let context = engine.run(PATIENCE, async { Ok(jetstream::new(client)) })?;
        let (jobs, results, workers) = engine.run(PATIENCE, async {
            let (jobs, results) = match keeping {
                Some(keeping) => (
                    context.get_or_create_stream(jobs_config(run, keeping)).await.map_err(failed)?,
                    context.get_or_create_stream(results_config(run)).await.map_err(failed)?,
                ),
                None => (
                    context.get_stream(format!("sealane-{run}-jobs")).await.map_err(failed)?,
                    context.get_stream(format!("sealane-{run}-results")).await.map_err(failed)?,
                ),
            };
            let config = pull::Config {
                durable_name: Some(CONSUMER.into()),
                ack_policy: AckPolicy::Explicit,
                ack_wait: keeping.unwrap_or_default().ack_wait,
                // A job is handed out until it has a result; the worker counts the attempts.
                max_deliver: -1,
                max_ack_pending: WORKERS_MAX,
                max_waiting: WORKERS_MAX,
                ..pull::Config::default()
            };
            let workers = match keeping {
                Some(_) => jobs.get_or_create_consumer(CONSUMER, config).await.map_err(failed)?,
                None => {
                    jobs.get_consumer(CONSUMER).await.map_err(|error| FleetError::Queue(error.to_string()))?
                }
            };
            Ok((jobs, results, workers))
        })?;
        Ok(Self {
            engine,
            context,
            jobs,
            results,
            workers,
            run: run.to_owned(),
            name,
            held: Mutex::default(),
        })
    }

    fn subject(&self, kind: &str, name: &str) -> String {
        format!("sealane.{}.{kind}.{name}", self.run)
    }

    /// Returns the subject of a job or result of this client.
    fn own(&self, kind: &str, id: &JobId) -> String {
        self.subject(kind, &format!("{id}.{}", self.name))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Message>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last message of a subject, if there is one.
    async fn last(&self, subject: &str) -> Result<Option<Vec<u8>>> {
        match self.results.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message.payload.to_vec())),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn publish(&self, subject: String, message: PublishMessage) -> Result<Published> {
        let sent = self.context.send_publish(subject, message).await.map_err(failed)?;
        match sent.await {
            Ok(ack) if ack.duplicate => Ok(Published::Known),
            Ok(_) => Ok(Published::New),
            Err(error) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Ok(Published::Known),
                PublishErrorKind::Other if is_full(&error) => Ok(Published::Full),
                _ => Err(failed(error)),
            },
        }
    }

    /// Returns the first result of a job, whoever has given it, with its subject.
    async fn first(&self, id: &JobId) -> Result<Option<(String, Vec<u8>)>> {
        let subject = self.subject("result", &format!("{id}.*"));
        match self.results.direct_get_next_for_subject(subject, Some(1)).await {
            Ok(message) => Ok(Some((message.subject.to_string(), message.payload.to_vec()))),
            Err(error) if error.kind() == jetstream::stream::DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns whether a job of this id has its result.
    async fn is_done(&self, id: &JobId) -> Result<bool> {
        Ok(self.first(id).await?.is_some())
    }

    async fn is_over(&self) -> Result<bool> {
        if self.last(&self.subject("meta", "sealed")).await?.is_none() {
            return Ok(false);
        }
        let info = self.jobs.get_info().await.map_err(failed)?;
        Ok(info.state.messages == 0)
    }

    async fn take_one(&self, deadline: Instant) -> Result<Taken> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(20));
            let batch =
                self.workers.batch().max_messages(1).expires(left).messages().await.map_err(failed)?;
            let mut batch = std::pin::pin!(batch);
            let Some(message) = batch.next().await else {
                return match self.is_over().await? {
                    true => Ok(Taken::Over),
                    false => Ok(Taken::Nothing),
                };
            };
            let message = message.map_err(|error| FleetError::Queue(error.to_string()))?;
            let (attempt, token) = {
                let info = message.info().map_err(|error| FleetError::Queue(error.to_string()))?;
                (u32::try_from(info.delivered).unwrap_or(u32::MAX), info.consumer_sequence)
            };
            let Ok(job) = decode::<Job>(&message.payload) else {
                // Nobody will ever read it, and whoever has put it ends no worker with it.
                message
                    .ack_with(AckKind::Term)
                    .await
                    .map_err(|error| FleetError::Queue(error.to_string()))?;
                continue;
            };
            if self.is_done(&job.id).await? {
                message.double_ack().await.map_err(|error| FleetError::Queue(error.to_string()))?;
                continue;
            }
            self.held().insert(token, message);
            return Ok(Taken::Job(Lease { job, attempt, token }));
        }
    }

    async fn acknowledge(&self, token: u64, kind: AckKind) -> Result<()> {
        let message = self.held().get(&token).cloned();
        match message {
            Some(message) => {
                message.ack_with(kind).await.map_err(|error| FleetError::Queue(error.to_string()))
            }
            None => Ok(()),
        }
    }
}

/// Returns the part of a client's subjects that nobody else has: the label of its key. On this host, where a server knows
/// nobody, it is random.
fn client_name(tls: Option<&QueueTls>) -> Result<String> {
    if let Some(tls) = tls {
        return Ok(tls.key().label());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| FleetError::Queue(format!("no random bytes: {error}")))?;
    Ok(JobId(random).to_string())
}

/// Returns the subject below which a client gets its answers, and with them jobs.
fn inbox(name: &str) -> String {
    format!("_INBOX.{name}")
}

/// The part of a client in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It starts runs: it gives orders, and keeps the queues.
    Coordinator,
    /// It takes part in runs.
    Worker,
}

/// Returns the entry of `authorization.users` in a NATS server's configuration for the client with this key, which it shows by the
/// certificate that `sealane id --certificate` prints (`verify_and_map: true`).
///
/// A worker may read orders and results, ask for jobs and acknowledge them; it may put jobs and give results in its own name
/// only, cannot announce anything, and does not see the answers to others.
#[must_use]
pub fn rights(key: &PublicKey, role: Role) -> String {
    let name = key.label();
    let publish = match role {
        Role::Coordinator => vec![format!("sealane.*.meta.*"), "$JS.API.>".into()],
        Role::Worker => [
            "$JS.API.STREAM.INFO.*",
            "$JS.API.STREAM.MSG.GET.*",
            "$JS.API.DIRECT.GET.>",
            "$JS.API.CONSUMER.INFO.*.workers",
            "$JS.API.CONSUMER.MSG.NEXT.*.workers",
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    let own = ["job", "result"].map(|kind| format!("sealane.*.{kind}.*.{name}"));
    let publish: Vec<_> = own.into_iter().chain(publish).chain(["$JS.ACK.>".to_owned()]).collect();
    let publish: Vec<_> = publish.iter().map(|subject| format!("      \"{subject}\"\n")).collect();
    format!(
        "{{\n  user: \"{name}\"\n  permissions: {{\n    publish: [\n{}    ]\n    subscribe: \"{}.>\"\n  }}\n}}\n",
        publish.concat(),
        inbox(&name)
    )
}

enum Published {
    New,
    Known,
    Full,
}

/// Returns whether a stream has refused a message because it is full.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(refusal) = found.downcast_ref::<jetstream::Error>() {
            return refusal.error_code() == ErrorCode::STREAM_STORE_FAILED
                || refusal.to_string().contains("maximum messages exceeded");
        }
        cause = found.source();
    }
    false
}

fn jobs_config(run: &str, keeping: Keeping) -> Config {
    Config {
        name: format!("sealane-{run}-jobs"),
        subjects: vec![format!("sealane.{run}.job.*.*")],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        max_messages: keeping.jobs,
        duplicate_window: DUPLICATES,
        ..Config::default()
    }
}

/// Results, the announcement and the seal: the last message of each subject.
fn results_config(run: &str) -> Config {
    Config {
        name: format!("sealane-{run}-results"),
        subjects: vec![format!("sealane.{run}.result.*.*"), format!("sealane.{run}.meta.*")],
        storage: StorageType::File,
        max_messages_per_subject: 1,
        allow_direct: true,
        ..Config::default()
    }
}

impl Queue for NatsQueue {
    fn put(&self, job: &Job) -> Result<Put> {
        check_body(job)?;
        self.engine.run(PATIENCE, async {
            if self.is_done(&job.id).await? {
                return Ok(Put::Known);
            }
            let name = job.id.to_string();
            let message = PublishMessage::build().payload(encode(job).into()).message_id(&name);
            match self.publish(self.own("job", &job.id), message).await? {
                Published::New => Ok(Put::New),
                Published::Known => Ok(Put::Known),
                Published::Full => Ok(Put::Full),
            }
        })
    }

    fn take(&self, wait: Duration) -> Result<Taken> {
        self.engine.run(PATIENCE + wait, self.take_one(Instant::now() + wait))
    }

    fn extend(&self, lease: &Lease, _done: Weight) -> Result<()> {
        self.engine.run(PATIENCE, self.acknowledge(lease.token, AckKind::Progress))
    }

    fn finish(&self, lease: Lease, result: &[u8]) -> Result<Finished> {
        check_result(result)?;
        let id = lease.job.id;
        let finished = self.engine.run(PATIENCE, async {
            // The message is accepted only if there is none of this client yet; the first of all clients counts.
            let message = PublishMessage::build()
                .payload(encode(&(id, result)).into())
                .expected_last_subject_sequence(0);
            let own = self.own("result", &id);
            let published = match self.publish(own.clone(), message).await? {
                Published::New if self.first(&id).await?.is_some_and(|(subject, _)| subject != own) => {
                    Published::Known
                }
                published => published,
            };
            let message = self.held().get(&lease.token).cloned();
            if let Some(message) = message {
                message.double_ack().await.map_err(|error| FleetError::Queue(error.to_string()))?;
            }
            match published {
                Published::New => Ok(Finished::First),
                Published::Known => Ok(Finished::Known),
                Published::Full => Err(FleetError::Queue("the server has no room for a result".into())),
            }
        })?;
        self.held().remove(&lease.token);
        Ok(finished)
    }

    fn give_back(&self, lease: Lease, after: Duration) -> Result<()> {
        let kind = AckKind::Nak((!after.is_zero()).then_some(after));
        let given = self.engine.run(PATIENCE, self.acknowledge(lease.token, kind));
        self.held().remove(&lease.token);
        given
    }

    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        let Some((_, message)) = self.engine.run(PATIENCE, self.first(id))? else { return Ok(None) };
        let (found, result): (JobId, Vec<u8>) = decode(&message)?;
        match found == *id {
            true => Ok(Some(result)),
            false => Err(FleetError::Protocol("a result has the name of another".into())),
        }
    }

    fn announcement(&self) -> Result<Vec<u8>> {
        let subject = self.subject("meta", "order");
        self.engine.run(PATIENCE, async { Ok(self.last(&subject).await?.unwrap_or_default()) })
    }
}

impl NatsQueue {
    fn seal(&self) -> Result<()> {
        self.engine.run(PATIENCE, async {
            let message = PublishMessage::build().payload("sealed".into());
            self.publish(self.subject("meta", "sealed"), message).await.map(drop)
        })
    }

    fn results(&self, after: u64) -> Result<Vec<Outcome>> {
        let subject = self.subject("result", "*.*");
        self.engine.run(PATIENCE * 4, async {
            let (mut found, mut bytes, mut next) = (Vec::new(), 0, after + 1);
            while found.len() < RESULTS_PER_ANSWER && bytes < RESULT_BYTES_PER_ANSWER {
                let message = match self.results.direct_get_next_for_subject(&subject, Some(next)).await {
                    Ok(message) => message,
                    Err(error) if error.kind() == jetstream::stream::DirectGetErrorKind::NotFound => break,
                    Err(error) => return Err(failed(error)),
                };
                let (id, result): (JobId, Vec<u8>) = decode(&message.payload)?;
                bytes += result.len();
                next = message.sequence + 1;
                found.push(Outcome { number: message.sequence, id, result });
            }
            Ok(found)
        })
    }

    fn announce(&self, order: &[u8]) -> Result<()> {
        check_order(order)?;
        self.engine.run(PATIENCE, async {
            let message = PublishMessage::build().payload(order.to_vec().into());
            self.publish(self.subject("meta", "order"), message).await.map(drop)
        })
    }

    fn expire(&self, token: u64) {
        // If the server cannot be informed, the lease ends by itself.
        let _ = self.engine.run(PATIENCE, self.acknowledge(token, AckKind::Nak(None)));
        self.held().remove(&token);
    }
}

/// A run's queue on a NATS server from the coordinator's side: results are also kept in a journal here.
///
/// The queue is created anew whenever a coordinator begins: finished jobs are known from the journal, and jobs that
/// workers hold are done again.
#[derive(Debug)]
pub struct NatsCoordinatorQueue {
    queue: NatsQueue,
    state: Mutex<CoordinatorState>,
}

#[derive(Debug)]
struct CoordinatorState {
    journal: Journal,
    /// The number of the last of the server's results that is in the journal.
    seen: u64,
    put: Weight,
    finished: Weight,
    /// The progress of workers that this process serves.
    under_way: HashMap<u64, Weight>,
}

impl NatsCoordinatorQueue {
    /// Creates the queue of a run, with the results of the journal.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, is not trusted, or is too old.
    pub fn open(
        server: &Server,
        tls: Option<&QueueTls>,
        run: &str,
        mut journal: Journal,
        keeping: Keeping,
    ) -> Result<Self> {
        let queue = NatsQueue::connect(server, tls, run, Some(keeping))?;
        // The results that came while there was no coordinator.
        let mut seen = 0;
        loop {
            let outcomes = queue.results(seen)?;
            let Some(last) = outcomes.last() else { break };
            seen = last.number;
            for outcome in outcomes {
                let is_lasting = Report::read(&outcome.result).is_ok_and(|report| report.is_lasting());
                if is_lasting && !journal.has(&outcome.id) {
                    journal.append(outcome.id, &outcome.result)?;
                }
            }
        }
        queue.delete()?;
        let queue = NatsQueue::connect(server, tls, run, Some(keeping))?;
        let mut seen = 0;
        for number in 1..=journal.last_number() {
            if let Some(outcome) = journal.read(number)? {
                queue.keep(outcome.id, &outcome.result)?;
                seen += 1;
            }
        }
        let state = CoordinatorState {
            journal,
            seen,
            put: Weight::default(),
            finished: Weight::default(),
            under_way: HashMap::new(),
        };
        Ok(Self { queue, state: Mutex::new(state) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CoordinatorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NatsQueue {
    /// For tests: says anything on any subject, as a client may that is not ours. The server's refusal is not reported.
    ///
    /// # Errors
    /// The server cannot be reached.
    #[doc(hidden)]
    pub fn say(&self, subject: &str, bytes: &[u8]) -> Result<()> {
        let (client, subject, bytes) = (self.context.client(), subject.to_owned(), bytes.to_vec());
        self.engine.run(PATIENCE, async move {
            client.publish(subject, bytes.into()).await.map_err(failed)?;
            client.flush().await.map_err(failed)
        })
    }

    /// Takes the queue away.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn delete(&self) -> Result<()> {
        self.engine.run(PATIENCE, async {
            for kind in ["jobs", "results"] {
                self.context.delete_stream(format!("sealane-{}-{kind}", self.run)).await.map_err(failed)?;
            }
            Ok(())
        })
    }

    fn keep(&self, id: JobId, result: &[u8]) -> Result<()> {
        self.engine.run(PATIENCE, async {
            let message = PublishMessage::build().payload(encode(&(id, result)).into());
            self.publish(self.own("result", &id), message).await.map(drop)
        })
    }

    /// Returns the number of waiting jobs and of held jobs.
    fn counts(&self) -> Result<(usize, usize)> {
        self.engine.run(PATIENCE, async {
            let held = self.workers.get_info().await.map_err(|error| FleetError::Queue(error.to_string()))?;
            // This is asked last, so that it includes a job that was put meanwhile.
            let all = self.jobs.get_info().await.map_err(failed)?.state.messages as usize;
            let held = held.num_ack_pending.min(all);
            Ok((all - held, held))
        })
    }
}

impl Queue for NatsCoordinatorQueue {
    fn put(&self, job: &Job) -> Result<Put> {
        if self.state().journal.has(&job.id) {
            return Ok(Put::Known);
        }
        let put = self.queue.put(job)?;
        if put == Put::New {
            let mut state = self.state();
            state.put = state.put.plus(job.weight);
        }
        Ok(put)
    }

    fn take(&self, wait: Duration) -> Result<Taken> {
        self.queue.take(wait)
    }

    fn extend(&self, lease: &Lease, done: Weight) -> Result<()> {
        self.state().under_way.insert(lease.token, done);
        self.queue.extend(lease, done)
    }

    fn finish(&self, lease: Lease, result: &[u8]) -> Result<Finished> {
        self.state().under_way.remove(&lease.token);
        self.queue.finish(lease, result)
    }

    fn give_back(&self, lease: Lease, after: Duration) -> Result<()> {
        self.state().under_way.remove(&lease.token);
        self.queue.give_back(lease, after)
    }

    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        self.queue.result(id)
    }

    fn announcement(&self) -> Result<Vec<u8>> {
        self.queue.announcement()
    }
}

impl CoordinatorQueue for NatsCoordinatorQueue {
    fn seal(&self) -> Result<()> {
        self.queue.seal()
    }

    fn results(&self, after: u64) -> Result<Vec<Outcome>> {
        let seen = self.state().seen;
        let fresh = self.queue.results(seen)?;
        let mut state = self.state();
        for outcome in fresh {
            if outcome.number <= state.seen {
                continue;
            }
            state.seen = outcome.number;
            if !state.journal.has(&outcome.id) {
                state.journal.append(outcome.id, &outcome.result)?;
                let weight = Report::read(&outcome.result).map(|report| report.weight).unwrap_or_default();
                state.finished = state.finished.plus(weight);
            }
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        for number in after + 1..=state.journal.last_number() {
            if found.len() >= RESULTS_PER_ANSWER || bytes >= RESULT_BYTES_PER_ANSWER {
                break;
            }
            if let Some(outcome) = state.journal.read(number)? {
                bytes += outcome.result.len();
                found.push(outcome);
            }
        }
        Ok(found)
    }

    fn announce(&self, order: &[u8]) -> Result<()> {
        self.queue.announce(order)
    }

    fn expire(&self, token: u64) {
        self.state().under_way.remove(&token);
        self.queue.expire(token);
    }

    fn standing(&self) -> Result<Standing> {
        let (waiting, held) = self.queue.counts()?;
        let state = self.state();
        let under_way = state.under_way.values().fold(Weight::default(), |sum, done| sum.plus(*done));
        Ok(Standing { waiting, held, put: state.put, finished: state.finished, under_way })
    }
}
