//! Damage of every kind: the same records, or a refusal that says where.

use rand::Rng;
use wal::storage::sim::{SimDisk, Survivors};
use wal::{BoxError, Error, Record, Visitor};

use crate::support::{
    frames, open, open_with, random, recompute_checksums, record, refusal, segments, small, verify,
};

/// Makes a log of several epochs and segments. The last segment is still open and ends with a seal
/// when `sealed`, otherwise with a batch of three records.
fn example(seed: u64, bytes: usize, sealed: bool) -> (SimDisk, Vec<Vec<u8>>) {
    example_of(seed, bytes, 700, sealed)
}

fn example_of(seed: u64, bytes: usize, bytes_max: usize, sealed: bool) -> (SimDisk, Vec<Vec<u8>>) {
    let mut random = random(seed);
    let disk = SimDisk::new();
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut opened = open(&disk).unwrap();
    let mut written = 0;
    while written < bytes {
        let count = random.random_range(1..6);
        let batch: Vec<_> = (0..count).map(|_| record(&mut random, bytes_max)).collect();
        written += batch.iter().map(Vec::len).sum::<usize>();
        opened.log.append(&batch).unwrap();
        records.extend(batch);
        if random.random_ratio(1, 12) {
            opened.log.seal().unwrap();
        }
        if random.random_ratio(1, 12) {
            drop(opened);
            opened = open(&disk).unwrap();
        }
    }
    drop(opened);
    opened = open(&disk).unwrap();
    for size in [30, 1000, 300] {
        let batch: Vec<_> = (0..3).map(|_| record(&mut random, size)).collect();
        opened.log.append(&batch).unwrap();
        records.extend(batch);
    }
    if sealed {
        opened.log.seal().unwrap();
    }
    (disk, records)
}

/// Compares records with what they should be, without keeping them.
struct Compare<'a> {
    expected: &'a [Vec<u8>],
    seen: usize,
    same: bool,
}

impl Visitor for Compare<'_> {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.same &= self
            .expected
            .get(self.seen)
            .is_some_and(|expected| *expected == record.payload);
        self.seen += 1;
        Ok(())
    }
}

/// What a damaged log may be taken for.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Same,
    Shorter(usize),
    Refused,
}

/// Verifies a log; fails the test when it shows records that were not written.
fn outcome(disk: &SimDisk, expected: &[Vec<u8>], case: &dyn Fn() -> String) -> Outcome {
    let mut compare = Compare {
        expected,
        seen: 0,
        same: true,
    };
    match wal::verify(disk.storage(), &mut compare) {
        Ok(report) => {
            assert!(compare.same, "{}: other records", case());
            assert_eq!(report.records, compare.seen as u64);
            if compare.seen == expected.len() {
                Outcome::Same
            } else {
                Outcome::Shorter(compare.seen)
            }
        }
        Err(Error::Damaged { file, offset, .. }) => {
            assert!(file.starts_with("sim:"), "{}: {file}", case());
            let length = disk
                .bytes(file.trim_start_matches("sim:"))
                .map_or(0, |bytes| bytes.len());
            assert!(
                offset <= length as u64,
                "{}: offset {offset} of {file}",
                case()
            );
            Outcome::Refused
        }
        Err(error) => panic!("{}: {error}", case()),
    }
}

#[test]
fn a_flipped_bit_at_the_end_does_not_disturb_what_is_before() {
    // The log is opened for appending, not only verified: the seal and the zeros after it are what
    // a crash may leave, and are set aside.
    let (disk, records) = example(12, 4 << 10, true);
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let (seal, end) = frames(&bytes).pop().unwrap();
    for at in (seal..end).chain((end..bytes.len()).step_by(97)) {
        let flipped = disk.after_kill();
        flipped.flip(&last, at, 1 << (at % 8));
        let mut opened = open(&flipped).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert!(opened.records == records, "byte {at}");
        let torn = &opened.report.torn;
        assert_eq!(torn.len(), 1, "byte {at}");
        let kept = torn[0].kept_in.clone().unwrap();
        let durable = flipped.after_power_cut(Survivors::Nothing);
        let kept = durable.bytes(kept.trim_start_matches("sim:")).unwrap();
        assert_eq!(kept.len() as u64, torn[0].bytes);
        assert!(kept.iter().any(|byte| *byte != 0));
        opened.log.append(&[b"more".to_vec()]).unwrap();
        drop(opened);
        let opened = open(&flipped).unwrap();
        assert_eq!(opened.records.len(), records.len() + 1);
        assert!(opened.report.torn.is_empty());
    }
}

