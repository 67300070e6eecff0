//! Maps a path to its route. The routes are built from the catalogue, which is the only list of operations and reads.

use std::collections::BTreeMap;

use hyper::Method;

use super::docs_page::DocsFile;
use super::response::Problems;
use crate::catalogue::{
    self, KeySource, LISTS, ListRow, MANAGEMENT, MANAGEMENT_READS, OPERATIONS, ProblemShape, READS,
    ReadRow, Row,
};

/// The handlers of one path.
#[derive(Default)]
pub struct PathHandlers {
    /// The path's template.
    template: Box<str>,
    operations: Vec<(Method, Series, &'static Row)>,
    read: Option<(Series, &'static ReadRow)>,
    history: Option<(Series, &'static ReadRow)>,
    list: Option<(Series, &'static ListRow)>,
    /// Of routes outside the catalogue.
    others: Vec<(Method, Series, Handler)>,
}

/// Which routes a listener offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// All routes: for the only listener, or for an internal one that serves the console.
    All,
    /// Everything except internal routes.
    Public,
    /// Internal routes: operations without a token, and the metrics. Health, readiness, the API document and the page
    /// that shows it are on both listeners.
    Internal,
}

impl Offer {
    fn has(self, is_internal: bool) -> bool {
        match self {
            Self::All => true,
            Self::Public => !is_internal,
            Self::Internal => is_internal,
        }
    }
}

/// The handler of a request, by the kind of its route.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An operation.
    Operation(&'static Row),
    /// A read.
    Read(&'static ReadRow),
    /// The history of the resource that a read returns.
    History(&'static ReadRow),
    /// A list.
    List(&'static ListRow),
    /// A list of objects that operators manage.
    ManagementList(ManagementList),
    /// `GET /events`
    Events,
    /// Another route.
    Special(Special),
}

/// The lists of objects that operators manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementList {
    /// `GET /outbox`
    Outbox,
    /// A list about webhooks.
    Webhooks(WebhookList),
}

/// The lists about webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookList {
    /// `GET /webhook-subscriptions`
    Subscriptions,
    /// `GET /webhook-subscriptions/{subscriptionId}/deliveries`
    Deliveries,
}

/// The other routes outside the catalogue, whose answers do not depend on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `POST /reference-facts`
    PutFacts,
    /// `GET /healthz`
    Health,
    /// `GET /readyz`
    Ready,
    /// `GET /metrics`
    Metrics,
    /// `GET /openapi.json`
    ApiDocument,
    /// `GET /docs`, and the files of its page
    Docs(DocsFile),
}

/// The routes outside the catalogue: path, method, handler.
const OTHERS: [(&str, Method, Handler); 13] = [
    (
        "/reference-facts",
        Method::POST,
        Handler::Special(Special::PutFacts),
    ),
    ("/events", Method::GET, Handler::Events),
    ("/healthz", Method::GET, Handler::Special(Special::Health)),
    ("/readyz", Method::GET, Handler::Special(Special::Ready)),
    ("/metrics", Method::GET, Handler::Special(Special::Metrics)),
    (
        "/outbox",
        Method::GET,
        Handler::ManagementList(ManagementList::Outbox),
    ),
    (
        "/openapi.json",
        Method::GET,
        Handler::Special(Special::ApiDocument),
    ),
    (
        "/docs",
        Method::GET,
        Handler::Special(Special::Docs(DocsFile::Page)),
    ),
    (
        "/docs/start.js",
        Method::GET,
        Handler::Special(Special::Docs(DocsFile::Start)),
    ),
    (
        "/docs/swagger-ui-bundle.js",
        Method::GET,
        Handler::Special(Special::Docs(DocsFile::Script)),
    ),
    (
        "/docs/swagger-ui.css",
        Method::GET,
        Handler::Special(Special::Docs(DocsFile::Style)),
    ),
    (
        "/webhook-subscriptions",
        Method::GET,
        Handler::ManagementList(ManagementList::Webhooks(WebhookList::Subscriptions)),
    ),
    (
        "/webhook-subscriptions/{subscriptionId}/deliveries",
        Method::GET,
        Handler::ManagementList(ManagementList::Webhooks(WebhookList::Deliveries)),
    ),
];

impl ManagementList {
    /// Returns the route's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbox => "list_outbox",
            Self::Webhooks(WebhookList::Subscriptions) => "list_webhook_subscriptions",
            Self::Webhooks(WebhookList::Deliveries) => "list_webhook_deliveries",
        }
    }
}

impl Special {
    /// Returns the route's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PutFacts => "put_reference_facts",
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
            Self::ApiDocument => "api_document",
            Self::Docs(DocsFile::Page) => "docs",
            Self::Docs(DocsFile::Start) => "docs_start",
            Self::Docs(DocsFile::Script) => "docs_script",
            Self::Docs(DocsFile::Style) => "docs_style",
        }
    }
}

