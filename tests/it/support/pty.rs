//! The real command on a pseudo-terminal, and what its screen shows.
//!
//! # Invariants
//! - Nothing is waited for by time: a test waits until the screen shows something, and fails where it never does.

use std::io::{Read as _, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::cli::TestEnv;

/// How long the screen may take to show what is waited for, on a machine that does many things.
const DEADLINE: Duration = Duration::from_secs(60);

/// A command on a terminal.
pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All that was written to the terminal.
    pub bytes: Vec<u8>,
}

impl Pty {
    /// Runs the command with arguments in a folder, on a terminal of this size. Nothing of the machine is around it.
    pub fn run(env: &TestEnv, cwd: &std::path::Path, args: &[&str], columns: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pi-sessions"));
        command.env_clear();
        command.env("HOME", env.home());
        command.env("PI_SESSIONS_ROOT", env.root());
        command.env("TERM", "xterm-256color");
        command.env("NO_COLOR", "1");
        command.cwd(cwd);
        command.args(args);
        let child = pair.slave.spawn_command(command).expect("the command");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("its output");
        let writer = pair.master.take_writer().expect("its input");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(len) = reader.read(&mut buffer) {
                if len == 0 || sender.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            master: pair.master,
            writer,
            child,
            output,
            screen: vt100::Parser::new(some(rows), some(columns), 0),
            bytes: Vec::new(),
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) -> &mut Self {
        self.writer.write_all(keys.as_bytes()).expect("a terminal");
        self.writer.flush().expect("a terminal");
        self
    }

    /// Waits until the screen shows a text.
    pub fn wait_for(&mut self, text: &str) -> &mut Self {
        self.wait_until(text, |screen| screen.contents().contains(text))
    }

    /// Waits until the screen is as it should be.
    pub fn wait_until(&mut self, what: &str, is_it: impl Fn(&vt100::Screen) -> bool) -> &mut Self {
        let deadline = Instant::now() + DEADLINE;
        while !is_it(self.screen.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => {
                    self.screen.process(&bytes);
                    self.bytes.extend(bytes);
                }
                Err(error) => panic!("no {what:?} ({error}) on\n{}", self.screen.screen().contents()),
            }
        }
        self
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.master.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).expect("a terminal");
        self.screen.screen_mut().set_size(some(rows), some(columns));
        self
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("it runs")
    }

    /// Waits for the end, and until all output is there; the exit code.
    pub fn end(&mut self) -> u32 {
        let status = self.child.wait().expect("an end");
        while let Ok(bytes) = self.output.recv_timeout(DEADLINE) {
            self.screen.process(&bytes);
            self.bytes.extend(bytes);
        }
        status.exit_code()
    }

    /// Whether the terminal is as a program finds it: its own screen, and the cursor to be seen.
    pub fn is_restored(&self) -> bool {
        let screen = self.screen.screen();
        !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste()
    }
}

fn some(number: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(number).expect("a screen has a size")
}

impl Drop for Pty {
    fn drop(&mut self) {
        // A test that fails leaves it running.
        let _ = self.child.kill();
    }
}