#[test]
fn an_unmarked_last_batch_is_the_only_thing_a_flipped_bit_can_take() {
    // The window between an acknowledgement and the next mark: a damaged last
    // batch looks like an unfinished one.
    let (disk, records) = example(13, 4 << 10, false);
    let last = segments(&disk).pop().unwrap();
    let length = disk.bytes(&last).unwrap().len();
    let mut shorter = 0;
    for at in 0..length {
        for bit in [at % 8, (at + 3) % 8] {
            disk.flip(&last, at, 1 << bit);
            match outcome(&disk, &records, &|| format!("byte {at}, bit {bit}")) {
                Outcome::Same | Outcome::Refused => {}
                Outcome::Shorter(count) => {
                    assert_eq!(count, records.len() - 3, "byte {at}, bit {bit}");
                    shorter += 1;
                }
            }
            disk.flip(&last, at, 1 << bit);
        }
    }
    let (from, to) = frames(&disk.bytes(&last).unwrap()).pop().unwrap();
    assert_eq!(
        shorter,
        2 * (to - from),
        "every flip in the last batch, and no other"
    );
}

#[test]
fn bytes_behind_a_segment_that_was_left_are_no_torn_tail() {
    // The last batch is alone in its segment and has no mark; the segment before is still open in
    // the manifest. Taking a flipped bit there for the end of the log would give up the last batch.
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    let mut records = Vec::new();
    while segments(&disk).len() < 3 {
        records.push(vec![9; 1500]);
        opened.log.append(&records[records.len() - 1..]).unwrap();
    }
    drop(opened);
    for name in disk.names() {
        let bytes = disk.bytes(&name).unwrap();
        let alone = segments(&disk).last() == Some(&name);
        assert!(!alone || frames(&bytes).len() == 2, "a start and one batch");
        let end = if alone { 4096 } else { bytes.len() };
        for at in 0..end {
            disk.flip(&name, at, 1 << (at % 8));
            let seen = outcome(&disk, &records, &|| format!("{name}, byte {at}"));
            assert!(
                matches!(seen, Outcome::Same | Outcome::Refused),
                "{name}, byte {at}: {seen:?}"
            );
            disk.flip(&name, at, 1 << (at % 8));
        }
    }
}

#[test]
fn bytes_behind_the_end_of_an_open_segment_are_a_torn_tail() {
    let (disk, records) = example(15, 4 << 10, false);
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    for more in [1, 37, 5000] {
        for fill in [0, 0x57] {
            let case = format!("{more} x {fill}");
            let disk = disk.after_kill();
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + more, fill);
            disk.put(&last, &longer);
            let torn = usize::from(fill != 0);
            let (report, seen) = verify(&disk).unwrap();
            assert!(seen == records, "{case}");
            assert_eq!(report.torn.len(), torn, "{case}");
            let opened = open(&disk).unwrap();
            assert!(opened.records == records, "{case}");
            assert_eq!(opened.report.torn.len(), torn, "{case}");
            for tail in &opened.report.torn {
                let kept = tail.kept_in.clone().unwrap();
                let kept = disk.bytes(kept.strip_prefix("sim:").unwrap()).unwrap();
                assert!(kept.ends_with(&longer[bytes.len()..]), "{case}");
            }
            drop(opened);
            let (report, seen) = verify(&disk).unwrap();
            assert!(seen == records && report.torn.is_empty(), "{case}");
        }
    }
}

