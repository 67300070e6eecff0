//! Writers and the stream's servers are killed under load, in turn: nothing that was acknowledged
//! is lost, nothing is done twice, and all responses are one history in the order of real time.
//!
//! `CLUSTER_ROUNDS=300 cargo test --release --test main cluster::killed -- --nocapture` is the full
//! size.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::nodes::{Nodes, is_ready};
use super::{Cluster, PATIENCE, ROOMY, until};
use crate::durability::chronicle::Compared;
use crate::durability::crowd::{Crowd, Place};
use crate::support::seed;

/// Rounds of the suite's share.
const ROUNDS: u64 = 4;
/// So many rounds are one history, with a journal and clients of its own.
const ROUNDS_OF_A_HISTORY: u64 = 12;

/// What is killed in a round.
const KILLED: [&str; 4] = [
    "the writer",
    "one of the stream's servers, and the writer",
    "all of them, and the writer",
    "nobody: the writer stands still while another one takes over",
];

/// Starts a writer, on the first of these directories if no node has it open.
fn start(cluster: &Cluster, crowd: &Crowd, nodes: &mut Nodes<'_>, first: usize) -> usize {
    let mut started = None;
    until("a writer starts", || {
        let free: Vec<_> = [first, 1 - first]
            .into_iter()
            .filter(|node| nodes.servers[*node].is_none())
            .collect();
        started = free
            .into_iter()
            .find(|node| nodes.start(cluster, crowd, *node, false).is_ok());
        started.is_some()
    });
    let node = started.unwrap();
    let server = nodes.servers[node].as_ref().unwrap();
    until("it is ready", || is_ready(server));
    node
}

/// One round: the node that writes after it.
fn round(
    cluster: &mut Cluster,
    crowd: &Crowd,
    nodes: &mut Nodes<'_>,
    writer: usize,
    what: usize,
    random: &mut StdRng,
) -> usize {
    let next = random.random_range(0..2);
    let within = |random: &mut StdRng, most: u64| {
        std::thread::sleep(Duration::from_millis(random.random_range(0..most)));
    };
    crowd.at_work_at(nodes.places, random.random(), || {
        std::thread::sleep(Duration::from_millis(100));
        within(random, 500);
        match what {
            0 => nodes.taken(writer).kill(),
            1 => {
                let server = random.random_range(0..3);
                cluster.kill(server);
                within(random, 1_500);
                cluster.start(server);
                within(random, 600);
                nodes.taken(writer).kill();
            }
            2 => {
                (0..3).for_each(|server| cluster.kill(server));
                within(random, 1_000);
                (0..3).for_each(|server| cluster.start(server));
                nodes.taken(writer).kill();
            }
            _ => nodes.servers[writer].as_ref().unwrap().signal("STOP"),
        }
        let now = start(cluster, crowd, nodes, next);
        if what == 3 {
            // The new one answers before the one before may say anything.
            within(random, 300);
            let server = nodes.servers[writer].as_ref().unwrap();
            server.signal("CONT");
            // It is asked for whatever it is good for until it ends.
            let server = nodes.servers[writer].take().unwrap();
            assert_eq!(server.ended_within(PATIENCE), Some(5));
            nodes.places[writer].lock().unwrap().take();
        }
        now
    })
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_whoever_is_killed() {
    let rounds = std::env::var("CLUSTER_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(mut cluster) = Cluster::with_journal(3, ROOMY) else {
        return;
    };
    let mut random = StdRng::seed_from_u64(seed());
    let began = Instant::now();
    let (mut kills, mut compared, mut done) = ([0; 4], Compared::default(), 0);
    while done < rounds {
        if done > 0 {
            cluster.renew();
        }
        let mut crowd = Crowd::new(random.random());
        // While the journal is not reached 503 is an answer, too.
        crowd.troubled.store(true, Ordering::SeqCst);
        let places = [Place::default(), Place::default()];
        let mut nodes = Nodes::new(&places);
        let mut writer = start(&cluster, &crowd, &mut nodes, 0);
        for number in done..rounds.min(done + ROUNDS_OF_A_HISTORY) {
            let what = usize::try_from(number % 4).unwrap();
            let (nodes, random) = (&mut nodes, &mut random);
            writer = round(&mut cluster, &crowd, nodes, writer, what, random);
            kills[what] += 1;
            // It ends by itself when it is not answered for too long.
            let mut now = writer;
            writer = nodes.hold(&mut crowd, random.random(), |nodes, crowd| {
                if let Some(code) = nodes.servers[now].as_mut().unwrap().has_ended() {
                    assert_eq!(code, Some(1));
                    nodes.taken(now);
                    now = start(&cluster, crowd, nodes, now);
                }
                now
            });
        }
        compared += nodes.end(&cluster, &mut crowd);
        done = rounds.min(done + ROUNDS_OF_A_HISTORY);
        println!("{done} rounds after {:?}: {compared}", began.elapsed());
    }
    let kills = kills.iter().zip(KILLED);
    let kills: Vec<_> = kills
        .map(|(times, what)| format!("{times} × {what}"))
        .collect();
    println!(
        "{rounds} rounds in {:?}: {}; {compared}; 0 losses, 0 doubles",
        began.elapsed(),
        kills.join(", ")
    );
    assert!(compared.commits > 0);
}
