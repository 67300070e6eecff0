//! Lists: what a page costs among few and among many, how many pages there are a second, and what
//! lists cost in memory.
//!
//! Two servers run side by side, one with few statements and one with many; pages of both are asked
//! for in turns.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::check::find;
use crate::http::Connection;
use crate::samples::{median, percentile};
use crate::server::Server;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// Statements of the server with few.
const FEW: usize = 1_000;
/// Statements that are opened at once.
const AT_ONCE: usize = 50_000;
/// Items of a page.
const LIMIT: usize = 50;
/// Pages of each server and question that are asked for one by one.
const PAGES: usize = 2_000;

/// What is asked for.
const QUESTIONS: [(&str, &str); 3] = [
    ("all", ""),
    ("byStatus", "&status=awaiting_branch_deposit"),
    (
        "byStatusOldestFirst",
        "&status=awaiting_branch_deposit&order=oldest",
    ),
];

/// # Errors
/// A wrong answer.
pub(crate) fn measure(common: &Common, statements: usize) -> Result<Value, String> {
    let few = prepare(common, FEW)?;
    let many = prepare(common, statements)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut figures = json!({"statements": statements, "few": FEW, "itemsOfAPage": LIMIT});
    for (name, query) in QUESTIONS {
        let took = runtime.block_on(in_turns(&[&few, &many], query))?;
        let medians: Vec<f64> = took
            .iter()
            .map(|took| f64::from(percentile(took, 0.5)))
            .collect();
        figures[format!("{name}MicrosAmongFew")] = json!(medians[0]);
        figures[format!("{name}MicrosAmongMany")] = json!(medians[1]);
        figures[format!("{name}P99MicrosAmongMany")] = json!(percentile(&took[1], 0.99));
        figures[format!("{name}ManyOfFew")] = json!(medians[1] / medians[0]);
    }
    let rates: Result<Vec<f64>, String> = (0..common.runs)
        .map(|_| runtime.block_on(rate(&many, common)))
        .collect();
    figures["pagesPerSecond"] = json!(median(&rates?));
    figures["connections"] = json!(common.connections);
    figures["residentBytes"] = json!(many.process().resident());
    Ok(figures)
}

/// A server with so many statements.
fn prepare(common: &Common, statements: usize) -> Result<Server, String> {
    eprintln!("{statements} statements");
    let server = common.start().without_snapshots().service()?;
    let template = Template::request_deposit(&headquarters(&server));
    let mut made = 0;
    while made < statements {
        let next = statements.min(made + AT_ONCE);
        let commands = (made..next).map(|number| template.fill(number, 0));
        carry_out(&server, 64, commands.collect())?;
        made = next;
    }
    Ok(server)
}

fn request(token: &str, query: &str, cursor: Option<&str>) -> Vec<u8> {
    let cursor = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
    format!(
        "GET /settlement-statements?limit={LIMIT}{query}{cursor} HTTP/1.1\r\nHost: bench\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    )
    .into_bytes()
}

/// A page: the cursor of the next one.
async fn page(connection: &mut Connection, request: &[u8]) -> Result<Option<String>, String> {
    let answer = connection.exchange(request).await?;
    let body = connection.body(&answer);
    let items = {
        let (mut rest, mut count) = (body, 0);
        while let Some(at) = find(rest, b"\"statementId\":") {
            count += 1;
            rest = &rest[at + 1..];
        }
        count
    };
    if answer.status != 200 || items != LIMIT {
        return Err(format!("{items} items: {}", String::from_utf8_lossy(body)));
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let (_, next) = text.rsplit_once("\"next\":").ok_or("a page has no next")?;
    let next = next.trim_end_matches('}').trim_matches('"');
    Ok((next != "null").then(|| next.to_owned()))
}

/// Pages of these servers in turns, each going on where its last one ended; how long each took, in
/// microseconds, in ascending order.
async fn in_turns(servers: &[&Server], query: &str) -> Result<Vec<Vec<u32>>, String> {
    let mut connections = Vec::new();
    for server in servers {
        connections.push(Connection::open(server.address()).await?);
    }
    let tokens: Vec<_> = servers.iter().map(|server| headquarters(server)).collect();
    let mut cursors: Vec<Option<String>> = vec![None; servers.len()];
    let mut took = vec![Vec::with_capacity(PAGES); servers.len()];
    for number in 0..PAGES + PAGES / 10 {
        for index in 0..servers.len() {
            let request = request(&tokens[index], query, cursors[index].as_deref());
            let begun = Instant::now();
            cursors[index] = page(&mut connections[index], &request).await?;
            let micros = begun.elapsed().as_micros() as u32;
            // The first ones warm up.
            if number >= PAGES / 10 {
                took[index].push(micros);
            }
        }
    }
    took.iter_mut().for_each(|took| took.sort_unstable());
    Ok(took)
}

/// Pages a second, each connection going through the list.
async fn rate(server: &Server, common: &Common) -> Result<f64, String> {
    let token = &headquarters(server);
    let until = Instant::now() + Duration::from_secs_f64(common.seconds.min(5.0));
    let begun = Instant::now();
    let readers = (0..common.connections).map(|_| async {
        let mut connection = Connection::open(server.address()).await?;
        let (mut cursor, mut pages) = (None, 0_u32);
        while Instant::now() < until {
            let request = request(token, "", cursor.as_deref());
            cursor = page(&mut connection, &request).await?;
            pages += 1;
        }
        Ok::<_, String>(pages)
    });
    let mut total = 0.0;
    for pages in futures(readers.collect()).await {
        total += f64::from(pages?);
    }
    Ok(total / begun.elapsed().as_secs_f64())
}

/// All of these at once.
async fn futures<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (one, output) in &mut all {
            if output.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *output = Some(done),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        match is_done {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}
