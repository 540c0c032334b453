// SPDX-License-Identifier: GPL-2.0-only
//! The agent's link against servers that misbehave. They are FAKE: all registers
//! but the identity are zero. A server answers well except for one misdeed.

mod common;

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::FakeScheduler;
use drfq_controller_link::{
    forwarder::Forwarder,
    link_stats::LinkState,
    reconnector::{Endpoint, Reconnector},
    registers::Fault,
    target::Target,
};
use proptest::prelude::*;

/// What a server does instead of answering.
#[derive(Clone, Debug)]
enum Misdeed {
    Close,
    Silence,
    HalfAFrame,
    WrongTag,
    AnEvent,
    HugeLength,
    TinyLength,
    ShortBatch,
    HugeCount,
    Refusal,
    Bytes(Vec<u8>),
}

/// Frames of a connection before its first poll: hello, four for the identity,
/// one for the traffic.
const CONNECT_FRAMES: usize = 6;

/// Serves clients, and does the misdeed instead of answering frame number `at`.
struct FakeServer {
    path: PathBuf,
    frames: Arc<AtomicUsize>,
    _dir: tempfile::TempDir,
}

impl FakeServer {
    fn start(misdeed: Misdeed, at: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fake");
        let listener = UnixListener::bind(&path).unwrap();
        let frames = Arc::new(AtomicUsize::new(0));
        let served = Arc::clone(&frames);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &misdeed, at, &served);
            }
        });
        Self {
            path,
            frames,
            _dir: dir,
        }
    }

    fn served(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }
}

