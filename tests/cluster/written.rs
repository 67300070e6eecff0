//! What is acknowledged is in the stream, and in the directory, and goes on in another one.

use carebook::http::figures_page::{Described, described, descriptions};
use serde_json::json;

use super::{Cluster, ask, ask_for, until};
use crate::support::run;

#[test]
fn acknowledged_commits_are_the_same_in_the_stream_and_the_directory() {
    let Some((cluster, world, server)) = Cluster::with_writer(20) else {
        return;
    };
    // One that is refused, and one that is repeated, leave nothing.
    assert_eq!(ask(&world, &mut server.client(), 3), Some(201));
    let status = cluster.status();
    assert_eq!(status["lastPosition"], 20, "{status}");
    assert_eq!(status["epoch"], 2, "the first was that of `journal create`");
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    assert_eq!(told["records"], 20, "{told}");
    assert_eq!(told["comparedRecords"], 20, "{told}");
    assert_eq!(told["fences"], 2, "{told}");
    // The stop has closed its log: the files end with their last frame.
    let data = world.data();
    for entry in std::fs::read_dir(&data).unwrap().map(Result::unwrap) {
        let (name, bytes) = (entry.file_name(), entry.metadata().unwrap().len());
        assert!(bytes < 1 << 20, "{name:?} has {bytes} bytes");
    }
    // Nothing writes to the directory alone.
    let mark = std::fs::read_to_string(data.join("journal")).unwrap();
    assert!(mark.starts_with("CAREBOOK_"), "{mark}");
    let skip = ["outbox", "skip", "1", "--reason", "by hand", "--data"];
    let (code, _, err) = run(&[&skip[..], &[data.to_str().unwrap()]].concat());
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(mark.trim_end()), "{err}");
    // It goes on there with the next epoch.
    let server = cluster.serve(&world);
    ask_for(&world, &server, 20..30);
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    let figures = (&told["records"], &told["fences"], &told["epoch"]);
    assert_eq!(figures, (&json!(30), &json!(3), &json!(3)));
}

#[test]
fn a_read_depends_on_a_later_append_or_on_the_lease_as_configured() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let path = "/settlement-statements?limit=5";
    for (reads, appends) in [("append", true), ("lease", false)] {
        let mut command = cluster.command(&world, &world.data());
        command.args(["--journal-reads", reads]);
        let server = crate::support::Server::spawn(command);
        let bearer = format!("Bearer {}", world.headquarters());
        // How many barriers five reads cost, one after the other.
        let cost = || {
            let barriers = || server.metric("carebook_journal_barriers_total");
            let before = barriers();
            for _ in 0..5 {
                let headers = [("Authorization", bearer.as_str())];
                let answer = server.client().request("GET", path, &headers, b"");
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            barriers() - before
        };
        match appends {
            true => assert!(cost() >= 5.0),
            // A lease that is not renewed in time, on a busy machine, is not relied on.
            false => until("reads rest on the lease", || cost() == 0.0),
        }
        let page = server.client().request("GET", "/metrics", &[], b"");
        let of_journal = |metrics: Vec<Described>| {
            let metrics = metrics
                .into_iter()
                .filter(|metric| metric.name.starts_with("carebook_journal_"));
            let metrics = metrics.map(|metric| (metric.name, metric.kind, metric.says));
            metrics.collect::<Vec<_>>()
        };
        assert_eq!(
            of_journal(descriptions(page.text())),
            of_journal(described())
        );
        assert!(server.metric("carebook_journal_lease_age_seconds") < 60.0);
        assert_eq!(server.metric("carebook_journal_fences_total"), 1.0);
        assert_eq!(server.metric("carebook_journal_appends_in_flight"), 0.0);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn an_empty_directory_and_one_behind_are_completed_from_the_stream() {
    let Some((cluster, world, server)) = Cluster::with_writer(15) else {
        return;
    };
    assert_eq!(server.stop(), Some(0));
    let second = world.path("second");
    let server = crate::support::Server::spawn(cluster.command(&world, &second));
    // All of it is known there: a repeated command is answered as before.
    assert_eq!(ask(&world, &mut server.client(), 7), Some(201));
    ask_for(&world, &server, 15..25);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&second)["comparedRecords"], 25);
    assert_eq!(cluster.verify(&world.data())["comparedRecords"], 15);
    // The first one is behind by now.
    let server = cluster.serve(&world);
    ask_for(&world, &server, 25..27);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["comparedRecords"], 27);
}
