//! A browser on a screen in memory: keys are pressed, everything is answered, and the screen is text.
//!
//! # Invariants
//! - [`Screen::press`] returns when nothing is waited for any more, so that what is seen does not depend on threads.

use pi_sessions::cli::browse::{Browser, BrowserOptions};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr as _;

/// A browser and its screen.
#[derive(Debug)]
pub struct Screen {
    pub browser: Browser,
    terminal: Terminal<TestBackend>,
}

impl Screen {
    /// Opens a browser and waits until it has read everything.
    pub fn open(options: BrowserOptions) -> Self {
        let terminal = Terminal::new(TestBackend::new(options.size.0, options.size.1)).expect("a screen in memory");
        let mut browser = Browser::open(options).expect("threads");
        browser.settle();
        Self { browser, terminal }
    }

    /// Presses keys, by their names.
    pub fn press(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            self.browser.press(key);
            self.browser.settle();
        }
        self
    }

    /// The same before anything that they ask for is there.
    pub fn press_at_once(&mut self, keys: &str) -> &mut Self {
        keys.split_whitespace().for_each(|key| self.browser.press(key));
        self.browser.settle();
        self
    }

    /// Types a text, key by key.
    pub fn write(&mut self, text: &str) -> &mut Self {
        for char in text.chars() {
            self.browser.press(&if char == ' ' { "Space".to_owned() } else { char.to_string() });
        }
        self.browser.settle();
        self
    }

    /// Lets time go on.
    pub fn tick(&mut self) -> &mut Self {
        self.browser.tick();
        self.browser.settle();
        self
    }

    /// Gives the screen another size.
    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.terminal.backend_mut().resize(columns, rows);
        self.browser.resize(columns, rows);
        self.browser.settle();
        self
    }

    /// The screen as text.
    pub fn text(&mut self) -> String {
        let buffer = self.buffer();
        let columns = usize::from(buffer.area.width);
        let rows = buffer.content().chunks(columns.max(1)).map(|cells| {
            let mut row = String::new();
            let mut covered = 0;
            for cell in cells {
                if covered > 0 {
                    covered -= 1;
                    continue;
                }
                row.push_str(cell.symbol());
                covered = cell.symbol().width().saturating_sub(1);
            }
            row.trim_end().to_owned()
        });
        rows.map(|row| format!("{row}\n")).collect()
    }

    /// The row of the screen that holds a text.
    pub fn row_with(&mut self, text: &str) -> String {
        let screen = self.text();
        let row = screen.lines().find(|row| row.contains(text));
        row.unwrap_or_else(|| panic!("no {text:?} in\n{screen}")).to_owned()
    }

    /// Whether anything on the screen has a colour.
    pub fn has_colors(&mut self) -> bool {
        self.buffer().content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    }

    fn buffer(&mut self) -> Buffer {
        let browser = &mut self.browser;
        self.terminal.draw(|frame| browser.draw(frame)).expect("a screen in memory");
        self.terminal.backend().buffer().clone()
    }
}
