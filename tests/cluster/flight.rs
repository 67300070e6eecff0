//! Several appends in flight: what is acknowledged is a prefix of what was sent, whichever of them
//! is lost, delayed or overtaken, and whichever process takes over meanwhile.
//!
//! `FLIGHT_ROUNDS=50 cargo test --release --test main cluster::flight -- --nocapture` is the full
//! size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::proxy::{Fate, From, Proxy};
use super::{Cluster, PATIENCE, ROOMY, ask, ask_for, until};
use crate::durability::load::{Town, memories};
use crate::support::{Server, World, seed};

/// Rounds of the suite's share.
const ROUNDS: u64 = 2;
const IN_FLIGHT: &str = "carebook_journal_appends_in_flight";

/// A writer that reaches the one server of the stream through a proxy.
pub(super) fn through(
    cluster: &Cluster,
    proxy: &Proxy,
    world: &World,
    data: &std::path::Path,
) -> Server {
    let (own, other) = (cluster.nodes[0].port(), proxy.port);
    let mut command = crate::support::carebook();
    let plain = cluster.command(world, data);
    for argument in plain.get_args() {
        let argument = argument.to_str().unwrap();
        command.arg(argument.replace(&format!(":{own}"), &format!(":{other}")));
    }
    Server::spawn(command)
}

/// Sends commands of these numbers, each on a connection of its own, a moment apart; what was
/// answered, if anything was.
fn ask_apart(
    world: &World,
    server: &Server,
    numbers: std::ops::Range<usize>,
    so_far: impl Fn(usize),
    then: impl FnOnce(),
) -> Vec<Option<u16>> {
    std::thread::scope(|scope| {
        let mut asking = Vec::new();
        for number in numbers {
            let client = server.client();
            asking.push(scope.spawn(move || {
                let mut client = client;
                ask(world, &mut client, number)
            }));
            so_far(asking.len());
        }
        then();
        let answers = asking.into_iter().map(|asking| asking.join().unwrap());
        answers.collect()
    })
}

#[test]
fn four_in_flight_are_answered_once_in_order_after_all_before_are_stored() {
    let Some((mut cluster, world)) = Cluster::with_world() else {
        return;
    };
    let proxy = Proxy::to(cluster.nodes[0].port(), |_| Fate::Passes);
    let server = through(&cluster, &proxy, &world, &world.data());
    ask_for(&world, &server, 0..6);
    // All but the first arrive: none of them is acknowledged.
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    proxy.judge_by(move |from| match from {
        From::Writer if counted.fetch_add(1, Ordering::SeqCst) == 0 => Fate::IsLost,
        From::Writer => Fate::Passes,
        From::Server => Fate::IsKept,
    });
    let answers = ask_apart(
        &world,
        &server,
        6..10,
        |count| until("it is sent", || seen.load(Ordering::SeqCst) >= count),
        || {
            until("all are refused", || proxy.kept() >= 3);
            assert_eq!(server.metric(IN_FLIGHT), 4.0);
            assert_eq!(cluster.messages().len(), 8, "two fences and six batches");
            // The refusals arrive: all four are sent again.
            proxy.judge_by(|_| Fate::Passes);
            proxy.let_go(&[0, 1, 2]);
        },
    );
    assert_eq!(answers, [Some(201); 4]);
    assert!(server.metric("carebook_journal_retries_total") >= 1.0);
    // The server is killed with four in flight, of which it has some.
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    proxy.judge_by(move |from| match from {
        From::Writer if counted.fetch_add(1, Ordering::SeqCst) < 2 => Fate::Passes,
        From::Writer => Fate::IsLost,
        From::Server => Fate::IsLost,
    });
    let answers = ask_apart(
        &world,
        &server,
        10..14,
        |count| until("it is sent", || seen.load(Ordering::SeqCst) >= count),
        || {
            until("two are there", || cluster.messages().len() >= 14);
            assert_eq!(server.metric(IN_FLIGHT), 4.0);
            cluster.kill(0);
            proxy.judge_by(|_| Fate::Passes);
            proxy.cut();
            cluster.start(0);
        },
    );
    assert_eq!(answers, [Some(201); 4]);
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    assert_eq!((&told["records"], &told["void"]), (&14.into(), &0.into()));
    assert_eq!(told["comparedRecords"], 14, "{told}");
}

