//! A process of a tool or a hook, with everything that it starts.
//!
//! # Invariants
//! - It leads a process group of its own. Whoever drops or kills it before it ended kills the whole group.
//! - What it left running when it ended by itself goes on; its output is waited for only a moment.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long output is waited for after the end, should something in the background hold the pipes open.
const DRAIN: Duration = Duration::from_millis(300);
/// Far enough away to be never.
const NEVER: Duration = Duration::from_secs(86_400 * 365);
const BLOCK_BYTES: usize = 16 << 10;

/// Where output came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with an exit code, or by a signal of somebody else.
    Exit(Option<i32>),
    TimedOut,
    Aborted,
}

/// What comes from a process.
#[derive(Debug)]
pub(super) enum Piece {
    Output(Stream, Vec<u8>),
    /// The last piece.
    Ended(Ended),
}

/// A process.
pub(super) struct Process {
    child: Child,
    feed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    out: Pipe,
    err: Pipe,
    deadline: Instant,
    ended: Option<Ended>,
    drained: Instant,
}

struct Pipe(Option<Pin<Box<dyn AsyncRead + Send>>>);

impl Pipe {
    fn of(pipe: Option<impl AsyncRead + Send + 'static>) -> Self {
        Self(pipe.map(|pipe| Box::pin(pipe) as _))
    }

    /// The next bytes; `None` at the end.
    async fn read(&mut self) -> Option<Vec<u8>> {
        let Some(pipe) = &mut self.0 else { return std::future::pending().await };
        let mut block = vec![0; BLOCK_BYTES];
        match pipe.read(&mut block).await {
            Ok(len) if len > 0 => {
                block.truncate(len);
                Some(block)
            }
            Ok(_) | Err(_) => {
                self.0 = None;
                None
            }
        }
    }
}

impl Process {
    /// Starts `command` with `input` on its standard input, or with none.
    pub fn start(mut command: Command, input: Option<Vec<u8>>) -> io::Result<Self> {
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let feed = child.stdin.take().zip(input).map(|(stdin, input)| Box::pin(feed(stdin, input)) as _);
        let (out, err) = (Pipe::of(child.stdout.take()), Pipe::of(child.stderr.take()));
        let far = Instant::now() + NEVER;
        Ok(Self { child, feed, out, err, deadline: far, ended: None, drained: far })
    }

    /// Ends the process when it takes longer than this from now.
    pub fn set_limit(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit.min(NEVER);
    }

    /// The next piece. Dropping the future loses nothing.
    pub async fn next(&mut self, abort: &CancellationToken) -> Piece {
        loop {
            if let Some(ended) = self.ended
                && self.out.0.is_none()
                && self.err.0.is_none()
            {
                return Piece::Ended(ended);
            }
            let is_running = self.ended.is_none();
            let stopped = tokio::select! {
                biased;
                () = abort.cancelled(), if is_running => Some(Ended::Aborted),
                () = sleep_until(self.deadline), if is_running => Some(Ended::TimedOut),
                Some(bytes) = self.out.read(), if self.out.0.is_some() => return Piece::Output(Stream::Out, bytes),
                Some(bytes) = self.err.read(), if self.err.0.is_some() => return Piece::Output(Stream::Err, bytes),
                () = async { if let Some(feed) = &mut self.feed { feed.await } }, if self.feed.is_some() => {
                    self.feed = None;
                    None
                }
                status = self.child.wait(), if is_running => {
                    self.ended = Some(Ended::Exit(status.ok().and_then(|status| status.code())));
                    self.drained = Instant::now() + DRAIN;
                    None
                }
                () = sleep_until(self.drained), if !is_running => {
                    (self.out.0, self.err.0) = (None, None);
                    None
                }
                else => None,
            };
            if let Some(stopped) = stopped {
                self.kill().await;
                self.ended = Some(stopped);
                self.drained = Instant::now() + DRAIN;
            }
        }
    }

    /// Kills the process and everything in its group.
    pub async fn kill(&mut self) {
        if let Some(mut killer) = self.killer() {
            let _ = Command::from(std::mem::replace(&mut killer, std::process::Command::new("sh"))).status().await;
        }
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }

    /// The command that kills the group; `None` when the leader was waited for, so that its number may be another's.
    fn killer(&self) -> Option<std::process::Command> {
        let id = self.child.id().filter(|_| cfg!(unix))?;
        let mut killer = std::process::Command::new("sh");
        killer.args(["-c", "kill -s KILL -- \"-$1\"", "sh", &id.to_string()]);
        killer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(killer)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none()
            && let Some(mut killer) = self.killer()
        {
            let _ = killer.status();
        }
    }
}

/// A program that does not read its input is no failure.
async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    let _ = stdin.write_all(&input).await;
    let _ = stdin.shutdown().await;
}
