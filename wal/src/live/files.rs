//! The files of a log that another process writes, as a reader finds them just now.

use std::io;
use std::sync::Arc;

use crate::archive::ArchiveFolder;
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, LogId, SEGMENT_VERSION, to_u64, to_usize};
use crate::frame::{self, HEADER};
use crate::manifest::{Manifest, Segment};
use crate::opening::no_manifest;
use crate::scan::{self, End, Expected, Step, header_fault};
use crate::shelf::WithArchive;
use crate::storage::{File, Storage};
use crate::window::Window;

/// Bytes read at once. Less than a whole survey reads: a reader that follows a
/// log comes back often for little.
const PIECE: usize = 256 << 10;

pub(super) const MISSING: &str = "the frame that belongs here is missing";

/// Where the next frame is expected.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// The position with which that frame begins.
    pub(super) next: u64,
    pub(super) chain: Chain,
}

/// The files of a log.
pub(super) struct Files {
    pub(super) storage: Arc<dyn Storage>,
    /// The archive to which compactions have moved segments, with the log's own files.
    pub(super) archive: Option<Arc<WithArchive>>,
    pub(super) log: LogId,
}

impl Files {
    /// Adds the segments that compactions have moved to this archive.
    pub(super) fn with_archive(self, archive: Arc<dyn Storage>) -> Self {
        let folder = ArchiveFolder::new(archive, self.log);
        let both = Arc::new(WithArchive::new(self.storage, folder, None));
        Self {
            storage: Arc::clone(&both) as Arc<dyn Storage>,
            archive: Some(both),
            log: self.log,
        }
    }

    /// Whether an error is damage of a file in the archive.
    pub(super) fn is_of_archive(&self, error: &Error) -> bool {
        let archive = self.archive.as_ref();
        matches!(error, Error::Damaged { file, .. }
            if archive.is_some_and(|archive| archive.folder().has(file)))
    }

    /// Returns the manifest in force, extended by the archive's segments: those before it, back to
    /// position `asked`, and those after it when the log has ended. `from` is the next position to
    /// show. Also returns why no more of the archive can be shown after the end.
    pub(super) fn manifest(
        &self,
        asked: u64,
        from: u64,
    ) -> Result<(Manifest, Option<Error>), Error> {
        let mut manifest = load(self.storage.as_ref())?;
        if manifest.log != self.log {
            return Err(Error::Stopped {
                reason: "another log has taken its place".into(),
            });
        }
        let Some(archive) = &self.archive else {
            return Ok((manifest, None));
        };
        let lacking = archive.folder().put_before(&mut manifest, asked)?;
        if let Some(lacking) = lacking.filter(|_| from < manifest.first_position) {
            return Err(lacking.why);
        }
        let (longer, damage) = archive.folder().put_behind(&mut manifest)?;
        archive.continue_with(longer);
        Ok((manifest, damage))
    }

    pub(super) fn failed(&self, name: &str) -> impl Fn(io::Error) -> Error + use<> {
        let file = self.storage.describe(name);
        move |source| Error::Io {
            what: "read",
            file: file.clone(),
            source,
        }
    }

