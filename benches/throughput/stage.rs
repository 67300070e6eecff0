//! A server with what workloads need on it, made when it is first needed.

use rand::Rng as _;
use rand::rngs::StdRng;

use crate::check::Request;
use crate::commands::{FIRST, facts};
use crate::server::Server;
use crate::shapes;
use crate::template::{Template, headquarters};
use crate::workload::{self, carry_out};

/// A server, and what lies on it.
pub(crate) struct Stage {
    server: Server,
    /// How many resources are drawn from.
    pub(crate) resources: usize,
    /// The number of the next command.
    next: usize,
    statements: Vec<String>,
    has_offices: bool,
    has_bookings: bool,
}

impl Stage {
    pub(crate) fn new(server: Server, resources: usize) -> Self {
        Self {
            server,
            resources,
            next: FIRST,
            statements: Vec::new(),
            has_offices: false,
            has_bookings: false,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn into_server(self) -> Server {
        self.server
    }

    /// The number of the next command.
    pub(crate) fn next_number(&self) -> usize {
        self.next
    }

    /// Numbers that no command has had.
    pub(crate) fn numbers(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    /// Commands of EP13 on the bookings that `draw` draws.
    pub(crate) fn charges(
        &mut self,
        count: usize,
        mut draw: impl FnMut() -> usize,
    ) -> Vec<Request> {
        let template = Template::finalize_charge();
        let numbers = self.numbers(count).into_iter();
        let charge = |number| template.fill(number - FIRST, draw());
        numbers.map(charge).collect()
    }

    /// So many bookings whose charges were finalized once: their facts, and a lifecycle each.
    pub(crate) fn bookings(&mut self, count: usize) -> Result<(), String> {
        const AT_ONCE: usize = 50_000;
        if self.has_bookings {
            return Ok(());
        }
        self.has_bookings = true;
        let mut from = 0;
        while from < count {
            let to = (from + AT_ONCE).min(count);
            let numbers: Vec<_> = (FIRST + from..FIRST + to).collect();
            self.server.load(&facts("finalize_charge", &numbers))?;
            let mut resource = from..to;
            let charges = self.charges(to - from, || resource.next().unwrap_or(0));
            carry_out(&self.server, 64, charges)?;
            from = to;
        }
        Ok(())
    }

    /// The branches' profiles that are read, and that a stale revision cannot change.
    pub(crate) fn offices(&mut self) -> Result<(), String> {
        if self.has_offices {
            return Ok(());
        }
        self.has_offices = true;
        let numbers: Vec<_> = (FIRST..FIRST + self.resources).collect();
        self.server
            .load(&facts("update_branch_office_profile", &numbers))
    }

    /// So many reads of statements.
    pub(crate) fn reads(
        &mut self,
        count: usize,
        random: &mut StdRng,
    ) -> Result<Vec<Request>, String> {
        if self.statements.is_empty() {
            let numbers = self.numbers(self.resources);
            let opened = workload::requests("request_deposit", &self.server, &numbers)?;
            for answer in carry_out(&self.server, 64, opened)? {
                let answer: serde_json::Value =
                    serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
                let id = answer["statementId"].as_str().unwrap_or_default();
                self.statements.push(id.to_owned());
            }
        }
        let token = headquarters(&self.server);
        let read = |_| {
            let statement = &self.statements[random.random_range(0..self.statements.len())];
            let path = format!("/settlement-statements/{statement}");
            Request::get(&path, &token, statement, &shapes::READ_STATEMENT)
        };
        Ok((0..count).map(read).collect())
    }

    /// Commands of EP9 that were carried out already.
    pub(crate) fn replays(&mut self, numbers: &[usize]) -> Result<Vec<Request>, String> {
        let requests = workload::requests("request_deposit", &self.server, numbers)?;
        carry_out(&self.server, 64, requests.clone())?;
        Ok(requests)
    }
}
