//! The source of pieces: memory that is taken from the system once, and never returned.
//!
//! A huge page must be cleared at its first touch, and in a virtual machine the host has to find it, too. That was
//! measured to take 0.2 to 5 ms, so a thread does it ahead ([`keep_ready`]). Without the thread, and when more pages
//! are needed than it has ready, the caller does it.
//!
//! That thread runs only where nobody else wants a processor ([`come_last`]): a lane that wakes up takes the
//! processor at once, however much of a page is left to clear. So the thread may be stopped anywhere, and nobody may
//! wait for it: a ready page is taken only where the thread does not hold its lock.
//!
//! The first [`USUAL`] bytes are in pages of the usual size, which take only the memory that is touched: a small
//! service uses no huge page.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use memmap2::{Advice, MmapMut};
use parking_lot::Mutex;
use procfs::sys::kernel::Version;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Memory that its owner has for good, or until it passes the memory on.
pub(super) type Memory = &'static mut [u8];

/// Size of a block handed out at a time, in bytes.
pub(super) const BLOCK: usize = 64 << 10;
/// Size of a huge page, in bytes.
const HUGE: usize = 2 << 20;
/// Bytes in usual pages that are used before huge ones.
const USUAL: usize = 16 << 20;
/// Bytes of addresses mapped at a time; addresses not touched take no memory yet.
const MAPPED: usize = 64 << 20;
/// Maximum number of huge pages touched before they are needed.
const READY: usize = 4;
/// Number of taken huge pages for each one touched ahead: so the unused pages are a small part.
const TAKEN_TO_READY: usize = 8;
/// The version of Linux from which on touching a page locks only its own mapping.
const TOUCHED_ALONE: (u8, u8) = (6, 10);
/// Priority, as `nice` value, of the thread that touches pages under an older kernel.
const NICE: i32 = 5;
/// Size in bytes of a system's smallest page: each is touched, in case huge pages are not available.
const SMALL: usize = 4 << 10;

struct Arena {
    /// Blocks left of the last page.
    blocks: Vec<Memory>,
    /// Bytes taken of usual pages.
    usual: usize,
    /// Huge pages that have not been touched.
    untouched: Untouched,
}

/// Addresses of huge pages that have no memory yet.
struct Untouched(Memory);

static ARENA: Mutex<Arena> = Mutex::new(Arena {
    blocks: Vec::new(),
    usual: 0,
    untouched: Untouched(&mut []),
});

/// Huge pages that have been touched. Nobody waits for one of these locks.
static TOUCHED: [Mutex<Option<Memory>>; READY] = [const { Mutex::new(None) }; READY];
/// Number of huge pages taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The thread that touches huge pages; `None` where it could not be started.
static TOUCHING: OnceLock<Option<Thread>> = OnceLock::new();

/// Returns the next [`BLOCK`] bytes, with arbitrary content.
pub(super) fn block() -> Memory {
    let mut arena = ARENA.lock();
    if let Some(block) = arena.blocks.pop() {
        return block;
    }
    let page = arena.page();
    arena.blocks.extend(page.chunks_exact_mut(BLOCK));
    let block = arena.blocks.pop();
    block.expect("a page has many blocks")
}

/// Starts the thread that touches huge pages before they are needed. To be called by a thread that may use all
/// processors, since the new one inherits them.
pub fn keep_ready() {
    TOUCHING.get_or_init(|| {
        let thread = thread::Builder::new().name("memory".to_owned());
        let started = thread.spawn(touch_ahead).inspect_err(|error| {
            tracing::warn!(%error, "memory cannot be made ready ahead: no thread can be started");
        });
        Some(started.ok()?.thread().clone())
    });
}

