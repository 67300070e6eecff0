//! The tests of the service as its users see it: the real binary, over HTTP and the command line.

// A test binary has no outside: `pub` says what the support offers.
#![allow(clippy::unwrap_used, unreachable_pub)]

/// The allocator of the program: tests allocate much, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod access;
mod attempts;
mod bodies;
mod cli;
mod clients;
mod cluster;
mod concurrency;
mod console;
mod contract;
mod cors;
mod demo;
mod docs;
mod docs_page;
mod dry_runs;
mod durability;
mod events;
mod every_answer;
mod everywhere;
mod facts_load;
mod floors;
mod fuzzed;
mod golden;
mod history;
mod hostile;
mod http;
mod http2;
mod identity_provider;
mod inspect;
mod instructions;
mod listeners;
mod lists;
mod logs;
mod manager;
mod metrics;
mod model;
mod monitoring;
mod nats;
mod openapi;
mod operations;
mod outbox;
mod raw_http;
mod runbook;
mod schemathesis;
mod service;
mod settings;
mod shapes;
mod shell;
mod standby;
mod streams;
mod support;
mod terminal;
mod tls;
mod tokens;
mod traces;
mod upkeep;
mod walk;
mod webhooks;
