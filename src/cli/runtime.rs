//! A runtime for commands that use an engine before, or without, a server.

use crate::engine::Engine;

/// Runs work of a command before, or without, a server, on a runtime on this thread, which is lane 0.
///
/// # Errors
/// When the runtime cannot be built.
pub fn on_lane<T>(engine: &Engine, work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let gate = tokio::spawn(engine.lanes().run(0));
        let done = work.await;
        gate.abort();
        done
    }))
}
