//! A slot in a page of states: a state's key, position, kind, the number of unused bytes or the length, and its
//! bytes.

use super::stored_state::StoredState;
use crate::base::digest::Digest;

/// Bytes of the header: key (16), position and the number of unused bytes at the slot's end (6), kind (2).
const HEADER: usize = 24;
/// Bytes of the header in a slot above [`FINE_MAX`], where more bytes can be unused: the length (2) comes after the
/// rest.
pub(super) const WIDE_HEADER: usize = HEADER + 2;
/// Alignment of slots, in bytes; the smaller classes are multiples of it.
pub(super) const UNIT: usize = 4;
/// Number of lowest bits, of the six bytes, that give the number of unused bytes, which is less than [`UNIT`].
const UNUSED_BITS: u32 = UNIT.ilog2();
/// Highest position of a state. A service that never paused would take decades to reach it.
pub(super) const POSITION_MAX: u64 = (1 << (48 - UNUSED_BITS)) - 1;
/// Largest size up to which the classes are all multiples of [`UNIT`].
pub(super) const FINE_MAX: usize = 1 << 10;
/// Number of steps per doubling beyond [`FINE_MAX`].
pub(super) const STEPS: usize = 16;
/// Mark, in place of the length, of a state that has a page of its own: it takes the rest of the page.
const LARGE: u16 = u16::MAX;

/// Returns the bytes of the slot for a state of this length.
pub(super) fn slot_bytes(length: usize) -> usize {
    if HEADER + length <= FINE_MAX {
        return (HEADER + length).next_multiple_of(UNIT);
    }
    let bytes = WIDE_HEADER + length;
    bytes.next_multiple_of((1 << (bytes - 1).ilog2()) / STEPS)
}

/// Returns the bytes of the header in a slot of this size.
pub(super) fn header_bytes(slot: usize) -> usize {
    if slot <= FINE_MAX {
        HEADER
    } else {
        WIDE_HEADER
    }
}

/// Encodes the position and the number of unused bytes.
fn position_bytes(position: u64, unused: usize) -> [u8; 6] {
    assert!(position <= POSITION_MAX, "no log has that many records");
    let [bytes @ .., _, _] = (position << UNUSED_BITS | unused as u64).to_le_bytes();
    bytes
}

fn header(state: StoredState<'_>, unused: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(&state.key.0);
    header[16..22].copy_from_slice(&position_bytes(state.position, unused));
    header[22..].copy_from_slice(&state.kind.to_le_bytes());
    header
}

/// Writes a state into its slot.
pub(super) fn write(slot: &mut [u8], state: StoredState<'_>) {
    let length = state.bytes.len();
    let is_wide = header_bytes(slot.len()) == WIDE_HEADER;
    let unused = match is_wide {
        false => slot.len() - HEADER - length,
        true => 0,
    };
    let (first, mut rest) = slot.split_at_mut(HEADER);
    first.copy_from_slice(&header(state, unused));
    if is_wide {
        let length = u16::try_from(length).expect("slots of a class are small");
        let (first, after) = rest.split_at_mut(2);
        first.copy_from_slice(&length.to_le_bytes());
        rest = after;
    }
    rest[..length].copy_from_slice(state.bytes);
}

/// Creates the page of a state that has one of its own, with `room` bytes.
pub(super) fn page_of_one(state: StoredState<'_>, room: usize) -> Vec<u8> {
    let mut page = Vec::with_capacity(room);
    page.extend_from_slice(&header(state, 0));
    page.extend_from_slice(&LARGE.to_le_bytes());
    page.extend_from_slice(state.bytes);
    page
}

/// Sets the commit position in a page made by [`page_of_one`].
pub(super) fn set_position(page: &mut [u8], position: u64) {
    page[16..22].copy_from_slice(&position_bytes(position, 0));
}

/// Decodes the state in this slot, or alone in its page.
pub(super) fn parse(slot: &[u8]) -> Option<StoredState<'_>> {
    let is_wide = header_bytes(slot.len()) == WIDE_HEADER;
    let (key, rest) = slot.split_first_chunk()?;
    let ([a, b, c, d, e, f], rest) = rest.split_first_chunk::<6>()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let position = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]);
    let bytes = if is_wide {
        let (length, rest) = rest.split_first_chunk()?;
        match u16::from_le_bytes(*length) {
            LARGE => rest,
            length => rest.get(..usize::from(length))?,
        }
    } else {
        let unused = usize::from(*a) & (UNIT - 1);
        rest.get(..rest.len().checked_sub(unused)?)?
    };
    Some(StoredState {
        kind: u16::from_le_bytes(*kind),
        key: Digest(*key),
        position: position >> UNUSED_BITS,
        bytes,
    })
}
