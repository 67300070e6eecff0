//! What a recovery keeps, and what it refuses.

use wal::storage::sim::{SimDisk, Survivors};
use wal::{BoxError, Error, Past, Record, Report, Salvage, Visitor};

use crate::support::{frames, open, segments, snapshot, snapshots, verify};

/// Returns the record for a position.
fn payload(number: u64) -> Vec<u8> {
    let mut payload = vec![u8::try_from(number % 251).unwrap(); 700];
    payload.extend(number.to_le_bytes());
    payload
}

fn payloads(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(payload).collect()
}

fn append(log: &mut wal::Log, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        assert_eq!(log.append(&[payload(number)]).unwrap(), number);
    }
}

fn logged(last: u64) -> SimDisk {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    append(&mut log, 1..=last);
    log.seal().unwrap();
    disk
}

fn all(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    let names = disk.names().into_iter().filter(|name| name != "lock");
    names
        .map(|name| (name.clone(), disk.bytes(&name)))
        .collect()
}

#[test]
fn records_appended_since_the_survey_are_not_given_up() {
    let disk = logged(60);
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let mut log = open(&disk).unwrap().log;
    append(&mut log, 61..=80);
    log.seal().unwrap();
    drop(log);
    let before = all(&disk);
    let refused = salvage.give_up_after(50).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("changed since it was surveyed"), "{told}");
    assert!(all(&disk) == before);
    assert!(verify(&disk).unwrap().1 == payloads(1..=80));
}

#[test]
fn a_file_that_comes_goes_or_changes_its_length_after_the_survey_is_seen() {
    type Change = fn(&SimDisk);
    let changes: [(&str, Change); 4] = [
        ("a segment comes", |disk| {
            disk.put("segment-0000000000000099.log", b"of somebody else");
        }),
        ("a segment goes", |disk| disk.take_away(&segments(disk)[1])),
        ("a segment is cut", |disk| {
            let name = &segments(disk)[1];
            let bytes = disk.bytes(name).unwrap();
            disk.put(name, &bytes[..bytes.len() - 8]);
        }),
        ("the manifest goes", |disk| disk.take_away("manifest")),
    ];
    for (case, change) in changes {
        let disk = logged(60);
        let name = segments(&disk)[2].clone();
        disk.flip(&name, 4_400, 1);
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let keep_to = salvage.ways()[0].keep_to;
        change(&disk);
        let before = all(&disk);
        let refused = salvage.give_up_after(keep_to).unwrap_err().to_string();
        assert!(
            refused.contains("changed since it was surveyed"),
            "{case}: {refused}"
        );
        assert!(all(&disk) == before, "{case}");
    }
}

#[test]
fn without_a_manifest_the_end_of_a_log_is_not_known() {
    let disk = logged(80);
    let names = segments(&disk);
    let whole = Salvage::survey(disk.storage()).unwrap();
    assert!(whole.end_is_known());
    for lost in &names[names.len() - 2..] {
        disk.take_away(lost);
    }
    // The manifest lists what is gone.
    let listed = Salvage::survey(disk.storage()).unwrap();
    assert!(!listed.end_is_known() || listed.highest() == 80);
    let manifest = disk.bytes("manifest").unwrap();
    for is_lost in [true, false] {
        disk.put("manifest", &manifest);
        if is_lost {
            disk.take_away("manifest");
        } else {
            disk.flip("manifest", 100, 1);
        }
        let salvage = Salvage::survey(disk.storage()).unwrap();
        assert!(salvage.ways()[0].keep_to < 80);
        assert!(!salvage.end_is_known());
    }
}

/// Collects the records that a log itself has, from its first on.
#[derive(Default)]
struct Shown(Vec<(u64, Vec<u8>)>);

impl Visitor for Shown {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.0.push((record.position, record.payload.to_vec()));
        Ok(())
    }
}

fn shown(disk: &SimDisk) -> Vec<(u64, Vec<u8>)> {
    let mut shown = Shown::default();
    wal::records(disk.storage().as_ref(), &mut shown).unwrap();
    shown.0
}

fn numbered(numbers: impl Iterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
    numbers.map(|number| (number, payload(number))).collect()
}

/// Makes a log of 88 records with snapshots that cover 67 and 87.
fn covered() -> SimDisk {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    append(&mut log, 1..=67);
    snapshot(&mut log, 67).unwrap();
    append(&mut log, 68..=87);
    snapshot(&mut log, 87).unwrap();
    append(&mut log, 88..=88);
    log.seal().unwrap();
    drop(log);
    disk
}

