//! A server with what a workload needs on it, and the workload's requests.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::check::Request;
use crate::commands::{FIRST, facts, row};
use crate::mix;
use crate::peers::{self, Form};
use crate::server::{Server, Start};
use crate::shapes;
use crate::template::{Template, headquarters};
use crate::workload::{self, carry_out};

/// What is asked of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Workload {
    /// One operation, each command the first on resources of its own.
    Operation(&'static str),
    /// The mixed day of a platform.
    Mixed,
    /// All commands on one of so many resources.
    Hot(usize),
    /// Commands on resources drawn uniformly from so many.
    Spread(usize),
    /// Commands that were carried out before: each is answered as it was then.
    Replays,
    /// Commands that rest on a revision that is long past: each is refused.
    Refusals,
    /// Statements read, drawn uniformly.
    Reads,
    /// The least that a service with these promises has to do.
    Limit(Like),
    /// A service in front of PostgreSQL, doing as much.
    Postgres(Form),
}

/// Whose bytes the limit takes in, appends and answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Like {
    /// EP9, a statement opened.
    Deposit,
    /// EP13, a charge finalized anew: what `hot` and `spread` ask for.
    Charge,
}

impl Workload {
    /// As it stands in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Operation(name) => format!("EP{} {name}", row(name).tag),
            Self::Mixed => "mixed".to_owned(),
            Self::Hot(_) => "hot, EP13 on 1 resource".to_owned(),
            Self::Spread(resources) => format!("spread, EP13 over {resources}"),
            Self::Replays => "replays of EP9".to_owned(),
            Self::Refusals => "refusals of EP19 (409)".to_owned(),
            Self::Reads => "reads of statements".to_owned(),
            Self::Limit(Like::Deposit) => "the limit, as EP9".to_owned(),
            Self::Limit(Like::Charge) => "the limit, as EP13".to_owned(),
            Self::Postgres(form) => format!("postgres, {}", form.name()),
        }
    }

    /// Starts what it is asked of.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(self, start: &Start) -> Result<Server, String> {
        match self {
            Self::Limit(_) => start.limit(),
            Self::Postgres(form) => peers::start_postgres(start, form),
            _ => start.service(),
        }
    }

    /// Whether its server is kept from run to run: what lies on it takes long to make.
    pub(crate) fn keeps_server(self) -> bool {
        matches!(self, Self::Hot(_) | Self::Spread(_))
    }

    /// How many requests can be made at one go.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Operation(name) => workload::most(name),
            _ => usize::MAX,
        }
    }

    /// Over how many connections it is driven when `connections` are asked for.
    pub(crate) fn connections(self, connections: usize) -> usize {
        match self {
            Self::Operation(name) if workload::one_by_one(name) => 1,
            _ => connections,
        }
    }
}

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

    /// Numbers that no command has had.
    fn numbers(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    /// So many requests of the workload, none of which was sent before.
    ///
    /// # Errors
    /// When the server does not do what comes before.
    pub(crate) fn requests(
        &mut self,
        workload: Workload,
        count: usize,
        seed: u64,
    ) -> Result<Vec<Request>, String> {
        let mut random = StdRng::seed_from_u64(seed ^ self.next as u64);
        match workload {
            Workload::Operation(name) => {
                let numbers = self.numbers(count);
                workload::requests(name, &self.server, &numbers)
            }
            Workload::Mixed => {
                let numbers = self.numbers(count);
                mix::requests(self, &numbers, seed)
            }
            Workload::Hot(resources) => {
                self.bookings(resources)?;
                Ok(self.charges(count, || resources / 2))
            }
            Workload::Spread(resources) => {
                self.bookings(resources)?;
                Ok(self.charges(count, || random.random_range(0..resources)))
            }
            Workload::Replays => {
                let numbers = self.numbers(count);
                self.replays(&numbers)
            }
            Workload::Refusals => {
                self.offices()?;
                let template = Template::stale_update(&self.server);
                let resources = self.resources;
                let numbers = self.numbers(count).into_iter();
                let refuse =
                    |number| template.fill(number - FIRST, random.random_range(0..resources));
                Ok(numbers.map(refuse).collect())
            }
            Workload::Reads => self.reads(count, &mut random),
            Workload::Postgres(form) => {
                let numbers = self.numbers(count);
                let asked = numbers.iter().map(|&number| {
                    peers::request(form, number, || random.random_range(0..form.resources()))
                });
                Ok(asked.collect())
            }
            Workload::Limit(like) => {
                let (template, expected) = match like {
                    Like::Deposit => {
                        let token = headquarters(&self.server);
                        (Template::request_deposit(&token), &shapes::BARE_DEPOSIT)
                    }
                    Like::Charge => (Template::finalize_charge(), &shapes::BARE_CHARGE),
                };
                let numbers = self.numbers(count).into_iter();
                let ask = |number| {
                    let mut request = template.fill(number - FIRST, 0);
                    (request.echo, request.expected) = (0..0, expected);
                    request
                };
                Ok(numbers.map(ask).collect())
            }
        }
    }

    /// Commands of EP13 on the bookings that `draw` draws.
    fn charges(&mut self, count: usize, mut draw: impl FnMut() -> usize) -> Vec<Request> {
        let template = Template::finalize_charge();
        let numbers = self.numbers(count).into_iter();
        let charge = |number| template.fill(number - FIRST, draw());
        numbers.map(charge).collect()
    }

    /// So many bookings whose charges were finalized once: their facts, and a lifecycle each.
    fn bookings(&mut self, count: usize) -> Result<(), String> {
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

    /// The branches' profiles that are read, and that nobody can change with a stale revision.
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
