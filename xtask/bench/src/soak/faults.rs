//! Which request meets which fault: a function of the seed, the server, the request, and how many
//! times it was made before.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_pelican::percent_decode;

use super::chance::{Chance, Roll};
use super::wire::Head;

/// How a server treats a request wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection ends within the body: that of the answer, or that of an upload.
    Cut,
    /// The connection ends without an answer, and nothing was done.
    Silent,
    /// What was asked for is done, and the connection ends without an answer.
    Lost,
    /// What was asked for is done, and the answer is 500.
    Denied,
    /// A pause in the body, which then ends early; a late answer if there is no body.
    Stall,
    /// The body's first bytes come one by one.
    Drip,
    /// The length is smaller than that of the object, and the body is, too.
    Shorter,
    /// The length is larger than that of the object, and the body is, too.
    Longer,
    /// The headers are right, and the bytes are those of another range.
    OtherBytes,
    /// The bytes are those of another range, and the headers say so.
    OtherRange,
    /// Some bytes of the body are of an older object of that name.
    OldBytes,
    /// 307, to the same object on another server, with the token in the address.
    Redirect,
    /// 200, and a page that asks for a login, and repeats what it was sent.
    Page,
    /// 429 with `Retry-After`.
    Busy,
    /// 500, 502, 503 or 504, and a text that repeats what was sent.
    Failed,
}

impl Fault {
    fn needs_range(self) -> bool {
        matches!(self, Self::OtherBytes | Self::OtherRange)
    }

    /// Whether the answer claims that the object is another one than it is.
    fn lies(self) -> bool {
        matches!(self, Self::Shorter | Self::Longer | Self::OldBytes | Self::Page)
            || self.needs_range()
    }
}

/// The server whose word is the last one. If it lies, a client may refuse an object, by name. Its
/// checksums are true: a client could not know of bytes that agree with a false one.
pub(super) const ORIGIN: &str = "origin";

