//! Stops a server after a signal.

use crate::cli::ending::wait_for_the_end;
use crate::cli::exit::Failure;
use crate::cli::journal::Running;
use crate::cli::nats::Running as Published;
use crate::engine::Engine;

/// Stops the threads beside the server. By then all commits are durable, and another node may write.
pub(super) fn stopped(
    engine: &Engine,
    published: Option<Published>,
    node: Option<Running>,
) -> Result<(), Failure> {
    engine.end_feed();
    if let Some(published) = published {
        published.wait();
    }
    let ended = engine.shut_down();
    // The log's threads have ended, so nothing more is written, even after a failure.
    if let Some(node) = node {
        node.give_up();
    }
    if let Err(error) = ended {
        wait_for_the_end();
        return Err(Failure::of_log(&error));
    }
    tracing::info!("stopped");
    Ok(())
}