#[test]
fn a_last_batch_torn_anywhere_is_set_aside_whole() {
    let (disk, records) = example(14, 4 << 10, false);
    let before = records.len() - 3;
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let (from, to) = frames(&bytes).pop().unwrap();
    let try_with = |torn: Vec<u8>, case: String| {
        let disk = disk.after_kill();
        disk.put(&last, &torn);
        let opened = open(&disk).unwrap_or_else(|error| panic!("{case}: {error}"));
        let whole = torn[from..to] == bytes[from..to];
        let expected = if whole { records.len() } else { before };
        assert!(opened.records == records[..expected], "{case}");
        let (kept, is_torn) = (
            &opened.report.torn,
            torn[from.min(torn.len())..].iter().any(|byte| *byte != 0),
        );
        assert_eq!(!kept.is_empty(), is_torn && torn != bytes, "{case}");
    };
    for cut in from..to {
        let mut zeroed = bytes.clone();
        zeroed[cut..].fill(0);
        try_with(zeroed, format!("zeros from {cut}"));
    }
    let mut random = random(14);
    for sector in (from / 512..=to / 512).map(|number| number * 512) {
        for garbage in [false, true] {
            let mut torn = bytes.clone();
            // The part of a sector that belongs to earlier frames was synced with them.
            let part = sector.max(from)..(sector + 512).min(bytes.len());
            torn[part.clone()].fill(0);
            if garbage {
                random.fill(&mut torn[part]);
            }
            try_with(torn, format!("sector at {sector}, garbage: {garbage}"));
        }
    }
}

