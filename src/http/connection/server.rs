//! The server: for each lane a runtime on its own thread; connections are handed to the lanes in
//! turn. There may be a second, internal listener.
//!
//! Two runtimes of one thread each answer more requests than one runtime of two threads: a command
//! is decided, waits and is answered on its connection's thread, and most wake-ups stay on one
//! thread.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, mpsc, watch};
use tokio::time::Instant;

use super::frames::{Frames, Patience};
use super::head_limit::HeadLimit;
use super::requests::Requests;
use super::timed_io::{Stop, TimedIo};
use super::unparsed::Unparsed;
use crate::engine::lanes::lane::Lanes;
use crate::engine::lanes::processors::Processors;
use crate::http::client_end::{ClientEnd, ClientSocket};
use crate::http::limits::connections::{ConnectionRefusal, Connections, Counted, Entrance};
use crate::http::limits::front_limits::FrontLimits;
use crate::http::limits::portions::ResponseBudget;
use crate::http::limits::request_room::RequestRoom;
use crate::http::response::deadlines::Deadlines;
use crate::http::service::Service;
use crate::http::tls::Tls;

/// The most bytes that the head of a request may have. The most fields in it are hyper's 100, for
/// which it has room on the stack; for any other number it fills room at each request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Streams that a connection of HTTP/2 may have open: no fewer than RFC 9113 (5.1.2) recommends. What those of all
/// connections take is bounded by [`RequestRoom`].
const STREAMS_MAX: u32 = 100;
/// What a peer may send on a stream of HTTP/2, and on all of its connection, before it is read. The library
/// ends a connection (`ENHANCE_YOUR_CALM`) once its unread frames of less than 256 bytes lack together
/// more than half of the connection's window to have 256 each: a stream's window is so much smaller that
/// lines of facts that come in a frame each do not end the connection.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What the library may hold of a stream's response besides the portion that it was given.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait when the process has no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The parts of a server.
pub struct Server {
    /// The service for everybody.
    pub service: Arc<Service>,
    /// The internal listener and its service, if there is one.
    pub internal: Option<Internal>,
    /// The engine's lanes, one for each runtime.
    pub lanes: Arc<Lanes>,
    /// TLS, where it is on.
    pub tls: Option<Arc<Tls>>,
    /// The processors that the lanes are pinned to, if they are.
    pub processors: Option<Processors>,
    /// Its bounds.
    pub limits: FrontLimits,
}

/// The internal listener, without TLS.
pub struct Internal {
    /// Where.
    pub listener: TcpListener,
    /// Its service.
    pub service: Arc<Service>,
}

/// How the connections of one listener are served.
struct Front {
    entrance: Entrance,
    service: Arc<Service>,
    tls: Option<Arc<Tls>>,
    limits: FrontLimits,
    unparsed: Unparsed,
    /// What the requests of all its connections of HTTP/2 share.
    room: RequestRoom,
}

/// A connection that is handed to a lane.
struct Handed {
    stream: std::net::TcpStream,
    counted: Counted,
    front: Arc<Front>,
}

