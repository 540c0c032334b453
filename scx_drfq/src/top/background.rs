// SPDX-License-Identifier: GPL-2.0-only
//! A live source in a separate thread, so that keys never wait for an answer of the
//! scheduler.

use std::{
    sync::mpsc::{Receiver, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::Result;
use drfq_view::{snapshot::Snapshot, source::Source};

/// How often the screen looks for a snapshot.
const LOOK: Duration = Duration::from_millis(25);

/// The snapshots of another source.
pub struct Background {
    name: String,
    snapshots: Receiver<Result<Snapshot>>,
    over: bool,
}

impl Background {
    /// Takes snapshots of `source` until it is over or fails.
    pub fn start(mut source: impl Source + Send + 'static) -> Self {
        let name = source.name();
        // If the screen falls behind, intervals become longer.
        let (sender, snapshots) = sync_channel(1);
        thread::spawn(move || {
            while !source.over() {
                thread::sleep(source.wait());
                let Some(result) = source.poll().transpose() else {
                    continue;
                };
                let failed = result.is_err();
                if sender.send(result).is_err() || failed {
                    return;
                }
            }
        });
        Self {
            name,
            snapshots,
            over: false,
        }
    }
}

impl Source for Background {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn wait(&self) -> Duration {
        LOOK
    }

    fn poll(&mut self) -> Result<Option<Snapshot>> {
        match self.snapshots.try_recv() {
            Ok(result) => result.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.over = true;
                Ok(None)
            }
        }
    }

    fn over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use anyhow::bail;

    use super::*;

    /// A source whose every answer waits for the test.
    struct Slow(Receiver<Option<Snapshot>>);

    impl Source for Slow {
        fn name(&self) -> String {
            "slow".into()
        }

        fn wait(&self) -> Duration {
            Duration::ZERO
        }

        fn poll(&mut self) -> Result<Option<Snapshot>> {
            match self.0.recv() {
                Ok(Some(snapshot)) => Ok(Some(snapshot)),
                _ => bail!("scx_drfq has ended"),
            }
        }

        fn over(&self) -> bool {
            false
        }
    }

    fn background() -> (Sender<Option<Snapshot>>, Background) {
        let (answers, source) = channel();
        (answers, Background::start(Slow(source)))
    }

    /// Looks until something comes.
    fn next(background: &mut Background) -> Result<Snapshot> {
        loop {
            if let Some(snapshot) = background.poll()? {
                return Ok(snapshot);
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_look_returns_while_the_source_waits_for_its_answer() {
        let (answers, mut background) = background();
        assert!(background.poll().unwrap().is_none());
        let snapshot = Snapshot {
            at_unix_ns: 7,
            ..Snapshot::default()
        };
        answers.send(Some(snapshot)).unwrap();
        assert_eq!(next(&mut background).unwrap().at_unix_ns, 7);
        assert!(background.poll().unwrap().is_none());
    }

    #[test]
    fn an_error_of_the_source_arrives_and_ends_it() {
        let (answers, mut background) = background();
        answers.send(None).unwrap();
        let error = next(&mut background).unwrap_err().to_string();
        assert_eq!(error, "scx_drfq has ended");
        while !background.over() {
            assert!(background.poll().unwrap().is_none());
        }
    }
}
