//! What happens to each lane of each node, in the order of time.

#![expect(clippy::indexing_slicing, reason = "all numbers are those of the simulation's own lists")]

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::host::{Host, HostAnswer, HostCopy, Receiver};
use super::{Fleet, FleetTally, FleetTrouble};
use crate::Url;
use crate::director::parse_answer;
use crate::http::{Fault, Server};
use crate::reader::checked_blocks::BLOCK_BYTES;
use crate::reader::passes::{Passes, Step};
use crate::reader::servers::Servers;
use crate::reader::sources::Fared;
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb};
use crate::router::preferred::Preferred;
use crate::router::routes::Routes;

/// The time of a request and the first byte of its answer.
const ROUND_TRIP: Duration = Duration::from_millis(50);

// The defaults of `ClientOptions`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(180);
const MIN_BYTES_PER_SECOND: u64 = 100 << 10;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What happens next.
#[derive(Debug)]
enum FleetEvent {
    /// A lane takes its next object.
    Begins(usize),
    /// A lane has waited for its next pass.
    Waited(usize),
    /// The request of that number reaches the server.
    Arrives(usize, u64),
    /// The server was busy.
    Refused(usize, u64),
    /// The lane has waited too long for the first byte, or for a connection.
    TimedOut(usize, u64, Fault),
    /// An answer of the server may have ended; void if the server began another since.
    MayEnd(usize, u64),
    /// A node's question reaches the director.
    AsksDirector(usize, Verb),
    Dies(usize),
}

/// What a lane needs a route for.
#[derive(Debug, Clone, Copy)]
enum RouteNeed {
    Start,
    Origin,
    Anew,
}

/// One of the objects that a node reads at the same time.
#[derive(Debug)]
struct FleetLane {
    node: usize,
    shard: usize,
    position: u64,
    passes: Option<Passes>,
    /// The server that was asked last, its number, and the bytes.
    asked: Option<(Place, usize, Range<u64>)>,
    /// The number of the request.
    n_requests: u64,
    /// Whether its answer has begun.
    begun: bool,
}

/// What a node knows.
struct FleetNode {
    routes: Routes,
    servers: Servers,
    next_shard: usize,
    /// Questions to the director, each with the lanes that wait for its answer (`Gates`).
    questions: HashMap<Verb, (Retry, Vec<(usize, RouteNeed)>)>,
    n_director: u64,
    n_origin: u64,
}

