//! The server: a runtime with its own thread for each lane, connections handed to the lanes in
//! turn. Beside the listener for everybody there may be one for inside.
//!
//! Two runtimes of one thread each answer more requests than one runtime of two threads: a
//! command is decided, waits and is answered where its connection lives, and most wake-ups stay
//! on one thread.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::service::Service;
use super::timed_io::{HeadLimit, TimedIo};
use crate::engine::lane::Lanes;
use crate::engine::processors::Processors;

/// Bounds of the front.
#[derive(Clone, Copy, Debug)]
pub struct FrontLimits {
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// Connections that may be open from one address.
    pub connections_per_address_max: usize,
    /// How long the head of a request may take to arrive, and a connection may be idle.
    pub head_timeout: Duration,
    /// How long an answer may wait for its reader.
    pub write_timeout: Duration,
    /// How long requests in flight may take after the server was told to stop.
    pub drain_timeout: Duration,
}

impl Default for FrontLimits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            connections_per_address_max: 20_000,
            head_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// The most bytes that the head of a request may have, and the most fields in it.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEAD_FIELDS_MAX: usize = 64;
/// Streams that a connection of HTTP/2 may have open.
const STREAMS_MAX: u32 = 100;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait when the process has no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server is made of.
pub struct Server {
    /// What answers.
    pub service: Arc<Service>,
    /// What is offered inside, where that has a listener of its own.
    pub internal: Option<Internal>,
    /// The engine's lanes, one for each runtime.
    pub lanes: Arc<Lanes>,
    /// TLS, where it is on.
    pub tls: Option<TlsAcceptor>,
    /// The processors that the lanes are bound to, where they are.
    pub processors: Option<Processors>,
    /// Its bounds.
    pub limits: FrontLimits,
}

/// What is offered inside, without TLS.
pub struct Internal {
    /// Where.
    pub listener: TcpListener,
    /// What answers there.
    pub service: Arc<Service>,
}

/// What is done with the connections of one listener.
struct Front {
    service: Arc<Service>,
    tls: Option<TlsAcceptor>,
    limits: FrontLimits,
}

