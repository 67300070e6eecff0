//! Prints `packaging/carebook.toml` from the flags of `carebook serve`. A test holds the file to what
//! this prints:
//!
//! ```text
//! cargo run --example settings_file > packaging/carebook.toml
//! ```

use std::fmt::Write as _;

use carebook::cli::command;
use carebook::cli::settings::{Known, known};

const WIDTH: usize = 98;

const INTRODUCTION: &str = "\
# Settings of `carebook serve --config FILE`, in TOML: each is a flag of the same name, and is written
# as there. A line that is commented out shows the default, or a placeholder. Flags come
# first, then the environment variables that are named here, then this file, then the defaults.
# A relative path is relative to the working directory. `carebook serve --config FILE --check` checks
# the file without starting; it is read only at the start.
#
# Printed by `cargo run --example settings_file`; a test compares.
";

/// What is set in the file of the package, as its service needs it.
const SET: [(&str, &str); 1] = [("data", "\"/var/lib/carebook\"")];

/// The whole file.
#[must_use]
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for setting in known(&command()) {
        if !setting.is_hidden {
            write_setting(&mut page, &setting);
        }
    }
    page
}

fn write_setting(page: &mut String, setting: &Known) {
    let Known { name, variable, .. } = setting;
    let out = "writing to a string cannot fail";
    writeln!(page).expect(out);
    let mut line = String::from("#");
    for word in setting.help.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            writeln!(page, "{line}").expect(out);
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(page, "{line}").expect(out);
    writeln!(page, "# Environment: {variable}").expect(out);
    if let Some((_, value)) = SET.iter().find(|(known, _)| known == name) {
        writeln!(page, "{name} = {value}").expect(out);
        return;
    }
    let stands_for = setting.value.as_deref().unwrap_or_default();
    let value = match (&setting.default, setting.is_list) {
        (Some(default), false) => default.clone(),
        (_, true) => format!("[\"{stands_for}\"]"),
        (None, false) if setting.is_bare => stands_for.to_owned(),
        (None, false) => format!("\"{stands_for}\""),
    };
    writeln!(page, "#{name} = {value}").expect(out);
}

fn main() {
    print!("{}", page());
}
