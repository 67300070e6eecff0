//! What would be picked instead of carebook, tuned as those who know it would, for one comparison:
//! durable commands a second. `README.md` beside this package says what each peer does and what
//! was tried.

mod answer;
mod load;
mod pool;
mod postgres;
mod postgres_drive;
mod process;
mod redis;
mod service;
mod workload;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    peer: Peer,
}

#[derive(Subcommand)]
enum Peer {
    /// Serves the commands over HTTP from a private PostgreSQL until SIGTERM, SIGINT or the end of
    /// standard input.
    Postgres(service::Arguments),
    /// Drives `postgres`, started as a process of its own, and prints what it measured.
    PostgresDrive(postgres_drive::Arguments),
    /// Drives a private Redis and prints what it measured.
    Redis(redis::Arguments),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // One thread: beside the database there is no processor left for a second one. It is also the
    // thread that starts the servers, which end when it does.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        match arguments.peer {
            Peer::Postgres(arguments) => service::serve(&arguments).await,
            Peer::PostgresDrive(arguments) => {
                unless_signalled(postgres_drive::drive(&arguments)).await
            }
            Peer::Redis(arguments) => unless_signalled(redis::drive(&arguments)).await,
        }
    })
}

/// Drives a peer to the end, or gives up, with everything that was started and made removed.
async fn unless_signalled(drive: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        driven = drive => driven,
        signalled = process::signalled() => {
            signalled?;
            anyhow::bail!("ended by a signal")
        }
    }
}
