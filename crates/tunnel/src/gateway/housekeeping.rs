//! The housekeeper of a gateway: it has keys made, minds the peers, reads files again, and answers questions.
//!
//! Guarantees: it sleeps until something is due; what fails is told and changes nothing.

use std::{
    cell::RefCell,
    net::IpAddr,
    os::fd::AsFd as _,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};
use sealane_engine::Implementations;
use sealane_ike::{Assignment, Peer, Random};
use sealane_ipsec::{database::Request, key_maker::KeyMaker, policy::PeerId};

use crate::{
    control::{Answer, Ask, Listener},
    discovery::Paths,
    host::keeper::Keeper,
    keep_alive::KeepAlive,
    keying::{
        calls::Calls,
        carrier::{Carrier, Routes},
        ike::{self, Ike},
        makers::Makers,
    },
    lanes::Lanes,
    names::Names,
    news::News,
    outside::Outside,
    outward::Dummies,
    peers::{Peers, policies},
    queue::counters::Counters,
    reload::{Changes, Files, Places},
    site::{PeerSite, Site},
    status::Status,
};

/// The interval at which the housekeeper checks the peers and whether the gateway is to end.
const TICK: Duration = Duration::from_millis(100);
/// The additional niceness of the housekeeper, and of the threads that it starts for calls: lanes run before it where processors are
/// scarce, so that a flood of strangers costs few packets, and the housekeeper still gets a quarter of a processor.
const HOUSEKEEPING_NICENESS: i32 = 5;

/// Returns the endpoint of IKE, which gives this host addresses by `keeper`; `resolve` is called with the resolvers and domains that
/// peers give.
pub(super) fn speak_ike<'a>(
    site: &Site,
    (peers, implementations): (&'a Peers, Implementations),
    (negotiated, allows_legacy): (Vec<(PeerId, Peer)>, bool),
    routes: Arc<Routes>,
    keeper: &'a Keeper,
    resolve: &'a dyn Fn(&[IpAddr], &[String]),
) -> ike::Shared<'a> {
    let asked = Arc::clone(&routes);
    let negotiated = ike::Negotiated {
        peers: negotiated,
        settings: ike::settings(site, allows_legacy),
        random: Random::system(),
        own_address: Box::new(move |remote, called| asked.own_address(remote, called)),
        routes_change: Box::new(move || routes.may_have_changed()),
        host: Box::new(move |given: &Assignment| {
            resolve(&given.dns, &given.domains);
            keeper.assign(&given.addresses).map_err(|error| error.to_string())
        }),
    };
    let ike = Ike::new(peers, site, implementations, negotiated, Instant::now());
    ike::Shared(Rc::new(RefCell::new(ike)))
}

/// The places of a running gateway's peers.
struct LivePlaces<'a>(&'a Peers);

impl Places for LivePlaces<'_> {
    fn room(&self) -> usize {
        self.0.room()
    }

    fn add(&mut self, peer: &PeerSite) -> PeerId {
        self.0.add(peer).expect("the room was asked for")
    }

    fn restore(&mut self, id: PeerId) {
        self.0.set_removed(id, false);
    }
}

/// Makes associations by calls.
pub(super) struct Caller<'scope, 'env, 'peers, 'here, S> {
    calls: &'scope Calls<'peers>,
    scope: &'scope thread::Scope<'scope, 'env>,
    peers: &'scope Peers,
    say: &'scope S,
    dummies: &'here RefCell<Dummies>,
    requests: Vec<Request>,
    /// The time of the next check of the traffic by the peers' keys.
    look_at: Instant,
}

impl<'scope, 'env, 'peers, 'here, S> Caller<'scope, 'env, 'peers, 'here, S> {
    /// Returns the maker whose calls are threads of `scope`; `say` is called with messages for the operator.
    pub(super) fn new(
        calls: &'scope Calls<'peers>,
        scope: &'scope thread::Scope<'scope, 'env>,
        peers: &'scope Peers,
        say: &'scope S,
        dummies: &'here RefCell<Dummies>,
    ) -> Self {
        Self { calls, scope, peers, say, dummies, requests: Vec::new(), look_at: Instant::now() }
    }
}

