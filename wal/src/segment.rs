//! Makes segments before they are needed, and keeps the manifest.

use std::sync::Arc;

use crate::archive;
use crate::error::{Error, MaintenanceError};
use crate::format::{self, BLOCK, Chain, FIRST_FRAME, SegmentHeader, round_up, to_u64, to_usize};
use crate::frame::{SEAL_BYTES, START_BYTES};
use crate::lock;
use crate::manifest::{Manifest, SNAPSHOTS_MAX, Seal, Sealed, Segment, remove_if_there};
use crate::reader::Reader;
use crate::recovery::{self, Findings};
use crate::report::TornTail;
use crate::retention::{self, Keep};
use crate::snapshot::Finished;
use crate::storage::{File, Storage, write_all_at};
use crate::visitor::SnapshotInfo;

const ZEROS: usize = 1 << 20;
/// Bytes of zeros written between two syncs while the disk is idle, or while the journal thread waits
/// for the segment.
pub(crate) const CHUNK: u64 = 8 << 20;
/// Bytes of zeros written between two syncs while batches are written: the sync of a batch waits for
/// one such chunk at most.
pub(crate) const CHUNK_BESIDE: u64 = 256 << 10;

/// Size of the smallest segment, in bytes: the header and one more block.
pub(crate) const SEGMENT_BYTES_LEAST: u64 = 2 * BLOCK;

/// A segment that is on disk and in the manifest and has no frame yet.
pub(crate) struct Prepared {
    pub(crate) file: Arc<dyn File>,
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) size: u64,
}

impl Prepared {
    /// Whether a data frame of this length can be the first.
    pub(crate) fn fits(&self, frame: u64) -> bool {
        segment_bytes_for(frame) <= self.size
    }
}

/// The size of a segment whose first data frame has this length.
pub(crate) fn segment_bytes_for(frame: u64) -> u64 {
    FIRST_FRAME + START_BYTES + frame + SEAL_BYTES
}

/// A segment that will get no more frames.
#[derive(Clone, Copy)]
pub(crate) struct Retired {
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) chain: Chain,
}

/// Returns the length of the next chunk, given the bytes written so far and the segment's size; `None` when
/// the segment is needed no longer.
pub(crate) type Pace<'a> = &'a mut dyn FnMut(u64, u64) -> Option<u64>;

/// The pace while nothing else is written to the disk.
pub(crate) fn alone(_: u64, _: u64) -> Option<u64> {
    Some(CHUNK)
}

/// Makes segments, one thread at a time.
pub(crate) struct Maker {
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    /// The findings of the start that it has yet to act on, because space was lacking. No segment is made before that.
    unsettled: Option<Box<Findings>>,
    tails: Vec<TornTail>,
    size: u64,
    size_max: u64,
    size_min: u64,
    /// Segments that were never used and that the next manifest will no longer list.
    dropped: Vec<u64>,
}

