//! Deadlines of an HTTP/2 connection, derived from its frames (RFC 9113 4.1) in both directions. The library does not
//! expose what a connection is waiting for, and its own limits let a client stay forever that is silent, sends only
//! PING, leaves a head unfinished, or opens no window for a response.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Timeout for the next complete head while no stream is open.
    pub idle: Duration,
    /// Timeout for the rest of a head.
    pub head: Duration,
    /// Timeout for the client to take some bytes of a response.
    pub answer: Duration,
}

/// Length of the connection preface that a client begins with (RFC 9113 3.4), in bytes.
const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
/// Where the kind of a frame is in its head.
const KIND_AT: usize = 3;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const CONTINUATION: u8 = 0x9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// Maximum credit for control frames: how many a client may send in one burst.
const CONTROL_BURST: u32 = 1_000;
/// Time after which a client regains the credit for one control frame.
const CONTROL_PAUSE: Duration = Duration::from_millis(10);
/// Credit for control frames that each HEADERS or DATA frame adds: updates of two windows, and as many again.
const CONTROL_FOR_A_FRAME: u32 = 4;

/// Maximum number of tracked streams. The library allows fewer, so a client with more must be malicious.
const STREAMS_MAX: usize = 1_024;

/// Tracks the frames of one connection.
pub struct Frames {
    patience: Patience,
    inward: Cut,
    outward: Cut,
    /// When the first byte of the unfinished head of a frame came.
    begun: Option<Instant>,
    /// When the unfinished head of a request began, and its stream.
    head: Option<(Instant, u32)>,
    open: HashMap<u32, Stream>,
    /// The newest stream whose head is complete.
    newest: u32,
    /// Control frames that the client may still send.
    credit: u32,
    /// When credit for elapsed time was last added.
    credited: Instant,
    is_flooded: bool,
    /// Since when no stream is open.
    idle: Instant,
    /// A time at or before the next deadline.
    earliest: Instant,
}

#[derive(Clone, Copy)]
enum Stream {
    /// The request is arriving, or its response has not begun.
    Asked,
    /// The response has begun; the time when bytes of it were last taken.
    Answered(Instant),
}

/// Splits bytes into frames.
struct Cut {
    /// Bytes to skip before the next frame's head.
    skip: usize,
    head: [u8; FRAME_HEAD_BYTES],
    filled: usize,
    /// The frame whose payload is being skipped, if the frame's end matters.
    within: Option<Frame>,
}

#[derive(Clone, Copy)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// What [`Cut::next`] found: the begin or the end of a frame.
enum Step {
    Begins(Frame),
    Ends(Frame),
}

impl Cut {
    fn after(skip: usize) -> Self {
        Self {
            skip,
            head: [0; FRAME_HEAD_BYTES],
            filled: 0,
            within: None,
        }
    }

    /// Whether the unfinished head of a frame is known to be one of HEADERS.
    fn is_of_headers(&self) -> bool {
        self.filled > KIND_AT && self.head[KIND_AT] == HEADERS
    }

    /// Returns the next step in these bytes, and removes the consumed ones from the slice.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        let skipped = self.skip.min(bytes.len());
        *bytes = &bytes[skipped..];
        self.skip -= skipped;
        if self.skip > 0 {
            return None;
        }
        if let Some(frame) = self.within.take() {
            return Some(Step::Ends(frame));
        }
        let taken = (FRAME_HEAD_BYTES - self.filled).min(bytes.len());
        let (now, later) = bytes.split_at(taken);
        self.head[self.filled..self.filled + taken].copy_from_slice(now);
        *bytes = later;
        self.filled += taken;
        if self.filled < FRAME_HEAD_BYTES {
            return None;
        }
        self.filled = 0;
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.skip = usize::try_from(length).unwrap_or(usize::MAX);
        let frame = Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        };
        self.within = Some(frame);
        Some(Step::Begins(frame))
    }
}

