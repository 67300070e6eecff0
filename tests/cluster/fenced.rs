//! Of those who write exactly one goes on.
//!
//! `CLUSTER_RACES=100 cargo test --release --test main cluster::fenced -- --nocapture` is the full
//! size.

use super::{Cluster, PATIENCE, ask_for, until};
use crate::support::Server;

/// Races of the suite's share.
const RACES: usize = 2;

#[test]
fn a_later_writer_takes_over_and_the_earlier_one_ends_and_reports_it() {
    let Some((cluster, world, first)) = Cluster::with_writer(5) else {
        return;
    };
    let second = Server::spawn(cluster.command(&world, &world.path("second")));
    assert_eq!(first.ended_within(PATIENCE), Some(5));
    ask_for(&world, &second, 5..10);
    // An operator may end it, too.
    let told = cluster.told("fence", &[]);
    assert_eq!(
        (&told["epoch"], &told["lastPosition"]),
        (&4.into(), &10.into())
    );
    assert_eq!(second.ended_within(PATIENCE), Some(5));
    let third = cluster.serve(&world);
    ask_for(&world, &third, 10..12);
    assert_eq!(third.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["records"], 12);
}

#[test]
fn of_several_writers_started_at_once_exactly_one_continues() {
    let races = std::env::var("CLUSTER_RACES").map_or(RACES, |races| races.parse().unwrap());
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let mut asked = 0;
    for _ in 0..races {
        let started: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..3)
                .map(|number| {
                    let data = world.path(&format!("node-{number}"));
                    let command = cluster.command(&world, &data);
                    scope.spawn(|| Server::try_spawn(command))
                })
                .collect();
            let started = starts.into_iter().map(|start| start.join().unwrap());
            started.collect()
        });
        let mut running = Vec::new();
        for server in started {
            match server {
                Ok(server) => running.push(server),
                Err(code) => assert_eq!(code, Some(5), "one that does not start was fenced"),
            }
        }
        until("one is left", || {
            running.retain_mut(|server| match server.has_ended() {
                Some(code) => {
                    assert_eq!(code, Some(5));
                    false
                }
                None => true,
            });
            assert!(!running.is_empty(), "nobody goes on");
            running.len() == 1
        });
        let server = running.pop().unwrap();
        ask_for(&world, &server, asked..asked + 3);
        asked += 3;
        server.kill();
    }
    let told = cluster.told("verify", &[]);
    assert_eq!(told["records"], asked, "{told}");
    println!("{races} races, {asked} commands, epoch {}", told["epoch"]);
}
