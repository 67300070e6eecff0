//! The documents say what is: commands, flags, links and the table of operations are compared with
//! what they speak of.

#[path = "../examples/codes_page.rs"]
#[allow(dead_code)]
mod codes_page;
#[path = "../examples/events_page.rs"]
#[allow(dead_code)]
mod events_page;
#[path = "../examples/operations_table.rs"]
#[allow(dead_code)]
mod operations_table;
#[path = "../examples/settings_file.rs"]
#[allow(dead_code)]
mod settings_file;

use std::path::{Path, PathBuf};

use carebook::base::json::Shape;
use carebook::catalogue::{LISTS, OPERATIONS, ProblemShape, READS, Row, Success};
use carebook::http::{openapi, provider, token};
use carebook::journal::events::event_types;

use crate::support::{carebook, files};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Whether the file is the page that was made anew, to the letter; it is, once the environment variable
/// `REWRITE_DOCS` has it written.
#[track_caller]
pub fn is_as_printed(file: &str, page: &str) {
    if std::env::var_os("REWRITE_DOCS").is_some() {
        std::fs::write(root().join(file), page).unwrap();
    }
    let committed = text(file);
    let lines = committed.lines().zip(page.lines());
    for (committed, printed) in lines {
        assert_eq!(committed, printed, "{file}: REWRITE_DOCS=1 writes it anew");
    }
    assert!(committed == page, "{file}: REWRITE_DOCS=1 writes it anew");
}

/// The lines of the first block of shell commands in `page`.
fn first_commands(page: &str) -> Vec<&str> {
    let block = page.split("```sh\n").nth(1).unwrap();
    block.split("```").next().unwrap().lines().collect()
}

/// The documents of the project: README, CHANGELOG, and all of docs/.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![
        "README.md".into(),
        "CHANGELOG.md".into(),
        "wal/README.md".into(),
    ];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_readme_s_two_commands_are_what_the_gate_runs() {
    let readme = text("README.md");
    let commands = first_commands(&readme);
    assert_eq!(commands.len(), 2, "{commands:?}");
    let gate = text(".ci/run");
    for command in commands {
        let runs = |line: &str| line.contains(command) && !line.trim_start().starts_with('#');
        assert!(gate.lines().any(runs), "the gate does not run: {command}");
    }
}

#[test]
fn the_table_of_operations_is_the_catalogue_s() {
    let file = "docs/operations.md";
    let page = operations_table::page();
    for row in OPERATIONS {
        assert!(page.contains(&format!("`{}`", row.name)), "{}", row.name);
        assert!(page.contains(&format!(" {}`", row.path)), "{}", row.path);
    }
    for row in READS {
        assert!(page.contains(&format!("`{}`", row.path)), "{}", row.path);
    }
    is_as_printed(file, &page);
}

#[test]
fn the_operations_page_has_all_routes_and_all_statuses_of_reads_and_lists() {
    let document = openapi::document();
    let page = operations_table::page();
    let paths = document["paths"].as_object().unwrap();
    for path in paths.keys() {
        let first = path.split('/').nth(1).unwrap();
        assert!(page.contains(&format!("/{first}")), "{path}");
    }
    for (tag, heading) in [("Reads", "\n## Reads\n"), ("Lists", "\n## Lists\n")] {
        let (_, section) = page.split_once(heading).unwrap();
        let (section, _) = section.split_once("\n| ").unwrap();
        let operations = paths
            .values()
            .flat_map(|path| path.as_object().unwrap().values());
        for operation in operations.filter(|operation| operation["tags"][0] == tag) {
            for status in operation["responses"].as_object().unwrap().keys() {
                assert!(section.contains(status.as_str()), "{tag}: {status}");
            }
        }
    }
}

