//! Ranks meet, sum numbers and end together. Each rank is a separate process: the test program
//! starts itself again, with one line that says what to do.
#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and a rank says what it got"
)]

mod child;
mod port;
mod process;

use std::env;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use gular_group::{Error, Group, GroupOptions, Rendezvous, Seat};
use port::port;
use process::{JOB, Job, Rank, connect, hello, job, masked, one_end};
use rustix::process::Signal;

/// Runs one rank, if the environment variable is set.
#[test]
fn child() {
    if let Ok(line) = env::var(JOB) {
        child::run(&line);
    }
}

#[test]
fn sums_are_right_and_bit_equal_on_all_ranks_and_again() {
    for world_size in 1..=4 {
        let runs = [0, 1].map(|_| {
            let ranks = job("sums", world_size).start_all();
            let said: Vec<_> = ranks.iter().map(Rank::rest).collect();
            assert!(said.iter().all(|lines| *lines == said[0]), "{said:?}");
            assert_eq!((said[0].len(), said[0][1].as_str()), (2, "done"));
            said[0][0].clone()
        });
        assert_eq!(runs[0], runs[1]);
    }
}

#[test]
fn killed_rank_is_named_by_all_others() {
    for killed in 0..4 {
        let job = job("loop", 4);
        let mut ranks = job.start_all();
        for rank in &ranks {
            assert_eq!(rank.says(), "running");
        }
        ranks.remove(killed).signal(Signal::KILL);
        let end = one_end(&ranks);
        let expected = format!(
            "rank {killed} (127.0.0.1:*) was lost: its connection closed without a goodbye"
        );
        assert_eq!(masked(&end), expected);
    }
}

#[test]
fn stopped_rank_is_lost_and_learns_so_when_it_goes_on() {
    for stopped in [0, 1] {
        let ranks = Job { lost_ms: 3000, ..job("loop", 3) }.start_all();
        for rank in &ranks {
            assert_eq!(rank.says(), "running");
        }
        ranks[stopped].signal(Signal::STOP);
        let others: Vec<_> = (0..3).filter(|rank| *rank != stopped).collect();
        for rank in &others {
            let end = ranks[*rank].says();
            let expected = format!("rank {stopped} (127.0.0.1:*) was lost: no sign of life for 3s");
            assert_eq!(masked(&end), expected);
        }
        ranks[stopped].signal(Signal::CONT);
        let end = ranks[stopped].says();
        assert!(end.ends_with("was lost: no sign of life for 3s"), "{end}");
        assert!(end.starts_with(&format!("rank {stopped} ")), "{end}");
    }
}

#[test]
fn reason_of_a_rank_that_fails_reaches_all() {
    let end = one_end(&job("fail", 3).start_all());
    assert_eq!(masked(&end), "rank 1 (127.0.0.1:*) ended the training: no more memory");
}

#[test]
fn rank_that_just_ends_or_panics_ends_all() {
    for (case, reason) in [("drop", "it ended without a reason given"), ("panic", "it panicked")] {
        let mut ranks = job(case, 3).start_all();
        let ended = ranks.remove(1);
        let end = one_end(&ranks);
        assert_eq!(masked(&end), format!("rank 1 (127.0.0.1:*) ended the training: {reason}"));
        drop(ended);
    }
}

#[test]
fn different_operations_are_named_on_both_sides() {
    let check = |case, expected: &[&str]| {
        let end = one_end(&job(case, 3).start_all());
        assert!(expected.contains(&end.as_str()), "{end}");
    };
    // Both neighbours of rank 1 notice it, and either may be first.
    let ours = "the ranks are not at the same operation: rank";
    let [four, five] = [4, 5].map(|n| format!("is in operation 2, all-reduce of {n} f32"));
    let [four_too, five_too] = [&four, &five].map(|text| text.replace("is in ", ""));
    check(
        "lengths",
        &[
            &format!("{ours} 1 {five}, rank 0 in {four_too}"),
            &format!("{ours} 2 {four}, rank 1 in {five_too}"),
        ],
    );
    let reduce = "operation 2, all-reduce of 9 u64";
    check(
        "kinds",
        &[
            &format!("{ours} 2 is in operation 2, barrier, rank 1 in {reduce}"),
            &format!("{ours} 0 is in {reduce}, rank 2 in operation 2, barrier"),
        ],
    );
    check("limit", &["rank 0 broadcasts 300001 bytes, but rank 1 accepts at most 300000"]);
}

