//! Makes texts from elsewhere safe to print.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

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

/// Returns the path as an argument of a command that can be pasted into a shell: quoted if that is needed, with
/// control characters and bytes that are not UTF-8 escaped.
pub(super) fn as_argument(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./@%+=:,-".contains(byte);
    match path.to_str() {
        Some(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Some(text) if !text.contains(char::is_control) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let mut quoted = String::from("$'");
            for byte in bytes {
                match byte {
                    b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
                    b' '..=b'~' => quoted.push(char::from(*byte)),
                    _ => {
                        let _ = write!(quoted, "\\x{byte:02x}");
                    }
                }
            }
            quoted.push('\'');
            quoted
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn paths_in_commands_are_shell_quoted_and_cannot_steer_a_terminal() {
        let cases: [(&[u8], &str); 8] = [
            (b"/srv/care-book_1.new", "/srv/care-book_1.new"),
            (b"", "''"),
            (b"my dir", "'my dir'"),
            (b"it's", r"'it'\''s'"),
            (b"$(date)", "'$(date)'"),
            ("Gro\u{df}".as_bytes(), "'Gro\u{df}'"),
            (b"a\x1b[2J'\\b", r"$'a\x1b[2J\'\\b'"),
            (b"\xffa", r"$'\xffa'"),
        ];
        for (path, argument) in cases {
            assert_eq!(as_argument(Path::new(OsStr::from_bytes(path))), argument);
        }
    }

    #[test]
    fn printed_text_cannot_steer_a_terminal_and_is_cut_at_its_bound() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(
            printable(&"é".repeat(CHARS_MAX + 1)),
            format!("{}…", "é".repeat(CHARS_MAX))
        );
    }
}
