//! Links are cut under load, between nodes and servers of the journal and between servers, in one
//! direction or both, and healed in any order; clients reach both nodes all the time. Nothing that
//! was acknowledged is lost or done twice; all responses are one history in the order of real time,
//! and a replaced writer does not respond any more.
//!
//! `LINK_ROUNDS=100 cargo test --release --test main cluster::cut -- --nocapture` is a full size.
//! Network namespaces take root.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::nodes::{Nodes, is_ready, is_writer};
use super::wires::Wires;
use super::{Cluster, until};
use crate::durability::chronicle::Compared;
use crate::durability::crowd::{Crowd, Place};
use crate::support::seed;

/// Rounds of the suite's share: a writer that is cut off until it is replaced, and a server that is.
const ROUNDS: u64 = 2;
/// So many rounds are one history, with a journal and clients of its own.
const ROUNDS_OF_A_HISTORY: u64 = 5;
/// The servers' machines.
const SERVERS: [usize; 3] = [0, 1, 2];

/// What is cut in a round.
#[derive(Clone, Copy, Debug)]
enum Kind {
    WriterFromAll,
    ServerFromServers,
    WriterFromOne,
    ServersFromEachOther,
    TwoServers,
    StandbyFromAll,
    ServerFromEverybody,
    Anything,
}

const KINDS: [Kind; 8] = [
    Kind::WriterFromAll,
    Kind::ServerFromServers,
    Kind::WriterFromOne,
    Kind::ServersFromEachOther,
    Kind::TwoServers,
    Kind::StandbyFromAll,
    Kind::ServerFromEverybody,
    Kind::Anything,
];

/// The links that are cut, each as from where and to where, in this order.
fn links(kind: Kind, writer: usize, random: &mut StdRng) -> Vec<(usize, usize)> {
    let (writer, standby) = (3 + writer, 4 - writer);
    let server = random.random_range(0..3);
    let others = |of: usize| SERVERS.into_iter().filter(move |other| *other != of);
    let pairs: Vec<(usize, usize)> = match kind {
        Kind::WriterFromAll => SERVERS.map(|server| (writer, server)).to_vec(),
        Kind::StandbyFromAll => SERVERS.map(|server| (standby, server)).to_vec(),
        Kind::WriterFromOne => vec![(writer, server)],
        Kind::ServerFromServers => others(server).map(|other| (server, other)).collect(),
        Kind::TwoServers => vec![(server, (server + 1) % 3)],
        Kind::ServersFromEachOther => vec![(0, 1), (1, 2), (2, 0)],
        Kind::ServerFromEverybody => {
            let nodes = others(server).chain([writer, standby]);
            nodes.map(|other| (server, other)).collect()
        }
        Kind::Anything => {
            let servers = SERVERS.into_iter();
            let all = servers.flat_map(|one| (one + 1..5).map(move |other| (one, other)));
            all.filter(|_| random.random_bool(0.4)).collect()
        }
    };
    // Now and then what goes the other way still comes.
    let both = matches!(kind, Kind::WriterFromAll) || random.random_bool(0.7);
    let mut links = Vec::new();
    for (one, other) in pairs {
        let turned = random.random_bool(0.5);
        if both || turned {
            links.push((one, other));
        }
        if both || !turned {
            links.push((other, one));
        }
    }
    links.shuffle(random);
    links
}

/// How long the links stay cut.
enum Stay {
    UntilTakenOver,
    For(Duration),
}

/// A campaign's figures, for people.
#[derive(Default)]
struct Came {
    compared: Compared,
    takeovers: u64,
    fenced: u64,
    unknown: u64,
}

/// Cuts links, waits, heals them in another order.
fn cut_and_heal(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    links: &mut [(usize, usize)],
    stay: &Stay,
    standby: usize,
    random: &mut StdRng,
) {
    let wires = cluster.wires.as_ref().unwrap();
    let pauses = |random: &mut StdRng| {
        let pause = random.random_range(0..80_u64).saturating_sub(40);
        std::thread::sleep(Duration::from_millis(pause));
    };
    for (from, to) in links.iter() {
        wires.cut(*from, *to);
        pauses(random);
    }
    match stay {
        Stay::For(time) => std::thread::sleep(*time),
        Stay::UntilTakenOver => {
            let server = nodes.servers[standby].as_ref().unwrap();
            until("the other node takes over", || is_writer(server));
            until("it serves", || is_ready(server));
            // The one before has clients meanwhile, and answers none.
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    links.shuffle(random);
    for (from, to) in links.iter() {
        wires.heal(*from, *to);
        pauses(random);
    }
}

/// Some rounds on a journal of their own.
fn history(cluster: &Cluster, rounds: std::ops::Range<u64>, random: &mut StdRng, came: &mut Came) {
    cluster.renew();
    let mut crowd = Crowd::new(random.random());
    crowd.troubled.store(true, Ordering::SeqCst);
    let places = [Place::default(), Place::default()];
    let mut nodes = Nodes::new(&places);
    nodes.start(cluster, &crowd, 0, false).unwrap();
    nodes.until_well(cluster, &crowd);
    for round in rounds {
        let kind = KINDS[usize::try_from(round).unwrap() % KINDS.len()];
        let writer = nodes.writer();
        let mut links = links(kind, writer, random);
        let stay = match kind {
            Kind::WriterFromAll => Stay::UntilTakenOver,
            _ if random.random_bool(0.3) => {
                Stay::For(Duration::from_millis(random.random_range(5_000..15_000)))
            }
            _ => Stay::For(Duration::from_millis(random.random_range(100..4_000))),
        };
        let seed: u64 = random.random();
        let before = Instant::now();
        crowd.at_work_at(&places, seed, || {
            std::thread::sleep(Duration::from_millis(200));
            cut_and_heal(cluster, &nodes, &mut links, &stay, 1 - writer, random);
            nodes.until_well(cluster, &crowd);
        });
        let now = nodes.hold(&mut crowd, random.random(), |nodes, crowd| {
            nodes.until_well(cluster, crowd);
            nodes.writer()
        });
        came.takeovers += u64::from(now != writer);
        println!("round {round}, {kind:?}: {:?}", before.elapsed());
    }
    came.compared += nodes.end(cluster, &mut crowd);
    came.fenced += nodes.fenced;
    came.unknown += nodes.unknown;
}

fn campaign() {
    let rounds = std::env::var("LINK_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(wires) = Wires::laid(5) else {
        return;
    };
    let Some(cluster) = Cluster::on(wires) else {
        return;
    };
    let mut random = StdRng::seed_from_u64(seed());
    let (began, mut came) = (Instant::now(), Came::default());
    let mut done = 0;
    while done < rounds {
        let next = rounds.min(done + ROUNDS_OF_A_HISTORY);
        history(&cluster, done..next, &mut random, &mut came);
        done = next;
        println!(
            "{done} rounds after {:?}: {}",
            began.elapsed(),
            came.compared
        );
    }
    println!(
        "{rounds} rounds in {:?}, {} takeovers, {} processes fenced, {} ended since they did not \
         know what became of a commit: {}; 0 losses, 0 doubles, 0 answers of two epochs at once",
        began.elapsed(),
        came.takeovers,
        came.fenced,
        came.unknown,
        came.compared
    );
    assert!(came.compared.commits > 0 && came.compared.followed > 0 && came.takeovers > 0);
}

#[test]
fn whatever_link_is_cut_all_that_was_told_is_one_history() {
    // A thread of its own moves to another network.
    let done = std::thread::spawn(campaign).join();
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