/// Alters the frame of a record durably.
fn alter(disk: &SimDisk, position: u64) {
    for name in segments(disk) {
        let mut bytes = disk.bytes(&name).unwrap();
        for (at, end) in frames(&bytes) {
            let first = u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
            if first == position && end - at > 500 {
                bytes[at + 300] ^= 1;
                return disk.put(&name, &bytes);
            }
        }
    }
    panic!("no frame begins with {position}");
}

#[test]
fn a_recovery_keeps_readable_records_before_the_snapshot_it_rests_on() {
    let disk = covered();
    alter(&disk, 88);
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let way = salvage.ways()[0];
    assert_eq!((way.keep_to, way.first_position), (87, 1));
    assert_eq!(way.readable_before, 0);
    // Of two ways that keep equally much, the first rests on the newer snapshot.
    assert_eq!(way.snapshot.map(|snapshot| snapshot.covers), Some(87));
    let positions: Vec<_> = salvage.ways().iter().map(|way| way.keep_to).collect();
    assert_eq!(positions, [87], "each position once");
    let given_up = salvage.give_up_after(87).unwrap();
    assert_eq!(given_up.report.first_position, 1);
    assert_eq!(given_up.readable_before, 0);
    let covers = given_up.report.snapshots.iter().map(|one| one.covers);
    assert_eq!(covers.collect::<Vec<_>>(), [87, 67]);
    assert!(shown(&disk) == numbered(1..=87));
    assert!(verify(&disk).unwrap().1 == payloads(1..=87));
    // A restore keeps as much.
    let past = Past::open(disk.storage(), None).unwrap();
    assert_eq!(past.earliest(), 1);
}

#[test]
fn records_before_covered_damage_leave_the_log_and_are_counted() {
    for is_without_manifest in [false, true] {
        let disk = covered();
        alter(&disk, 40);
        if is_without_manifest {
            disk.take_away("manifest");
        }
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let way = salvage.ways()[0];
        let first = way.first_position;
        assert_eq!((way.keep_to, first, way.readable_before), (88, 41, 39));
        let given_up = salvage.give_up_after(88).unwrap();
        assert_eq!(given_up.report.first_position, first);
        assert_eq!(given_up.readable_before, 39);
        assert_eq!(given_up.report.snapshots.len(), 2);
        assert!(shown(&disk) == numbered(first..=88));
        assert!(verify(&disk).unwrap().1 == payloads(1..=88));
        assert!(open(&disk).unwrap().records == payloads(1..=88));
    }
}

/// The positions at which damage is told, each with its file.
fn told(disk: &SimDisk) -> Vec<(String, Option<u64>)> {
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let damage = salvage.damage().iter();
    damage
        .map(|damage| (damage.file.clone(), damage.position))
        .collect()
}

#[test]
fn each_damaged_place_is_reported_once_whether_or_not_snapshots_cover_it() {
    let disk = covered();
    assert_eq!(told(&disk), []);
    let positions = [20, 40, 75, 88];
    for position in positions {
        alter(&disk, position);
    }
    let found = told(&disk);
    let places: Vec<_> = found.iter().filter_map(|(_, position)| *position).collect();
    assert_eq!(places, positions, "{found:?}");

    // Two more in one segment.
    let name = segments(&disk)[0].clone();
    let frames = frames(&disk.bytes(&name).unwrap());
    for (at, _) in [frames[1], frames[3]] {
        disk.flip(&name, at + 200, 1);
    }
    assert_eq!(told(&disk).len(), positions.len() + 2);
}

#[test]
fn a_damaged_header_and_missing_and_cut_segments_are_told_in_log_order() {
    let disk = covered();
    let names = segments(&disk);
    let (header, gone, cut) = (&names[1], &names[2], &names[4]);
    disk.flip(header, 20, 1);
    let bytes = disk.bytes(cut).unwrap();
    let (_, end) = *frames(&bytes).last().unwrap();
    disk.put(cut, &bytes[..end - 8]);
    disk.take_away(gone);
    let found = told(&disk);
    assert_eq!(found.len(), 3, "{found:?}");
    // In the order of the log.
    for (name, (file, _)) in [header, gone, cut].into_iter().zip(&found) {
        assert!(file.ends_with(name), "{found:?}");
    }
}

#[test]
fn without_a_manifest_every_place_from_which_frames_do_not_go_on_is_told() {
    let disk = covered();
    alter(&disk, 20);
    alter(&disk, 40);
    disk.take_away("manifest");
    let places = told(&disk).into_iter().filter_map(|(_, position)| position);
    assert_eq!(places.collect::<Vec<_>>(), [20, 40]);
}

