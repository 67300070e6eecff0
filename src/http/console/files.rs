//! What the console consists of. Written by a test (`REWRITE_DOCS=1 cargo test console::`).

/// Each file of the console, by its path below the console's folder.
pub(super) const FILES: &[(&str, &[u8])] = &[
    ("index.html", include_bytes!("../../../console/index.html")),
    ("main.js", include_bytes!("../../../console/main.js")),
];
