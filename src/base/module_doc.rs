//! What a source file says at its top, as a constant: so the published description is that comment,
//! and is written once.

/// Returns the documentation at the top of the named file, which is the one that calls this macro:
/// each paragraph on a line of its own, with an empty line between.
///
/// ```text
/// const DOC: &'static str = module_doc!("grant_payment_authority.rs");
/// ```
#[macro_export]
macro_rules! module_doc {
    ($file:literal) => {{
        const SOURCE: &[u8] = include_bytes!($file);
        const DOC: [u8; $crate::base::module_doc::length(SOURCE)] =
            $crate::base::module_doc::text(SOURCE);
        match ::core::str::from_utf8(&DOC) {
            Ok(text) => text,
            Err(_) => panic!("its documentation is no text"),
        }
    }};
}

const fn is_doc(source: &[u8], at: usize) -> bool {
    at + 3 < source.len() && source[at] == b'/' && source[at + 1] == b'/' && source[at + 2] == b'!'
}

/// Returns where the line that contains `at` ends.
const fn end_of_line(source: &[u8], mut at: usize) -> usize {
    while at < source.len() && source[at] != b'\n' {
        at += 1;
    }
    at
}

/// Returns the length in bytes of the documentation at the top of a source.
#[must_use]
pub const fn length(source: &[u8]) -> usize {
    let (mut at, mut length) = (0, 0);
    while is_doc(source, at) {
        let end = end_of_line(source, at);
        // Each line loses `//! ` and keeps its line feed, or the space in its place.
        length += if end > at + 4 { end - at - 3 } else { 1 };
        at = end + 1;
    }
    assert!(length > 0, "a file says at its top what it is for");
    length - 1
}

/// Returns the documentation itself, which has `LENGTH` bytes.
#[must_use]
pub const fn text<const LENGTH: usize>(source: &[u8]) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    let (mut at, mut written) = (0, 0);
    while written < LENGTH {
        let end = end_of_line(source, at);
        let mut from = if end > at + 4 { at + 4 } else { end };
        let is_empty = from == end;
        while from < end {
            text[written] = source[from];
            written += 1;
            from += 1;
        }
        at = end + 1;
        if written < LENGTH {
            // Joins the lines of a paragraph by spaces; keeps an empty line between paragraphs.
            let follows = end_of_line(source, at) > at + 4;
            text[written] = if is_empty || !follows { b'\n' } else { b' ' };
            written += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_one_and_paragraphs_stay_apart() {
        const SOURCE: &[u8] =
            "//! One\n//! and two.\n//!\n//! Thr\u{e9}e.\n\nuse four;\n".as_bytes();
        const TEXT: [u8; length(SOURCE)] = text(SOURCE);
        assert_eq!(
            std::str::from_utf8(&TEXT),
            Ok("One and two.\n\nThr\u{e9}e.")
        );
        const ALONE: &[u8] = b"//! One.\n";
        assert_eq!(&text::<{ length(ALONE) }>(ALONE), b"One.");
    }

    #[test]
    fn a_file_says_what_stands_at_its_top() {
        assert!(
            module_doc!("module_doc.rs")
                .starts_with("What a source file says at its top, as a constant: so")
        );
    }
}