impl Maker {
    /// Creates a maker for the log that `found` describes.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        found: Findings,
        size_min: u64,
        size_max: u64,
    ) -> Self {
        let size_min = round_up(size_min.max(SEGMENT_BYTES_LEAST), BLOCK);
        let size_max = round_up(size_max.max(size_min), BLOCK);
        Self {
            storage,
            manifest: found.manifest.clone(),
            tails: found.tails.clone(),
            unsettled: Some(Box::new(found)),
            size: size_min,
            size_max,
            size_min,
            dropped: Vec::new(),
        }
    }

    /// Acts on the findings of the start, unless that is done. If space is lacking, nothing changes, and the next call
    /// of any other method tries again.
    pub(crate) fn settle(&mut self) -> Result<(), MaintenanceError> {
        let Some(found) = &mut self.unsettled else {
            return Ok(());
        };
        let done = recovery::carry_out(self.storage.as_ref(), found);
        self.tails.clone_from(&found.tails);
        match done {
            Ok(manifest) => {
                lock::write_epoch(self.storage.as_ref(), manifest.epoch);
                self.manifest = manifest;
                self.unsettled = None;
                Ok(())
            }
            Err(error) if error.is_shortage() => Err(MaintenanceError::Passing(error)),
            Err(error) => Err(MaintenanceError::Final(error)),
        }
    }

    /// The manifest in force.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The torn tails that the start found, each with the name of its copy once that is made.
    pub(crate) fn tails(&self) -> &[TornTail] {
        &self.tails
    }

    /// Bytes of the next segment, if there is space for it.
    pub(crate) fn next_bytes(&self) -> u64 {
        self.size
    }

    /// Notes the end of a segment; the next manifest that is written contains it.
    pub(crate) fn retire(&mut self, retired: Retired, reader: &Reader) {
        let Retired {
            number,
            length,
            first,
            last,
            chain,
        } = retired;
        for segment in &mut self.manifest.segments {
            if segment.number == number {
                segment.seal = Some(Seal {
                    length,
                    first,
                    last,
                    chain,
                });
            }
        }
        reader.set_sealed(&self.manifest);
    }

    /// Notes that a segment will never be used, because it is too small.
    pub(crate) fn give_up(&mut self, prepared: &Prepared) {
        self.dropped.push(prepared.number);
    }

    /// Closes the log, to which nothing is appended any more: no segment is open then, and the files hold what was
    /// written and nothing else, so that each of their bytes is checked. If this fails, nothing is lost, and the next
    /// start does it.
    pub(crate) fn close(&mut self) {
        if self.unsettled.is_some() {
            return;
        }
        let storage = self.storage.as_ref();
        let mut manifest = self.manifest.clone();
        let unused = manifest
            .segments
            .extract_if(.., |segment| segment.seal.is_none());
        let unused: Vec<_> = unused.map(|segment| segment.number).collect();
        manifest.generation += 1;
        // As long as the manifest before may be in force, an open segment has the length that it was made with.
        let placed = manifest
            .write_beside(storage)
            .and_then(|()| Manifest::put_in_place(storage));
        if placed.is_err() {
            let _ = storage.remove(format::MANIFEST_TEMP);
            return;
        }
        let written = manifest.segments.iter();
        for segment in written.filter(|segment| segment.epoch == manifest.epoch) {
            if let Some(seal) = segment.seal {
                let _ = recovery::cut_off(storage, segment.number, seal.length);
            }
        }
        for number in unused {
            let _ = storage.remove(&format::segment_name(number));
        }
    }

    /// Makes the next segment, which is large enough for a first frame of this length. When its size
    /// would exceed `room` bytes, makes a smaller one; returns `None` when the smallest exceeds it,
    /// too.
    ///
    /// A passing error leaves no new segment, and the call can be repeated.
    ///
    /// `pace` is called before each chunk that is written and synced, with the bytes written so far
    /// and the segment's size, and returns the chunk's length, or that no segment is needed any more:
    /// that is a passing error.
    pub(crate) fn prepare(
        &mut self,
        frame: u64,
        room: Option<u64>,
        pace: Pace<'_>,
    ) -> Result<Option<Prepared>, MaintenanceError> {
        self.settle()?;
        let needed = round_up(segment_bytes_for(frame).max(self.size_min), BLOCK);
        let mut size = needed.max(self.size);
        while room.is_some_and(|room| size > room) && size / 2 >= needed {
            size = round_up(size / 2, BLOCK);
        }
        if room.is_some_and(|room| size > room) {
            return Ok(None);
        }
        let prepared = self.make(size, pace)?;
        self.size = (self.size * 2).min(self.size_max);
        Ok(Some(prepared))
    }

    fn make(&mut self, size: u64, pace: Pace<'_>) -> Result<Prepared, MaintenanceError> {
        let storage = Arc::clone(&self.storage);
        let storage = storage.as_ref();
        let (number, epoch) = (self.manifest.next_number, self.manifest.epoch);
        let mut manifest = self.manifest.clone();
        manifest.generation += 1;
        manifest.next_number = number + 1;
        manifest
            .segments
            .retain(|segment| !self.dropped.contains(&segment.number));
        manifest.segments.push(Segment {
            number,
            epoch,
            seal: None,
        });

        // All steps that take space, or a file descriptor, come first: until they are done nothing has
        // changed, and a failure does no harm.
        let (temp, name) = (
            format::segment_temp_name(number),
            format::segment_name(number),
        );
        let header = SegmentHeader {
            log: self.manifest.log,
            epoch,
            number,
            size,
        };
        let written = write_beside(storage, &temp, &header, pace)
            .and_then(|file| manifest.write_beside(storage).map(|()| file));
        let file = match written {
            Ok(file) => file,
            Err(error) => {
                // Partly written files take space that others wait for. Whether their removal succeeds
                // does not matter: the next start removes them, too.
                let _ = storage.remove(&temp);
                let _ = storage.remove(format::MANIFEST_TEMP);
                return Err(MaintenanceError::Passing(error));
            }
        };
        let placed = storage
            .rename(&temp, &name)
            .map_err(Error::io("rename", storage.describe(&temp)))
            .and_then(|()| {
                storage
                    .sync_dir("")
                    .map_err(Error::io("sync", storage.describe("")))
            })
            .and_then(|()| Manifest::put_in_place(storage));
        // After an error from here on, it is unknown which manifest is in force, so no error may count
        // as one that can be tried again.
        placed.map_err(MaintenanceError::Final)?;
        self.manifest = manifest;
        for dropped in self.dropped.drain(..) {
            // No longer listed: if it stays, the next start removes it.
            let _ = storage.remove(&format::segment_name(dropped));
        }
        Ok(Prepared {
            file,
            number,
            epoch,
            size,
        })
    }
}

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Number of segments removed.
    pub segments: u64,
    /// Bytes of the segments removed.
    pub bytes: u64,
    /// The first position that the log still has.
    pub first_position: u64,
}