/// Lets the present thread run only where nobody else wants a processor, and be stopped anywhere.
///
/// Before [`TOUCHED_ALONE`], the kernel touches a page under a lock that everybody waits for who maps memory. The
/// holder must go on running, so there the thread only gets a lower priority.
fn come_last() {
    // Without the permission, the thread keeps the usual priority.
    if Version::current().is_ok_and(|version| (version.major, version.minor) >= TOUCHED_ALONE) {
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    } else {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}

fn touch_ahead() {
    come_last();
    let mut untouched = Untouched(&mut []);
    loop {
        let lacks_one = |place: &Mutex<Option<Memory>>| {
            let touched = place.try_lock();
            touched.is_some_and(|touched| touched.is_none())
        };
        let ahead = ahead(TAKEN.load(Ordering::Acquire));
        if !TOUCHED[..ahead].iter().any(lacks_one) {
            thread::park();
            continue;
        }
        let page = untouched.page();
        page.chunks_mut(SMALL).for_each(|small| small[0] = 0);
        let mut page = Some(page);
        // Only this thread fills places, so a place that was empty still is.
        while page.is_some() {
            for mut touched in TOUCHED.iter().filter_map(Mutex::try_lock) {
                if touched.is_none() {
                    *touched = page.take();
                }
            }
        }
    }
}

/// Returns how many pages are to be touched ahead when `taken` were taken.
fn ahead(taken: usize) -> usize {
    taken.div_ceil(TAKEN_TO_READY).min(READY)
}

/// Takes a page that the thread has touched.
fn touched() -> Option<Memory> {
    let page = TOUCHED.iter().find_map(|place| place.try_lock()?.take());
    if let Some(Some(thread)) = TOUCHING.get() {
        thread.unpark();
    }
    page
}

impl Arena {
    /// Takes a page.
    fn page(&mut self) -> Memory {
        if self.usual < USUAL {
            self.usual += HUGE;
            return vec![0; HUGE].leak();
        }
        TAKEN.fetch_add(1, Ordering::AcqRel);
        touched().unwrap_or_else(|| self.untouched.page())
    }
}

impl Untouched {
    fn page(&mut self) -> Memory {
        if self.0.is_empty() {
            self.0 = mapped();
        }
        let (page, rest) = std::mem::take(&mut self.0).split_at_mut(HUGE);
        self.0 = rest;
        page
    }
}

/// Maps addresses of [`MAPPED`] bytes, beginning at the start of a huge page.
fn mapped() -> Memory {
    // A mapping need not begin at the start of a huge page.
    let Ok(map) = MmapMut::map_anon(MAPPED + HUGE) else {
        // The allocator has other means, and ends the process when it has no memory.
        return vec![0; MAPPED].leak();
    };
    // A system without huge pages returns an error here, and uses others.
    let _ = map.advise(Advice::HugePage);
    let map: &'static mut MmapMut = Box::leak(Box::new(map));
    let before = map.as_ptr().addr().wrapping_neg() % HUGE;
    &mut map[before..before + MAPPED]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use procfs::process::{Process, VmFlags};

    use super::*;

    #[test]
    fn huge_pages_are_asked_for_where_the_system_has_them() {
        let address = u64::try_from(mapped().as_ptr().addr()).expect("an address has 64 bits");
        let maps = Process::myself().and_then(|own| own.smaps());
        let maps = maps.expect("the kernel tells what is mapped");
        let mut maps = maps.iter();
        let map = maps.find(|map| (map.address.0..map.address.1).contains(&address));
        let flags = map.expect("it is mapped").extension.vm_flags;
        let has_huge = Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.contains(VmFlags::HG), has_huge);
    }

    #[test]
    fn pages_are_touched_ahead_and_replaced_as_they_are_taken() {
        keep_ready();
        TAKEN.fetch_max(READY * TAKEN_TO_READY, Ordering::AcqRel);
        let began = Instant::now();
        let mut taken = 0;
        while taken < 2 * READY {
            taken += usize::from(touched().is_some());
            assert!(began.elapsed() < Duration::from_secs(60), "{taken}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn pages_touched_ahead_are_a_small_share_of_those_taken() {
        let expected = [(0, 0), (1, 1), (8, 1), (9, 2), (24, 3), (25, 4), (1_000, 4)];
        assert!(
            expected
                .iter()
                .all(|(taken, ready)| ahead(*taken) == *ready)
        );
    }

    #[test]
    fn a_mapping_begins_at_a_huge_page_boundary() {
        let memory = mapped();
        assert_eq!(memory.as_ptr().addr() % HUGE, 0);
        assert_eq!(memory.len(), MAPPED);
        assert!(memory.chunks(SMALL).all(|small| small[0] == 0));
    }

    #[test]
    fn no_block_is_handed_out_twice_by_however_many_threads_they_are_taken() {
        keep_ready();
        const EACH: u32 = 110;
        let take = |thread: u32| {
            let mut blocks = Vec::new();
            for number in 0..EACH {
                let block = block();
                assert_eq!(block.len(), BLOCK);
                let name = (thread * EACH + number).to_le_bytes();
                block
                    .chunks_exact_mut(4)
                    .for_each(|part| part.copy_from_slice(&name));
                blocks.push((name, block));
            }
            blocks
        };
        let all = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| scope.spawn(move || take(thread)))
                .collect();
            let all = threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("it ends"));
            all.collect::<Vec<_>>()
        });
        let mut places = HashMap::new();
        for (name, block) in &all {
            assert!(block.chunks_exact(4).all(|part| part == name));
            assert_eq!(places.insert(block.as_ptr().addr(), name), None);
        }
        assert_eq!(all.len(), 4 * EACH as usize);
    }
}
