//! Parses the parameters of a query as strictly as a body: each has to be known, and sent once unless it may be
//! repeated. The `fieldPath` of a fault is `query.NAME`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use crate::base::json::{FaultCode, Faults};
use crate::domain::rejection::Rejection;

/// The parameters of one request, and the faults found so far.
pub struct Query<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    faults: Faults,
    /// The names of the parameters that have a noted fault.
    at_fault: BTreeSet<Box<str>>,
}

impl<'q> Query<'q> {
    /// Parses the query of a request for a path that accepts the parameters `known`.
    #[must_use]
    pub fn read(query: Option<&'q str>, known: &[&str]) -> Self {
        let pairs: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
        let mut read = Self {
            pairs: Vec::new(),
            faults: Faults::default(),
            at_fault: BTreeSet::new(),
        };
        for (name, value) in pairs {
            if known.contains(&&*name) {
                read.pairs.push((name, value));
            } else {
                read.fault(&name, FaultCode::UnknownField);
            }
        }
        read
    }

    /// Notes a fault of this parameter, unless it has one already, or the maximum number of faults is noted.
    pub fn fault(&mut self, name: &str, code: FaultCode) {
        if !self.faults.is_full() && !self.at_fault.contains(name) {
            self.at_fault.insert(name.into());
            self.faults.note(format!("query.{name}"), code);
        }
    }

    /// Returns all values of a parameter that may be repeated.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<Cow<'q, str>> {
        let of_name = self.pairs.iter().filter(|(known, _)| known == name);
        of_name.map(|(_, value)| value.clone()).collect()
    }

    /// Returns the value of a parameter, parsed by `read`; `None` if the parameter is absent, or has a fault, which
    /// is noted.
    pub fn one<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, FaultCode>,
    ) -> Option<T> {
        let values = self.all(name);
        let value = match &*values {
            [] => return None,
            [value] if value.is_empty() => Err(FaultCode::TooShort),
            [value] => read(value),
            _ => Err(FaultCode::DuplicateField),
        };
        value.map_err(|code| self.fault(name, code)).ok()
    }

    /// Returns a whole number within these bounds, both inclusive.
    pub fn number(&mut self, name: &str, least: usize, most: usize) -> Option<usize> {
        self.one(name, |text| {
            let number = whole_number(text)?;
            match (least..=most).contains(&number) {
                true => Ok(number),
                false => Err(FaultCode::OutOfRange),
            }
        })
    }

    /// Ends the parsing of the query, and reports its faults.
    ///
    /// # Errors
    /// The rejection with all faults, if there are any.
    pub fn finish(self) -> Result<(), Rejection> {
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(Rejection::invalid(self.faults.into_all())),
        }
    }
}

/// Parses a non-negative number in decimal digits.
///
/// # Errors
/// `wrong_type` when the text is no integer, `out_of_range` when the number is negative or too large.
pub fn whole_number<T: FromStr>(text: &str) -> Result<T, FaultCode> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FaultCode::WrongType);
    }
    let is_negative = digits.len() < text.len();
    let number = text.parse().ok().filter(|_| !is_negative);
    number.ok_or(FaultCode::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::FAULTS_MAX;

    fn faults(query: &str) -> Vec<(String, FaultCode)> {
        let mut read = Query::read(Some(query), &["limit", "type"]);
        read.number("limit", 1, 10);
        let _ = read.all("type");
        let rejection = read.finish().err();
        let faults = rejection.into_iter().flat_map(|rejection| rejection.faults);
        faults.map(|fault| (fault.path, fault.code)).collect()
    }

    #[test]
    fn each_fault_of_a_query_is_named_with_its_parameter() {
        let one = |path: &str, code| vec![(path.to_owned(), code)];
        assert_eq!(faults(""), []);
        assert_eq!(faults("limit=10&type=a&type=b"), []);
        assert_eq!(faults("limit=0"), one("query.limit", FaultCode::OutOfRange));
        assert_eq!(
            faults("limit=11"),
            one("query.limit", FaultCode::OutOfRange)
        );
        assert_eq!(
            faults("limit=99999999999999999999999"),
            one("query.limit", FaultCode::OutOfRange)
        );
        assert_eq!(faults("limit=+1"), one("query.limit", FaultCode::WrongType));
        assert_eq!(faults("limit=-"), one("query.limit", FaultCode::WrongType));
        assert_eq!(
            faults("limit=-1"),
            one("query.limit", FaultCode::OutOfRange)
        );
        assert_eq!(faults("limit="), one("query.limit", FaultCode::TooShort));
        assert_eq!(
            faults("limit=1&limit=1"),
            one("query.limit", FaultCode::DuplicateField)
        );
        assert_eq!(
            faults("Limit=1"),
            one("query.Limit", FaultCode::UnknownField)
        );
    }

    #[test]
    fn of_unknown_query_names_the_first_thousand_are_reported_once_each() {
        let names: Vec<_> = (0..4_000).map(|number| format!("n{number}")).collect();
        let told = faults(&names.join("&"));
        let expected = names.iter().map(|name| format!("query.{name}"));
        let expected: Vec<_> = expected
            .map(|path| (path, FaultCode::UnknownField))
            .take(FAULTS_MAX)
            .collect();
        assert_eq!(told, expected);
        assert_eq!(faults(&["x"; 4_000].join("&")).len(), 1);
    }
}
