//! The number under which a Korean business is registered for taxes.

use serde::{Deserialize, Serialize};

use crate::base::json::{FaultCode, FromJson, Json, Reader, Shape};
use crate::base::text::Text;

/// A Korean business registration number: ten digits, the last of which is a check digit.
///
/// It is read with dashes after the third and the fifth digit or with none, and stored and written
/// without: both spellings are the same number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BusinessRegistrationNumber(Box<str>);

impl BusinessRegistrationNumber {
    /// Reads a number; `None` when the form is wrong, or the last digit is not the check digit of
    /// the others.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes().collect::<Vec<_>>();
        if let [_, _, _, b'-', _, _, b'-', _, _, _, _, _] = bytes.as_slice() {
            bytes.remove(6);
            bytes.remove(3);
        }
        let digits = bytes
            .iter()
            .map(|byte| byte.is_ascii_digit().then(|| u32::from(byte - b'0')))
            .collect::<Option<Vec<_>>>()?;
        let digits: [u32; 10] = digits.try_into().ok()?;
        (check_digit(&digits) == digits[9]).then(|| {
            let text: String = bytes.iter().copied().map(char::from).collect();
            Self(text.into())
        })
    }

    /// Makes a different number for each `number` below a thousand million, for samples.
    ///
    /// # Panics
    /// Never: nine digits always have a check digit.
    #[must_use]
    pub fn sample(number: u32) -> Self {
        let first = number % 1_000_000_000;
        let mut all = (0..10).filter_map(|last| Self::parse(&format!("{first:09}{last}")));
        all.next().expect("one tenth digit belongs to nine")
    }

    /// Returns the ten digits.
    #[must_use]
    pub fn digits(&self) -> &str {
        &self.0
    }
}

/// Returns the check digit of the first nine digits: the one that raises their weighted sum to a
/// multiple of ten. The ninth digit weighs 5, and the tens of its product are added once more.
fn check_digit(digits: &[u32; 10]) -> u32 {
    const WEIGHTS: [u32; 9] = [1, 3, 7, 1, 3, 7, 1, 3, 5];
    let weighted: u32 = WEIGHTS
        .iter()
        .zip(digits)
        .map(|(weight, digit)| weight * digit)
        .sum();
    let sum = weighted + digits[8] * 5 / 10;
    (10 - sum % 10) % 10
}

impl FromJson for BusinessRegistrationNumber {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let text = Text::read(value, at)?;
        match Self::parse(&text) {
            Some(number) => Some(number),
            None => at.fault(FaultCode::Pattern),
        }
    }

    fn shape() -> Shape {
        Shape::Text {
            shortest: 1,
            longest: 4_000,
            blank: true,
            form: "ten digits, the last of which checks the others; or with dashes, `000-00-00000`",
            pattern: "^([0-9]{10}|[0-9]{3}-[0-9]{2}-[0-9]{5})$",
            known: &[],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_well_known_businesses_are_numbers_with_and_without_dashes() {
        for (dashed, plain) in [
            ("124-81-00998", "1248100998"),
            ("220-81-62517", "2208162517"),
        ] {
            let number = BusinessRegistrationNumber::parse(dashed).unwrap();
            assert_eq!(number.digits(), plain);
            assert_eq!(BusinessRegistrationNumber::parse(plain), Some(number));
        }
    }

    #[test]
    fn nine_digits_have_exactly_one_tenth() {
        for first in ["124810099", "220816251", "000000000", "999999999"] {
            let valid = (0..10).filter(|last| {
                BusinessRegistrationNumber::parse(&format!("{first}{last}")).is_some()
            });
            assert_eq!(valid.count(), 1, "{first}");
        }
    }

    #[test]
    fn a_slip_in_one_digit_is_noticed_and_so_is_every_other_form() {
        let good = "1248100998";
        for place in 0..good.len() {
            for digit in '0'..='9' {
                let mut wrong = good.to_owned();
                wrong.replace_range(place..=place, &digit.to_string());
                let read = BusinessRegistrationNumber::parse(&wrong);
                // The ninth digit counts five times plus the tens of that product, which also
                // differs for all ten digits.
                assert_eq!(read.is_some(), wrong == good, "{wrong}");
            }
        }
        for wrong in [
            "",
            "124810099",
            "12481009980",
            "124-8100998",
            "12481-00998",
            "124-81-0099",
            "1-248100-998",
            "124 81 00998",
            "124-81-00998 ",
            "１２４８１００９９８",
            "124_81_00998",
        ] {
            assert_eq!(BusinessRegistrationNumber::parse(wrong), None, "{wrong}");
        }
    }
}
