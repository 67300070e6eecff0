//! What the console consists of. The list is written by a test:
//! `REWRITE_DOCS=1 cargo test console::embedded`.

/// Files of the console's folder, each with its path there.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../console/", $path)))),*]
    };
}

/// Each file of the console, by its path below the console's folder.
pub(super) const FILES: &[(&str, &[u8])] = files![
    "components/act.js",
    "components/body.js",
    "components/chart.js",
    "components/dialog.js",
    "components/differences.js",
    "components/form.js",
    "components/icon.js",
    "components/ledger.js",
    "components/listing.js",
    "components/panel.js",
    "components/shell.js",
    "components/states.js",
    "components/timeline.js",
    "components/values.js",
    "icon.svg",
    "index.html",
    "lib/api.js",
    "lib/clock.js",
    "lib/differences.js",
    "lib/document.js",
    "lib/events.js",
    "lib/figures.js",
    "lib/format.js",
    "lib/html.js",
    "lib/kinds.js",
    "lib/load.js",
    "lib/personal.js",
    "lib/router.js",
    "lib/session.js",
    "lib/words.js",
    "main.js",
    "pages/branches.js",
    "pages/command.js",
    "pages/deliveries.js",
    "pages/find.js",
    "pages/message.js",
    "pages/overview.js",
    "pages/pages.js",
    "pages/reservations.js",
    "pages/resource.js",
    "pages/sign_in.js",
    "pages/statements.js",
    "pages/subscription.js",
    "styles/console.css",
    "vendor/htm.js",
    "vendor/preact-hooks.js",
    "vendor/preact.js",
    "vendor/signals-core.js",
    "vendor/signals.js",
    "vendor/uplot.css",
    "vendor/uplot.js",
    "words/en.js",
    "words/ko.js",
];
