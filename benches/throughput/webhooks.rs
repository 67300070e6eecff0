//! Webhooks: how fast one receiver gets events, how long it takes until many do, what that costs
//! the commands meanwhile, and what hostile receivers cost a good one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::arguments::Common;
use crate::http::Connection;
use crate::proc::Process;
use crate::receivers::{Came, Manner, Receivers, receiver};
use crate::samples::median;
use crate::server::Server;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

const SUBSCRIPTIONS: &str = "/webhook-subscriptions";
/// What the commands of the load tell, and what one fact does.
const OF_COMMANDS: &str = "carebook.settlement-statement.*";
const OF_FACTS: &str = "carebook.reference-fact.*";
/// Commands a second while latencies are measured.
const RATE: u64 = 100;
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many there are of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Events for one receiver.
    pub(crate) events: usize,
    /// Subscriptions to one event.
    pub(crate) subscriptions: usize,
    /// Commands of a window in which rates are compared.
    pub(crate) commands: usize,
}

/// A service, and who manages its webhooks.
struct House {
    server: Server,
    token: String,
    template: Template,
    keys: AtomicUsize,
    runtime: tokio::runtime::Runtime,
}

impl House {
    fn open(common: &Common) -> Result<Self, String> {
        let start = common.start().without_snapshots();
        let server = start.with(&["--webhooks-allow", "127.0.0.0/8"]).service()?;
        let token = server.token(&Actor {
            subject: "manager-1".into(),
            kind: ActorKind::SystemWorkflow,
            permissions: vec!["webhooks:manage".into(), "facts:write".into()],
            ..Actor::nobody()
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            template: Template::request_deposit(&headquarters(&server)),
            server,
            token,
            keys: AtomicUsize::new(0),
            runtime,
        })
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let (body, key) = (body.to_string(), self.keys.fetch_add(1, Ordering::Relaxed));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\
             Idempotency-Key: bench-{key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.runtime.block_on(async {
            let mut connection = Connection::open(self.server.address()).await?;
            let answer = connection.exchange(request.as_bytes()).await?;
            let body = connection.body(&answer);
            match answer.status {
                200..300 => serde_json::from_slice(body).map_err(|error| error.to_string()),
                status => Err(format!(
                    "{path}: {status} {}",
                    String::from_utf8_lossy(body)
                )),
            }
        })
    }

    /// Subscribes; the subscription's path.
    fn subscribe(&self, port: u16, number: usize, kind: &str) -> Result<String, String> {
        let url = format!("http://127.0.0.1:{port}/{number}");
        let body = json!({"url": url, "types": [kind], "description": null});
        let made = self.send("POST", SUBSCRIPTIONS, &body)?;
        let id = made["subscriptionId"].as_str().ok_or("no subscription")?;
        Ok(format!("{SUBSCRIPTIONS}/{id}"))
    }

    fn switch(&self, path: &str, revision: u64, status: &str) -> Result<(), String> {
        let body = json!({"expectedRevision": revision, "status": status});
        self.send("PATCH", path, &body).map(drop)
    }

    fn fact(&self, number: usize) -> Result<(), String> {
        let fact = json!({"kind": "actor", "id": format!("bench-{number}"), "revision": 1,
            "facts": {"lifecycle": "active"}});
        self.send("POST", "/reference-facts", &json!({"facts": [fact]}))
            .map(drop)
    }

    /// Commands from this number on, closed loop; how many a second.
    fn commands(&self, common: &Common, from: usize, count: usize) -> Result<f64, String> {
        let commands = (from..from + count).map(|number| self.template.fill(number, 0));
        let commands: Vec<_> = commands.collect();
        let begun = Instant::now();
        carry_out(&self.server, common.connections, commands)?;
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Waits until so many have come.
fn wait_for(came: &Came, count: usize) -> Result<(), String> {
    let begun = Instant::now();
    while came.count.load(Ordering::Relaxed) < count {
        if begun.elapsed() > PATIENCE {
            let came = came.count.load(Ordering::Relaxed);
            return Err(format!("{came} of {count} deliveries came"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// # Errors
/// A wrong answer, or a delivery that does not come.
pub(crate) fn measure(common: &Common, sizes: Sizes) -> Result<Value, String> {
    Ok(json!({
        "one": one(common, sizes)?,
        "many": many(common, sizes)?,
        "hostile": hostile(common)?,
    }))
}

/// One receiver gets what has waited for it.
fn one(common: &Common, sizes: Sizes) -> Result<Value, String> {
    eprintln!("{} events for one receiver", sizes.events);
    let house = House::open(common)?;
    let came = Arc::new(Came::default());
    let port = receiver(Manner::Takes, Arc::clone(&came))?;
    let subscription = house.subscribe(port, 0, OF_COMMANDS)?;
    house.switch(&subscription, 1, "paused")?;
    house.commands(common, 0, sizes.events)?;
    let begun = Instant::now();
    house.switch(&subscription, 2, "enabled")?;
    wait_for(&came, sizes.events)?;
    let took = begun.elapsed().as_secs_f64();
    if came.first.lock().len() != sizes.events {
        return Err("an event came twice, and another one did not".to_owned());
    }
    Ok(json!({
        "events": sizes.events,
        "seconds": took,
        "eventsPerSecond": sizes.events as f64 / took,
    }))
}

/// Many subscriptions get one event, alone and at the beginning of a window of commands.
fn many(common: &Common, sizes: Sizes) -> Result<Value, String> {
    eprintln!("{} subscriptions to one event", sizes.subscriptions);
    let house = House::open(common)?;
    let came = Arc::new(Came::default());
    let port = receiver(Manner::Takes, Arc::clone(&came))?;
    for number in 0..sizes.subscriptions {
        house.subscribe(port, number, OF_FACTS)?;
    }
    let told = |number: usize| -> Result<f64, String> {
        let begun = Instant::now();
        house.fact(number)?;
        wait_for(&came, (number + 1) * sizes.subscriptions)?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let alone = told(0)?;
    // What the first commands cost is not what is compared.
    house.commands(common, 0, sizes.commands)?;
    let (mut ratios, mut rates, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..common.runs.max(3) {
        let from = (2 * round + 1) * sizes.commands;
        let mut quiet = || {
            let rate = house.commands(common, from, sizes.commands)?;
            rates.push(rate);
            Ok::<_, String>(rate)
        };
        let mut loud = || {
            let (rate, took) = std::thread::scope(|scope| {
                let telling = scope.spawn(|| told(round + 1));
                let rate = house.commands(common, from + sizes.commands, sizes.commands);
                (rate, telling.join())
            });
            busy.push(took.map_err(|_| "telling ended in a panic")??);
            rate
        };
        // The second one would have the fuller tables.
        let (quiet, loud) = match round % 2 {
            0 => (quiet()?, loud()?),
            _ => {
                let loud = loud()?;
                (quiet()?, loud)
            }
        };
        ratios.push(loud / quiet);
    }
    Ok(json!({
        "subscriptions": sizes.subscriptions,
        "secondsUntilAllAreTold": alone,
        "secondsUntilAllAreToldUnderLoad": median(&busy),
        "commandsPerSecondWithout": median(&rates),
        "rateOfCommandsMeanwhile": median(&ratios),
    }))
}

/// How long a good receiver waits for events: alone, beside others that take what comes, and beside
/// as many hostile ones. The others are processes that get a processor only where no other process
/// wants it: what is measured is what the service does for them.
fn hostile(common: &Common) -> Result<Value, String> {
    eprintln!("a good receiver beside {} others", Manner::HOSTILE.len());
    let house = House::open(common)?;
    let good = Arc::new(Came::default());
    let port = receiver(Manner::Takes, Arc::clone(&good))?;
    house.subscribe(port, 0, OF_COMMANDS)?;
    let beside = |manners: &[Manner]| -> Result<Company, String> {
        if manners.is_empty() {
            return Ok(Company::default());
        }
        let receivers = Receivers::start(manners)?;
        let mut paths = Vec::new();
        for (number, port) in receivers.ports.iter().enumerate() {
            let path = house.subscribe(*port, number, OF_COMMANDS)?;
            house.switch(&path, 1, "paused")?;
            paths.push(path);
        }
        Ok(Company {
            paths,
            receivers: Some(receivers),
            ..Company::default()
        })
    };
    let mut companies = [
        beside(&[])?,
        beside(&[Manner::Takes; Manner::HOSTILE.len()])?,
        beside(&Manner::HOSTILE)?,
    ];
    let before = house.server.process().resident();
    let mut next = 0;
    for round in 0..common.runs.max(3) {
        let revision = 2 * round as u64 + 2;
        for company in &mut companies {
            for other in &company.paths {
                house.switch(other, revision, "enabled")?;
            }
            let used = [house.server.process(), company.process()].map(Process::usage);
            company
                .waited
                .push(latencies(&house, common, &good, &mut next)?);
            let using = [house.server.process(), company.process()].map(Process::usage);
            for ((used, using), sum) in used.into_iter().zip(using).zip(&mut company.used) {
                let used = using.since(used);
                *sum += used.user + used.kernel;
            }
            for other in &company.paths {
                house.switch(other, revision + 1, "paused")?;
            }
        }
    }
    let more = house.server.process().resident() as f64 - before as f64;
    let of = |company: usize, which: usize| {
        let waited = companies[company].waited.iter();
        median(&waited.map(|one| one[which]).collect::<Vec<_>>())
    };
    let told = |company: usize| {
        let micros = companies[company]
            .used
            .map(|all| all as f64 / next as f64 * 3.0);
        json!({
            "p50Millis": of(company, 0),
            "p99Millis": of(company, 1),
            "serverMicrosAnEvent": micros[0],
            "othersMicrosAnEvent": micros[1],
        })
    };
    Ok(json!({
        "eventsPerSecond": RATE,
        "alone": told(0),
        "besideGoodOnes": told(1),
        "besideHostileOnes": told(2),
        "hostileToGood": {"p50": of(2, 0) / of(1, 0), "p99": of(2, 1) / of(1, 1)},
        "residentBytesMore": more,
    }))
}

/// Receivers beside the good one, and what was measured then.
#[derive(Default)]
struct Company {
    paths: Vec<String>,
    receivers: Option<Receivers>,
    /// Median and 99th percentile of each round, in milliseconds.
    waited: Vec<[f64; 2]>,
    /// Processor time of the server and of the receivers, in microseconds.
    used: [u64; 2],
}

impl Company {
    fn process(&self) -> Process {
        let receivers = self.receivers.as_ref();
        receivers.map_or(Process(0), |receivers| Process(receivers.child.id()))
    }
}

/// From the answer to a command until its event is there: median and 99th percentile, in
/// milliseconds. An event that was there before the answer counts as none.
fn latencies(
    house: &House,
    common: &Common,
    good: &Came,
    next: &mut usize,
) -> Result<[f64; 2], String> {
    let count = (common.seconds * RATE as f64) as usize;
    let already = good.count.load(Ordering::Relaxed);
    let mut answered = Vec::with_capacity(count);
    house.runtime.block_on(async {
        let mut connection = Connection::open(house.server.address()).await?;
        let mut due = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
        for _ in 0..count {
            due.tick().await;
            let request = house.template.fill(*next, 0);
            *next += 1;
            let answer = connection.exchange(&request.bytes).await?;
            let at = Instant::now();
            let body = connection.body(&answer);
            if answer.status != 201 {
                return Err(String::from_utf8_lossy(body).into_owned());
            }
            answered.push(at);
        }
        Ok::<_, String>(())
    })?;
    wait_for(good, already + count)?;
    // Besides the commands only webhooks commit, whose events are not delivered here: the events
    // come in the order of the commands.
    let mut came: Vec<_> = good.first.lock().drain().collect();
    came.sort_unstable_by_key(|(position, _)| *position);
    if came.len() != count {
        return Err(format!("{} events of {count} commands", came.len()));
    }
    let mut millis: Vec<_> = came
        .iter()
        .zip(answered)
        .map(|((_, came), answered)| {
            came.saturating_duration_since(answered).as_secs_f64() * 1_000.0
        })
        .collect();
    millis.sort_unstable_by(f64::total_cmp);
    let at = |quantile: f64| millis[((count as f64 * quantile) as usize).min(count - 1)];
    Ok([at(0.5), at(0.99)])
}
