//! Helpers of tests with random cases.

/// Returns the seed of a test: that of the environment variable `SEED`, which repeats a run, or a
/// random one. The seed is printed, so that the output of a failed test contains it.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("SEED is a number"),
    );
    println!("SEED={seed}");
    seed
}
