//! Many dry runs, one after the other and two at once, after which all is as it was.
//!
//! `DRY_RUNS` says how many.

use std::collections::BTreeMap;

use carebook::engine::Engine;

use super::expected::Answer;
use super::state::Model;
use super::world::{Command, FACTS, World};

/// The default number of dry runs.
const DRY_RUNS: usize = 600;

/// A service that carries commands out as dry runs.
pub(super) trait Rehearses {
    /// Its engine.
    fn engine(&self) -> &Engine;
    /// The answer to a dry run of this command, seen to say that it is one.
    async fn rehearse(&self, command: &Command) -> Answer;
}

/// Sends random commands of all operations as dry runs.
///
/// # Panics
/// When a state, a key, an index, a list or the log's position is another one afterwards.
pub(super) async fn check(running: &impl Rehearses, world: &mut World, model: &Model, seed: u64) {
    let count = std::env::var("DRY_RUNS").map_or(DRY_RUNS, |text| text.parse().unwrap());
    let engine = running.engine();
    let stands = || {
        let figures = engine.figures();
        let counts = (figures.durable, figures.resources, figures.keys);
        (counts, engine.digest(), engine.listed_now())
    };
    let before = stands();
    let mut commands = (0..).map(|step| world.command(1_000 + step, model));
    let mut commands = commands.by_ref().filter(|command| command.op < FACTS);
    // How many of each operation succeeded.
    let mut succeeded = BTreeMap::<u16, usize>::new();
    for _ in 0..count.div_ceil(2) {
        let two = [commands.next().unwrap(), commands.next().unwrap()];
        let (one, other) = tokio::join!(running.rehearse(&two[0]), running.rehearse(&two[1]),);
        for (command, answer) in two.iter().zip([one, other]) {
            assert!(answer.status < 500, "SEED={seed} {command:?} {answer:?}");
            *succeeded.entry(command.op).or_default() += usize::from(answer.status < 300);
        }
    }
    let after = stands();
    assert_eq!(before.0, after.0, "SEED={seed}");
    assert!(before.1 == after.1, "SEED={seed}: a state, key or index");
    assert!(before.2 == after.2, "SEED={seed}: a list");
    println!("{count} dry runs, succeeded by operation: {succeeded:?}");
    assert!(succeeded.values().sum::<usize>() >= count / 10);
}
