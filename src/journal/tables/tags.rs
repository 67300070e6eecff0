//! Search for a byte among several, many at a time.

/// Number of bytes compared at once.
pub(super) const WORD: usize = size_of::<u64>();

/// Returns the first bytes as a number, the first one lowest; missing bytes are 0.
pub(super) fn word(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    });
    u64::from_le_bytes(word)
}

/// Returns a number in which the highest bit of each byte equal to `byte` is set, and no other bit.
pub(super) fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 0xff * 0x7f;
    let differs = word ^ u64::from_le_bytes([byte; WORD]);
    // No byte carries into the next one.
    !(((differs & LOW) + LOW) | differs | LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_are_equal_are_told_and_no_others() {
        for byte in 0..=u8::MAX {
            for (place, other) in (0..u64::from(u8::MAX) + 1).enumerate() {
                let mut bytes = [byte.wrapping_add(1); WORD];
                bytes[place % WORD] = other.to_le_bytes()[0];
                bytes[(place + 3) % WORD] = byte;
                let expected = bytes.iter().enumerate().map(|(at, it)| {
                    let equal = u64::from(*it == byte);
                    equal << (8 * at + 7)
                });
                assert_eq!(equal_bytes(word(&bytes), byte), expected.sum::<u64>());
            }
        }
        assert_eq!(word(&[1, 2]), 0x0201);
    }
}