#[test]
fn a_snapshot_from_which_no_records_go_on_is_left_out() {
    let disk = covered();
    alter(&disk, 75);
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let way = salvage.ways()[0];
    assert_eq!((way.keep_to, way.first_position), (88, 76));
    assert_eq!(way.readable_before, 74);
    let given_up = salvage.give_up_after(88).unwrap();
    let covers = given_up.report.snapshots.iter().map(|one| one.covers);
    assert_eq!(covers.collect::<Vec<_>>(), [87]);
    assert_eq!(given_up.report.first_position, 76);
    assert!(verify(&disk).unwrap().1 == payloads(1..=88));
}

#[test]
fn a_log_can_be_brought_to_every_position_that_it_can_be_restored_at() {
    for position in [1, 50, 66, 67, 68, 86, 87, 88] {
        let disk = covered();
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let given_up = salvage.give_up_after(position).unwrap();
        assert_eq!(given_up.report.last_position, position);
        assert_eq!(given_up.report.first_position, 1);
        assert!(shown(&disk) == numbered(1..=position), "{position}");
        assert!(verify(&disk).unwrap().1 == payloads(1..=position));
        assert_eq!(
            snapshots(&disk).len(),
            usize::from(position >= 67) + usize::from(position >= 87)
        );
    }
}

#[test]
fn with_only_snapshots_left_the_newest_one_is_a_way_out() {
    for is_of_headers in [false, true] {
        let disk = covered();
        disk.take_away("manifest");
        for name in segments(&disk) {
            let bytes = disk.bytes(&name).unwrap();
            match is_of_headers {
                false => disk.take_away(&name),
                // No segment says which log it is of.
                true => disk.put(&name, &vec![0; bytes.len()]),
            }
        }
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let positions: Vec<_> = salvage.ways().iter().map(|way| way.keep_to).collect();
        assert_eq!(positions, [87, 67, 0]);
        assert!(!salvage.end_is_known());
        let given_up = salvage.give_up_after(87).unwrap();
        assert_eq!(given_up.report.first_position, 88);
        assert!(verify(&disk).unwrap().1 == payloads(1..=87));
        let mut opened = open(&disk).unwrap();
        assert_eq!(opened.log.append(&[payload(88)]).unwrap(), 88);
    }
}

#[test]
fn an_interrupted_recovery_does_not_take_its_own_files_for_the_log_s() {
    let damaged = covered();
    let log_id = verify(&damaged).unwrap().0.log_id;
    damaged.take_away("manifest");
    for name in segments(&damaged) {
        // Alters the header, which says which log it is: the snapshots still say it.
        damaged.flip(&name, 20, 1);
    }
    let recover = |disk: &SimDisk| -> Result<Report, Error> {
        let salvage = Salvage::survey(disk.storage())?;
        assert_eq!(salvage.ways()[0].keep_to, 88);
        Ok(salvage.give_up_after(88)?.report)
    };
    let is_of_the_log = |report: &Report| {
        let ancestors = report.ancestors.iter();
        ancestors.map(|one| one.log_id).collect::<Vec<_>>() == [log_id]
    };
    let whole = damaged.after_kill();
    assert!(is_of_the_log(&recover(&whole).unwrap()));
    let mut again = 0;
    for cut in 0..whole.calls() {
        let interrupted = damaged.after_kill();
        interrupted.cut_before(cut);
        drop(recover(&interrupted));
        for survivors in [Survivors::Nothing, Survivors::Everything] {
            let case = format!("cut before call {cut}, {survivors:?}");
            let after = interrupted.after_power_cut(survivors);
            let report = match open(&after) {
                Ok(opened) => opened.report,
                Err(_) => {
                    again += 1;
                    recover(&after).unwrap_or_else(|error| panic!("{case}: {error}"))
                }
            };
            assert!(is_of_the_log(&report), "{case}");
            assert!(verify(&after).unwrap().1 == payloads(1..=88), "{case}");
        }
    }
    assert!(again > 10, "{again}");
}

#[test]
fn a_position_that_no_log_reaches_is_rejected_and_has_nothing_behind_it() {
    let disk = covered();
    let salvage = Salvage::survey(disk.storage()).unwrap();
    salvage.expect_way_to(88).unwrap();
    for position in [89, u64::MAX - 1, u64::MAX] {
        let refused = salvage.expect_way_to(position).unwrap_err().to_string();
        assert!(refused.contains("no way out"), "{refused}");
        let walked = salvage.records_after(position, &mut |_| Err("there is none".into()));
        walked.unwrap();
    }
    let before = all(&disk);
    assert!(salvage.give_up_after(u64::MAX).is_err());
    assert!(all(&disk) == before);
}