impl Maker {
    /// Adds a finished snapshot to the manifest; removes the oldest of three.
    pub(crate) fn install(
        &mut self,
        mut finished: Finished,
        reader: &Reader,
    ) -> Result<SnapshotInfo, MaintenanceError> {
        self.settle()?;
        let storage = Arc::clone(&self.storage);
        let mut manifest = self.manifest.clone();
        manifest.generation += 1;
        manifest.snapshots.push(finished.listed);
        let surplus = manifest.snapshots.len().saturating_sub(SNAPSHOTS_MAX);
        let dropped: Vec<_> = manifest.snapshots.drain(..surplus).collect();
        // All steps that take space come first: until they are done nothing has changed.
        self.write_manifest_beside(&manifest)?;
        let placed = finished
            .rename()
            .and_then(|()| {
                storage
                    .sync_dir("")
                    .map_err(Error::io("sync", storage.describe("")))
            })
            .and_then(|()| Manifest::put_in_place(storage.as_ref()));
        placed.map_err(MaintenanceError::Final)?;
        self.manifest = manifest;
        let info = SnapshotInfo::from(&finished.listed);
        reader.installed(finished.into_kept(), self.snapshots());
        reader.set_sealed(&self.manifest);
        for dropped in dropped {
            // No longer listed: if it stays, the next start removes it.
            let _ = storage.remove(&format::snapshot_name(dropped.number));
        }
        Ok(info)
    }

    /// The snapshots there are, newest first.
    pub(crate) fn snapshots(&self) -> Vec<SnapshotInfo> {
        let listed = self.manifest.snapshots.iter().rev();
        listed.map(SnapshotInfo::from).collect()
    }

    /// Returns the oldest segments, as far as the older snapshot covers their records and `keep` needs
    /// none.
    pub(crate) fn removable(&self, keep: &Keep) -> Vec<Sealed> {
        let mut sealed = self.manifest.sealed();
        let (removable, _) = retention::removable(&sealed, self.manifest.covered(), keep);
        sealed.truncate(removable);
        sealed
    }

    /// Removes these segments, which are the oldest ones, from the manifest. Their files stay.
    pub(crate) fn forget(
        &mut self,
        segments: &[Sealed],
        reader: &Reader,
    ) -> Result<Compacted, MaintenanceError> {
        self.settle()?;
        let mut manifest = self.manifest.clone();
        manifest.generation += 1;
        let mut compacted = Compacted::default();
        for removed in segments {
            let first = manifest.segments.first().copied();
            if first.is_some_and(|first| first.number > removed.number) {
                // The segment was given up meanwhile.
                continue;
            }
            let listed = first.filter(|first| first.number == removed.number);
            let Some(seal) = listed.and_then(|listed| listed.seal) else {
                break;
            };
            manifest.segments.remove(0);
            manifest.first_position = seal.last + 1;
            manifest.first_chain = seal.chain;
            compacted.segments += 1;
            compacted.bytes += removed.length;
        }
        compacted.first_position = manifest.first_position;
        if compacted.segments == 0 {
            return Ok(compacted);
        }
        self.write_manifest_beside(&manifest)?;
        Manifest::put_in_place(self.storage.as_ref()).map_err(MaintenanceError::Final)?;
        self.manifest = manifest;
        reader.forget_before(compacted.first_position, segments);
        reader.set_sealed(&self.manifest);
        Ok(compacted)
    }

    /// Removes the segments that the older snapshot covers and that are not to be kept, or moves
    /// them to the archive.
    pub(crate) fn compact(
        &mut self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
        reader: &Reader,
    ) -> Result<Compacted, MaintenanceError> {
        let segments = self.removable(keep);
        if let Some(archive) = archive {
            let log = self.manifest.log;
            archive::keep_in(
                self.storage.as_ref(),
                &log,
                archive,
                &segments,
                &mut |_, _| Ok(()),
            )
            .map_err(MaintenanceError::Passing)?;
        }
        let compacted = self.forget(&segments, reader)?;
        remove(self.storage.as_ref(), &segments);
        Ok(compacted)
    }