impl Server {
    /// Starts a thread for each lane; all that the process needs to serve is there when this returns.
    ///
    /// # Errors
    /// When a runtime or a thread cannot be started.
    pub fn start(mut self, stop: watch::Receiver<bool>) -> io::Result<Started> {
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
                    let until = Arc::clone(&server).lane(lane, receiver, stop).await;
                    // A resource's actor may live here and work for another lane: all lanes end
                    // together, or when the time is up.
                    let _ = tokio::time::timeout_at(until, together.wait()).await;
                    gate.abort();
                });
                // What did not end in time is abandoned.
                runtime.shutdown_background();
            })?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Started {
            server,
            internal,
            senders,
            threads,
            runtime,
            stop,
        })
    }

    /// Serves connections until a stop, and answers what is in flight; returns when all of
    /// that has to be over.
    async fn lane(
        self: Arc<Self>,
        lane: usize,
        mut connections: mpsc::UnboundedReceiver<Handed>,
        mut stop: watch::Receiver<bool>,
    ) -> Instant {
        if lane == 0 {
            self.service.engine().start_deliveries();
        }
        let graceful = Arc::new(GracefulShutdown::new());
        let told = Stop::default();
        let all = stop.clone();
        loop {
            tokio::select! {
                biased;
                handed = connections.recv() => match handed {
                    Some(handed) => handed.serve(&graceful, &told, &all),
                    None => break,
                },
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        // Streams of events have no end of their own.
        self.service.engine().end_feed();
        let now = Instant::now();
        let _ = told.set(now);
        let until = now + self.limits.drain_timeout;
        // A handshake that ends after this finds it gone, and its connection is dropped.
        if let Some(graceful) = Arc::into_inner(graceful) {
            let drained = tokio::time::timeout_at(until, graceful.shutdown());
            if drained.await.is_err() {
                tracing::warn!(lane, "some connections did not end in time, and are closed");
            }
        }
        until
    }
}

/// A server whose lanes run, and which accepts no connections yet.
pub struct Started {
    server: Arc<Server>,
    internal: Option<Internal>,
    senders: Vec<mpsc::UnboundedSender<Handed>>,
    threads: Vec<JoinHandle<()>>,
    runtime: Runtime,
    stop: watch::Receiver<bool>,
}

impl Started {
    /// Serves until the stop that it was started with, answers what is in flight, and returns. Blocks
    /// the calling thread, which accepts connections.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn run(self, listener: TcpListener) -> io::Result<()> {
        let Self {
            server,
            internal,
            senders,
            threads,
            runtime,
            stop,
        } = self;
        let service = Arc::clone(&server.service);
        let public = Front::new(Entrance::Public, service, server.tls.clone(), server.limits);
        let limits = &server.limits;
        let connections = Connections::new(
            limits.connections_max,
            limits.connections_per_address_max,
            Arc::clone(server.service.connection_counts()),
        );
        let accepted = runtime.block_on(async {
            let inside = async {
                let Some(Internal { listener, service }) = internal else {
                    return Ok(());
                };
                let front = Front::new(Entrance::Internal, service, None, server.limits);
                accept(front, listener, &connections, &senders, stop.clone()).await
            };
            let public = accept(public, listener, &connections, &senders, stop.clone());
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
}

impl Handed {
    /// Serves the connection on the present lane.
    fn serve(self, graceful: &Arc<GracefulShutdown>, stop: &Stop, all: &watch::Receiver<bool>) {
        let Self {
            stream,
            counted,
            front,
        } = self;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection could not be served"),
        };
        let Some(tls) = front.tls.clone() else {
            return front.speak_http1(stream, |stream| stream, counted, graceful, stop);
        };
        let (graceful, stop, all) = (Arc::downgrade(graceful), Arc::clone(stop), all.clone());
        tokio::spawn(async move {
            let handshake = tls.acceptor().accept(stream);
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake);
            let accepted = match handshake.await {
                Ok(accepted) => accepted.map_err(|_| ConnectionRefusal::TlsFailed),
                Err(_) => Err(ConnectionRefusal::TlsTooSlow),
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(refusal) => {
                    front.service.connection_counts().refuse(refusal);
                    return tracing::debug!(code = refusal.code(), "a TLS handshake failed");
                }
            };
            let Some(graceful) = graceful.upgrade() else {
                return;
            };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                front.speak_http2(stream, counted, &graceful, &stop, all);
            } else {
                front.speak_http1(stream, |tls| tls.get_ref().0, counted, &graceful, &stop);
            }
        });
    }
}

impl Front {
    fn new(
        entrance: Entrance,
        service: Arc<Service>,
        tls: Option<Arc<Tls>>,
        limits: FrontLimits,
    ) -> Self {
        let unparsed = service.unparsed(tls.is_some());
        let room = RequestRoom::new(Arc::clone(service.connection_counts()));
        Self {
            entrance,
            service,
            tls,
            limits,
            unparsed,
            room,
        }
    }