impl Handler {
    /// Returns the route's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operation(row) => row.name,
            Self::Read(row) => row.name,
            Self::History(_) => "read_history",
            Self::List(row) => row.name,
            Self::ManagementList(list) => list.name(),
            Self::Events => "read_events",
            Self::Special(special) => special.name(),
        }
    }

    /// Whether the route is on each listener.
    fn is_everywhere(self) -> bool {
        matches!(
            self,
            Self::Special(
                Special::Health | Special::Ready | Special::ApiDocument | Special::Docs(_)
            )
        )
    }

    /// Whether the route, which is outside the catalogue, is internal.
    fn is_internal(self) -> bool {
        matches!(self, Self::Special(Special::Metrics))
    }
}

/// The index of a series of requests in the metrics: an operation, a read, or another route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series(pub usize);

/// Returns the names of all series of requests by their index; the last is the series of requests without a route.
#[must_use]
pub fn series_names() -> Vec<&'static str> {
    let operations = OPERATIONS.iter().chain(MANAGEMENT).map(|row| row.name);
    let reads = READS.iter().chain(MANAGEMENT_READS).map(|row| row.name);
    let lists = LISTS.iter().map(|row| row.name);
    let others = OTHERS.into_iter().map(|(.., handler)| handler.name());
    operations
        .chain(reads)
        .chain(["read_history"])
        .chain(lists)
        .chain(others)
        .chain(["console", "other"])
        .collect()
}

fn method_of(row: &Row) -> Method {
    match row.method {
        catalogue::Method::Post => Method::POST,
        catalogue::Method::Patch => Method::PATCH,
        catalogue::Method::Delete => Method::DELETE,
    }
}

/// Returns the path of the history of the resource that this row reads.
#[must_use]
pub fn history_path(row: &ReadRow) -> String {
    format!("{}/history", row.path)
}

/// The route that was found for a path.
pub struct RouteMatch<'r, 'p> {
    /// The handlers of the path.
    pub place: &'r PathHandlers,
    /// The parameters of the path, percent-decoded.
    pub parameters: Vec<(&'r str, std::borrow::Cow<'p, str>)>,
}

/// All routes.
pub struct Routes {
    router: matchit::Router<PathHandlers>,
    /// All paths, with the handlers of each.
    all: Vec<(String, Vec<(Method, Handler)>)>,
}

impl Routes {
    /// Creates the routes of the catalogue that a listener offers.
    ///
    /// # Panics
    /// When two paths of the catalogue conflict, which a test would find.
    #[must_use]
    pub fn new(offer: Offer) -> Self {
        let operations = OPERATIONS.iter().chain(MANAGEMENT);
        let mut places: BTreeMap<String, PathHandlers> = BTreeMap::new();
        let mut series = (0..).map(Series);
        for (row, series) in operations.zip(&mut series) {
            if !offer.has(!row.bearer) {
                continue;
            }
            places
                .entry(row.path.to_owned())
                .or_default()
                .operations
                .push((method_of(row), series, row));
        }
        for (row, series) in READS.iter().chain(MANAGEMENT_READS).zip(&mut series) {
            if offer.has(false) {
                places.entry(row.path.to_owned()).or_default().read = Some((series, row));
            }
        }
        if let Some(series) = series.next() {
            let rows = READS.iter().filter(|row| row.history.is_some());
            for row in rows.filter(|_| offer.has(false)) {
                let place = places.entry(history_path(row)).or_default();
                place.history = Some((series, row));
            }
        }
        for (row, series) in LISTS.iter().zip(&mut series) {
            if offer.has(false) {
                places.entry(row.path.to_owned()).or_default().list = Some((series, row));
            }
        }
        for ((path, method, handler), series) in OTHERS.into_iter().zip(&mut series) {
            if handler.is_everywhere() || offer.has(handler.is_internal()) {
                let place = places.entry(path.to_owned()).or_default();
                place.others.push((method, series, handler));
            }
        }
        let mut router = matchit::Router::new();
        let all = places
            .iter()
            .map(|(path, place)| (path.clone(), place.all()));
        let all = all.collect();
        for (path, mut place) in places {
            place.template = path.as_str().into();
            router
                .insert(path, place)
                .expect("the catalogue's paths do not conflict");
        }
        Self { router, all }
    }