    fn write_manifest_beside(&self, manifest: &Manifest) -> Result<(), MaintenanceError> {
        let storage = self.storage.as_ref();
        manifest.write_beside(storage).map_err(|error| {
            let _ = storage.remove(format::MANIFEST_TEMP);
            MaintenanceError::Passing(error)
        })
    }
}

/// Removes the files of segments that the manifest no longer lists. The next start removes those that
/// stay.
pub(crate) fn remove(storage: &dyn Storage, segments: &[Sealed]) {
    for segment in segments {
        let _ = storage.remove(&format::segment_name(segment.number));
    }
}

fn write_beside(
    storage: &dyn Storage,
    temp: &str,
    header: &SegmentHeader,
    pace: Pace<'_>,
) -> Result<Arc<dyn File>, Error> {
    // A file whose sync failed must never be taken for written: each attempt makes a new one.
    remove_if_there(storage, temp)?;
    let file = storage
        .create(temp)
        .map_err(Error::io("create", storage.describe(temp)))?;
    fill(file.as_ref(), &header.encode(), header.size, pace)
        .map_err(Error::io("write", storage.describe(temp)))?;
    Ok(file)
}

/// Writes every block of a new segment, so that the file system owes nothing
/// later: no allocation, no change of length, no full disk.
fn fill(file: &dyn File, header: &[u8], size: u64, pace: Pace<'_>) -> std::io::Result<()> {
    write_all_at(file, header, 0)?;
    let zeros = vec![0; ZEROS.min(to_usize(size))];
    let mut at = FIRST_FRAME;
    loop {
        let Some(chunk) = pace(at, size) else {
            return Err(std::io::Error::other("the log ends"));
        };
        let end = size.min(at + chunk.max(1));
        while at < end {
            let length = to_usize((end - at).min(to_u64(zeros.len())));
            write_all_at(file, &zeros[..length], at)?;
            at += to_u64(length);
        }
        file.sync()?;
        if at == size {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::recovery::Findings;
    use crate::storage::sim::SimDisk;
    use crate::survey;

    use super::*;

    /// A maker for a new log on this disk.
    fn maker(disk: &SimDisk, min: u64, max: u64) -> Maker {
        let storage = disk.storage();
        let manifest = Manifest::new([3; 16]);
        manifest.store(storage.as_ref()).unwrap();
        let found = survey::survey(
            storage.as_ref(),
            &manifest,
            0,
            &mut crate::visitor::Discard,
            &mut crate::index::Index::new(),
        );
        let found = Findings::new(storage.as_ref(), manifest, found.unwrap(), Vec::new());
        Maker::new(storage, found, min, max)
    }

    #[test]
    fn a_segment_no_longer_needed_is_not_written_on_and_leaves_nothing() {
        let disk = SimDisk::new();
        let size = 16 * BLOCK;
        let mut maker = maker(&disk, size, size);
        assert!(maker.settle().is_ok());
        let (names, manifest) = (disk.names(), maker.manifest().clone());
        let mut chunks = 0;
        let prepared = maker.prepare(0, None, &mut |_, _| {
            chunks += 1;
            (chunks < 3).then_some(BLOCK)
        });
        assert!(matches!(prepared, Err(MaintenanceError::Passing(_))));
        assert_eq!(chunks, 3, "nothing is asked after that");
        assert_eq!(disk.names(), names);
        assert_eq!(*maker.manifest(), manifest);
        // The same maker goes on where it is needed after all.
        assert!(matches!(maker.prepare(0, None, &mut alone), Ok(Some(_))));
    }

    #[test]
    fn on_a_nearly_full_disk_a_segment_is_as_large_as_fits_by_halves() {
        let (min, max) = (2 * BLOCK, 32 * BLOCK);
        for (frame, room, made) in [
            (0, None, Some(16)),
            (0, Some(16), Some(16)),
            (0, Some(15), Some(8)),
            (0, Some(8), Some(8)),
            (0, Some(7), Some(4)),
            (0, Some(2), Some(2)),
            (0, Some(1), None),
            // A record that needs three blocks gets no smaller one.
            (BLOCK, Some(7), Some(4)),
            (BLOCK, Some(3), None),
        ] {
            let mut maker = maker(&SimDisk::new(), min, max);
            maker.size = 16 * BLOCK;
            let room = room.map(|blocks: u64| blocks * BLOCK);
            let prepared = maker.prepare(frame, room, &mut alone);
            let Ok(prepared) = prepared else {
                panic!("it failed");
            };
            let size = prepared.map(|prepared| prepared.size / BLOCK);
            assert_eq!(size, made, "{frame} bytes in {room:?}");
        }
    }
}