/// Rules between fields: the section of the page, the field, and the end of what is said of it.
const RULES: &[(&str, &str, &str)] = &[
    ("### 5.", "scope.sourceEvidenceKeys", "each key once"),
    (
        "### 8.",
        "lineAcknowledgements[].lineAcknowledgementId",
        "each once in a request",
    ),
    (
        "### 8.",
        "lineAcknowledgements[].settlementLineKey",
        "each once in a request",
    ),
    (
        "### 8.",
        "lineAcknowledgements[].acknowledgedByActorProfileId",
        "the `actorProfileId` of the request",
    ),
    (
        "### 8.",
        "lineAcknowledgements[].acknowledgedAt",
        "at most 5 minutes ahead of the service's clock",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement",
        "required for a statement of the kind `inter_office_service_handoff`, not allowed for any other",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement.acknowledgingBranchProfileId",
        "the statement's",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement.serviceDeliveryBranchProfileId",
        "the acknowledging one, if this is its side",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement.customerRelationshipBranchProfileId",
        "the acknowledging one, if this is its side",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement.actorProfileId",
        "the `actorProfileId` of the request",
    ),
    (
        "### 8.",
        "interOfficeAcknowledgement.projectedSettlementLineKeys",
        "each `settlementLineKey` of `lineAcknowledgements`, and no other",
    ),
    (
        "### 11.",
        "occurredAt",
        "at most 5 minutes ahead of the service's clock",
    ),
    (
        "### 12.",
        "occurredAt",
        "at most 5 minutes ahead of the service's clock",
    ),
    ("### 13.", "quotedOn", "`capturedOn`, or before"),
    ("### 13.", "ownPriceKrw", "at most `servicePriceKrw`"),
    (
        "### `reservation-financial-facts`",
        "headquartersShareBasisPoints",
        "together with the caregiver's at most 10,000",
    ),
    (
        "### `regional-benefit-policy`",
        "fixedKrw",
        "exactly one of it and `basisPoints` is given",
    ),
    (
        "### `regional-benefit-policy`",
        "basisPoints",
        "exactly one of it and `fixedKrw` is given",
    ),
];

#[test]
fn a_rule_between_fields_stands_at_the_field_that_a_fault_of_it_names() {
    let page = operations_table::page();
    for (section, field, rule) in RULES {
        let (_, section) = page.split_once(&format!("\n{section}")).unwrap();
        let row = section
            .lines()
            .find(|line| line.starts_with(&format!("| `{field}` |")));
        assert!(row.unwrap().ends_with(&format!(" {rule} |")), "{row:?}");
    }
}

#[test]
fn resources_read_by_id_have_lists_except_those_that_lists_md_names() {
    let listed: Vec<_> = LISTS.iter().map(|row| row.read.name).collect();
    let by_id = READS.iter().filter(|row| row.path.contains('{'));
    let unlisted = by_id.filter(|row| !listed.contains(&row.name));
    let names: Vec<_> = unlisted.map(|row| row.name).collect();
    assert_eq!(names, ["read_fact", "read_charge_ledger"]);
    assert!(in_one_line("docs/lists.md").contains(
        "except mother profiles, reference facts and the ledger of a booking's charges."
    ));
}

#[test]
fn the_page_of_events_has_every_type_and_what_the_sources_say_of_it() {
    let file = "docs/events.md";
    let page = events_page::page();
    for of in event_types() {
        let row = format!("| `{}` |", of.name.event_type());
        assert_eq!(page.matches(&row).count(), 1, "{row}");
        assert!(!of.description.trim().is_empty(), "{row}");
    }
    is_as_printed(file, &page);
}

#[test]
fn the_example_of_a_file_of_settings_has_every_flag_and_is_accepted() {
    let file = "packaging/carebook.toml";
    let page = settings_file::page();
    is_as_printed(file, &page);
    let checked = carebook()
        .args([
            "serve",
            "--check",
            "--issuer",
            "https://id.example",
            "--config",
        ])
        .arg(root().join(file))
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
}

/// The pages that the package has.
fn packaged() -> Vec<String> {
    let build = text("packaging/debian/build");
    let (_, listed) = build.split_once("\nfor page in ").unwrap();
    let (listed, _) = listed.split_once("; do\n").unwrap();
    let words = listed.split_whitespace().filter(|word| *word != "\\");
    words.map(str::to_owned).collect()
}

