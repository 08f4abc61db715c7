//! One run of a command: its global options, its surroundings and its output.
//!
//! # Invariants
//! - The configuration is read once, when a command first asks for it, so that commands that need none work with a
//!   broken one.

use std::fmt;
use std::path::PathBuf;

use crate::cli::args::GlobalArgs;
use crate::cli::config::{Config, Root};
use crate::cli::error::CliError;
use crate::cli::surroundings::Surroundings;
use crate::cli::ui::Ui;
use crate::storage::index::ListingCache;
use crate::storage::repo::Repo;

/// One run of a command.
pub struct Invocation<'a> {
    /// Where it prints.
    pub ui: &'a mut Ui,
    /// What is around it.
    pub surroundings: Surroundings,
    global: GlobalArgs,
    settled: Option<Settled>,
}

/// What the configuration comes to.
#[derive(Clone, Debug)]
struct Settled {
    config: Config,
    root: Root,
}

impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation").field("global", &self.global).finish_non_exhaustive()
    }
}

impl<'a> Invocation<'a> {
    pub(super) fn new(global: GlobalArgs, surroundings: Surroundings, ui: &'a mut Ui) -> Self {
        ui.set_verbose(global.verbose);
        Self { ui, surroundings, global, settled: None }
    }

    /// Takes another root than `--root` named.
    pub(super) fn use_root(&mut self, root: PathBuf) {
        self.global.root = Some(root);
        self.settled = None;
    }

    /// The configuration, and the root of sessions.
    ///
    /// # Errors
    /// When the file is wrong, or there is no root.
    pub fn settings(&mut self) -> Result<(&Config, &Root), CliError> {
        if self.settled.is_none() {
            let config = Config::load(&self.surroundings)?;
            let (root, notes) = Root::find(self.global.root.as_deref(), &self.surroundings, &config)?;
            for note in notes {
                self.ui.warn(&note);
            }
            if self.ui.is_verbose() {
                self.ui.note(&format!("the root (from {}) is {}", root.origin, root.path.display()));
            }
            self.settled = Some(Settled { config, root });
        }
        match &self.settled {
            Some(settled) => Ok((&settled.config, &settled.root)),
            None => Err(CliError::bug("the configuration was read and is gone")),
        }
    }

    /// The sessions.
    ///
    /// # Errors
    /// When the configuration is wrong.
    pub fn repo(&mut self) -> Result<Repo, CliError> {
        let (_, root) = self.settings()?;
        let (path, layout) = (root.path.clone(), root.layout);
        let cache = self.cache_dir()?.map(ListingCache::new);
        let around = &self.surroundings;
        let repo = Repo::new(around.fs.clone(), around.clock.clone(), around.ids.clone(), path, layout);
        Ok(match cache {
            Some(cache) => repo.with_cache(cache),
            None => repo,
        })
    }

    /// The folder for what can be made again; `None` where the platform has none or the configuration wants none.
    ///
    /// # Errors
    /// When the configuration is wrong.
    pub fn cache_dir(&mut self) -> Result<Option<PathBuf>, CliError> {
        let is_wanted = self.settings()?.0.fields.cache.enabled.unwrap_or(true);
        Ok(self.surroundings.cache_dir.clone().filter(|_| is_wanted))
    }

    /// The folder that the command runs in.
    pub(super) fn here(&self) -> String {
        self.surroundings.cwd.to_string_lossy().into_owned()
    }

    /// Whether a full screen can be shown: people type and look at a terminal of this process that can move its cursor.
    pub(super) fn can_show_full_screen(&self) -> bool {
        let is_dumb = self.surroundings.var("TERM").is_some_and(|term| term == "dumb");
        self.ui.can_edit_lines() && self.ui.columns().is_some() && !is_dumb
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.surroundings.clock.now_ms()
    }
}