impl<S: Fn(&str) + Sync> KeyMaker for Caller<'_, '_, '_, '_, S> {
    fn request(&mut self, request: Request, _: Instant) {
        self.requests.push(request);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.look_at)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look_at = now + TICK;
        for peer in self.calls.poll(self.scope, &self.requests, now, self.say) {
            // The lanes detect errors of the socket.
            let _ = self.dummies.borrow_mut().send(self.peers, peer);
        }
        self.requests.clear();
    }
}

/// The housekeeper's tasks for peers, except for keys: it measures paths, looks up names, keeps NATs' mappings, and
/// logs changes.
pub(super) struct Minder<'here> {
    peers: &'here Peers,
    /// The sockets, which report packets that were too long.
    outsides: &'here [Outside],
    paths: Paths,
    dummies: &'here RefCell<Dummies>,
    names: Names,
    news: News,
    keep_alives: Vec<KeepAlive>,
}

impl<'here> Minder<'here> {
    /// Returns the minder of the peers of `site`, whose sockets are `outsides`.
    pub(super) fn new(
        site: &Site,
        peers: &'here Peers,
        outsides: &'here [Outside],
        paths: Paths,
        dummies: &'here RefCell<Dummies>,
    ) -> Self {
        let keep_alives = vec![KeepAlive::default(); site.peers.len()];
        let (names, news) = (Names::new(site), News::new(peers, site.encapsulation));
        Self { peers, outsides, paths, dummies, names, news, keep_alives }
    }

    /// Notes which peers have come and gone.
    fn follow(&mut self, changes: &Changes) {
        changes.removed.iter().for_each(|&id| self.names.remove(id));
        changes.added.iter().for_each(|(id, peer, _)| self.names.add(*id, peer));
        self.keep_alives.resize_with(self.peers.iter().count(), KeepAlive::default);
    }

    /// Does what is due at `now`; `say` is called with messages for the operator.
    pub(super) fn look(&mut self, now: Instant, say: impl Fn(&str)) {
        self.peers.waiting().into_iter().for_each(Counters::pass);
        self.paths.look(self.peers, now);
        self.outsides.iter().for_each(|outside| self.paths.hear(self.peers, outside, now));
        self.news.look(self.peers, now, &say);
        self.names.look(self.peers, now, &say);
        for ((id, peer), keep_alive) in self.peers.iter().zip(&mut self.keep_alives) {
            if keep_alive.is_due(peer.keep_alive(), peer.sent.read().0, now) {
                // The lanes detect errors of the socket.
                let _ = self.dummies.borrow_mut().keep_alive(self.peers, id);
            }
        }
    }
}

/// The housekeeper, with all that it looks after except for the makers of keys.
pub(super) struct Housekeeper<'here, 'ike> {
    pub(super) control: &'here Listener,
    pub(super) keeper: &'here Keeper,
    pub(super) peers: &'here Peers,
    pub(super) threads: &'here Lanes,
    /// The site file, and those that it names.
    pub(super) files: Files,
    /// Set by whoever wants the files to be read again.
    pub(super) is_reload_wanted: &'here AtomicBool,
    pub(super) minder: Minder<'here>,
    /// The endpoint of IKE, if peers speak it.
    pub(super) ike: Option<ike::Shared<'ike>>,
}

