//! Which bytes of a string JSON contains unescaped, examined eight at a time.

/// Where the first byte from `at` on is that ends a string or is not plain in it: a quotation mark, a
/// backslash, a control character; or else the end of the bytes.
#[inline]
pub(super) fn plain_until(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        match not_plain(*eight) {
            0 => at += 8,
            // The lowest bit is of the first such byte.
            bits => return at + (bits.trailing_zeros() / 8) as usize,
        }
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let is_plain = |byte: &u8| *byte >= 0x20 && !matches!(byte, b'"' | b'\\');
    at + rest.iter().take_while(|byte| is_plain(byte)).count()
}

/// The highest bit of each byte that is a quotation mark, a backslash or a control character; those
/// after the first may be wrong.
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

/// Copies all of `bytes` to `to`, which is as long, and whether none has to be escaped. They are looked at
/// as they are copied, eight at a time; the last eight may be copied twice, in part.
#[inline]
pub(super) fn copy_if_plain(bytes: &[u8], to: &mut [u8]) -> bool {
    let mut found = 0;
    if let (Some(last), Some(end)) = (bytes.last_chunk(), to.last_chunk_mut()) {
        found |= not_plain(*last);
        *end = *last;
        let (eights, _) = bytes.as_chunks();
        let (places, _) = to.as_chunks_mut();
        for (eight, place) in eights.iter().zip(places) {
            found |= not_plain(*eight);
            *place = *eight;
        }
        return found == 0;
    }
    to.copy_from_slice(bytes);
    is_plain(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_is_escaped_is_found_at_each_place_of_texts_of_any_length() {
        for length in 0..40 {
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