    /// Returns all paths, with their methods and handlers.
    pub fn all(&self) -> impl Iterator<Item = (&str, Method, Handler)> {
        let all = self.all.iter();
        all.flat_map(|(path, asked)| {
            let asked = asked.iter();
            asked.map(|(method, asked)| (path.as_str(), method.clone(), *asked))
        })
    }

    /// Returns the route at `path`; `None` if there is none, or if a parameter is not UTF-8.
    #[must_use]
    pub fn find<'r, 'p>(&'r self, path: &'p str) -> Option<RouteMatch<'r, 'p>> {
        let matched = self.router.at(path).ok()?;
        let mut parameters = Vec::with_capacity(matched.params.len());
        for (name, value) in matched.params.iter() {
            let value = percent_encoding::percent_decode_str(value)
                .decode_utf8()
                .ok()?;
            parameters.push((name, value));
        }
        Some(RouteMatch {
            place: matched.value,
            parameters,
        })
    }
}

impl PathHandlers {
    /// Returns the path's template, with the names of its parameters.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Returns the handler of each method.
    fn all(&self) -> Vec<(Method, Handler)> {
        let operations = self.operations.iter();
        let operations =
            operations.map(|(method, _, row)| (method.clone(), Handler::Operation(row)));
        let others = self.others.iter();
        let others = others.map(|(method, _, handler)| (method.clone(), *handler));
        let read = self.read.map(|(_, row)| (Method::GET, Handler::Read(row)));
        let list = self.list.map(|(_, row)| (Method::GET, Handler::List(row)));
        let history = self.history;
        let history = history.map(|(_, row)| (Method::GET, Handler::History(row)));
        let reads = read.into_iter().chain(list).chain(history);
        operations.chain(others).chain(reads).collect()
    }

    /// Returns the handler of `method`; HEAD is treated like GET.
    #[must_use]
    pub fn handler(&self, method: &Method) -> Option<(Series, Handler)> {
        let method = if *method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let operation = self.operations.iter().find(|(known, ..)| known == method);
        let other = self.others.iter().find(|(known, ..)| known == method);
        let is_get = *method == Method::GET;
        let read = self.read.filter(|_| is_get);
        let history = self.history.filter(|_| is_get);
        let list = self.list.filter(|_| is_get);
        operation
            .map(|(_, series, row)| (*series, Handler::Operation(row)))
            .or(other.map(|(_, series, handler)| (*series, *handler)))
            .or(read.map(|(series, row)| (series, Handler::Read(row))))
            .or(history.map(|(series, row)| (series, Handler::History(row))))
            .or(list.map(|(series, row)| (series, Handler::List(row))))
    }