#[test]
fn each_relative_link_of_an_installed_page_leads_to_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    };
    let pages = packaged().into_iter().map(|page| format!("docs/{page}.md"));
    let pages: Vec<_> = pages.chain(["README.md".to_owned()]).collect();
    for page in &pages {
        put(page, &text(page));
    }
    // Installed beside them.
    for file in [
        "copyright",
        "changelog.gz",
        "prometheus/carebook.rules.yml",
        "grafana/carebook.json",
    ] {
        put(file, "");
    }
    let rewritten = std::process::Command::new("bash")
        .arg(root().join("packaging/debian/links"))
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(rewritten.status.success(), "{rewritten:?}");
    let build = text("packaging/debian/build");
    let (mut checked, mut absolute) = (0, 0);
    for page in &pages {
        let file = folder.path().join(page);
        let content = std::fs::read_to_string(&file).unwrap();
        assert!(content.lines().count() > 10, "{page}");
        for link in content.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if let Some(installed) = target.strip_prefix('/') {
                let is_put = build.contains(&format!(" {installed}\n"));
                assert!(is_put, "{page}: {target}");
                absolute += 1;
            } else if !target.contains("://") && !target.is_empty() {
                let leads_to = file.parent().unwrap().join(target);
                assert!(leads_to.exists(), "{page}: {target}");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked} links");
    // The list of settings, of which two pages speak, and the unit.
    assert!(absolute >= 3, "{absolute} links");
    assert!(build.contains("packaging/debian/links\" \"$doc\""));
}

#[test]
fn the_package_has_the_pages_that_the_runbook_leads_to() {
    let listed = packaged();
    let runbook = text("docs/runbook.md");
    let links = runbook.split("](").skip(1);
    let pages = links.filter_map(|link| Some(link.split_once(".md")?.0));
    let pages: Vec<_> = pages
        .filter(|page| !page.contains(['#', '/', ')', ':']))
        .collect();
    assert!(pages.len() > 5, "{pages:?}");
    for page in pages {
        let is_there = listed.iter().any(|known| known == page);
        assert!(is_there, "{page} is not in the package");
    }
    for page in listed {
        let file = root().join(format!("docs/{page}.md"));
        assert!(file.is_file(), "{page}");
    }
}

#[test]
fn every_flag_that_the_page_for_operators_names_exists() {
    let page = text("docs/operating.md");
    let flags: Vec<_> = page
        .split("| flag |")
        .skip(1)
        .flat_map(|table| {
            let rows = table.lines().skip(1);
            rows.take_while(|line| line.starts_with('|'))
        })
        .flat_map(|line| line.split('`'))
        .filter(|word| word.starts_with("--"))
        .map(|word| word.split(' ').next().unwrap())
        .collect();
    assert!(flags.len() > 50, "{flags:?}");
    let help = carebook().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for flag in flags {
        assert!(help.contains(flag), "serve has no {flag}");
    }
}

/// The sources below a folder, one after the other.
fn sources(folder: &str) -> String {
    let files = crate::support::files(&root().join(folder)).into_iter();
    let rust = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    rust.map(text).collect()
}

/// The cells of the rows of tables, without their heads.
fn rows_of<'a>(lines: impl Iterator<Item = &'a str>, head: &str) -> Vec<Vec<&'a str>> {
    lines
        .filter(|line| line.starts_with("| ") && *line != head)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn every_limit_is_there_with_its_flag_its_place_and_its_test() {
    let page = text("docs/limits.md");
    let limits = rows_of(page.lines(), "| what | limit | flag |");
    let page = text("docs/security.md");
    let section = page.split("## What is bounded").nth(1).unwrap();
    let table = section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let places = rows_of(table, "| what | where | shown by |");
    let help = carebook().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let tests: String = ["src", "tests", "wal"].map(sources).concat();
    assert!(limits.len() > 20, "{limits:?}");
    let of_limits: Vec<_> = limits.iter().map(|row| row[0]).collect();
    let of_places: Vec<_> = places.iter().map(|row| row[0]).collect();
    assert_eq!(of_limits, of_places, "both pages have the same rows");
    let names = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    for row in limits {
        let [what, limit, flag] = row[..] else {
            panic!("{row:?}");
        };
        assert!(!limit.is_empty(), "{what}");
        for flag in names(flag) {
            assert!(help.contains(&flag), "{what}: serve has no {flag}");
        }
    }
    for row in places {
        let [what, place, shown] = row[..] else {
            panic!("{row:?}");
        };
        let mut source = String::new();
        assert!(!names(place).is_empty(), "{what}");
        for name in names(place) {
            if name.ends_with(".rs") {
                source = text(&name);
            } else {
                assert!(source.contains(&name), "{what}: no {name} there");
            }
        }
        assert!(shown == "–" || !names(shown).is_empty(), "{what}");
        for name in names(shown) {
            assert!(tests.contains(&format!("fn {name}()")), "{what}: no {name}");
        }
    }
}

