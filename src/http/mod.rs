//! The front: HTTP in, JSON parsed strictly, a call of the engine, JSON out.

mod answer_body;
pub mod authority;
mod body;
mod conditional;
pub mod connections;
pub mod directory_client;
pub mod events;
pub mod facts;
pub mod forgeries;
pub mod frames;
pub mod framing;
mod history;
pub mod list_query;
pub mod metrics;
pub mod metrics_page;
pub mod portions;
pub mod query;
pub mod request;
pub mod response;
pub mod route;
pub mod server;
pub mod service;
mod specials;
pub mod timed_io;
pub mod tls;
pub mod token;
pub mod webhooks;