/// A fleet while it reads.
pub(super) struct Simulation<'a> {
    fleet: &'a Fleet,
    /// The moment from which durations count.
    zero: Instant,
    now: Duration,
    events: BTreeMap<(Duration, u64), FleetEvent>,
    n_events: u64,
    urls: Vec<Url>,
    /// The caches, then the origin.
    hosts: Vec<Host>,
    /// For each server, how often its answers changed.
    changes: Vec<u64>,
    numbers: HashMap<Server, usize>,
    nodes: Vec<FleetNode>,
    lanes: Vec<FleetLane>,
    /// The second of the director's last request, and how many it answered in it.
    director: (u64, u64),
    tally: FleetTally,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        let liars = if let FleetTrouble::Lie(n) = fleet.trouble { n } else { 0 };
        let names = (0..fleet.caches).map(|n| format!("https://cache-{n}"));
        let names = names.chain(["https://origin".to_owned()]);
        let hosts: Vec<Host> = names
            .filter_map(|name| Some(Server::split(&name)?.0))
            .enumerate()
            .map(|(n, server)| Host::new(server, fleet.bytes_per_second, n < liars))
            .collect();
        let url = |n| Url::parse(&format!("pelican://federation.example/ns/shard-{n}")).ok();
        let node = |_| {
            let routes = Routes::new(Preferred::default(), None).ok()?;
            Some(FleetNode {
                routes,
                servers: Servers::default(),
                next_shard: 0,
                questions: HashMap::new(),
                n_director: 0,
                n_origin: 0,
            })
        };
        let lane = |n| FleetLane {
            node: n / fleet.lanes,
            shard: 0,
            position: 0,
            passes: None,
            asked: None,
            n_requests: 0,
            begun: false,
        };
        Self {
            fleet,
            zero: Instant::now(),
            now: Duration::ZERO,
            events: BTreeMap::new(),
            n_events: 0,
            urls: (0..fleet.shards).filter_map(url).collect(),
            numbers: hosts.iter().enumerate().map(|(n, h)| (h.server.clone(), n)).collect(),
            changes: vec![0; hosts.len()],
            hosts,
            nodes: (0..fleet.nodes).filter_map(node).collect(),
            lanes: (0..fleet.nodes * fleet.lanes).map(lane).collect(),
            director: (0, 0),
            tally: FleetTally::default(),
        }
    }

    pub(super) fn run(mut self) -> FleetTally {
        for lane in 0..self.lanes.len() {
            let late = self.random(("start", self.lanes[lane].node));
            let start = self.fleet.starts_within.mul_f64(late as f64 / u64::MAX as f64);
            self.after(start, FleetEvent::Begins(lane));
        }
        if let FleetTrouble::Die(n, at) = self.fleet.trouble {
            (0..n).for_each(|host| self.after(at, FleetEvent::Dies(host)));
        }
        while let Some(((now, _), event)) = self.events.pop_first() {
            self.now = now;
            self.happens(event);
        }
        self.tally.director_of_one = self.nodes.iter().map(|n| n.n_director).max().unwrap_or(0);
        self.tally.origin_of_one = self.nodes.iter().map(|n| n.n_origin).max().unwrap_or(0);
        self.tally
    }

    fn happens(&mut self, event: FleetEvent) {
        match event {
            FleetEvent::Begins(lane) => self.begin(lane),
            FleetEvent::Waited(lane) => self.step(lane),
            FleetEvent::Arrives(lane, request) => self.arrive(lane, request),
            FleetEvent::Refused(lane, request) => self.refused(lane, request),
            FleetEvent::TimedOut(lane, request, fault) => self.timed_out(lane, request, &fault),
            FleetEvent::MayEnd(host, change) if self.changes[host] == change => self.end(host),
            FleetEvent::MayEnd(..) => {}
            FleetEvent::AsksDirector(node, verb) => self.ask_director(node, verb),
            FleetEvent::Dies(host) => self.die(host),
        }
    }

    fn after(&mut self, wait: Duration, event: FleetEvent) {
        self.n_events += 1;
        self.events.insert((self.now + wait, self.n_events), event);
    }

    fn instant(&self) -> Instant {
        self.zero + self.now
    }

    fn random(&self, what: impl std::hash::Hash) -> u64 {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        hasher.hash_one((self.fleet.seed, what))
    }

    fn len_bytes(&self) -> u64 {
        self.fleet.blocks * BLOCK
    }

    /// A lane takes the next object of its node.
    fn begin(&mut self, lane: usize) {
        let node = &mut self.nodes[self.lanes[lane].node];
        let shard = node.next_shard;
        if shard >= self.urls.len() {
            return;
        }
        node.next_shard += 1;
        let of = &mut self.lanes[lane];
        (of.shard, of.position, of.passes) = (shard, 0, None);
        self.route(lane, Verb::Read, RouteNeed::Start);
    }

    /// Gives the lane a route, or lets it wait for the director's answer.
    fn route(&mut self, lane: usize, verb: Verb, need: RouteNeed) {
        let (now, seed) = (self.instant(), self.random(("director", lane, self.n_events)));
        let of = &self.lanes[lane];
        let node = &mut self.nodes[of.node];
        if let Some(route) = node.routes.known(&self.urls[of.shard], verb, now) {
            return self.routed(lane, need, Some(&route));
        }
        let is_first = !node.questions.contains_key(&verb);
        let question = node.questions.entry(verb).or_insert_with(|| {
            (Retry::new(Policy::DIRECTOR, PATIENCE, now).seeded(seed), Vec::new())
        });
        question.1.push((lane, need));
        if is_first {
            let node = of.node;
            self.after(ROUND_TRIP / 2, FleetEvent::AsksDirector(node, verb));
        }
    }

    fn ask_director(&mut self, node: usize, verb: Verb) {
        self.tally.director += 1;
        self.nodes[node].n_director += 1;
        let now = self.instant();
        let second = self.now.as_secs();
        let answered = if self.director.0 == second { self.director.1 } else { 0 };
        self.director = (second, answered + 1);
        let of = &mut self.nodes[node];
        let Some((mut retry, lanes)) = of.questions.remove(&verb) else { return };
        if answered < self.fleet.director_per_second {
            let Some((first, _)) = lanes.first() else { return };
            let url = &self.urls[self.lanes[*first].shard];
            let answer = parse_answer(&self.directors_answer(node, verb, url));
            let places = answer.sources.iter().filter_map(|source| Place::of(&source.url));
            let route = Route { namespace: answer.namespace, ..Route::of(places.collect()) };
            self.nodes[node].routes.keep(url, verb, &route, &answer.sources, now);
            // The answer is for the object of the first lane, and holds for those of the others.
            let mut fresh = Some(route);
            for (lane, need) in lanes {
                let url = &self.urls[self.lanes[lane].shard];
                let known = || self.nodes[node].routes.known(url, verb, now);
                let route = fresh.take().or_else(known);
                self.routed(lane, need, route.as_ref());
            }
            return;
        }
        match retry.of_director((429, None), PATIENCE, now) {
            Some(wait) => {
                of.questions.insert(verb, (retry, lanes));
                self.after(wait + ROUND_TRIP, FleetEvent::AsksDirector(node, verb));
            }
            None => lanes.into_iter().for_each(|(lane, need)| self.routed(lane, need, None)),
        }
    }

    /// The headers of the director's answer to this node: six of the caches, or the origin.
    fn directors_answer(&self, node: usize, verb: Verb, url: &Url) -> Vec<(String, String)> {
        let origin = self.hosts.len() - 1;
        let mut named: Vec<usize> = (0..origin).collect();
        named.sort_by_key(|cache| self.random(("named", node, *cache)));
        named.truncate(6);
        if verb == Verb::ReadOrigin {
            named = vec![origin];
        }
        let links = named.iter().enumerate().map(|(n, host)| {
            let (server, path) = (&self.hosts[*host].server, url.request_path());
            format!("<{server}{path}>; rel=\"duplicate\"; pri={}; depth=1", n + 1)
        });
        vec![
            ("link".to_owned(), links.collect::<Vec<_>>().join(", ")),
            ("x-pelican-namespace".to_owned(), "namespace=/ns, require-token=false".to_owned()),
        ]
    }

    fn routed(&mut self, lane: usize, need: RouteNeed, route: Option<&Route>) {
        let (now, seed) = (self.instant(), self.random(("read", lane, self.n_events)));
        let of = &mut self.lanes[lane];
        let servers = &self.nodes[of.node].servers;
        match (need, route, &mut of.passes) {
            (RouteNeed::Start, Some(route), passes) => {
                let fresh = Passes::new(route, (false, false), PATIENCE, servers, (0, now));
                *passes = Some(fresh.seeded(seed));
            }
            (RouteNeed::Start, None, _) => return self.failed(lane),
            (RouteNeed::Origin, Some(route), Some(passes)) => {
                passes.add_origin(route.places.clone());
            }
            (RouteNeed::Anew, Some(route), Some(passes)) => passes.add_anew(route),
            _ => {}
        }
        self.step(lane);
    }

    fn failed(&mut self, lane: usize) {
        self.tally.failed += 1;
        self.begin(lane);
    }

    /// What the reader's loop does.
    fn step(&mut self, lane: usize) {
        let now = self.instant();
        let of = &mut self.lanes[lane];
        let node = &self.nodes[of.node];
        let Some(passes) = &mut of.passes else { return };
        match passes.step(&node.servers, now) {
            Step::Ask(place) => self.ask(lane, place),
            Step::AskOrigin => self.route(lane, Verb::ReadOrigin, RouteNeed::Origin),
            Step::AskAnew => {
                node.routes.forget(&self.urls[of.shard], Verb::Read);
                self.route(lane, Verb::Read, RouteNeed::Anew);
            }
            Step::Wait(pause) => self.after(pause, FleetEvent::Waited(lane)),
            Step::GiveUp => self.failed(lane),
        }
    }

    fn ask(&mut self, lane: usize, place: Place) {
        let len = Some(self.len_bytes());
        let of = &mut self.lanes[lane];
        let (Some(passes), Some(host)) = (&of.passes, self.numbers.get(&place.server)) else {
            return;
        };
        let range = passes.range(of.position, len, len);
        of.asked = Some((place, *host, range));
        of.n_requests += 1;
        of.begun = false;
        let request = of.n_requests;
        self.after(ROUND_TRIP / 2, FleetEvent::Arrives(lane, request));
    }

    fn arrive(&mut self, lane: usize, request: u64) {
        let of = &self.lanes[lane];
        let Some((_, host, range)) = of.asked.clone() else { return };
        let origin = self.hosts.len() - 1;
        let at = &mut self.hosts[host];
        if at.is_dead {
            self.tally.unanswered += 1;
            let fault = Fault::ConnectTimeout { after: CONNECT_TIMEOUT };
            return self.after(CONNECT_TIMEOUT, FleetEvent::TimedOut(lane, request, fault));
        }
        if host != origin && at.n_open >= self.fleet.connections {
            self.tally.busy += 1;
            return self.after(ROUND_TRIP / 2, FleetEvent::Refused(lane, request));
        }
        at.n_open += 1;
        if host == origin {
            self.tally.origin.0 += 1;
            self.nodes[of.node].n_origin += 1;
            return self.answer(host, lane, request);
        }
        self.tally.caches.0 += 1;
        let shard = of.shard;
        match at.copies.get_mut(&shard) {
            Some(HostCopy::Whole) => return self.answer(host, lane, request),
            Some(HostCopy::Coming(lanes)) => lanes.push((lane, request)),
            None => {
                at.copies.insert(shard, HostCopy::Coming(vec![(lane, request)]));
                self.tally.misses.0 += 1;
                let (len, now) = (self.len_bytes(), self.now);
                self.hosts[origin].begin(Receiver::Cache(host, shard), len, now);
                self.changed(origin);
            }
        }
        debug_assert!(!range.is_empty(), "a lane asks for what it lacks");
        let fault = Fault::Stalled { after: STALL_TIMEOUT };
        self.after(STALL_TIMEOUT, FleetEvent::TimedOut(lane, request, fault));
    }

    /// Sends a lane what it asked for, as far as the receiver takes it.
    fn answer(&mut self, host: usize, lane: usize, request: u64) {
        let of = &mut self.lanes[lane];
        let Some((place, _, range)) = &of.asked else { return };
        of.begun = true;
        self.nodes[of.node].servers.answered(&place.server);
        let end = wrong_block(&self.hosts[host], of.shard, range, self.fleet.blocks)
            .map_or(range.end, |wrong| wrong + BLOCK);
        let (len, now) = (end - range.start, self.now);
        self.hosts[host].begin(Receiver::Lane(lane, request), len, now);
        self.changed(host);
    }

    /// Computes again when the server's next answer ends.
    fn changed(&mut self, host: usize) {
        self.changes[host] += 1;
        if let Some(end) = self.hosts[host].next_end() {
            let wait = end.saturating_sub(self.now);
            self.after(wait, FleetEvent::MayEnd(host, self.changes[host]));
        }
    }

    fn end(&mut self, host: usize) {
        for answer in self.hosts[host].ended(self.now) {
            match answer.receiver {
                Receiver::Cache(cache, shard) => {
                    self.tally.misses.1 += answer.len_bytes;
                    let copies = &mut self.hosts[cache].copies;
                    if let Some(HostCopy::Coming(lanes)) = copies.insert(shard, HostCopy::Whole) {
                        for (lane, request) in lanes {
                            let waits = self.lanes[lane].n_requests == request;
                            if waits && !self.hosts[cache].is_dead {
                                self.answer(cache, lane, request);
                            }
                        }
                    }
                }
                Receiver::Lane(lane, _) => self.received(lane, &answer),
            }
        }
        self.changed(host);
    }

    /// A lane has all of an answer, or its last block is refused.
    fn received(&mut self, lane: usize, answer: &HostAnswer) {
        let (now, len) = (self.instant(), self.len_bytes());
        let waited = self.now.saturating_sub(answer.begun).as_secs_f64();
        let least = (MIN_BYTES_PER_SECOND / self.fleet.lanes as u64) as f64;
        self.tally.slow += u64::from((answer.len_bytes as f64) < least * waited);
        let of = &mut self.lanes[lane];
        let (Some(passes), Some((place, host, range))) = (&mut of.passes, of.asked.take()) else {
            return;
        };
        let at = &mut self.hosts[host];
        at.n_open -= 1;
        let sent = if host + 1 == self.changes.len() {
            &mut self.tally.origin.1
        } else {
            &mut self.tally.caches.1
        };
        *sent += answer.len_bytes;
        let servers = &self.nodes[of.node].servers;
        if answer.len_bytes >= BLOCK {
            servers.measured(&place.server, (answer.len_bytes as f64 / waited) as u64, now);
        }
        if let Some(wrong) = wrong_block(at, of.shard, &range, self.fleet.blocks) {
            self.tally.wrong += 1;
            passes.sources.attempts.add_lasting(&place.server, "other bytes".to_owned());
            of.position = wrong;
            passes.reached(wrong, now);
            passes.sources.note(Fared::Wrong(wrong));
            return self.step(lane);
        }
        of.position = range.end;
        if of.position < len {
            return self.ask(lane, place);
        }
        for server in passes.sources.wrong() {
            servers.gave_wrong(server, &self.urls[of.shard]);
        }
        self.tally.objects += 1;
        self.tally.seconds = self.now.as_secs_f64();
        self.begin(lane);
    }

    fn refused(&mut self, lane: usize, request: u64) {
        let now = self.instant();
        let of = &mut self.lanes[lane];
        let servers = &self.nodes[of.node].servers;
        if let (Some(passes), Some((place, ..)), true) =
            (&mut of.passes, &of.asked, of.n_requests == request)
        {
            servers.answered(&place.server);
            let fared = passes.answered(place, (503, String::new()), None, servers, now);
            passes.reached(of.position, now);
            passes.sources.note(fared);
            self.step(lane);
        }
    }

    fn timed_out(&mut self, lane: usize, request: u64, fault: &Fault) {
        let now = self.instant();
        let of = &mut self.lanes[lane];
        if of.n_requests != request || of.begun {
            return;
        }
        let servers = &self.nodes[of.node].servers;
        if let (Some(passes), Some((place, host, _))) = (&mut of.passes, of.asked.take()) {
            if !fault.is_connection() {
                let at = &mut self.hosts[host];
                at.n_open = at.n_open.saturating_sub(1);
            }
            let fared = passes.lost(&place, fault, servers, now);
            passes.reached(of.position, now);
            passes.sources.note(fared);
            self.step(lane);
        }
    }

    /// A server sends nothing from now on; its clients notice when they have waited.
    fn die(&mut self, host: usize) {
        for (answer, sent) in self.hosts[host].die(self.now) {
            let Receiver::Lane(lane, request) = answer.receiver else { continue };
            let of = &mut self.lanes[lane];
            let Some((_, _, range)) = &of.asked else { continue };
            // Blocks that arrived whole were accepted, unless the last of them was the wrong one.
            let blocks = sent.min(answer.len_bytes.saturating_sub(1)) / BLOCK;
            of.position = range.start + blocks * BLOCK;
            of.begun = false;
            self.tally.caches.1 += sent;
            let fault = Fault::Stalled { after: STALL_TIMEOUT };
            self.after(STALL_TIMEOUT, FleetEvent::TimedOut(lane, request, fault));
        }
    }
}

/// Where the block begins that a server has wrong, if it is in `range`.
fn wrong_block(host: &Host, shard: usize, range: &Range<u64>, blocks: u64) -> Option<u64> {
    let wrong = shard as u64 % blocks * BLOCK;
    (host.lies && range.contains(&wrong)).then_some(wrong)
}
