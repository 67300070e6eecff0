//! Finds the bytes that JSON strings contain unescaped, examining eight or sixteen at a time.

use crate::base::output::copy_halves;

/// Returns the offset of the first byte from `at` on that ends a string or is not plain in it (a
/// quotation mark, a backslash, a control character), or the length of `bytes`.
#[inline]
pub(super) fn plain_until(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        match not_plain(*eight) {
            0 => at += 8,
            // The lowest bit belongs to the first such byte.
            bits => return at + (bits.trailing_zeros() / 8) as usize,
        }
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_plain_byte(**byte)).count()
}

/// Returns a word with the highest bit set of each byte that is a quotation mark, a backslash or a
/// control character; bits after the first one set may be wrong.
#[inline]
fn not_plain(eight: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let bytes = u64::from_le_bytes(eight);
    let below = |bytes: u64, bound: u64| bytes.wrapping_sub(ONES * bound) & !bytes;
    let quotes = below(bytes ^ (ONES * u64::from(b'"')), 1);
    let backslashes = below(bytes ^ (ONES * u64::from(b'\\')), 1);
    (below(bytes, 0x20) | quotes | backslashes) & HIGHEST
}

/// Whether no byte has to be escaped.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    plain_until(bytes, 0) == bytes.len()
}

/// Copies all of `bytes` to `to`, which is as long, and returns whether no byte has to be escaped.
/// Short bytes, as nearly all are, are examined while they are copied: in pieces that overlap, without
/// a loop.
#[inline]
pub(super) fn copy_if_plain(bytes: &[u8], to: &mut [u8]) -> bool {
    match bytes.len() {
        16..=32 => copy_halves::<16>(bytes, to)
            .is_some_and(|(first, last)| is_all_plain(first) & is_all_plain(last)),
        8..16 => copy_halves::<8>(bytes, to)
            .is_some_and(|(first, last)| not_plain(*first) | not_plain(*last) == 0),
        4..8 => copy_halves::<4>(bytes, to).is_some_and(|([a, b, c, d], [e, f, g, h])| {
            not_plain([*a, *b, *c, *d, *e, *f, *g, *h]) == 0
        }),
        0..4 => {
            // For at most three bytes, a call that copies them is not worth its cost.
            match (bytes, to) {
                ([a, b, c], [x, y, z]) => [*x, *y, *z] = [*a, *b, *c],
                ([a, b], [x, y]) => [*x, *y] = [*a, *b],
                ([a], [x]) => *x = *a,
                _ => {}
            }
            bytes.iter().copied().all(is_plain_byte)
        }
        33.. => {
            to.copy_from_slice(bytes);
            let (sixteens, _) = bytes.as_chunks();
            let last = bytes.last_chunk().is_none_or(is_all_plain);
            last && sixteens.iter().all(is_all_plain)
        }
    }
}

/// Whether the byte stands for itself in a string, or is a part of a character that does.
#[inline]
fn is_plain_byte(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

/// Whether none of these bytes has to be escaped: tested sixteen at once, where the processor can.
#[inline(always)]
fn is_all_plain(sixteen: &[u8; 16]) -> bool {
    let plain = |all: bool, byte: &u8| all & is_plain_byte(*byte);
    sixteen.iter().fold(true, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_to_escape_are_found_at_every_offset_of_texts_of_any_length() {
        for length in 0..52 {
            for byte in 0..=255 {
                for place in 0..length {
                    let mut text = vec![b'a'; length];
                    text[place] = byte;
                    let is_escaped = byte < 0x20 || matches!(byte, b'"' | b'\\');
                    let mut copied = vec![0; length];
                    assert_eq!(copy_if_plain(&text, &mut copied), !is_escaped, "{text:?}");
                    assert_eq!(copied, text);
                    assert_eq!(is_plain(&text), !is_escaped, "{text:?}");
                    let until = if is_escaped { place } else { length };
                    assert_eq!(plain_until(&text, 0), until, "{text:?}");
                }
            }
        }
    }
}