/// Counts open connections, all and by address.
#[derive(Default)]
struct Connections {
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// One open connection; dropping it counts it out.
struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    fn count(self: &Arc<Self>, address: IpAddr, limits: &FrontLimits) -> Option<Counted> {
        let mut by_address = self.by_address.lock();
        let here = by_address.entry(address).or_default();
        let open = self.open.load(Ordering::Relaxed);
        if open >= limits.connections_max || *here >= limits.connections_per_address_max {
            return None;
        }
        *here += 1;
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Counted {
            connections: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_address = self.connections.by_address.lock();
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(here) = by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// A connection on its way to its lane.
struct Handed {
    stream: std::net::TcpStream,
    counted: Counted,
    front: Arc<Front>,
}

impl Server {
    /// Serves until `stop` turns true, answers what is in flight, and returns. Blocks the calling
    /// thread, which takes connections in; each lane has a thread of its own.
    ///
    /// # Errors
    /// When a runtime or a thread cannot be started, or the listener cannot be used.
    pub fn run(mut self, listener: TcpListener, stop: watch::Receiver<bool>) -> io::Result<()> {
        let internal = self.internal.take();
        let server = Arc::new(self);
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        let together = Arc::new(Barrier::new(server.lanes.count()));
        for lane in 0..server.lanes.count() {
            let (sender, receiver) = mpsc::unbounded_channel();
            senders.push(sender);
            let (server, stop) = (Arc::clone(&server), stop.clone());
            let together = Arc::clone(&together);
            let processors = server.processors.clone();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                // Threads that read from the disk for it.
                .on_thread_start(move || {
                    if let Some(processors) = &processors {
                        processors.unbind();
                    }
                })
                .build()?;
            let thread = std::thread::Builder::new().name(format!("lane-{lane}"));
            threads.push(thread.spawn(move || {
                if let Some(processors) = &server.processors {
                    processors.bind(lane);
                }
                runtime.block_on(async {
                    let gate = tokio::spawn(Arc::clone(&server.lanes).run(lane));
                    Arc::clone(&server).lane(lane, receiver, stop).await;
                    // A resource's actor may live here and have work of another lane's: all lanes
                    // go together, or when the time is up.
                    let all = tokio::time::timeout(server.limits.drain_timeout, together.wait());
                    let _ = all.await;
                    gate.abort();
                });
                // What did not end in time is not waited for.
                runtime.shutdown_background();
            })?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let public = Front {
            service: Arc::clone(&server.service),
            tls: server.tls.clone(),
            limits: server.limits,
        };
        let accepted = runtime.block_on(async {
            let inside = async {
                let Some(Internal { listener, service }) = internal else {
                    return Ok(());
                };
                let front = Front {
                    service,
                    tls: None,
                    limits: server.limits,
                };
                accept(front, listener, senders.clone(), stop.clone()).await
            };
            let public = accept(public, listener, senders.clone(), stop.clone());
            tokio::try_join!(public, inside).map(|_| ())
        });
        drop(senders);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a lane has panicked");
            }
        }
        accepted
    }

    async fn lane(
        self: Arc<Self>,
        lane: usize,
        mut connections: mpsc::UnboundedReceiver<Handed>,
        mut stop: watch::Receiver<bool>,
    ) {
        if lane == 0 {
            self.service.engine().resume_deliveries();
        }
        let graceful = Arc::new(GracefulShutdown::new());
        loop {
            tokio::select! {
                biased;
                handed = connections.recv() => match handed {
                    Some(handed) => handed.serve(&graceful),
                    None => break,
                },
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        // Handshakes hold the value too; what has not begun to speak by now is let go.
        if let Some(graceful) = Arc::into_inner(graceful) {
            let drained = tokio::time::timeout(self.limits.drain_timeout, graceful.shutdown());
            if drained.await.is_err() {
                tracing::warn!(lane, "requests in flight did not end in time");
            }
        }
    }
}

impl Handed {
    /// Takes the connection over on the present lane.
    fn serve(self, graceful: &Arc<GracefulShutdown>) {
        let Self {
            stream,
            counted,
            front,
        } = self;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection could not be taken over"),
        };
        let Some(tls) = front.tls.clone() else {
            return front.speak_http1(stream, counted, graceful);
        };
        let graceful = Arc::downgrade(graceful);
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
            let Ok(Ok(stream)) = handshake.await else {
                return tracing::debug!("a TLS handshake failed");
            };
            let Some(graceful) = graceful.upgrade() else {
                return;
            };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                front.speak_http2(stream, counted, &graceful);
            } else {
                front.speak_http1(stream, counted, &graceful);
            }
        });
    }
}

impl Front {
    fn speak_http1<S>(self: &Arc<Self>, stream: S, counted: Counted, graceful: &GracefulShutdown)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self.service);
        let head = HeadLimit::new(self.limits.head_timeout);
        let stream = TimedIo::new(stream, self.limits.write_timeout, Some(Arc::clone(&head)));
        let respond = service_fn(move |request| {
            let (service, head) = (Arc::clone(&service), Arc::clone(&head));
            async move {
                head.arrived();
                let answer = service.handle(request).await;
                head.answered();
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_FIELDS_MAX)
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), respond);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            let _counted = counted;
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }

    fn speak_http2<S>(self: &Arc<Self>, stream: S, counted: Counted, graceful: &GracefulShutdown)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self.service);
        let respond = service_fn(move |request| {
            let service = Arc::clone(&service);
            async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
        });
        let stream = TimedIo::new(stream, self.limits.write_timeout, None);
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(16 * 1024)
            .keep_alive_interval(self.limits.head_timeout)
            .serve_connection(TokioIo::new(stream), respond);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            let _counted = counted;
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

/// Takes connections in and hands them to the lanes in turn, until told to stop.
async fn accept(
    front: Front,
    listener: TcpListener,
    lanes: Vec<mpsc::UnboundedSender<Handed>>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Arc::new(Connections::default());
    let front = Arc::new(front);
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(handed) = prepared(stream, address, &connections, &front) else {
                    continue;
                };
                turn = (turn + 1) % lanes.len();
                if lanes[turn].send(handed).is_err() {
                    return Err(io::Error::other("a lane has ended"));
                }
            }
            // Most likely there are no more file descriptors: connections that end free some.
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn prepared(
    stream: TcpStream,
    address: SocketAddr,
    connections: &Arc<Connections>,
    front: &Arc<Front>,
) -> Option<Handed> {
    // Beyond the bound a connection is closed at once: it cost nothing yet.
    let counted = connections.count(address.ip(), &front.limits)?;
    // Without this, the kernel holds an answer back for 40 ms to send more with it.
    stream.set_nodelay(true).ok()?;
    Some(Handed {
        stream: stream.into_std().ok()?,
        counted,
        front: Arc::clone(front),
    })
}
