//! What tests of random cases have in common.

/// The seed of a test: that of the environment variable `SEED`, by which a run is repeated, or a random
/// one. It is printed, so that a test that fails tells it.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("SEED is a number"),
    );
    println!("SEED={seed}");
    seed
}
