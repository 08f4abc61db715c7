//! Commands that summarize: a harness on a session for one operation.
//!
//! # Invariants
//! - The session is held while the summary is made, and the leaf is the file's: nothing is written behind another one.

use std::path::{Path, PathBuf};

use crate::agent::harness::LeafPolicy;
use crate::cli::chat::conversation::{Conversation, Parts};
use crate::cli::chat::printer::Show;
use crate::cli::chat::rounds::own;
use crate::cli::chat::setup::{InUse, MakeOptions, Setup};
use crate::cli::error::CliError;
use crate::cli::invocation::Invocation;
use crate::cli::refer::{command_name, refuse_newer};
use crate::storage::handle::Session;

/// What an operation does with its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// It writes nothing.
    Look,
    /// It holds the session while it works. Where somebody else does, this command would go on all the same.
    Hold(&'a str),
    /// It writes whoever holds the session.
    Force,
}

/// Opens a conversation on `session` for one operation.
pub fn open(
    mut session: Session,
    model: Option<&str>,
    access: Access<'_>,
    invocation: &mut Invocation<'_>,
) -> Result<Conversation, CliError> {
    if access != Access::Look {
        // What the summary costs would be for nothing.
        refuse_newer(&session)?;
    }
    let name = command_name(invocation, &session)?;
    let owner = match (session.read().path(), access) {
        (Some(path), Access::Hold(force)) => {
            let copy = format!("pi-sessions fork {name}");
            Some(own(path, &copy, force, invocation)?)
        }
        (Some(_) | None, Access::Look | Access::Hold(_) | Access::Force) => None,
    };
    session.refresh()?;
    let setup = Setup::load(invocation)?;
    let in_use = InUse { is_asked: false, ..setup.model(model, Some(&session), invocation)? };
    // The folder may be gone: nothing of it is changed, and what the project says there only counts.
    let header_cwd = PathBuf::from(&session.header().cwd);
    let exists = invocation.surroundings.fs.metadata(&header_cwd).is_ok();
    let cwd: &Path = if exists { &header_cwd } else { &invocation.surroundings.cwd };
    let options = MakeOptions { owner, leaf: LeafPolicy::File, ..MakeOptions::default() };
    let parts = Parts { session, in_use, cwd, options };
    Conversation::open(&setup, parts, Show::Answer, false)
}