#[test]
fn a_hole_before_a_mark_is_refused_with_its_place() {
    let (disk, _) = example(15, 4 << 10, true);
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let frames = frames(&bytes);
    // The start frame, three batches and the seal: each but the seal is zeroed in turn.
    assert_eq!(frames.len(), 5);
    for (from, to) in &frames[..4] {
        let holed = disk.after_kill();
        let mut zeroed = bytes.clone();
        zeroed[*from..*to].fill(0);
        holed.put(&last, &zeroed);
        let error = refusal(&holed);
        let Error::Damaged {
            file,
            offset,
            position,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((file, *offset), (&format!("sim:{last}"), *from as u64));
        assert!(position.is_some());
        assert!(error.to_string().contains("were acknowledged"), "{error}");
    }
}

#[test]
fn later_frames_above_every_mark_are_part_of_the_torn_tail() {
    // Nothing was acknowledged after the first batch, but what followed reached the disk in another
    // order. This log's writer waits for each sync, so the frame after the hole is made by hand,
    // with an older mark.
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    for text in ["first", "second", "third"] {
        opened.log.append(&[text.as_bytes().to_vec()]).unwrap();
    }
    let id = opened.report.log_id;
    drop(opened);
    let last = segments(&disk).pop().unwrap();
    let mut bytes = disk.bytes(&last).unwrap();
    let frames = frames(&bytes);
    let ((second, third), end) = ((frames[2].0, frames[3].0), frames[3].1);
    bytes[second..third].fill(0);
    bytes[third + 40..third + 48].copy_from_slice(&1_u64.to_le_bytes());
    recompute_checksums(&mut bytes[third..end], &id);
    disk.put(&last, &bytes);
    let opened = open(&disk).unwrap();
    assert_eq!(opened.records, [b"first".to_vec()]);
    assert_eq!(
        opened.report.torn[0].bytes,
        (end - second) as u64 - trailing_zeros(&bytes[..end])
    );
}

fn trailing_zeros(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take_while(|byte| **byte == 0).count() as u64
}

#[test]
fn an_edited_record_with_its_checksums_recomputed_is_found() {
    let (disk, _) = example(16, 4 << 10, true);
    let id = verify(&disk).unwrap().0.log_id;
    for name in segments(&disk) {
        let bytes = disk.bytes(&name).unwrap();
        for (from, to) in frames(&bytes) {
            let edited = disk.after_kill();
            let mut bytes = bytes.clone();
            // The first byte of the payload, or the mark of a seal.
            let at = if to - from > 72 + 8 {
                from + 72 + 4
            } else {
                from + 40
            };
            bytes[at] ^= 1;
            recompute_checksums(&mut bytes[from..to], &id);
            edited.put(&name, &bytes);
            let error = refusal(&edited);
            assert!(
                matches!(&error, Error::Damaged { file, .. } if *file == format!("sim:{name}")),
                "{error}"
            );
        }
    }
}

#[test]
fn a_removed_or_moved_frame_is_found() {
    let (disk, _) = example(17, 4 << 10, true);
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let frames = frames(&bytes);
    for (from, to) in &frames[1..frames.len() - 1] {
        let removed = disk.after_kill();
        let mut without = bytes.clone();
        without.drain(from..to);
        without.resize(bytes.len(), 0);
        removed.put(&last, &without);
        assert!(
            matches!(refusal(&removed), Error::Damaged { offset, .. } if offset == *from as u64)
        );
    }
    let ((a, b), (c, d)) = (frames[1], frames[2]);
    let swapped = disk.after_kill();
    let moved = [&bytes[..a], &bytes[c..d], &bytes[a..b], &bytes[d..]].concat();
    swapped.put(&last, &moved);
    assert!(matches!(refusal(&swapped), Error::Damaged { offset, .. } if offset == a as u64));
}

#[test]
fn a_missing_swapped_or_foreign_segment_is_refused() {
    let (disk, _) = example(18, 20 << 10, true);
    let names = segments(&disk);
    assert!(names.len() >= 4);
    for name in &names {
        let missing = disk.after_kill();
        missing.take_away(name);
        let error = refusal(&missing);
        assert!(
            error.to_string().contains("missing") && error.to_string().contains(name),
            "{error}"
        );
    }
    for pair in names.windows(2) {
        let swapped = disk.after_kill();
        swapped.put(&pair[0], &disk.bytes(&pair[1]).unwrap());
        swapped.put(&pair[1], &disk.bytes(&pair[0]).unwrap());
        assert!(matches!(
            refusal(&swapped),
            Error::Damaged { offset: 40, .. }
        ));
    }
    // The same workload on another disk whose log has another id.
    let other = SimDisk::new();
    other.storage().random_id().unwrap();
    let mut opened = open(&other).unwrap();
    opened.log.append(&[vec![1; 100]]).unwrap();
    drop(opened);
    let foreign = disk.after_kill();
    foreign.put(&names[0], &other.bytes(&segments(&other)[0]).unwrap());
    let error = refusal(&foreign);
    assert!(error.to_string().contains("another log"), "{error}");
    let added = disk.after_kill();
    added.put(
        "segment-0000000000000999.log",
        &other.bytes(&segments(&other)[0]).unwrap(),
    );
    assert!(matches!(refusal(&added), Error::Damaged { .. }));
}

#[test]
fn an_older_or_missing_manifest_is_refused() {
    let (disk, _) = example(19, 8 << 10, true);
    let older = disk.bytes("manifest").unwrap();
    let mut opened = open(&disk).unwrap();
    opened.log.append(&[b"new".to_vec()]).unwrap();
    drop(opened);
    let restored = disk.after_kill();
    restored.put("manifest", &older);
    let error = refusal(&restored);
    assert!(
        error.to_string().contains("the manifest is older than it"),
        "{error}"
    );

    disk.take_away("manifest");
    let error = refusal(&disk);
    assert!(error.to_string().contains("manifest is missing"), "{error}");
    assert!(matches!(verify(&disk), Err(Error::Damaged { .. })));
}

#[test]
fn a_lost_directory_is_not_a_new_log_unless_one_may_be_made() {
    let disk = SimDisk::new();
    assert!(matches!(verify(&disk), Err(Error::NoLog { .. })));
    let forbidden = wal::Options {
        create: false,
        ..small()
    };
    assert!(matches!(
        open_with(disk.storage(), forbidden.clone()),
        Err(Error::NoLog { .. })
    ));
    assert!(disk.names().is_empty());
    assert!(open(&disk).unwrap().report.created);
    assert!(open_with(disk.storage(), forbidden).is_ok());
}

#[test]
fn a_segment_that_was_cut_off_is_refused() {
    let (disk, records) = example(20, 8 << 10, true);
    for name in segments(&disk) {
        let bytes = disk.bytes(&name).unwrap();
        // A sealed segment needs no zeros after its frames; an open one has the length with which
        // it was made, so that cutting off its seal is noticed.
        let open = name == *segments(&disk).last().unwrap();
        let end = if open {
            bytes.len()
        } else {
            frames(&bytes).pop().unwrap().1
        };
        for length in (0..end).step_by(61).chain([end - 1]) {
            let cut = disk.after_kill();
            cut.put(&name, &bytes[..length]);
            let seen = outcome(&cut, &records, &|| format!("{name} cut at {length}"));
            assert_eq!(seen, Outcome::Refused, "{name} cut at {length}");
        }
    }
}

#[test]
fn a_record_that_holds_a_frame_of_another_log_is_only_a_record() {
    let other = SimDisk::new();
    other.storage().random_id().unwrap();
    let mut opened = open(&other).unwrap();
    for _ in 0..9 {
        opened.log.append(&[vec![5; 40]]).unwrap();
    }
    drop(opened);
    let foreign = other.bytes(&segments(&other)[0]).unwrap()[4096..6000].to_vec();
    // The foreign frame even lies at a multiple of 8, in a last batch that is torn.
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    opened.log.append(&[b"kept".to_vec()]).unwrap();
    opened
        .log
        .append(&[[vec![0; 4], foreign].concat()])
        .unwrap();
    drop(opened);
    let name = segments(&disk).pop().unwrap();
    let (torn, _) = frames(&disk.bytes(&name).unwrap()).pop().unwrap();
    disk.flip(&name, torn, 1);
    assert_eq!(open(&disk).unwrap().records, [b"kept".to_vec()]);
}

#[test]
fn a_record_that_changes_under_an_open_log_is_noticed_when_it_is_read() {
    let (disk, records) = example(21, 8 << 10, true);
    let opened = open(&disk).unwrap();
    let name = segments(&disk).remove(0);
    let (from, _) = frames(&disk.bytes(&name).unwrap())[1];
    for at in [from, from + 20, from + 80] {
        disk.flip(&name, at, 4);
        assert!(matches!(
            opened.log.read(1),
            Err(Error::Damaged {
                position: Some(1),
                ..
            })
        ));
        disk.flip(&name, at, 4);
    }
    assert_eq!(opened.log.read(1).unwrap().unwrap(), records[0]);
}

#[test]
fn a_visitor_that_gives_up_stops_the_opening() {
    struct Stop;
    impl Visitor for Stop {
        fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
            if record.position == 5 {
                Err("no more".into())
            } else {
                Ok(())
            }
        }
    }
    let (disk, records) = example(22, 4 << 10, true);
    let error = wal::verify(disk.storage(), &mut Stop).unwrap_err();
    assert!(
        matches!(error, Error::Visitor { position: 5, .. }),
        "{error}"
    );
    assert!(
        open(&disk).unwrap().records == records,
        "and changes nothing"
    );
}

#[test]
fn an_edited_manifest_with_its_checksum_recomputed_is_refused() {
    let (disk, _) = example(23, 4 << 10, true);
    let bytes = disk.bytes("manifest").unwrap();
    let end = bytes.len() - 4;
    for at in 16..end {
        let mut edited = bytes.clone();
        edited[at] ^= 1 << (at % 8);
        let crc = crc32fast::hash(&edited[..end]);
        edited[end..].copy_from_slice(&crc.to_le_bytes());
        let damaged = disk.after_kill();
        damaged.put("manifest", &edited);
        let error = refusal(&damaged);
        assert!(error.to_string().contains("digest"), "byte {at}: {error}");
    }
}