#[test]
fn operation_that_one_rank_never_begins_ends_by_naming_it() {
    let job = Job { operation_ms: 3000, lost_ms: 6000, ..job("stall", 3) };
    let end = one_end(&job.start_all());
    let expected = "operation 2, all-reduce of 100 f64 made no progress for 3s: \
                    rank 1 (127.0.0.1:*) has not begun it";
    assert_eq!(masked(&end), expected);
}

#[test]
fn a_stop_lets_others_come_and_ends_what_they_never_come_to() {
    for rank in &job("late", 3).start_all() {
        assert_eq!(rank.says(), "done");
    }
    let since = Instant::now();
    let end = one_end(&job("hang", 3).start_all());
    let expected = "rank 0 was asked to stop, but operation 2, all-reduce of 100 f64 then made no \
                    progress for 2s: rank 0 waits for rank 2";
    assert_eq!(end, expected);
    assert!(since.elapsed() < Duration::from_secs(20), "of 60 that an operation may wait");
}

#[test]
fn ranks_that_never_come_are_named() {
    let job = Job { rendezvous_ms: 4000, ..job("meet", 4) };
    let ranks = [job.rank(1).start(), job.rank(0).start()];
    assert_eq!(one_end(&ranks), "of 4 ranks, these did not reach rank 0 within 4s: 2-3");
}

#[test]
fn rank_0_that_never_comes_is_told_with_what_was_tried() {
    let job = Job { rendezvous_ms: 1000, ..job("meet", 2) };
    let end = job.rank(1).start().says();
    let place = format!("127.0.0.1:{}", job.port);
    let expected = format!("rank 1 could not reach rank 0 at {place} within 1s: {place}: ");
    assert!(end.starts_with(&expected) && end.contains("refused"), "{end}");
}

#[test]
fn rank_0_may_be_late() {
    let job = job("meet", 3);
    let mut ranks = vec![job.rank(1).start(), job.rank(2).start()];
    // The ranks have tried at least once; a shorter pause would only test less.
    thread::sleep(Duration::from_millis(300));
    ranks.push(job.rank(0).start());
    assert_eq!(one_end(&ranks), "done");
}

#[test]
fn contradictions_end_all_and_say_where_they_are() {
    let check = |expected: &str, change: &dyn Fn(&mut Job)| {
        let job = job("meet", 3);
        let mut odd = job.rank(1);
        change(&mut odd);
        let ranks = [job.rank(0).start(), odd.start(), job.rank(2).start()];
        let end = one_end(&ranks);
        let start = "these ranks do not belong to the same training run: ";
        assert_eq!(masked(&end), format!("{start}{expected}"));
    };
    check("rank 1 (127.0.0.1:*) has world size 4, rank 0 has 3", &|job| job.world_size = 4);
    check("line 2 is `layer 4` on rank 1 (127.0.0.1:*), `layer 3` on rank 0", &|job| {
        job.about = "model tiny/layer 4";
    });
    check("two processes are rank 2, 127.0.0.1:* and 127.0.0.1:*", &|job| job.rank = 2);
}

#[test]
fn rank_of_another_version_ends_all() {
    let job = job("meet", 3);
    let ranks = [job.rank(0).start(), job.rank(1).start()];
    let mut later = connect(job.port);
    later.write_all(b"gulargrp\x09\0\0\0and whatever comes in version 9").expect("sends");
    let expected = "these ranks do not belong to the same training run: a rank at 127.0.0.1:* uses version 9 of the rendezvous protocol, rank 0 version 1";
    assert_eq!(masked(&ranks[0].says()), expected);
    assert_eq!(masked(&ranks[1].says()), expected);
    let mut answer = Vec::new();
    later.read_to_end(&mut answer).expect("is told");
    assert!(answer.starts_with(b"gulargrp\x01\0\0\0"));
}

#[test]
fn strangers_do_no_harm_and_hold_up_nobody() {
    let job = job("meet", 3);
    let mut ranks = vec![job.rank(0).start()];
    let silent = connect(job.port);
    let mut half = connect(job.port);
    half.write_all(b"gulargrp\x01\0\0\0").expect("sends");
    let scanner = connect(job.port);
    drop(scanner);
    // A connection that says it is rank 1, and nothing more.
    let mut twin = connect(job.port);
    twin.write_all(&hello(&job.rank(1))).expect("sends");
    let mut browser = connect(job.port);
    browser.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").expect("sends");
    let mut flood = connect(job.port);
    // The connection is cut, so writing may fail.
    let _ = flood.write_all(&vec![0xa5; 1 << 20]);
    ranks.extend([job.rank(1).start(), job.rank(2).start()]);
    assert_eq!(one_end(&ranks), "done");
    drop((silent, half, twin));
}