#[test]
fn codes_md_has_the_meaning_of_each_code_and_what_a_client_does() {
    let file = "docs/codes.md";
    let page = codes_page::page();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells = row.trim_matches('|').split('|').map(str::trim);
        assert!(cells.clone().all(|cell| !cell.is_empty()), "{row}");
    }
    assert_eq!(codes_page::unused(), Vec::<&str>::new());
    is_as_printed(file, &page);
}

#[test]
fn every_reason_for_which_a_token_is_refused_stands_in_the_page_of_tokens() {
    let page = text("docs/tokens.md");
    let section = page.split("## Why a token is refused").nth(1).unwrap();
    let source = text("src/http/token/refusal.rs");
    let codes = source.split("const fn code(self)").nth(1).unwrap();
    let codes = codes.split("impl fmt::Display").next().unwrap();
    let codes: Vec<_> = codes.split('"').skip(1).step_by(2).collect();
    assert!(codes.len() > 15, "{codes:?}");
    for code in codes {
        assert_eq!(
            section.matches(&format!("| `{code}` |")).count(),
            1,
            "{code}"
        );
    }
}

/// The page on one line, for sentences that go over several.
fn in_one_line(file: &str) -> String {
    text(file).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_figures_of_the_page_of_tokens_are_those_that_the_service_keeps() {
    let page = in_one_line("docs/tokens.md");
    let kib = |bytes: usize| format!("{} KiB", bytes / 1024);
    let leeway = token::LEEWAY_MS / 1_000;
    let (often, seldom) = (provider::INTERVAL_MIN, provider::INTERVAL_MAX);
    assert_eq!(often.as_secs(), 60, "a minute");
    for said in [
        format!("the token's end; {leeway} seconds of leeway"),
        format!("| `expired` | `exp` has passed, by more than {leeway} seconds |"),
        format!("| `not_yet_valid` | `nbf` is ahead, by more than {leeway} seconds |"),
        format!("| `issued_in_future` | `iat` is ahead, by more than {leeway} seconds |"),
        format!(
            "Strings have 1 to {} characters",
            token::IDENTIFIER_CHARS_MAX
        ),
        format!("a token has at most {}", kib(token::TOKEN_BYTES_MAX)),
        format!(
            "| `too_long` | it has more than {} |",
            kib(token::TOKEN_BYTES_MAX)
        ),
        format!("empty or longer than {} bytes |", token::KEY_ID_BYTES_MAX),
        format!(
            "keys are read again after {} minutes;",
            seldom.as_secs() / 60
        ),
        "of the key set says so, but not within a minute".to_owned(),
        format!(
            "once in {} seconds at most;",
            token::ASKED_INTERVAL.as_secs()
        ),
        format!(
            "waits for them, {} seconds at most.",
            token::KEYS_WAIT_MAX.as_secs()
        ),
        format!("(24 hours, at least {} minutes)", 2 * seldom.as_secs() / 60),
        format!(
            "it is asked again for {} seconds;",
            provider::FIRST_KEYS_PATIENCE.as_secs()
        ),
        format!(
            "in more than {} seconds, of more than {} or {} keys ({} for the discovery document)",
            provider::ANSWER_TIMEOUT.as_secs(),
            kib(token::KEY_SET_BYTES_MAX),
            token::KEY_SET_KEYS_MAX,
            kib(provider::DISCOVERY_BYTES_MAX)
        ),
    ] {
        assert!(page.contains(&said), "{said}");
    }
    let help = carebook().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let of_age = help.split("--jwks-max-age").nth(1).unwrap();
    assert!(
        of_age.split("\n  ").any(|line| line.contains("24h")),
        "{of_age}"
    );
}

#[test]
fn the_guide_and_the_catalogue_agree_on_keys_and_replays() {
    let page = in_one_line("docs/guide.md");
    let once = OPERATIONS
        .iter()
        .filter(|row| row.success == Success::CreatedOnce);
    let once: Vec<_> = once.map(|row| row.tag.to_string()).collect();
    let (last, others) = once.split_last().unwrap();
    let once = format!("but 200 for operations {} and {last}", others.join(", "));
    assert!(page.contains(&once), "{once}");
    let without = OPERATIONS.iter().filter(|row| !row.bearer);
    let without: Vec<_> = without.map(|row| row.name).collect();
    assert_eq!(without, ["finalize_charge"]);
    assert!(page.contains("`finalize_charge` has no token: its natural key is one for all."));
    let document = openapi::document();
    let form = &document["components"]["parameters"]["Idempotency-Key"]["schema"];
    let form = format!(
        "in the header {} to {} characters",
        form["minLength"], form["maxLength"]
    );
    assert!(page.contains(&form), "{form}");
    let mut in_bodies = 0;
    for schema in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .values()
    {
        let key = &schema["properties"]["idempotencyKey"];
        if key["type"] == "string" && key["maxLength"].is_number() {
            let form = format!(
                "in a body {} to {} characters",
                key["minLength"], key["maxLength"]
            );
            assert!(page.contains(&form), "{form}");
            in_bodies += 1;
        }
    }
    assert!(in_bodies > 5, "{in_bodies}");
}

/// The cells of the rows of a page's table that begin with the number of an operation, each with its operation.
fn rows_of_operations(page: &str) -> Vec<(&'static Row, Vec<String>)> {
    let mut rows = Vec::new();
    for line in page.lines() {
        let cells: Vec<_> = line
            .trim()
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
        let numbers = cells.get(1).map_or("", String::as_str);
        for number in numbers.split(", ") {
            let row = OPERATIONS.iter().find(|row| row.tag.to_string() == number);
            rows.extend(row.map(|row| (row, cells.clone())));
        }
    }
    rows
}

#[test]
fn the_guide_names_every_expected_revision_and_every_name_conflict() {
    let page = text("docs/guide.md");
    let rows = rows_of_operations(&page);
    let words = |text: &str| -> Vec<String> {
        let words = text.split('`').skip(1).step_by(2);
        words.map(ToOwned::to_owned).collect()
    };
    for row in OPERATIONS {
        let Shape::Object(fields) = row.operation.shape() else {
            panic!("{}", row.name);
        };
        let told = |member: &str| {
            let mut of_it = rows.iter().filter(|(of, _)| of.tag == row.tag);
            of_it.any(|(_, cells)| words(&cells[2]).iter().any(|word| word == member))
        };
        for field in fields {
            let name = field.name;
            if name.starts_with("expected") && name.ends_with("Revision") {
                assert!(
                    told(name),
                    "docs/guide.md, table of expected revisions: {}: {name}",
                    row.name
                );
            }
        }
    }
    let mut conflicts = 0;
    for (row, cells) in rows {
        for code in cells.get(4).map_or_else(Vec::new, |cell| words(cell)) {
            let declared = row.operation.rejections();
            assert!(
                declared.iter().any(|of| of.code == code),
                "{}: {code}",
                row.name
            );
            conflicts += 1;
        }
    }
    assert_eq!(conflicts, 10);
}

#[test]
fn the_requests_that_tell_no_faults_are_those_that_the_glossary_names() {
    let page = in_one_line("docs/codes.md");
    assert!(page.contains(
        "Requests below `/mother/profile` and `accept_manager_invitation` tell no faults to their caller."
    ));
    let operations = OPERATIONS
        .iter()
        .map(|row| (row.name, row.path, row.problem));
    let reads = READS.iter().map(|row| (row.name, row.path, row.problem));
    for (name, path, problem) in operations.chain(reads) {
        let tells_none = path.starts_with("/mother/profile") || name == "accept_manager_invitation";
        assert_eq!(problem != ProblemShape::Full, tells_none, "{name}");
    }
}

/// How the names of types end whose words say where a resource stands.
const ENDINGS_OF_STATES: [&str; 5] = ["Status", "State", "Stage", "Lifecycle", "Completeness"];

/// Types with such a name whose words are not on the page of states, each with the reason.
const NO_STATES: [(&str, &str); 5] = [
    (
        "ActorLifecycle",
        "a fact of another system, which no operation moves",
    ),
    (
        "RelationshipState",
        "a fact of another system, which no operation moves",
    ),
    (
        "VerificationState",
        "a fact of another system, which no operation moves",
    ),
    ("HandoffState", "the only word of a field of a response"),
    ("ReceiptRequestState", "what a customer asks for"),
];

#[test]
fn the_page_of_states_has_each_word_that_says_where_a_resource_stands() {
    let page = text("docs/states.md");
    let mut exceptions: Vec<_> = NO_STATES.iter().map(|(name, _)| *name).collect();
    let (mut found, mut missing) = (0, Vec::new());
    for file in files(&root().join("src/domain")) {
        let source = text(&file);
        for declared in source.split("wire_enum! {").skip(1) {
            let (_, declared) = declared.split_once("enum ").unwrap();
            let (name, words) = declared.split_once(" {").unwrap();
            if !ENDINGS_OF_STATES.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            found += 1;
            if let Some(place) = exceptions.iter().position(|known| *known == name) {
                exceptions.remove(place);
                continue;
            }
            let (words, _) = words.split_once('}').unwrap();
            let words = words.split('"').skip(1).step_by(2);
            for word in words.filter(|word| !page.contains(word)) {
                missing.push(format!("docs/states.md, or NO_STATES here: {name}: {word}"));
            }
        }
    }
    assert!(found > 25, "{found} types: the source is read wrongly");
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(exceptions.is_empty(), "there is no type {exceptions:?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut checked = 0;
    for document in documents() {
        let page = text(&document);
        let folder = root().join(document.parent().unwrap());
        for link in page.split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                root().join(&document)
            } else {
                folder.join(file)
            };
            assert!(path.exists(), "{}: {target}", document.display());
            if !anchor.is_empty() {
                let linked = std::fs::read_to_string(&path).unwrap();
                let anchors: Vec<_> = linked.lines().filter_map(anchor_of).collect();
                assert!(
                    anchors.iter().any(|known| known == anchor),
                    "{}: {target}: {anchors:?}",
                    document.display()
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} links");
}

/// The anchor of a heading.
pub fn anchor_of(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let mut anchor = String::new();
    for character in heading.to_lowercase().chars() {
        match character {
            ' ' => anchor.push('-'),
            '-' | '_' => anchor.push(character),
            other if other.is_alphanumeric() => anchor.push(other),
            _ => {}
        }
    }
    Some(anchor)
}

#[test]
fn files_that_the_documents_name_are_there() {
    let mut checked = 0;
    for document in documents() {
        for word in text(&document).split('`').skip(1).step_by(2) {
            let is_source = ["src/", "wal/", "tests/", "examples/", "packaging/", ".ci/"]
                .iter()
                .any(|folder| word.starts_with(folder));
            if !is_source || word.contains([' ', '<', '*', '{', '…']) {
                continue;
            }
            checked += 1;
            // The log crate's document speaks of its own files.
            let folders = [root(), &root().join(document.parent().unwrap())];
            let is_there = folders.iter().any(|folder| folder.join(word).exists());
            assert!(is_there, "{}: {word}", document.display());
        }
    }
    assert!(checked > 10, "{checked} files");
}

#[test]
fn decisions_are_numbered_without_gaps_and_each_is_listed() {
    let mut names: Vec<_> = std::fs::read_dir(root().join("docs/decisions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let list = text("docs/decisions/README.md");
    for (number, name) in (1..).zip(&names) {
        assert!(name.starts_with(&format!("{number:04}-")), "{name}");
        assert!(list.contains(&format!("]({name})")), "{name} is not listed");
    }
}

/// Those that are gone end the campaign before it begins.
#[test]
fn every_file_that_mutants_are_made_of_exists() {
    let groups = text("tests/mutants/groups");
    let rows = groups.lines().filter(|row| !row.starts_with('#'));
    let files = rows.filter_map(|row| row.split('|').nth(1));
    let files: Vec<_> = files.flat_map(str::split_whitespace).collect();
    assert!(files.len() > 30, "{files:?}");
    for file in files {
        assert!(root().join(file).is_file(), "tests/mutants/groups: {file}");
    }
}
