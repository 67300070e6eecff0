//! Requests for the console: its files, a sign-in with a link, the figures of the service.

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;

use crate::base::json::FaultCode;
use crate::catalogue::{MANAGEMENT_READS, READS, Success};
use crate::domain::by_code::{Coded, by_code};
use crate::domain::rejection::Rejection;
use crate::http::caller::Caller;
use crate::http::console::figures::{FIGURES_READ, figures};
use crate::http::console::sign_in_link::NoSignIn;
use crate::http::console::{Console, ConsolePart, PATH};
use crate::http::figures_page::AllFigures;
use crate::http::metrics::process::ProcessFigures;
use crate::http::observed::RequestOutcome;
use crate::http::read::query::Query;
use crate::http::request::body::read_json_body;
use crate::http::response::{self, Answer, Problems, at_position};
use crate::http::service::Service;
use crate::http::token::IDENTIFIER_CHARS_MAX;

/// The body of a sign-in with a link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    code: String,
}

impl Service {
    /// Returns the response, of the console or of the API.
    pub(in crate::http) async fn answered<'s, B>(
        &'s self,
        caller: &Caller,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: B,
        outcome: &mut RequestOutcome<'s>,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (Some(console), Some(part)) = (&self.console, ConsolePart::at(uri.path())) else {
            return self
                .routed(caller, method, uri, headers, body, outcome)
                .await;
        };
        outcome.series = self.metrics.console();
        outcome.route = Some(PATH);
        // Boxed, because it is rare: otherwise the future of every request would reserve memory for it.
        let asked = (caller, method, uri.query());
        Box::pin(self.console(console, part, asked, headers, body)).await
    }

    /// Returns the answer to a request for a part of the console.
    async fn console<B>(
        &self,
        console: &Console,
        part: ConsolePart<'_>,
        (caller, method, query): (&Caller, &Method, Option<&str>),
        headers: &HeaderMap,
        body: B,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if *method == Method::OPTIONS {
            return response::allowing(response::empty(StatusCode::NO_CONTENT), part.methods());
        }
        let is_meant = match part {
            ConsolePart::SignIns => *method == Method::POST,
            _ => *method == Method::GET || *method == Method::HEAD,
        };
        if !is_meant {
            let answer = Problems::PLAIN.problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This path does not have that method; Allow names those it has.",
            );
            return response::allowing(answer, part.methods());
        }
        match part {
            ConsolePart::Page | ConsolePart::File(_) => {
                let file = console.file(part, headers);
                file.unwrap_or_else(|| not_found("The console has no such file."))
            }
            ConsolePart::Settings => console.told(),
            ConsolePart::SignIns => self.sign_in(console, caller, headers, body).await,
            ConsolePart::Figures => self.shown_figures(console, caller, headers).await,
            ConsolePart::Found => self.found(caller, headers, query).await,
        }
    }

    /// Signs in with a link.
    async fn sign_in<B>(
        &self,
        console: &Console,
        caller: &Caller,
        headers: &HeaderMap,
        body: B,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let problems = Problems::PLAIN;
        let Some(link) = console.link().filter(|_| caller.is_on_this_machine()) else {
            return not_found("There is no link that signs in here.");
        };
        let feed = self.engine.feed();
        let (body, _share) = match read_json_body(headers, body, &self.bodies, feed, problems).await
        {
            Ok(body) => body,
            Err(answer) => return *answer,
        };
        let redeemed = match serde_json::from_slice::<SignIn>(&body) {
            Ok(SignIn { code }) => link.redeem(&code, std::time::Instant::now()),
            Err(_) => Err(NoSignIn::Unknown),
        };
        let mut answer = match redeemed {
            Ok(given) => response::json(StatusCode::OK, given.to_string()),
            Err(why) => {
                let (code, message) = why.told();
                tracing::warn!(code, "a console sign-in link was rejected");
                problems.problem(StatusCode::FORBIDDEN, code, message)
            }
        };
        let none = HeaderValue::from_static("no-store");
        answer.headers_mut().insert(CACHE_CONTROL, none);
        answer
    }

    /// Returns the paths of the resources with this identifier or code that the actor may read. Each is read as by a
    /// request of its own, so no actor learns of a resource that it may not read.
    async fn found(&self, caller: &Caller, headers: &HeaderMap, query: Option<&str>) -> Answer {
        let problems = Problems::PLAIN;
        let actor = match self.actor(caller, headers, problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        let mut query = Query::read(query, &["id"]);
        let id = query.one("id", |id| match id.chars().count() {
            0..=IDENTIFIER_CHARS_MAX => Ok(id.to_owned()),
            _ => Err(FaultCode::TooLong),
        });
        if let Err(rejection) = query.finish() {
            return problems.rejected(&rejection);
        }
        let id = id.unwrap_or_default();
        let coded = self.engine.read(by_code, &actor, &[("code", &id)]).await;
        let (coded, mut position): (Vec<Coded>, _) = match coded {
            Ok((found, position)) => {
                let coded = serde_json::from_slice(&found.body);
                (coded.unwrap_or_default(), position)
            }
            Err(reply) => return problems.reply(reply, Success::Ok),
        };
        let mut found = Vec::new();
        for row in READS.iter().chain(MANAGEMENT_READS) {
            let mut names = row.parameters();
            let (Some(name), None) = (names.next(), names.next()) else {
                continue;
            };
            let codes = coded.iter().filter(|coded| coded.read == row.name);
            let ids = codes.map(|coded| &*coded.id).chain([&*id]);
            for id in ids {
                let read = self.engine.read(row.read, &actor, &[(name, id)]).await;
                if let Ok((_, at)) = read {
                    position = position.max(at);
                    let id = utf8_percent_encode(id, NON_ALPHANUMERIC).to_string();
                    let path = row.path.replace(&format!("{{{name}}}"), &id);
                    found.push(json!({"read": row.name, "path": path.trim_start_matches('/')}));
                }
            }
        }
        let answer = response::json(StatusCode::OK, json!({"found": found}).to_string());
        at_position(answer, position)
    }

    /// Returns the figures of the service, for actors that may read them.
    async fn shown_figures(
        &self,
        console: &Console,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Answer {
        let problems = Problems::PLAIN;
        let actor = match self.actor(caller, headers, problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        if let Err(reply) = self.engine.may_act(&actor).await {
            return problems.reply(reply, Success::Ok);
        }
        if !actor.may_be_granted(FIGURES_READ) {
            let rejection = Rejection::permission_denied(
                "Only headquarters and system workflows with figures:read may read figures.",
            );
            return at_position(problems.rejected(&rejection), self.engine.durable());
        }
        // Before the figures: they are of this position or of a later one.
        let position = self.engine.durable();
        // Reads files of the kernel, which blocks.
        let process = tokio::task::spawn_blocking(ProcessFigures::read).await;
        let all = AllFigures {
            engine: self.engine.figures(),
            front: self.figures(),
            publisher: self.engine.publisher_figures(),
            webhooks: &[],
            upkeep: self.upkeep.figures(),
            process: process.unwrap_or_default(),
            now: self.engine.now(),
        };
        let keys = self.verifier.key_names();
        let shown = figures(&self.metrics, &all, &keys, console.kept());
        at_position(response::json(StatusCode::OK, shown.to_string()), position)
    }
}

fn not_found(message: &str) -> Answer {
    Problems::PLAIN.problem(StatusCode::NOT_FOUND, "route_not_found", message)
}
