//! A writer is paused, ends or is killed under load, and its standby takes over, each time the
//! other way round: nothing that was acknowledged is lost, nothing is done twice, a paused writer
//! does not respond any more, and all responses of both are one history in the order of real time.
//!
//! `TAKEOVER_ROUNDS=100 cargo test --release --test main cluster::taken_over -- --nocapture` is a
//! full size.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::nodes::{Nodes, is_ready, is_writer};
use super::{Cluster, PATIENCE, ROOMY, until};
use crate::durability::chronicle::Compared;
use crate::durability::crowd::{Crowd, Place};
use crate::model::world::ACTORS;
use crate::support::{Server, World, seed};

/// Rounds of the suite's share.
const ROUNDS: u64 = 3;
/// So many rounds are one history, with a journal and clients of its own.
const ROUNDS_OF_A_HISTORY: u64 = 12;
/// What is done to the writer, and how it ends of it.
const DONE: [(&str, Option<i32>); 3] = [("STOP", Some(5)), ("TERM", Some(0)), ("KILL", None)];

/// What is read of both after each round.
const LISTS: [&str; 2] = [
    "/settlement-statements?limit=500",
    "/admin/branches?limit=500",
];

/// What the writer shows, its standby shows at the same position. `None` when one of them does not
/// answer: it was replaced meanwhile.
fn alike(world: &World, writer: &Server, following: &Server, name: &str) -> Option<()> {
    let headquarters = ACTORS.iter().find(|who| who.subject == "user-hq1");
    let bearer = format!("Bearer {}", world.token(&headquarters.unwrap().actor()));
    for path in LISTS {
        let read = |server: &Server, least: Option<&str>| {
            let mut headers = vec![("Authorization", bearer.as_str())];
            headers.extend(least.map(|least| ("Carebook-Min-Position", least)));
            let mut client = server.try_client().ok()?;
            let answer = client.try_request("GET", path, &headers, b"").ok()?;
            Some(answer).filter(|answer| answer.status != 503)
        };
        let theirs = read(writer, None)?;
        let position = theirs.position().unwrap().to_string();
        let own = read(following, Some(&position))?;
        assert_eq!((own.status, theirs.status), (200, 200), "{name}: {path}");
        assert_eq!(own.text(), theirs.text(), "{name}: {path}");
    }
    Some(())
}

/// One takeover under load, after which both nodes are well; how long it took.
fn round(
    cluster: &Cluster,
    crowd: &Crowd,
    nodes: &mut Nodes<'_>,
    number: u64,
    random: &mut StdRng,
) -> Duration {
    let (name, expected) = DONE[usize::try_from(number % 3).unwrap()];
    let writer = nodes.writer();
    let before = Duration::from_millis(random.random_range(100..600));
    let after = Duration::from_millis(random.random_range(50..300));
    let places = nodes.places;
    crowd.at_work_at(places, random.random(), || {
        std::thread::sleep(before);
        let began = Instant::now();
        let server = nodes.servers[writer].take().unwrap();
        let following = nodes.servers[1 - writer].as_ref().unwrap();
        server.signal(name);
        until("the standby writes", || is_writer(following));
        let took = began.elapsed();
        until("it is ready", || is_ready(following));
        // Its clients are answered before the one before may say anything.
        std::thread::sleep(after);
        if name == "STOP" {
            server.signal("CONT");
        }
        assert_eq!(server.ended_within(PATIENCE), expected, "round {number}");
        places[writer].lock().unwrap().take();
        nodes.until_well(cluster, crowd);
        took
    })
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_whoever_takes_over() {
    let rounds = std::env::var("TAKEOVER_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(cluster) = Cluster::with_journal(3, ROOMY) else {
        return;
    };
    let mut random = StdRng::seed_from_u64(seed());
    let began = Instant::now();
    let (mut took, mut compared, mut done) = ([Duration::ZERO; 3], Compared::default(), 0);
    while done < rounds {
        if done > 0 {
            cluster.renew();
        }
        let mut crowd = Crowd::new(random.random());
        // Between two writers 503 is an answer, too.
        crowd.troubled.store(true, Ordering::SeqCst);
        let places = [Place::default(), Place::default()];
        let mut nodes = Nodes::new(&places);
        nodes.start(&cluster, &crowd, 0, false).unwrap();
        nodes.until_well(&cluster, &crowd);
        for number in done..rounds.min(done + ROUNDS_OF_A_HISTORY) {
            let what = usize::try_from(number % 3).unwrap();
            let one = round(&cluster, &crowd, &mut nodes, number, &mut random);
            took[what] = took[what].max(one);
            let name = format!("round {number}");
            let well = |nodes: &mut Nodes<'_>, crowd: &Crowd| {
                nodes.until_well(&cluster, crowd);
                nodes.writer()
            };
            until("both show the same", || {
                let writer = nodes.hold(&mut crowd, random.random(), well);
                let [writer, following] =
                    [writer, 1 - writer].map(|node| nodes.servers[node].as_ref().unwrap());
                alike(&crowd.world, writer, following, &name).is_some()
            });
        }
        compared += nodes.end(&cluster, &mut crowd);
        done = rounds.min(done + ROUNDS_OF_A_HISTORY);
        println!("{done} rounds after {:?}: {compared}", began.elapsed());
    }
    let longest: Vec<_> = DONE.iter().zip(took).collect();
    println!(
        "{rounds} takeovers in {:?}, the longest {longest:?}: {compared}; 0 losses, 0 doubles",
        began.elapsed()
    );
    assert!(compared.commits > 0 && compared.followed > 0);
}
