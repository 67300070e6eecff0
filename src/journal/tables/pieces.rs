//! Values collected one after another, whose final number is unknown.

/// Largest capacity of a piece.
const PIECE: usize = 1_024;

/// A sequence that grows without moving its values: by pieces, each as large as all before it, up to a limit.
pub(in crate::journal) struct Pieces<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
    len: usize,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            last: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Pieces<T> {
    /// Number of values.
    pub(in crate::journal) fn len(&self) -> usize {
        self.len
    }

    /// Appends a value.
    pub(in crate::journal) fn push(&mut self, one: T) {
        if self.last.len() == self.last.capacity() {
            let room = self.len.clamp(4, PIECE);
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(room));
            self.full.push(full);
        }
        self.last.push(one);
        self.len += 1;
    }

    /// Iterates over the values in order.
    pub(in crate::journal) fn iter(&self) -> impl Iterator<Item = &T> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Returns all values in one vector; frees the memory of each piece once it was moved.
    pub(in crate::journal) fn into_vec(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.len);
        for mut piece in self.full {
            all.append(&mut piece);
        }
        all.extend(self.last);
        all
    }
}

impl<T> Extend<T> for Pieces<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        more.into_iter().for_each(|one| self.push(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_noted_is_there_in_order_and_nothing_has_moved() {
        let mut pieces = Pieces::default();
        let first = {
            pieces.push(0);
            std::ptr::from_ref(pieces.iter().next().expect("there is one"))
        };
        pieces.extend(1..10_000);
        assert_eq!(pieces.len(), 10_000);
        assert!(pieces.iter().copied().eq(0..10_000));
        assert!(
            pieces
                .iter()
                .next()
                .is_some_and(|it| std::ptr::eq(it, first))
        );
        let all = pieces.into_vec();
        assert!(all.len() == all.capacity() && all.into_iter().eq(0..10_000));
    }
}
