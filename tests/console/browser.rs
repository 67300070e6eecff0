//! The console in a real Chromium against a real server with the demonstration's data: each task, in
//! both languages, at a desk's and at a phone's width, by keyboard. `browser.mjs` has the steps.

use std::process::Command;

use super::embedded::tools;
use crate::support::{World, or_skip, program};
use crate::walk::{demonstration, exports, take};

#[test]
fn each_task_can_be_done_in_both_languages_at_both_widths_by_keyboard() {
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
    let done = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/console/browser.mjs"
        ))
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