/// A fault, its name in the record, and the methods that may meet it.
type Row = (Fault, &'static str, &'static [&'static str]);

/// All faults.
const FAULTS: &[Row] = &[
    (Fault::Cut, "cut", &["GET", "PROPFIND", "PUT"]),
    (Fault::Silent, "no answer", &["GET", "HEAD", "PROPFIND", "PUT"]),
    (Fault::Lost, "done, no answer", &["PUT"]),
    (Fault::Denied, "done, 500", &["PUT"]),
    (Fault::Stall, "stall", &["GET", "HEAD", "PROPFIND", "PUT"]),
    (Fault::Drip, "drip", &["GET", "PROPFIND"]),
    (Fault::Shorter, "shorter", &["GET", "HEAD", "PROPFIND"]),
    (Fault::Longer, "longer", &["GET", "HEAD"]),
    (Fault::OtherBytes, "bytes of another range", &["GET"]),
    (Fault::OtherRange, "another range", &["GET"]),
    (Fault::OldBytes, "old bytes", &["GET"]),
    (Fault::Redirect, "redirect", &["GET", "HEAD"]),
    (Fault::Page, "HTML", &["GET", "HEAD", "PROPFIND", "PUT"]),
    (Fault::Busy, "429", &["GET", "HEAD", "PROPFIND", "PUT"]),
    (Fault::Failed, "5xx", &["GET", "HEAD", "PROPFIND", "PUT"]),
];

/// The share of requests that meet a fault, in percent. At 12, clients spend about half of their
/// time waiting, and 2,000 objects still take less than a minute.
const SHARE: u64 = 12;
/// The share of requests for a range, of which there are few: only where a body was cut.
const SHARE_OF_RANGES: u64 = 40;

/// The same request meets no fault after so many trials, so that a client that tries often enough
/// gets through.
const FAULTY_TRIALS: u32 = 6;

/// So long after it serves again, what a real server says of objects may be wrong. An origin of
/// Pelican answers 404 while it starts ("404 page not found"), and its cache repeats that for a while.
const STARTING: Duration = Duration::from_secs(15);

/// In each of these periods a server may be away once.
const AWAY_PERIOD_MS: u64 = 8_000;

/// Decides about faults and counts them.
#[derive(Debug)]
pub(super) struct Faults {
    chance: Chance,
    /// The beginning of the names of all objects.
    namespace: &'static str,
    begun: Instant,
    /// How often each request was made.
    trials: Mutex<HashMap<String, u32>>,
    dealt: Mutex<BTreeMap<&'static str, u64>>,
    /// The objects about which the origin lied, in order, by their paths below the namespace.
    lies: Mutex<Vec<String>>,
    /// When a real server was killed, or served again, last.
    started: Mutex<Option<Instant>>,
    requests: AtomicU64,
    is_calm: AtomicBool,
}

/// The fault that a request meets, and the numbers for its details.
pub(super) type Dealt = Option<(Fault, Roll)>;

impl Faults {
    pub(super) fn new(chance: Chance, namespace: &'static str) -> Self {
        Self {
            chance,
            namespace,
            begun: Instant::now(),
            trials: Mutex::default(),
            dealt: Mutex::default(),
            lies: Mutex::default(),
            started: Mutex::default(),
            requests: AtomicU64::new(0),
            is_calm: AtomicBool::new(false),
        }
    }

    /// From now on there are no faults.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Relaxed);
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Relaxed)
    }

    /// The fault that `request` to `server` meets.
    pub(super) fn deal(&self, server: &str, request: &Head) -> Dealt {
        self.requests.fetch_add(1, Relaxed);
        if self.is_calm() {
            return None;
        }
        let range = request.get("range").unwrap_or_default();
        let what = format!("{server} {} {} {range}", request.method(), request.path());
        let trial = {
            let mut trials = self.trials.lock().unwrap_or_else(PoisonError::into_inner);
            let trials = trials.entry(what.clone()).or_default();
            *trials += 1;
            *trials
        };
        if trial > FAULTY_TRIALS {
            return None;
        }
        let mut roll = self.chance.about(&format!("{what} {trial}"));
        let has_range = request.range().is_some();
        if !roll.percent(if has_range { SHARE_OF_RANGES } else { SHARE }) {
            return None;
        }
        let method = request.method();
        let about_range = has_range && roll.percent(50);
        let rows = FAULTS.iter().filter(|(fault, _, methods)| {
            methods.contains(&method) && fault.needs_range() == about_range
        });
        let rows: Vec<&Row> = rows.collect();
        let idx = usize::try_from(roll.below(rows.len() as u64)).unwrap_or(0);
        let (fault, name, _) = rows.get(idx)?;
        self.count(name);
        let object = object_in(request.path(), self.namespace);
        if let Some(object) = object.filter(|_| server == ORIGIN && fault.lies()) {
            self.count("lies of the origin");
            self.lies.lock().unwrap_or_else(PoisonError::into_inner).push(object);
        }
        Some((*fault, roll))
    }

    /// How often the origin lied.
    pub(super) fn lies(&self) -> usize {
        self.lies.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether the error that a run printed names an object about which the origin lied, after its
    /// first `known` lies.
    pub(super) fn is_about_a_lie(&self, known: usize, error: &str) -> bool {
        let lies = self.lies.lock().unwrap_or_else(PoisonError::into_inner);
        lies.iter().skip(known).any(|object| names(error, object))
    }

    /// Notes that a real server was killed, or serves again.
    pub(super) fn starts(&self) {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the error of a run that began then says that an object does not exist, and a real
    /// server was starting.
    pub(super) fn is_of_a_start(&self, begun: Instant, error: &str) -> bool {
        let started = *self.started.lock().unwrap_or_else(PoisonError::into_inner);
        error.contains("does not exist") && started.is_some_and(|at| at + STARTING > begun)
    }

    /// Whether `server` takes no connections at this moment.
    pub(super) fn is_away(&self, server: &str) -> bool {
        if self.is_calm() {
            return false;
        }
        self.is_within(&format!("away {server}"), 60, self.begun.elapsed())
    }

    /// Whether a server that can be killed should be started again about now.
    pub(super) fn is_restarted(&self) -> bool {
        !self.is_calm() && self.is_within("restart", 80, self.begun.elapsed())
    }

    /// What the director answers at this moment in place of the truth, if anything.
    pub(super) fn director(&self) -> Option<gular_federation::Trouble> {
        use gular_federation::Trouble::{NoOrigins, Restarted};
        let elapsed = self.begun.elapsed();
        if self.is_calm() || !self.is_within("director", 60, elapsed) {
            return None;
        }
        let period = period(elapsed);
        let restarted = self.chance.about(&format!("which {period}")).percent(50);
        Some(if restarted { Restarted } else { NoOrigins })
    }

    /// Whether a time is within the window that `share` percent of all periods have.
    fn is_within(&self, what: &str, share: u64, elapsed: Duration) -> bool {
        let mut roll = self.chance.about(&format!("{what} {}", period(elapsed)));
        let has_one = roll.percent(share);
        let start = roll.below(AWAY_PERIOD_MS - 2_000);
        let end = start + 300 + roll.below(1_500);
        has_one && (start..end).contains(&(millis(elapsed) % AWAY_PERIOD_MS))
    }

    /// Counts something that happened.
    pub(super) fn count(&self, name: &'static str) {
        *self.dealt.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    /// How often what happened.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.dealt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }
}

/// The path of a request below the namespace.
fn object_in(path: &str, namespace: &str) -> Option<String> {
    let path = percent_decode(path)?;
    let below = path.strip_prefix(namespace)?.trim_matches('/');
    (!below.is_empty()).then(|| below.to_owned())
}

/// Whether `error` has the whole path of `object`, in a URL or as text. A list that is wrong is about
/// its collection and what is directly in it: names of collections have no extension here.
fn names(error: &str, object: &str) -> bool {
    let is_list = !object.rsplit('/').next().unwrap_or_default().contains('.');
    let ends = |rest: &str| match rest.strip_prefix('/').filter(|_| is_list) {
        Some(within) => !within.split('`').next().unwrap_or_default().contains('/'),
        None => !rest.starts_with(|c: char| c.is_alphanumeric() || "./~_-".contains(c)),
    };
    let path = format!("/{object}");
    let has = |text: &str| {
        text.match_indices(&path).any(|(at, _)| text.get(at + path.len()..).is_some_and(ends))
    };
    has(error) || percent_decode(error).is_some_and(|text| has(&text))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn period(elapsed: Duration) -> u64 {
    millis(elapsed) / AWAY_PERIOD_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for 100 objects ten times each.
    fn dealt(seed: u64) -> Vec<Option<Fault>> {
        let faults = Faults::new(Chance::new(seed), "/gular");
        let all = (0..1000).map(|i| {
            let request = Head::new(format!("GET /{} HTTP/1.1", i % 100));
            faults.deal("cache", &request).map(|(fault, _)| fault)
        });
        all.collect()
    }

    #[test]
    fn the_seed_decides_and_every_request_gets_through() {
        assert_eq!(dealt(3), dealt(3));
        assert_ne!(dealt(3), dealt(4));
        let n = dealt(3).iter().filter(|fault| fault.is_some()).count();
        assert!((40..110).contains(&n), "{n} of 600");
        assert!(dealt(3)[600..].iter().all(Option::is_none));
    }

    #[test]
    fn a_request_meets_only_faults_of_its_method() {
        let faults = Faults::new(Chance::new(5), "/gular");
        let met =
            (0..2000).filter_map(|i| faults.deal("o", &Head::new(format!("PUT /{i} HTTP/1.1"))));
        let met: Vec<Fault> = met.map(|(fault, _)| fault).collect();
        assert!(met.contains(&Fault::Lost) && met.contains(&Fault::Denied), "{met:?}");
        assert!(!met.contains(&Fault::OldBytes) && !met.contains(&Fault::Redirect), "{met:?}");
        assert_eq!(faults.lies(), 0);
        let lies = |first: &str| {
            let first = |i| first.replace('#', &format!("{i}"));
            let request = |i| faults.deal(ORIGIN, &Head::new(format!("{} HTTP/1.1", first(i))));
            (0..2000).filter_map(request).filter(|(fault, _)| fault.lies()).count()
        };
        let n = lies("GET /gular/1/folder/#%20.bin");
        assert_eq!(faults.lies(), n);
        assert!(n > 20, "{n}");
        let lied: Vec<String> = faults.lies.lock().unwrap().clone();
        assert!(lied[0].starts_with("1/folder/") && lied[0].ends_with(" .bin"), "{lied:?}");
        let url = format!("error: `pelican://h:1/gular/{}`: 404", lied[0].replace(' ', "%20"));
        assert!(faults.is_about_a_lie(0, &url) && !faults.is_about_a_lie(n, &url));
        for (error, object, expected) in [
            ("error: `h/gular/1/a/3/00003.bin` is 5 bytes", "1/a/3/00003.bin", true),
            ("error: `h/gular/1/a/3/%2520%20and%20%C3%BC%208.bin`", "1/a/3/%20 and ü 8.bin", true),
            ("error: `h/gular/1/a/3/00003.bin~1`", "1/a/3/00003.bin", false),
            ("error: `h/gular/1/a/3/00003.bin`", "1/a/3/0000.bin", false),
            ("error: `h/gular/11/a/3/00003.bin`", "1/a/3/00003.bin", false),
            ("error: `h/gular/1/a/3/`: 500", "1/a/3/00003.bin", false),
            ("error: `h/gular/1/a/3`: 500", "1/a/3", true),
            ("error: `h/gular/1/a/3/00003.bin`", "1/a/3", true),
            ("error: `h/gular/1/a/3/00003.bin`", "1/a", false),
            ("error: 3 of `h/gular/1/a/33`", "1/a/3", false),
        ] {
            assert_eq!(names(error, object), expected, "{error}");
        }
        faults.calm();
        assert!((0..200).all(|i| faults.deal("o", &Head::new(format!("GET /x{i} H"))).is_none()));
    }
}