    pub(super) fn open_segment(&self, segment: &Segment) -> Result<Result<Opened, Error>, Error> {
        let name = format::segment_name(segment.number);
        let start = Place {
            segment: segment.number,
            offset: 0,
            next: segment.seal.map_or(0, |seal| seal.first),
            chain: Chain::default(),
        };
        let failed = self.failed(&name);
        let file = match self.storage.open_read(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(self.damage(&name, &start, "the file is missing")));
            }
            Err(error) => return Err(failed(error)),
        };
        let length = file.length().map_err(&failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, to_usize(FIRST_FRAME));
        let block = window.get(0, to_usize(FIRST_FRAME)).map_err(&failed)?;
        let fault = header_fault(block, segment, self.log, length);
        let fault = fault.map_err(|version| Error::Unsupported {
            file: self.storage.describe(&name),
            version,
            newest: SEGMENT_VERSION,
        })?;
        if let Some((offset, what)) = fault {
            return Ok(Err(self.damage(&name, &Place { offset, ..start }, what)));
        }
        let limit = segment.seal.map_or(length, |seal| seal.length);
        if limit > length {
            let what = "the file ends here, but its records go on";
            let offset = length;
            return Ok(Err(self.damage(&name, &Place { offset, ..start }, what)));
        }
        Ok(Ok(Opened {
            name,
            file,
            limit,
            length,
        }))
    }

    /// Checks again whether a frame has been written at a place that was blank.
    pub(super) fn filled(
        &self,
        segment: &Segment,
        opened: &Opened,
        place: &Place,
    ) -> Result<bool, Error> {
        let step = self.look_at(segment, opened, place)?;
        Ok(matches!(step, Step::Frame(_)))
    }

    fn look_at(&self, segment: &Segment, opened: &Opened, place: &Place) -> Result<Step, Error> {
        let expected = Expected {
            segment,
            limit: opened.limit,
            seed: format::crc_seed(&self.log),
            next: place.next,
            chain: &place.chain,
        };
        // Reads little: mostly there is no frame, and a reader that follows a log asks often.
        let mut window = Window::with_piece(opened.file.as_ref(), opened.length, HEADER);
        let buffer = &mut Vec::new();
        scan::step(&mut window, place.offset, &expected, &mut 0, buffer)
            .map_err(self.failed(&opened.name))
    }

    /// Finds what follows in the segments after this one, and skips those that were made ahead and
    /// never used. `searched` says that the bytes after a blank end have been searched.
    pub(super) fn following(
        &self,
        manifest: &Manifest,
        index: usize,
        place: &Place,
        searched: bool,
    ) -> Result<Next, Error> {
        for (next, segment) in manifest.segments.iter().enumerate().skip(index + 1) {
            let opened = match self.open_segment(segment)? {
                Ok(opened) => opened,
                Err(doubt) => return Ok(Next::Doubt(doubt)),
            };
            let start = Place {
                segment: segment.number,
                offset: FIRST_FRAME,
                ..*place
            };
            match self.look_at(segment, &opened, &start)? {
                Step::Frame(_) => return Ok(Next::Segment(next)),
                Step::End(End::Unfinished("the records before this segment are missing")) => {
                    // A segment that was blank a moment ago may have been filled, and this one begun.
                    for passed in index + 1..next {
                        let segment = &manifest.segments[passed];
                        if let Ok(opened) = self.open_segment(segment)? {
                            let start = Place {
                                segment: segment.number,
                                ..start
                            };
                            if self.filled(segment, &opened, &start)? {
                                return Ok(Next::Segment(passed));
                            }
                        }
                    }
                    let name = format::segment_name(manifest.segments[index].number);
                    let what =
                        "the frame that belongs here is missing: a later segment goes on behind it";
                    return Ok(Next::Doubt(self.damage(&name, place, what)));
                }
                // Made ahead, or being written just now, or torn by a crash: nothing durable
                // begins there, unless a mark says so.
                Step::End(end @ (End::Blank | End::Unfinished(_))) if segment.seal.is_none() => {
                    let blank = matches!(end, End::Blank);
                    if (blank && searched) || !self.marked(&opened, &start)? {
                        continue;
                    }
                    if self.filled(segment, &opened, &start)? {
                        return Ok(Next::Segment(next));
                    }
                    let what = end.what().unwrap_or(MISSING);
                    return Ok(Next::Doubt(self.damage(&opened.name, &start, what)));
                }
                Step::End(end) => {
                    let what = end.what().unwrap_or(MISSING);
                    return Ok(Next::Doubt(self.damage(&opened.name, &start, what)));
                }
            }
        }
        Ok(Next::Nothing)
    }

    /// Whether a sound frame after this place states that the frame that belongs there was durable.
    pub(super) fn marked(&self, opened: &Opened, place: &Place) -> Result<bool, Error> {
        let seed = format::crc_seed(&self.log);
        let mut window = opened.window();
        let mut at = place.offset;
        while at < opened.length {
            let piece = PIECE.min(to_usize(opened.length - at));
            let piece = window.get(at, piece).map_err(self.failed(&opened.name))?;
            if piece.is_empty() {
                // The next process that opened the log has truncated the file, and the manifest lists
                // what was in it.
                break;
            }
            match frame::find_sound(piece, seed) {
                Some((_, header)) if header.durable >= place.next => return Ok(true),
                Some((found, _)) => at += to_u64(found) + 8,
                // A header may begin in the last bytes of this piece.
                None => at += to_u64(piece.len().saturating_sub(HEADER) / 8 * 8 + 8),
            }
        }
        Ok(false)
    }

    pub(super) fn damage(&self, name: &str, place: &Place, what: &str) -> Error {
        let damage = Error::Damaged {
            file: self.storage.describe(name),
            offset: place.offset,
            position: (place.next > 0).then_some(place.next),
            what: what.to_owned(),
        };
        match &self.archive {
            Some(archive) => archive.attributed(damage),
            None => damage,
        }
    }
}

/// An open segment's file.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    /// The offset at which its frames end at the latest.
    pub(super) limit: u64,
    pub(super) length: u64,
}

impl Opened {
    pub(super) fn window(&self) -> Window<'_> {
        Window::with_piece(self.file.as_ref(), self.length, PIECE)
    }
}

/// What follows after a segment.
pub(super) enum Next {
    Segment(usize),
    Nothing,
    Doubt(Error),
}

pub(super) fn load(storage: &dyn Storage) -> Result<Manifest, Error> {
    match Manifest::load(storage)? {
        Some(manifest) => Ok(manifest),
        None => Err(no_manifest(storage)?),
    }
}