#[test]
fn something_else_at_rank_0s_port_is_told() {
    let other = TcpListener::bind(("127.0.0.1", 0)).expect("listens");
    let port = other.local_addr().expect("has one").port();
    thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.expect("comes").write_all(b"SSH-2.0-other\r\n");
        }
    });
    let job = Job { port, rendezvous_ms: 1500, ..job("meet", 2) };
    let end = job.rank(1).start().says();
    assert!(end.ends_with("the process that listens there is not rank 0"), "{end}");
    let end = job.rank(0).start().says();
    let expected = format!("rank 0 cannot listen on port {port} of all addresses: ");
    assert!(end.starts_with(&expected) && end.contains("in use"), "{end}");
}

#[test]
fn waiting_can_be_cancelled() {
    let mut job = job("cancel", 3);
    for rank in [0, 1] {
        job.port = port();
        let mut rank = job.rank(rank).start();
        assert_eq!(rank.says(), "waiting");
        drop(rank.child.stdin.take());
        assert_eq!(rank.says(), "stopped before all ranks had connected");
    }
}

#[test]
fn rank_that_goes_before_all_have_met_is_named() {
    // Rank 2 does not come, so that all cannot have met.
    let job = job("meet", 3);
    let ranks = [job.rank(0).start()];
    let mut one = connect(job.port);
    one.write_all(&hello(&job.rank(1))).expect("sends");
    // Magic and version, then kind, length and milliseconds.
    one.read_exact(&mut [0; 12 + 5 + 8]).expect("is welcome");
    one.write_all(b"\x04\x0b\x00\x00\x00127.0.0.1:9").expect("sends");
    drop(one);
    let expected = "rank 1 (127.0.0.1:*) was lost: its connection closed without a goodbye, \
                    before all ranks had connected";
    assert_eq!(masked(&one_end(&ranks)), expected);
}

/// Others than the thread that computes wait with it, and tell it of their own failures.
fn shared_between_threads<T: Send + Sync>(_: &T) {}

#[test]
fn one_rank_needs_no_others() {
    let group = Group::alone();
    shared_between_threads(&group);
    let mut values = [1.5_f32, 2.0];
    group.all_reduce(&mut values).expect("alone");
    assert_eq!(values, [1.5, 2.0]);
    group.barrier().expect("alone");
    group.fail("a reason");
    let error = group.check().expect_err("it has failed");
    assert_eq!(error.to_string(), "rank 0 (the only rank) ended the training: a reason");
    assert!(matches!(error, Error::Failed { rank: 0, .. }));
    assert!(group.all_reduce(&mut values).is_err());
    Group::alone().finish().expect("alone");
}

#[test]
fn options_that_cannot_be_are_refused_before_anybody_is_met() {
    let check = |rank, about: &str, change: &dyn Fn(&mut GroupOptions), expected: &str| {
        let mut options = GroupOptions::default();
        change(&mut options);
        let here = Seat { rank, world_size: 2 };
        let place = Rendezvous { host: "127.0.0.1".into(), port: port() };
        let joined = Group::join(here, &place, about, &options, &AtomicBool::new(false));
        assert_eq!(joined.expect_err("refused").to_string(), expected);
    };
    let second = |options: &mut GroupOptions| options.lost_after = Duration::from_millis(999);
    check(0, "", &second, "option `lost_after`: less than a second");
    let never = |options: &mut GroupOptions| options.operation_timeout = Duration::ZERO;
    let expected = "option `rendezvous_timeout, operation_timeout`: it must be longer than zero";
    check(0, "", &never, expected);
    let any = |options: &mut GroupOptions| options.interface = "0.0.0.0".parse().ok();
    check(1, "", &any, "option `interface`: it is not an address of one machine");
    let long = "x".repeat((8 << 20) + 1);
    check(1, &long, &|_| {}, "option `about`: longer than 8 MiB");
    let expected = "rank 2 does not exist in world size 2: ranks count from 0 and must be below the world size";
    check(2, "", &|_| {}, expected);
    // An address of documentation, which no machine has.
    let other = |options: &mut GroupOptions| options.interface = "192.0.2.1".parse().ok();
    let expected =
        "rank 1 cannot listen on 192.0.2.1: Cannot assign requested address (os error 99)";
    check(1, "", &other, expected);
}
