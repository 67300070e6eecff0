//! The console in a real Chromium against a real server with the demonstration's data: each task, in
//! both languages, at a desk's and at a phone's width, by keyboard. `browser.mjs` has the steps; those of `forms.mjs`
//! are of what a form sends, what leads where, and what is seen on paper and in forced colours.

use std::path::Path;
use std::process::Command;

use super::embedded::tools;
use crate::support::{World, or_skip, program};
use crate::walk::{demonstration, exports, take};

#[test]
fn each_task_can_be_done_in_both_languages_at_both_widths_by_keyboard() {
    done_in_a_demonstration("browser.mjs");
}

#[test]
fn forms_send_what_they_show_pages_are_whole_in_print_and_forced_colours() {
    done_in_a_demonstration("forms.mjs");
}

/// Runs a script of this folder against a demonstration whose walk was taken: with the code of its link, and a token
/// of headquarters.
fn done_in_a_demonstration(script: &str) {
    let Some(chromium) = or_skip(program("chromium"), "chromium") else {
        return;
    };
    let Some(tools) = tools() else {
        return;
    };
    let world = World::new();
    let (server, printed) = demonstration(&world);
    take(&printed);
    let code = printed.split_once("/console#link=").unwrap().1;
    let code = code.split_whitespace().next().unwrap();
    let exported = exports(&printed);
    let token = exported
        .iter()
        .find(|(name, _)| name == "HEADQUARTERS_ADMINISTRATOR");
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/console"));
    let done = Command::new("node")
        .arg(folder.join(script))
        .arg(tools)
        .arg(chromium)
        .arg(format!("http://{}", server.address))
        .arg(code)
        .env("TOKEN", &token.unwrap().1)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    println!("{told}{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "a task cannot be done: see above");
}
