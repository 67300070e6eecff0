//! Where pieces come from: memory that is taken from the system once, and for good.
//!
//! A huge page has to be cleared when it is touched for the first time, and in a virtual machine the host
//! has to find it, too. That was measured to take 0.2 to 5 ms, so a thread does it ahead
//! ([`keep_ready`]); without one, and when more is asked for than it has, whoever asks does it.
//!
//! That thread runs where nobody else wants a processor ([`come_last`]): a lane that wakes up beside it
//! takes the processor at once, however much of a page is left to clear. So it may be stopped anywhere,
//! and nobody may wait for it: what it has made ready is taken only where it is not just being put.
//!
//! The first [`USUAL`] bytes are of the usual pages, which cost what of them is touched: a small service
//! takes no huge page at all.

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

/// Memory that somebody has for good, or until it is given to somebody else.
pub(super) type Memory = &'static mut [u8];

/// Bytes of what is handed out at a time.
pub(super) const BLOCK: usize = 64 << 10;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Bytes of usual pages that come before huge ones.
const USUAL: usize = 16 << 20;
/// Bytes of addresses that are mapped at a time; what is not touched is no memory yet.
const MAPPED: usize = 64 << 20;
/// The most huge pages that have been touched before they are asked for.
const READY: usize = 4;
/// Huge pages that were taken, to one that is touched ahead: so what nobody uses yet is a small part.
const TAKEN_TO_READY: usize = 8;
/// The version of Linux from which on a page is touched under a lock of its own mapping alone.
const TOUCHED_ALONE: (u8, u8) = (6, 10);
/// The priority, as `nice` counts, of the thread that touches pages where an older kernel runs.
const NICE: i32 = 5;
/// Bytes of the smallest page that a system has: each is touched, for where no huge one can be had.
const SMALL: usize = 4 << 10;

struct Arena {
    /// What is left of the last page.
    blocks: Vec<Memory>,
    /// Bytes of usual pages that were taken.
    usual: usize,
    /// Of huge pages that have not been touched.
    untouched: Untouched,
}

/// Addresses of huge pages that no memory belongs to yet.
struct Untouched(Memory);

static ARENA: Mutex<Arena> = Mutex::new(Arena {
    blocks: Vec::new(),
    usual: 0,
    untouched: Untouched(&mut []),
});

/// Huge pages that have been touched. Nobody waits for one of these locks.
static TOUCHED: [Mutex<Option<Memory>>; READY] = [const { Mutex::new(None) }; READY];
/// Huge pages that were taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The thread that touches them; `None` where none could be started.
static TOUCHING: OnceLock<Option<Thread>> = OnceLock::new();

/// The next [`BLOCK`] bytes. What they contain is of no meaning.
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

/// From here on a thread touches huge pages before they are needed. To be called by a thread that may use
/// all processors: the other one inherits them.
pub fn keep_ready() {
    TOUCHING.get_or_init(|| {
        let thread = thread::Builder::new().name("memory".to_owned());
        let started = thread.spawn(touch_ahead).inspect_err(|error| {
            tracing::warn!(%error, "memory cannot be made ready ahead: no thread can be started");
        });
        Some(started.ok()?.thread().clone())
    });
}

/// Lets the present thread run where nobody else wants a processor, and be stopped anywhere.
///
/// Before [`TOUCHED_ALONE`], the kernel touches a page under a lock for which all wait who map memory: who
/// may have it has to run on, so there the thread has a lower priority only.
fn come_last() {
    // Without the permission it is a thread as any other.
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
        // Nobody else puts one: a place that lacked one still does.
        while page.is_some() {
            for mut touched in TOUCHED.iter().filter_map(Mutex::try_lock) {
                if touched.is_none() {
                    *touched = page.take();
                }
            }
        }
    }
}

/// How many pages are to be touched ahead when so many were taken.
fn ahead(taken: usize) -> usize {
    taken.div_ceil(TAKEN_TO_READY).min(READY)
}

/// A page that the thread has touched.
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

/// Addresses of [`MAPPED`] bytes, from the beginning of a huge page on.
fn mapped() -> Memory {
    // The system need not begin a mapping where a huge page does.
    let Ok(map) = MmapMut::map_anon(MAPPED + HUGE) else {
        // The allocator has means of its own, and ends the process when it has no memory.
        return vec![0; MAPPED].leak();
    };
    // A system without huge pages says so here, and has others.
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
    fn pages_are_touched_before_they_are_asked_for_and_again_for_each_that_is_taken() {
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
    fn what_is_touched_ahead_is_a_small_part_of_what_is_taken() {
        let expected = [(0, 0), (1, 1), (8, 1), (9, 2), (24, 3), (25, 4), (1_000, 4)];
        assert!(
            expected
                .iter()
                .all(|(taken, ready)| ahead(*taken) == *ready)
        );
    }

    #[test]
    fn what_is_mapped_begins_where_a_huge_page_does() {
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