    /// Returns the methods of this path, for `Allow`.
    #[must_use]
    pub fn methods(&self) -> String {
        let is_read = self.read.is_some() || self.list.is_some() || self.history.is_some();
        let read = is_read.then_some(Method::GET);
        let operations = self.operations.iter().map(|(method, ..)| method.clone());
        let others = self.others.iter().map(|(method, ..)| method.clone());
        let mut methods: Vec<_> = read.into_iter().chain(operations).chain(others).collect();
        if methods.contains(&Method::GET) {
            methods.push(Method::HEAD);
        }
        methods.push(Method::OPTIONS);
        methods
            .iter()
            .map(Method::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the shape of problems that concern the path and not one of its operations.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let operation = self.operations.first().map(|(.., row)| Problems::of(row));
        // Operations that share a path with a read use the read's problem shape.
        operation.unwrap_or(Problems {
            problem: self
                .read
                .or(self.history)
                .map_or(ProblemShape::Full, |(_, row)| row.problem),
            ..Problems::PLAIN
        })
    }

    /// Whether a request with this method may make a commit. A read does not, nor does an operation without an
    /// idempotency key.
    #[must_use]
    pub fn may_commit(&self, method: &Method) -> bool {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let mut operations = self.operations.iter();
        let own = operations.find(|(known, ..)| known == method);
        !is_read && own.is_none_or(|(.., row)| row.key != KeySource::None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_catalogue_is_found_at_its_path() {
        let routes = Routes::new(Offer::All);
        for row in OPERATIONS.iter().chain(MANAGEMENT) {
            let path = row.path.replace(['{', '}'], "");
            let found = routes.find(&path).unwrap();
            let method = method_of(row);
            let Some((series, Handler::Operation(asked))) = found.place.handler(&method) else {
                panic!("{} is not found", row.path);
            };
            assert_eq!(asked.tag, row.tag);
            assert_eq!(series_names()[series.0], row.name);
        }
        for row in READS.iter().chain(MANAGEMENT_READS) {
            let path = row.path.replace(['{', '}'], "");
            let found = routes.find(&path).unwrap();
            let Some((series, Handler::Read(_))) = found.place.handler(&Method::HEAD) else {
                panic!("{} is not found", row.path);
            };
            assert_eq!(series_names()[series.0], row.name);
            assert!(found.place.methods().contains("GET, "));
            let path = history_path(row).replace(['{', '}'], "");
            let history = routes.find(&path);
            assert_eq!(history.is_some(), row.history.is_some(), "{}", row.path);
            if let Some(history) = history {
                let asked = history.place.handler(&Method::GET).unwrap();
                assert!(matches!(asked.1, Handler::History(of) if of.name == row.name));
                assert_eq!(series_names()[asked.0.0], "read_history");
                assert_eq!(history.place.methods(), "GET, HEAD, OPTIONS");
            }
        }
        for row in LISTS.iter() {
            let found = routes.find(row.path).unwrap();
            let Some((series, Handler::List(_))) = found.place.handler(&Method::HEAD) else {
                panic!("{} is not found", row.path);
            };
            assert_eq!(series_names()[series.0], row.name);
            assert!(found.place.methods().contains("GET, "));
        }
    }

    #[test]
    fn parameters_are_decoded_and_a_trailing_slash_is_another_path() {
        let routes = Routes::new(Offer::All);
        let found = routes.find("/settlement-statements/a%2Fb%20c").unwrap();
        assert_eq!(found.parameters, [("statementId", "a/b c".into())]);
        assert!(routes.find("/settlement-statements/a/").is_none());
        assert!(routes.find("/settlement-deposit-requests/").is_none());
        assert!(routes.find("/settlement-statements/%ff").is_none());
        assert!(routes.find("/nothing").is_none());
    }

    #[test]
    fn series_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = series_names().into_iter().collect();
        assert_eq!(names.len(), series_names().len());
        let operations = OPERATIONS.len() + MANAGEMENT.len();
        let reads = READS.len() + MANAGEMENT_READS.len();
        let others = LISTS.len() + OTHERS.len() + 3;
        assert_eq!(names.len(), operations + reads + others);
    }

    #[test]
    fn internal_routes_are_on_one_listener_and_all_others_on_the_other() {
        let (public, internal) = (Routes::new(Offer::Public), Routes::new(Offer::Internal));
        let is_there = |routes: &Routes, path: &str, method: &Method| {
            let found = routes.find(path);
            found.is_some_and(|found| found.place.handler(method).is_some())
        };
        let mut inside = 0;
        for row in OPERATIONS.iter().chain(MANAGEMENT) {
            let path = row.path.replace(['{', '}'], "");
            let method = method_of(row);
            assert_eq!(is_there(&public, &path, &method), row.bearer);
            assert_eq!(is_there(&internal, &path, &method), !row.bearer);
            inside += usize::from(!row.bearer);
        }
        assert_eq!(inside, 1, "one operation looks at no token");
        for row in READS.iter().chain(MANAGEMENT_READS) {
            let path = row.path.replace(['{', '}'], "");
            assert!(is_there(&public, &path, &Method::GET));
            assert!(!is_there(&internal, &path, &Method::GET));
        }
        for (path, method, handler) in OTHERS {
            let path = &path.replace(['{', '}'], "");
            let is_on_both = handler.is_everywhere();
            let is_internal = path == "/metrics";
            assert_eq!(is_there(&public, path, &method), !is_internal);
            assert_eq!(
                is_there(&internal, path, &method),
                is_internal || is_on_both
            );
        }
    }
}
