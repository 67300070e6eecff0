//! Basis points: hundredths of a percent.

use serde::{Deserialize, Serialize};

use crate::base::json::{FaultCode, FromJson, Json, Reader, Shape};

/// A share or a rate in basis points, 0 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BasisPoints(u16);

impl BasisPoints {
    /// 100 % in basis points.
    pub const WHOLE: i64 = 10_000;

    /// Returns the number of basis points, out of 10,000.
    #[must_use]
    pub fn number(self) -> i64 {
        i64::from(self.0)
    }
}

impl FromJson for BasisPoints {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let number = i64::read(value, at)?;
        match u16::try_from(number) {
            Ok(points) if number <= Self::WHOLE => Some(Self(points)),
            _ => at.fault(FaultCode::OutOfRange),
        }
    }

    fn shape() -> Shape {
        Shape::Integer {
            least: 0,
            most: Self::WHOLE,
        }
    }
}

crate::schema_of_shape!(BasisPoints);
