//! From a path to what stands there: built from the catalogue, which is the only list of
//! operations and reads.

use std::collections::BTreeMap;

use hyper::Method;

use super::response::Manner;
use crate::catalogue::{self, OPERATIONS, ProblemShape, READS, ReadRow, Row};

/// What stands at a path.
#[derive(Default)]
pub struct Place {
    operations: Vec<(Method, &'static Row)>,
    read: Option<&'static ReadRow>,
    special: Vec<(Method, Special)>,
}

/// What is neither an operation nor a read of the catalogue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `POST /reference-facts`
    PutFacts,
    /// `GET /healthz`
    Health,
    /// `GET /readyz`
    Ready,
}

/// What a request asks for.
#[derive(Clone, Copy)]
pub enum Asked {
    /// An operation.
    Operation(&'static Row),
    /// A read.
    Read(&'static ReadRow),
    /// Something else.
    Special(Special),
}

/// What a request's path leads to.
pub struct Found<'r, 'p> {
    /// The place.
    pub place: &'r Place,
    /// The parameters of the path, percent-decoded.
    pub parameters: Vec<(&'r str, std::borrow::Cow<'p, str>)>,
}

/// All places.
pub struct Routes {
    router: matchit::Router<Place>,
}

impl Routes {
    /// The places of the catalogue.
    ///
    /// # Panics
    /// When two paths of the catalogue cannot stand beside each other, which a test would show.
    #[must_use]
    pub fn new() -> Self {
        let mut places: BTreeMap<&str, Place> = BTreeMap::new();
        for row in OPERATIONS {
            let method = match row.method {
                catalogue::Method::Post => Method::POST,
                catalogue::Method::Patch => Method::PATCH,
            };
            places
                .entry(row.path)
                .or_default()
                .operations
                .push((method, row));
        }
        for row in READS {
            places.entry(row.path).or_default().read = Some(row);
        }
        for (path, method, special) in [
            ("/reference-facts", Method::POST, Special::PutFacts),
            ("/healthz", Method::GET, Special::Health),
            ("/readyz", Method::GET, Special::Ready),
        ] {
            places
                .entry(path)
                .or_default()
                .special
                .push((method, special));
        }
        let mut router = matchit::Router::new();
        for (path, place) in places {
            router
                .insert(path, place)
                .expect("the catalogue's paths stand beside each other");
        }
        Self { router }
    }

    /// What stands at `path`; `None` when nothing does, or a parameter is no UTF-8.
    #[must_use]
    pub fn find<'r, 'p>(&'r self, path: &'p str) -> Option<Found<'r, 'p>> {
        let matched = self.router.at(path).ok()?;
        let mut parameters = Vec::with_capacity(matched.params.len());
        for (name, value) in matched.params.iter() {
            let value = percent_encoding::percent_decode_str(value)
                .decode_utf8()
                .ok()?;
            parameters.push((name, value));
        }
        Some(Found {
            place: matched.value,
            parameters,
        })
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// What `method` asks for here; HEAD asks as GET does.
    #[must_use]
    pub fn asked(&self, method: &Method) -> Option<Asked> {
        let method = if *method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let operation = self.operations.iter().find(|(known, _)| known == method);
        let special = self.special.iter().find(|(known, _)| known == method);
        let read = self.read.filter(|_| *method == Method::GET);
        operation
            .map(|(_, row)| Asked::Operation(row))
            .or(special.map(|(_, special)| Asked::Special(*special)))
            .or(read.map(Asked::Read))
    }

    /// The methods that there are here, for `Allow`.
    #[must_use]
    pub fn methods(&self) -> String {
        let read = self.read.map(|_| Method::GET);
        let operations = self.operations.iter().map(|(method, _)| method.clone());
        let special = self.special.iter().map(|(method, _)| method.clone());
        let mut methods: Vec<_> = read.into_iter().chain(operations).chain(special).collect();
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

    /// How problems look here that concern the path and not one of its operations.
    #[must_use]
    pub fn manner(&self) -> Manner {
        let operation = self.operations.first().map(|(_, row)| Manner::of(row));
        // What two operations share a path with a read share its shape of problems.
        operation.unwrap_or(Manner {
            problem: self.read.map_or(ProblemShape::Full, |row| row.problem),
            ..Manner::PLAIN
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_catalogue_is_found_at_its_path() {
        let routes = Routes::new();
        for row in OPERATIONS {
            let path = row.path.replace(['{', '}'], "");
            let found = routes.find(&path).unwrap();
            let method = match row.method {
                catalogue::Method::Post => Method::POST,
                catalogue::Method::Patch => Method::PATCH,
            };
            let Some(Asked::Operation(asked)) = found.place.asked(&method) else {
                panic!("{} is not found", row.path);
            };
            assert_eq!(asked.tag, row.tag);
        }
        for row in READS {
            let path = row.path.replace(['{', '}'], "");
            let found = routes.find(&path).unwrap();
            assert!(matches!(
                found.place.asked(&Method::HEAD),
                Some(Asked::Read(_))
            ));
            assert!(found.place.methods().contains("GET, "));
        }
    }

    #[test]
    fn parameters_are_decoded_and_a_trailing_slash_is_another_path() {
        let routes = Routes::new();
        let found = routes.find("/settlement-statements/a%2Fb%20c").unwrap();
        assert_eq!(found.parameters, [("statementId", "a/b c".into())]);
        assert!(routes.find("/settlement-statements/a/").is_none());
        assert!(routes.find("/settlement-deposit-requests/").is_none());
        assert!(routes.find("/settlement-statements/%ff").is_none());
        assert!(routes.find("/nothing").is_none());
    }
}
