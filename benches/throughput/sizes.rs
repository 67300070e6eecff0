//! The bytes that the limit moves for a command.

use std::str::FromStr;

/// Bytes of a record and of its answer, as means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) record: usize,
    pub(crate) answer: usize,
}

/// Of a statement opened (EP9), and of a charge finalized (EP13).
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfBoth {
    pub(crate) deposit: Sizes,
    pub(crate) charge: Sizes,
}

impl OfBoth {
    /// As the limit's process is told them.
    pub(crate) fn argument(self) -> String {
        let Self { deposit, charge } = self;
        let all = [deposit.record, deposit.answer, charge.record, charge.answer];
        all.map(|size| size.to_string()).join(",")
    }
}

impl FromStr for OfBoth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        match sizes.as_deref() {
            Ok([deposit, created, charge, finalized]) => Ok(Self {
                deposit: Sizes {
                    record: *deposit,
                    answer: *created,
                },
                charge: Sizes {
                    record: *charge,
                    answer: *finalized,
                },
            }),
            _ => Err(format!("four sizes are needed, not {text}")),
        }
    }
}
