//! Makes texts from elsewhere safe to print.

/// Maximum number of characters that are printed of a text.
const CHARS_MAX: usize = 200;

/// Returns the text for one line of a terminal: control characters escaped, and a long text cut off.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (count, letter) in text.chars().enumerate() {
        if count == CHARS_MAX {
            shown.push('…');
            break;
        }
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(
            printable(&"é".repeat(CHARS_MAX + 1)),
            format!("{}…", "é".repeat(CHARS_MAX))
        );
    }
}
