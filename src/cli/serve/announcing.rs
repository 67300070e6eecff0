//! Prints the lines that report that a server listens.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

use super::console::Consoles;
use super::demo::Demo;
use super::logging::flush;
use crate::cli::exit::Failure;
use crate::cli::manager;
use crate::engine::Engine;

/// Reports the server's addresses to the service manager and on standard output.
pub(super) fn announce(
    engine: &Arc<Engine>,
    told_to_stop: watch::Receiver<bool>,
    base: &str,
    (inside, consoles): (Option<SocketAddr>, &Consoles),
    demo: Option<&Demo>,
) -> Result<(), Failure> {
    // Lines that were logged during the start are written first.
    flush();
    let listening = format!("listening on {base}");
    manager::ready(&listening);
    manager::start_keep_alives(engine, told_to_stop, listening.clone())
        .map_err(Failure::from_error)?;
    print_lines(&listening);
    let inside = inside.map(|inside| format!("http://{inside}"));
    if let Some(inside) = &inside {
        print_lines(&format!("internal on {inside}"));
    }
    for line in consoles.start_lines(base, inside.as_deref()) {
        print_lines(&line);
    }
    if let Some(demo) = demo {
        let told = demo.introduction(base, inside.as_deref());
        print_lines(&told.map_err(Failure::other)?);
    }
    Ok(())
}

/// Prints one or several lines on standard output, and flushes.
fn print_lines(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason to stop serving.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
