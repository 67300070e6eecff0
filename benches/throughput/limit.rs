//! The limit: the least that a service with these promises has to do. A bare hyper server that
//! parses the same body, appends as many bytes to the same group-committed log, and answers as
//! many bytes once they are durable. No token, no resources, no keys. What it appends is the body, as often as
//! it takes: the log packs what is alike, so bytes that are all the same would be none.

use std::convert::Infallible;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use carebook::engine::lanes::lane::Lanes;
use carebook::engine::lanes::processors::Processors;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use wal::{BoxError, Log, Options, Record, Visitor};

use crate::sizes::{OfBoth, Sizes};

/// Where a statement is opened (EP9); a charge is finalized (EP13) elsewhere.
const DEPOSITS: &str = "/settlement-deposit-requests";

struct Nothing;

impl Visitor for Nothing {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Tell(Arc<Lanes>);

impl wal::Events for Tell {
    fn durable(&mut self, position: u64) {
        self.0.durable(position);
    }

    fn failed(&mut self, _: &wal::Error) {
        self.0.fail();
    }
}

/// Serves until the process is ended.
pub(crate) fn serve(directory: &Path, sizes: OfBoth) {
    let storage = wal::open_dir(directory).unwrap();
    let (log, _) = Log::open(storage, Options::default(), &mut Nothing).unwrap();
    let lanes = Arc::new(Lanes::new(2));
    let appender = log.start(Box::new(Tell(Arc::clone(&lanes)))).unwrap();
    lanes.append_to(&appender);
    let mut senders = Vec::new();
    for lane in 0..2 {
        let (sender, mut receiver) = mpsc::unbounded_channel::<std::net::TcpStream>();
        senders.push(sender);
        let (lanes, appender) = (Arc::clone(&lanes), Arc::clone(&appender));
        let processors = Processors::one_each(2);
        std::thread::spawn(move || {
            if let Some(processors) = processors {
                processors.bind(lane);
            }
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                tokio::spawn(Arc::clone(&lanes).run(lane));
                while let Some(stream) = receiver.recv().await {
                    let stream = TcpStream::from_std(stream).unwrap();
                    let (lanes, appender) = (Arc::clone(&lanes), Arc::clone(&appender));
                    tokio::spawn(async move {
                        let respond = service_fn(move |request| {
                            answer(request, sizes, Arc::clone(&lanes), Arc::clone(&appender))
                        });
                        let _ = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .serve_connection(TokioIo::new(stream), respond)
                            .await;
                    });
                }
            });
        });
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    std::thread::spawn(|| {
        // The parent process ends this by exiting.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    for (turn, stream) in listener.incoming().enumerate() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        senders[turn % senders.len()].send(stream).unwrap();
    }
}

async fn answer(
    request: Request<Incoming>,
    sizes: OfBoth,
    lanes: Arc<Lanes>,
    appender: Arc<wal::Appender>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (Sizes { record, answer }, status) = match request.uri().path() {
        DEPOSITS => (sizes.deposit, StatusCode::CREATED),
        _ => (sizes.charge, StatusCode::OK),
    };
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert!(parsed.is_object());
    let record = repeated(&body, record);
    let position = {
        let mut sequence = appender.sequence();
        let position = sequence.push(&record).unwrap();
        lanes.end(sequence, || ());
        position
    };
    lanes.wait(position).await.unwrap();
    let mut response = Response::new(Full::new(Bytes::from(vec![b'a'; answer])));
    *response.status_mut() = status;
    Ok(response)
}

/// So many bytes: these, as often as it takes.
fn repeated(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut repeated = Vec::with_capacity(length);
    while repeated.len() < length {
        let rest = length - repeated.len();
        repeated.extend_from_slice(&bytes[..bytes.len().min(rest)]);
    }
    repeated
}