    fn speak_http1<S>(
        self: &Arc<Self>,
        stream: S,
        socket: fn(&S) -> &TcpStream,
        counted: Counted,
        graceful: &GracefulShutdown,
        stop: &Stop,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self.service);
        let limits = &self.limits;
        let deadlines = Deadlines::new(limits.write_timeout);
        let caller = self.service.caller(counted.address(), self.tls.is_some());
        let end = Arc::<ClientEnd>::default();
        let caller = Arc::new(caller.within(&deadlines).noticing(&end));
        let head = HeadLimit::new(limits.idle_timeout, limits.head_timeout);
        let stream = TimedIo::new(stream, limits.write_timeout, Arc::clone(stop))
            .http1(Arc::clone(&head), Arc::clone(&self.unparsed))
            .within(deadlines)
            .noticing(ClientSocket::new(end, socket));
        let respond = service_fn(move |request| {
            let (service, head) = (Arc::clone(&service), Arc::clone(&head));
            let caller = Arc::clone(&caller);
            async move {
                head.arrived();
                let answer = service.handle(&caller, request).await;
                head.answered();
                Ok::<_, Infallible>(caller.timed(answer))
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            // A client that has closed its sending side may still wait for the response.
            .half_close(true)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), respond);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            let _counted = counted;
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }

    fn speak_http2<S>(
        self: &Arc<Self>,
        stream: S,
        counted: Counted,
        graceful: &GracefulShutdown,
        stop: &Stop,
        mut all: watch::Receiver<bool>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = &self.limits;
        let held = ResponseBudget::default();
        let room = self.room.of_connection(counted.address());
        let deadlines = Deadlines::new(limits.write_timeout);
        let caller = self.service.caller(counted.address(), self.tls.is_some());
        let caller = Arc::new(caller.sharing(&held, &room).within(&deadlines));
        let seen = Arc::clone(&caller);
        let requests = Arc::new(Requests {
            service: Arc::clone(&self.service),
            caller,
            held,
            room,
        });
        let respond = service_fn(move |request: Request<Incoming>| {
            let begun = requests.begin(&request);
            Arc::clone(&requests).answer(begun, request)
        });
        let patience = Patience {
            idle: limits.idle_timeout,
            head: limits.head_timeout,
            answer: limits.write_timeout,
        };
        let frames = Frames::new(patience, Instant::now());
        let stream = TimedIo::new(stream, limits.write_timeout, Arc::clone(stop))
            .http2(frames)
            .within(deadlines);
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX.try_into().unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), respond);
        // Closed by itself, or with all others.
        let own = GracefulShutdown::new();
        let watched = own.watch(connection);
        let awaited = graceful.watcher();
        tokio::spawn(async move {
            let (_counted, _awaited) = (counted, awaited);
            let mut watched = pin!(watched);
            let ended = tokio::select! {
                ended = &mut watched => ended,
                () = async {
                    tokio::select! {
                        () = seen.until_closing() => {}
                        _ = all.wait_for(|stop| *stop) => {}
                    }
                } => {
                    drop(own);
                    watched.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

/// Accepts connections and hands them to the lanes in turn, until a stop.
async fn accept(
    front: Front,
    listener: TcpListener,
    connections: &Arc<Connections>,
    lanes: &[mpsc::UnboundedSender<Handed>],
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let front = Arc::new(front);
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(handed) = prepared(stream, address, connections, &front) else {
                    continue;
                };
                turn = (turn + 1) % lanes.len();
                if lanes[turn].send(handed).is_err() {
                    // At a stop the lane may have ended already.
                    return match *stop.borrow() {
                        true => Ok(()),
                        false => Err(io::Error::other("a lane has ended")),
                    };
                }
            }
            // Most likely there are no more file descriptors: connections that end free some.
            Err(error) => {
                connections.counts().refuse(ConnectionRefusal::NotAccepted);
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
    // Beyond the limit a connection is closed at once, before it costs anything.
    let counted = connections.count(front.entrance, address.ip())?;
    // Without this, the kernel holds a response back for 40 ms to send more with it.
    stream.set_nodelay(true).ok()?;
    Some(Handed {
        stream: stream.into_std().ok()?,
        counted,
        front: Arc::clone(front),
    })
}