impl Housekeeper<'_, '_> {
    /// Answers questions and has keys made until the gateway is to end.
    pub(super) fn keep(
        mut self,
        makers: &mut Makers<'_>,
        is_ended: impl Fn() -> bool,
        status: impl Fn() -> Status,
        say: impl Fn(&str),
    ) {
        let (mut is_ending, mut is_more) = (false, false);
        let mut mind_at = Instant::now();
        let tell = |outcome: &Result<Vec<String>, String>| match outcome {
            Ok(words) => words.iter().for_each(|words| say(words)),
            Err(error) => say(&format!("nothing is changed: {error}")),
        };
        let Self { control, peers, .. } = self;
        let bells = peers.bells();
        give_way_to_lanes();
        while !(is_ending || self.has_failed() || is_ended()) {
            bells.announce(0);
            let is_waiting = is_more || peers.mailbox().is_some_and(|mailbox| !mailbox.is_empty());
            let until = makers.poll_timeout().map_or(mind_at, |at| at.min(mind_at));
            let wait = match is_waiting {
                true => Duration::ZERO,
                false => until.saturating_duration_since(Instant::now()),
            };
            let socket = control.listener().as_fd();
            let [ike, other] = makers.carrier().map(Carrier::fds).unwrap_or_default();
            let all = [Some(socket), Some(bells.fd(0)), ike, other];
            let mut polled = all.map(|fd| PollFd::from_borrowed_fd(fd.unwrap_or(socket), PollFlags::IN));
            let count = all.iter().flatten().count();
            // A poll that fails is repeated.
            let is_polled = sealane_lanes::wait(&mut polled[..count], wait).unwrap_or_default();
            let is_ready = |at: usize| is_polled && !polled[at].revents().is_empty();
            let (is_asked, is_rung) = (is_ready(0), is_ready(1));
            bells.awake(0);
            if is_asked {
                control.answer(|ask| match ask {
                    Ask::Status => Answer::Status(status()),
                    Ask::Reload => {
                        let outcome =
                            self.reload_if_due(true, Instant::now()).unwrap_or_else(|| Ok(Vec::new()));
                        tell(&outcome);
                        match outcome {
                            Ok(words) => Answer::Reloaded(words),
                            Err(error) => Answer::Refused(error),
                        }
                    }
                    Ask::Down => {
                        is_ending = true;
                        Answer::Ending
                    }
                });
            }
            let now = Instant::now();
            let is_due = now >= mind_at;
            if is_due {
                mind_at = now + TICK;
                self.minder.look(now, &say);
                self.reload_if_due(false, now).iter().for_each(tell);
                peers.database().request_due(now);
            }
            if is_due || is_rung {
                makers.hand_on_requests(now);
            }
            is_more = makers.turn(now, &say);
        }
        makers.close(&say);
    }

    /// Returns whether a part of the gateway has ended, without which it cannot go on.
    fn has_failed(&self) -> bool {
        if self.keeper.is_gone() {
            // Nobody would restore routes that vanish, or remove them at the end.
            self.threads.fail("keeping the host's routes", "its process has ended");
        }
        self.threads.failure().is_some()
    }

    /// Reads the files again if somebody asks for it or if they have changed. Returns the words about that for the operator, if
    /// they are worth some.
    fn reload_if_due(&mut self, is_asked: bool, now: Instant) -> Option<Result<Vec<String>, String>> {
        let is_asked = is_asked | self.is_reload_wanted.swap(false, SeqCst);
        let is_wanted = is_asked | self.files.have_changed(self.keeper, now);
        let outcome = is_wanted.then(|| self.reload(now))?;
        // Files that are the same again are worth no words, unless somebody asked.
        let is_worth = is_asked || !matches!(outcome, Ok((_, true)));
        is_worth.then(|| outcome.map(|(words, _)| words))
    }

    /// Reads the files again, and carries out what has changed. Returns words for the operator, and whether nothing has changed.
    fn reload(&mut self, now: Instant) -> Result<(Vec<String>, bool), String> {
        let peers = self.peers;
        let (changes, words) = self.files.read(self.keeper, &mut LivePlaces(peers))?;
        changes.removed.iter().for_each(|&id| peers.set_removed(id, true));
        peers.database().set_policies(policies(self.files.peers()));
        self.minder.follow(&changes);
        let is_empty = changes.is_empty();
        self.ike.iter().for_each(|ike| ike.0.borrow_mut().reload(changes.clone(), now));
        Ok((words, is_empty))
    }
}

/// Has the lanes run before this thread, and before those that it starts.
fn give_way_to_lanes() {
    // If this is refused, a flood takes time from the lanes. The program's own niceness counts, too.
    let niceness = getpriority_process(None).unwrap_or_default() + HOUSEKEEPING_NICENESS;
    let _ = setpriority_process(Some(gettid()), niceness);
}
