//! The faults of one request, bounded by their number and by the bytes of their paths.

use super::fault::{Fault, FaultCode};

/// Maximum number of reported faults of one request; of more faults, the first ones are reported.
pub const FAULTS_MAX: usize = 1_000;
/// Maximum number of bytes of the paths of all faults of a request. A path repeats the names that lead
/// to it, so a thousand deeply nested faults would repeat a long path a thousand times.
pub(super) const PLACES_BYTES_MAX: usize = 64 << 10;

/// The faults that were found so far.
#[derive(Debug, Default)]
pub struct Faults {
    all: Vec<Fault>,
    /// Number of bytes of the faults' paths; set to [`PLACES_BYTES_MAX`] once a path exceeded the rest.
    places_bytes: usize,
}

impl Faults {
    /// Whether there is no fault.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The faults, in the order in which they were found.
    #[must_use]
    pub fn all(&self) -> &[Fault] {
        &self.all
    }

    /// Whether no further fault is reported.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.all.len() >= FAULTS_MAX || self.places_bytes >= PLACES_BYTES_MAX
    }

    /// Notes a fault, if its path still fits. The first fault is always noted: if its path alone is
    /// longer than the maximum, the path is cut.
    pub fn note(&mut self, mut path: String, code: FaultCode) {
        if self.is_empty() {
            path.truncate(path.floor_char_boundary(PLACES_BYTES_MAX));
        }
        let places_bytes = self.places_bytes + path.len();
        if self.is_full() || places_bytes > PLACES_BYTES_MAX {
            // The reported faults are the first ones: after one that does not fit, no shorter one is
            // noted.
            self.places_bytes = PLACES_BYTES_MAX;
            return;
        }
        self.places_bytes = places_bytes;
        self.all.push(Fault { path, code });
    }

    /// Returns all faults, in the order in which they were found.
    #[must_use]
    pub fn into_all(self) -> Vec<Fault> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(noted: &[usize]) -> Vec<usize> {
        let mut faults = Faults::default();
        for length in noted {
            faults.note("n".repeat(*length), FaultCode::UnknownField);
        }
        let all = faults.into_all().into_iter();
        all.map(|fault| fault.path.len()).collect()
    }

    #[test]
    fn fault_paths_have_a_total_bound_and_the_first_fault_is_always_told() {
        const MOST: usize = PLACES_BYTES_MAX;
        assert_eq!(paths(&[MOST - 1, 1, 1]), [MOST - 1, 1]);
        assert_eq!(paths(&[MOST - 1, 2, 1]), [MOST - 1], "none behind it");
        assert_eq!(paths(&[MOST + 1, 0]), [MOST]);
        assert_eq!(paths(&[0; FAULTS_MAX + 1]), [0; FAULTS_MAX]);
        let mut faults = Faults::default();
        faults.note("\u{1f600}".repeat(MOST), FaultCode::Required);
        assert!(faults.is_full());
        faults.note(String::new(), FaultCode::Required);
        let mut odd = Faults::default();
        odd.note(
            format!("a{}", "\u{1f600}".repeat(MOST)),
            FaultCode::Required,
        );
        let lengths = [faults, odd].map(|faults| faults.into_all()[0].path.len());
        assert_eq!(lengths, [MOST, MOST - 3]);
    }
}
