//! The program `carebook`: parses its arguments and does what they say.

use std::process::ExitCode;

/// Answers are many short-lived allocations on few threads, which this allocator is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    carebook::cli::main()
}
