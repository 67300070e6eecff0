//! Bytes as lower-case hexadecimal digits, two for each.

use data_encoding::HEXLOWER;

/// Encodes the bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Decodes lower-case hexadecimal digits: `None` unless there are exactly twice as many digits as
/// bytes, and no other characters. Upper-case digits are refused.
#[must_use]
pub fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode_mut(digits, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_are_written_and_nothing_else_is() {
        let bytes = [0x00, 0x9a, 0xff];
        assert_eq!(hex(&bytes), "009aff");
        assert_eq!(unhex(b"009aff"), Some(bytes));
        for other in [
            "", "009af", "009aff0", "009aff00", "009AFF", "+09aff", "009a f", "009afg",
        ] {
            assert_eq!(unhex::<3>(other.as_bytes()), None, "{other}");
        }
    }
}