#[test]
fn a_fenced_writers_messages_in_flight_are_void_wherever_they_arrive() {
    let Some(cluster) = Cluster::with_journal(1, ROOMY) else {
        return;
    };
    // Which of the second to the fourth arrive after the fence.
    for (round, late) in [vec![1], vec![1, 2, 3], vec![2, 3]].into_iter().enumerate() {
        let world = World::new();
        let name = format!("node-{round}");
        let proxy = Proxy::to(cluster.nodes[0].port(), |_| Fate::Passes);
        let base = cluster.status()["lastPosition"].as_u64().unwrap();
        let first = through(&cluster, &proxy, &world, &world.path(&name));
        let number = round * 100;
        ask_for(&world, &first, number..number + 6);
        proxy.judge_by(|_| Fate::IsKept);
        let second = std::cell::OnceCell::new();
        let answers = ask_apart(
            &world,
            &first,
            number + 6..number + 10,
            |count| until("it is kept", || proxy.kept() >= count),
            || {
                let data = world.path(&format!("{name}-second"));
                let server = Server::spawn(cluster.command(&world, &data));
                let before = cluster.messages().len();
                proxy.let_go(&late);
                // Those that follow on the fence without a gap are taken, and no other.
                let taken = if late[0] == 1 { late.len() } else { 0 };
                until("they are judged", || {
                    cluster.messages().len() >= before + taken
                });
                ask_for(&world, &server, number + 20..number + 30);
                // What the first one hears now ends it.
                proxy.cut();
                proxy.judge_by(|_| Fate::Passes);
                let _ = second.set(server);
            },
        );
        assert!(
            answers.iter().all(|answer| *answer != Some(201)),
            "{answers:?}"
        );
        assert_eq!(first.ended_within(PATIENCE), Some(5));
        let server = second.into_inner().unwrap();
        // A node that begins with nothing reads past it, and one that had it before goes on.
        assert_eq!(server.stop(), Some(0));
        for data in [format!("{name}-third"), name.clone()] {
            let server = Server::spawn(cluster.command(&world, &world.path(&data)));
            ask_for(&world, &server, number + 20..number + 32);
            assert_eq!(server.stop(), Some(0));
        }
        let told = cluster.verify(&world.path(&name));
        assert_eq!(told["records"].as_u64().unwrap(), base + 18, "{told}");
        let void = told["void"].as_u64().unwrap();
        let status = cluster.status();
        assert_eq!(status["lastPosition"], told["lastPosition"]);
        println!("{late:?} late: {void} void so far");
        assert_eq!(void, [1, 4, 4][round], "{told}");
    }
}

#[test]
fn acknowledged_commands_are_a_prefix_despite_loss_delay_and_reordering() {
    let rounds = std::env::var("FLIGHT_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(cluster) = Cluster::with_journal(1, ROOMY) else {
        return;
    };
    let seed = seed();
    let town = Town::new();
    town.failing.store(true, Ordering::SeqCst);
    let mut memories = memories(seed);
    let proxy = Proxy::to(cluster.nodes[0].port(), |_| Fate::Passes);
    let mut server = Some(through(&cluster, &proxy, &town.world, &town.world.data()));
    town.settle(server.as_ref().unwrap());
    let started = Instant::now();
    let mut most = 0.0_f64;
    for round in 0..rounds {
        let mut random = StdRng::seed_from_u64(seed ^ round);
        let mut lost = 0;
        proxy.judge_by(move |_| match random.random_range(0..200) {
            0 if lost < 3 => {
                lost += 1;
                Fate::IsLost
            }
            1..30 => Fate::IsOvertaken(Duration::from_millis(5)),
            _ => Fate::Passes,
        });
        let before = server.take().unwrap();
        let address = before.address.clone();
        let mut random = StdRng::seed_from_u64(!seed ^ round);
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            let until = Instant::now() + Duration::from_millis(random.random_range(500..3_000));
            while Instant::now() < until {
                most = most.max(before.metric(IN_FLIGHT));
                std::thread::sleep(Duration::from_millis(20));
            }
            if random.random_bool(0.5) {
                proxy.cut();
                std::thread::sleep(Duration::from_millis(300));
            }
            before.kill();
        });
        proxy.judge_by(|_| Fate::Passes);
        let next = through(&cluster, &proxy, &town.world, &town.world.data());
        town.hold_to(&next, &mut memories, round + 1 == rounds);
        town.content();
        server = Some(next);
    }
    assert_eq!(server.unwrap().stop(), Some(0));
    town.compare_with_log();
    cluster.verify(&town.world.data());
    println!(
        "{rounds} rounds in {:?}, {most} in flight at the most: {}; 0 losses, 0 doubles",
        started.elapsed(),
        town.figures
    );
    assert!(most > 1.0, "never several in flight");
}
