//! Settings of traces: their collector, and the share of requests that are traced.

use std::sync::Arc;

use clap::Args;
use tokio_rustls::rustls::ClientConfig;

use super::exit::Failure;
use crate::engine::clock::SystemClock;
use crate::http::client::dial::{Dialer, FEW_LOOKUPS, system_resolve};
use crate::http::traces::Tracer;
use crate::http::traces::export::{Collector, Exporting, export};

/// The flags of traces.
#[derive(Args)]
pub struct TraceArgs {
    /// The endpoint of a collector of traces, http://HOST[:PORT] or with https: OTLP over HTTP, to
    /// /v1/traces below it.
    #[arg(long, value_name = "URL", value_parser = Collector::read)]
    otlp_endpoint: Option<Collector>,
    /// One request in so many is traced; also those whose clients have sampled the trace, up to 100
    /// a second.
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..))]
    trace_sample: u64,
}

/// The tracer, and the thread that exports its spans until this is dropped.
pub struct Traces {
    /// The tracer, if there is a collector.
    pub tracer: Option<Arc<Tracer>>,
    _sent: Option<Exporting>,
}

impl TraceArgs {
    /// Starts tracing if there is a collector, whose certificate `trusted` judges.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(&self, trusted: &ClientConfig) -> Result<Traces, Failure> {
        let Some(collector) = self.otlp_endpoint.clone() else {
            return Ok(Traces {
                tracer: None,
                _sent: None,
            });
        };
        let clock = Arc::new(SystemClock::default());
        let (tracer, spans) = Tracer::new(self.trace_sample, clock);
        let dialer = Dialer::new(trusted.clone(), system_resolve(FEW_LOOKUPS));
        let counts = Arc::clone(tracer.counts());
        let sent = export(collector, dialer, spans, counts).map_err(Failure::from_error)?;
        Ok(Traces {
            tracer: Some(Arc::new(tracer)),
            _sent: Some(sent),
        })
    }
}
