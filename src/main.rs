//! The program `carebook`: parses its arguments and runs the command that they name.

use std::process::ExitCode;

/// Allocator for many short-lived allocations on few threads, which is what answering requests
/// makes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    carebook::cli::main()
}
