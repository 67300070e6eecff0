//! The tests of the service as its users see it: the real binary, over HTTP and the command line.

#![allow(clippy::unwrap_used)]

mod service;
mod support;