fn serve(
    mut stream: UnixStream,
    misdeed: &Misdeed,
    at: usize,
    frames: &AtomicUsize,
) -> std::io::Result<()> {
    loop {
        let mut frame = vec![0; 40];
        stream.read_exact(&mut frame)?;
        let length = u32::from_le_bytes(frame[..4].try_into().unwrap());
        frame.resize(length as usize, 0);
        stream.read_exact(&mut frame[40..])?;
        let good = answer(frame);
        if frames.fetch_add(1, Ordering::Relaxed) != at {
            stream.write_all(&good)?;
            continue;
        }
        match misdo(misdeed, good) {
            Some(bytes) => stream.write_all(&bytes)?,
            None if matches!(misdeed, Misdeed::Silence) => {
                // Waits until the client gives up.
                let _ = stream.read(&mut [0]);
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// What a good server with 64 hardware ids and 2 cores answers.
fn answer(mut frame: Vec<u8>) -> Vec<u8> {
    frame[5] = 0x80;
    if frame[4] == 1 {
        // No features: time runs by itself.
        frame[24..32].fill(0);
    }
    for record in frame[40..].chunks_exact_mut(24) {
        let offset = u64::from_le_bytes(record[8..16].try_into().unwrap());
        let value: u64 = match offset {
            0 => 0x434d_2d51_4652_4400,
            8 => 1,
            16 => 64,
            24 => 2,
            _ => 0,
        };
        if record[0] != 3 {
            record[16..].copy_from_slice(&value.to_le_bytes());
        }
    }
    frame
}

/// The bytes that the misdeed sends; none if it sends nothing.
fn misdo(misdeed: &Misdeed, mut frame: Vec<u8>) -> Option<Vec<u8>> {
    match misdeed {
        Misdeed::Close | Misdeed::Silence => return None,
        Misdeed::HalfAFrame => frame.truncate(20),
        Misdeed::WrongTag => frame[8] ^= 1,
        Misdeed::AnEvent => frame[5] = 0xc0,
        Misdeed::HugeLength => frame[..4].copy_from_slice(&u32::MAX.to_le_bytes()),
        Misdeed::TinyLength => frame[..4].copy_from_slice(&39u32.to_le_bytes()),
        Misdeed::ShortBatch => {
            frame.truncate(40);
            frame[..4].copy_from_slice(&40u32.to_le_bytes());
        }
        Misdeed::HugeCount => {
            // Of each register that is read.
            let reads = frame[40..]
                .chunks_exact_mut(24)
                .filter(|record| record[0] != 3);
            reads.for_each(|record| record[23] = 0x80);
        }
        Misdeed::Refusal => frame[6] = 8,
        Misdeed::Bytes(bytes) => return Some(bytes.clone()),
    }
    Some(frame)
}

fn endpoint(path: &Path, timeout: Duration) -> Endpoint {
    Endpoint {
        timeout,
        ..Endpoint::new(Target::Unix(path.to_owned()), "/".into(), |_| {})
    }
}

fn open(path: &Path, timeout: Duration) -> Result<Reconnector<Forwarder>, Fault> {
    let driver = Forwarder::new(Duration::from_millis(1));
    Reconnector::open(endpoint(path, timeout), driver)
}

const SHORT: Duration = Duration::from_millis(300);

fn misdeeds() -> Vec<(Misdeed, &'static str)> {
    vec![
        (Misdeed::Close, "closed the connection"),
        (Misdeed::Silence, "does not answer"),
        (Misdeed::HalfAFrame, "does not answer"),
        (Misdeed::WrongTag, "in reply to"),
        (Misdeed::AnEvent, "in reply to"),
        (Misdeed::HugeLength, "a frame of 4294967295 bytes"),
        (Misdeed::TinyLength, "a frame of 39 bytes"),
        (Misdeed::ShortBatch, "answered another batch"),
        (Misdeed::HugeCount, "9223372036854775808 bytes of id"),
        (Misdeed::Refusal, "only the writer may do that"),
        (Misdeed::Bytes(vec![0; 4096]), "a frame of 0 bytes"),
    ]
}

#[test]
fn a_link_reports_every_misdeed_and_connects_again() {
    for (misdeed, word) in misdeeds() {
        // The first poll succeeds.
        let server = FakeServer::start(misdeed.clone(), CONNECT_FRAMES + 1);
        let mut link = open(&server.path, SHORT).unwrap();
        let mut scheduler = FakeScheduler::with_running(&[10, 20]);
        let stats = link.stats();
        let state = || stats.lock().unwrap().state.clone();
        link.poll(&mut scheduler);
        assert_eq!(state(), LinkState::Connected, "{misdeed:?}");
        scheduler.swap();
        link.poll(&mut scheduler);
        let LinkState::Lost(why) = state() else {
            panic!("{misdeed:?} was not noticed");
        };
        assert!(
            why.contains(word) && !why.contains('\n'),
            "{misdeed:?}: {why}"
        );
        while state() != LinkState::Connected {
            link.poll(&mut scheduler);
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(stats.lock().unwrap().losses, 1);
        link.shutdown(&mut scheduler);
    }
}

#[test]
fn a_misdeed_at_the_start_is_an_error_of_one_line() {
    for at in 0..CONNECT_FRAMES {
        for (misdeed, _) in misdeeds() {
            // The reply to hello is no batch.
            if at == 0 && matches!(misdeed, Misdeed::ShortBatch | Misdeed::HugeCount) {
                continue;
            }
            let server = FakeServer::start(misdeed.clone(), at);
            let Err(fault) = open(&server.path, SHORT) else {
                panic!("{misdeed:?} at {at} was not noticed");
            };
            assert!(!fault.to_string().contains('\n'), "{fault}");
        }
    }
}

#[test]
fn an_ending_agent_does_not_wait_for_a_silent_server() {
    let server = FakeServer::start(Misdeed::Silence, CONNECT_FRAMES + 1);
    let mut link = open(&server.path, Duration::from_secs(1_000_000)).unwrap();
    let stop = link.stop();
    thread::scope(|scope| {
        scope.spawn(|| link.run(&mut FakeScheduler::with_running(&[10, 20])));
        while server.served() < CONNECT_FRAMES + 2 {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_missing_server_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing");
    let why = |path: &Path| open(path, SHORT).err().unwrap().to_string();
    assert!(why(&path).contains("drfq-mc serve --socket"));
    // A socket without a listener.
    drop(UnixListener::bind(&path).unwrap());
    assert!(why(&path).contains("no server listens"));
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(why(&file).contains(file.to_str().unwrap()));
}

#[test]
fn a_server_whose_queue_is_full_delays_for_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hangs");
    let listener =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener
        .bind(&socket2::SockAddr::unix(&path).unwrap())
        .unwrap();
    listener.listen(0).unwrap();
    // It answers nobody, and each connection stays in its queue.
    let began = Instant::now();
    for _ in 0..3 {
        assert!(matches!(open(&path, SHORT).err(), Some(Fault::Silent)));
    }
    assert!(began.elapsed() < Duration::from_secs(30));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn random_bytes_are_refused(
        at in 0usize..CONNECT_FRAMES,
        bytes in prop::collection::vec(any::<u8>(), 40..300),
    ) {
        // A correct length, so that the client does not wait for more bytes.
        let mut bytes = bytes;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let server = FakeServer::start(Misdeed::Bytes(bytes), at);
        prop_assert!(open(&server.path, SHORT).is_err());
    }
}
