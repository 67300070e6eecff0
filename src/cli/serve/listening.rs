//! Opens the sockets that a server listens on.

use std::net::{SocketAddr, TcpListener};

use crate::cli::exit::Failure;

/// Returns why the server cannot listen at this address, and what to do.
pub(super) fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let next = match error.kind() {
        ErrorKind::AddrInUse => {
            "; give another address, or stop the process that listens there, which `ss -ltnp` names"
        }
        ErrorKind::PermissionDenied => "; give a port of 1024 or more, or the service the right",
        ErrorKind::AddrNotAvailable => {
            "; give an address of this machine, as `ip address` shows them"
        }
        _ => "",
    };
    Failure::other(format!("cannot listen on {address}: {error}{next}"))
}

/// Opens a listener with a long queue for bursts of connections: with the usual 128, those beyond would retry only
/// after a second.
pub(super) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    const WAITING_MAX: i32 = 4_096;
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, WAITING_MAX)?;
    Ok(listener)
}
