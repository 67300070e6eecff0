//! The tests of the service as its users see it: the real binary, over HTTP and the command line.

// A test binary has no outside: `pub` says what the support offers.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod access;
mod bodies;
mod cli;
mod concurrency;
mod contract;
mod cors;
mod demo;
mod docs;
mod docs_page;
mod dry_runs;
mod durability;
mod events;
mod facts_load;
mod floors;
mod fuzzed;
mod golden;
mod history;
mod hostile;
mod http;
mod identity_provider;
mod inspect;
mod listeners;
mod lists;
mod manager;
mod metrics;
mod model;
mod monitoring;
mod nats;
mod openapi;
mod operations;
mod outbox;
mod raw_http;
mod service;
mod settings;
mod shapes;
mod shell;
mod streams;
mod support;
mod tls;
mod tokens;
mod upkeep;
mod walk;
mod webhooks;