impl Frames {
    /// Tracks a connection whose client has sent nothing yet.
    #[must_use]
    pub fn new(patience: Patience, now: Instant) -> Self {
        Self {
            patience,
            inward: Cut::after(PREFACE_BYTES),
            outward: Cut::after(0),
            begun: None,
            head: None,
            open: HashMap::new(),
            newest: 0,
            credit: CONTROL_BURST,
            credited: now,
            is_flooded: false,
            idle: now,
            earliest: now + patience.idle,
        }
    }

    /// Whether the client sent more control frames than it has reason to: a ping or a window's update costs the
    /// client nothing, but has to be read and answered here.
    #[must_use]
    pub fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Charges the credit for a frame that is no part of a request.
    fn control(&mut self, now: Instant) {
        let earned = now.duration_since(self.credited).as_millis() / CONTROL_PAUSE.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(CONTROL_BURST);
            self.credit = self.credit.saturating_add(earned).min(CONTROL_BURST);
            self.credited = now;
        }
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => self.is_flooded = true,
        }
    }

    /// Adds credit for a frame of a request or its response.
    fn earn(&mut self) {
        self.credit = (self.credit + CONTROL_FOR_A_FRAME).min(CONTROL_BURST);
    }

    /// Tracks bytes that the client has sent.
    pub fn received(&mut self, mut bytes: &[u8], now: Instant) {
        while let Some(step) = self.inward.next(&mut bytes) {
            match step {
                Step::Begins(frame) => {
                    let begun = self.begun.take().unwrap_or(now);
                    match frame.kind {
                        HEADERS => {
                            self.earn();
                            self.head = Some((begun, frame.stream));
                            self.note(begun + self.patience.head);
                        }
                        RST_STREAM => self.close(frame.stream, now),
                        DATA | CONTINUATION => {}
                        _ => self.control(now),
                    }
                }
                Step::Ends(frame) => {
                    let may_end = matches!(frame.kind, HEADERS | CONTINUATION);
                    if may_end && frame.flags & END_HEADERS != 0 && self.head.take().is_some() {
                        // Trailers are a head, too, and may come when the stream is already closed.
                        if frame.stream > self.newest {
                            self.newest = frame.stream;
                            self.open.insert(frame.stream, Stream::Asked);
                        }
                    }
                }
            }
        }
        self.note_begun(now);
    }

    /// Notes when the last, unfinished head of a frame began, if there is one.
    fn note_begun(&mut self, now: Instant) {
        if self.inward.filled > 0 {
            let begun = *self.begun.get_or_insert(now);
            if self.inward.is_of_headers() {
                self.note(begun + self.patience.head);
            }
        }
    }

    /// Tracks bytes that were written to the client.
    pub fn written(&mut self, mut bytes: &[u8], now: Instant) {
        while let Some(step) = self.outward.next(&mut bytes) {
            let Step::Begins(frame) = step else {
                continue;
            };
            if matches!(frame.kind, HEADERS | DATA) {
                self.earn();
            }
            let ends = frame.flags & END_STREAM != 0;
            match frame.kind {
                RST_STREAM => self.close(frame.stream, now),
                HEADERS | DATA if ends => self.close(frame.stream, now),
                HEADERS | DATA => {
                    if let Some(stream) = self.open.get_mut(&frame.stream) {
                        *stream = Stream::Answered(now);
                        self.note(now + self.patience.answer);
                    }
                }
                _ => {}
            }
        }
    }

    fn close(&mut self, stream: u32, now: Instant) {
        if self.open.remove(&stream).is_some() && self.open.is_empty() {
            self.idle = now;
            self.note(now + self.patience.idle);
        }
    }

    fn note(&mut self, deadline: Instant) {
        self.earliest = self.earliest.min(deadline);
    }

    /// Whether no request is arriving or being answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns a time at or before the next deadline; cheaper than [`Frames::deadline`].
    #[must_use]
    pub fn earliest(&self) -> Instant {
        self.earliest
    }

    /// Returns when the connection has to be closed if nothing happens. Requests that are arriving or being answered
    /// have limits of their own.
    pub fn deadline(&mut self, now: Instant) -> Instant {
        let patience = self.patience;
        if self.open.len() > STREAMS_MAX {
            return now;
        }
        let head = self.head.map(|(since, _)| since);
        let begun = self.begun.filter(|_| self.inward.is_of_headers());
        let head = head.or(begun).map(|since| since + patience.head);
        let idle = (self.open.is_empty()).then_some(self.idle + patience.idle);
        let answers = self.open.values().filter_map(|stream| match stream {
            Stream::Asked => None,
            Stream::Answered(since) => Some(*since + patience.answer),
        });
        let deadline = answers.chain(head).chain(idle).min();
        // Without a deadline, check again after the idle timeout.
        self.earliest = deadline.unwrap_or(now + patience.idle);
        self.earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(75),
        head: Duration::from_secs(15),
        answer: Duration::from_secs(30),
    };
    const PING: u8 = 0x6;

    fn frame(kind: u8, flags: u8, stream: u8, payload: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, payload, kind, flags, 0, 0, 0, stream];
        bytes.resize(bytes.len() + usize::from(payload), 0xff);
        bytes
    }

    #[test]
    fn excessive_control_frames_are_a_flood_and_justified_ones_are_not() {
        let preface = vec![0; PREFACE_BYTES];
        let ping = frame(PING, 0, 0, 8);
        // A burst up to the limit, then one frame each time the credit for one has come back.
        let mut steady = Timed::new();
        steady.received(&preface);
        for _ in 0..CONTROL_BURST {
            steady.received(&ping);
        }
        assert!(!steady.frames.is_flooded());
        for _ in 0..3 * CONTROL_BURST {
            steady.now += CONTROL_PAUSE;
            steady.received(&ping);
        }
        assert!(!steady.frames.is_flooded());
        steady.received(&ping);
        assert!(steady.frames.is_flooded());
        // A long silence does not raise the burst above its maximum.
        let mut silent = Timed::new();
        silent.received(&preface);
        silent.now += Duration::from_secs(3_600);
        for _ in 0..CONTROL_BURST {
            silent.received(&ping);
        }
        assert!(!silent.frames.is_flooded());
        silent.received(&ping);
        assert!(silent.frames.is_flooded());
        // A client opens windows for the DATA and HEADERS frames that it receives.
        for kind in [DATA, HEADERS] {
            let mut reader = Timed::new();
            reader.received(&preface);
            for _ in 0..3 * CONTROL_BURST {
                reader.written(&frame(kind, 0, 1, 4));
                for _ in 0..CONTROL_FOR_A_FRAME {
                    reader.received(&frame(0x8, 0, 1, 4));
                }
            }
            assert!(!reader.frames.is_flooded());
        }
        // Every kind of control frame counts, however the bytes are cut.
        for kind in [PING, 0x4, 0x8, 0x2, 0x77] {
            let mut flood = Timed::new();
            flood.received(&preface);
            let frames = frame(kind, 0, 0, 6).repeat(to_usize(CONTROL_BURST) + 1);
            for piece in frames.chunks(7) {
                flood.received(piece);
            }
            assert!(flood.frames.is_flooded(), "{kind}");
        }
    }

    fn to_usize(number: u32) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    /// A connection whose clock the test sets.
    struct Timed {
        frames: Frames,
        now: Instant,
    }

    impl Timed {
        fn new() -> Self {
            let now = Instant::now();
            let frames = Frames::new(PATIENCE, now);
            Self { frames, now }
        }

        fn received(&mut self, bytes: &[u8]) {
            self.frames.received(bytes, self.now);
        }

        fn written(&mut self, bytes: &[u8]) {
            self.frames.written(bytes, self.now);
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        /// Returns the seconds until the deadline.
        fn left(&mut self) -> u64 {
            let deadline = self.frames.deadline(self.now);
            assert!(self.frames.earliest() <= deadline);
            deadline.duration_since(self.now).as_secs()
        }
    }

    #[test]
    fn a_client_that_is_silent_or_only_pings_gets_the_idle_timeout() {
        let mut timed = Timed::new();
        timed.pass(10);
        timed.received(&[b'P'; PREFACE_BYTES]);
        timed.received(&frame(PING, 0, 0, 8));
        assert_eq!(timed.left(), 65);
        assert!(timed.frames.is_idle());
        timed.received(&frame(HEADERS, END_HEADERS | END_STREAM, 1, 9));
        timed.pass(300);
        // A request is being answered.
        assert!(!timed.frames.is_idle());
        assert_eq!(timed.left(), 75);
        timed.written(&frame(HEADERS, END_HEADERS | END_STREAM, 1, 9));
        timed.received(&frame(PING, 0, 0, 8));
        timed.pass(5);
        assert_eq!(timed.left(), 70);
        assert!(timed.frames.is_idle());
    }

    #[test]
    fn trailers_of_a_stream_that_is_over_do_not_keep_a_connection_open() {
        let mut timed = Timed::new();
        timed.received(&[b'P'; PREFACE_BYTES]);
        timed.received(&frame(HEADERS, END_HEADERS, 1, 9));
        // The request was answered before its body came.
        timed.written(&frame(HEADERS, END_HEADERS | END_STREAM, 1, 9));
        timed.written(&frame(RST_STREAM, 0, 1, 4));
        timed.received(&frame(HEADERS, END_HEADERS | END_STREAM, 1, 9));
        assert!(timed.frames.is_idle());
        timed.pass(5);
        assert_eq!(timed.left(), 70);
        // The next request counts as one.
        timed.received(&frame(HEADERS, END_HEADERS | END_STREAM, 3, 9));
        assert!(!timed.frames.is_idle());
    }

    #[test]
    fn a_head_has_its_time_until_its_last_byte() {
        let mut timed = Timed::new();
        timed.received(&[b'P'; PREFACE_BYTES]);
        let whole = [
            frame(HEADERS, 0, 1, 9),
            frame(CONTINUATION, END_HEADERS, 1, 9),
        ]
        .concat();
        for byte in &whole[..whole.len() - 1] {
            timed.received(std::slice::from_ref(byte));
        }
        timed.pass(14);
        assert_eq!(timed.left(), 1);
        timed.received(&whole[whole.len() - 1..]);
        assert_eq!(timed.left(), 75);
    }

    #[test]
    fn a_head_is_timed_from_its_frames_first_byte_and_other_frames_longer() {
        let mut timed = Timed::new();
        timed.received(&[b'P'; PREFACE_BYTES]);
        let whole = frame(HEADERS, END_HEADERS, 1, 9);
        for byte in &whole[..KIND_AT] {
            timed.received(std::slice::from_ref(byte));
            timed.pass(1);
        }
        assert_eq!(timed.left(), 72, "it may be no head");
        timed.received(&whole[KIND_AT..=KIND_AT]);
        let earliest = timed.frames.earliest().duration_since(timed.now);
        assert_eq!(earliest, Duration::from_secs(12));
        assert_eq!(timed.left(), 12);
        timed.pass(2);
        timed.received(&whole[KIND_AT + 1..whole.len() - 1]);
        assert_eq!(timed.left(), 10);
        timed.received(&whole[whole.len() - 1..]);
        assert_eq!(timed.left(), 75);
        timed.received(&frame(DATA, 0, 1, 9)[..FRAME_HEAD_BYTES - 1]);
        assert_eq!(timed.left(), 75);
    }

    #[test]
    fn an_answer_of_which_nothing_is_taken_ends_it_whatever_else_is_taken() {
        let mut timed = Timed::new();
        timed.received(&[b'P'; PREFACE_BYTES]);
        for stream in [1, 3] {
            timed.received(&frame(HEADERS, END_HEADERS | END_STREAM, stream, 9));
            timed.written(&frame(HEADERS, END_HEADERS, stream, 9));
        }
        timed.pass(20);
        timed.written(&frame(DATA, 0, 1, 200));
        assert_eq!(timed.left(), 10);
        timed.written(&frame(DATA, END_STREAM, 3, 200));
        assert_eq!(timed.left(), 30);
        // A client that has reset the stream does not wait for it.
        timed.received(&frame(RST_STREAM, 0, 1, 4));
        assert_eq!(timed.left(), 75);
    }
}
