//! Plays a finished message as the events that a provider would have sent.
//!
//! # Invariants
//! - Text comes word by word; the words together are the text.
//! - An abort is seen before each event; the failure then holds the blocks and words played so far.

use std::collections::VecDeque;

use futures::stream;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Part};
use super::{EventStream, ProviderError, StreamEvent, StreamFailure};
use crate::session::message::{AssistantMessage, Block, Content};

/// What follows the events of a message.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The message itself.
    Done(Box<AssistantMessage>),
    /// A failure.
    Failed(ProviderError),
    /// Nothing, until it is aborted.
    Hang,
}

/// One step: what becomes of the partial answer, and the event that says so.
enum Beat {
    Push(Part),
    Call { id: String, name: String },
    More(String),
}

/// The events of `content`, then `ending`. `partial` is the empty answer that a failure fills.
pub(crate) fn play(partial: Answer, content: Option<&Content>, ending: Ending, abort: CancellationToken) -> EventStream {
    let beats = content.map(Content::to_blocks).unwrap_or_default().iter().flat_map(beats).collect::<VecDeque<_>>();
    let start = (partial, beats, Some(ending), VecDeque::from([StreamEvent::Start]));
    Box::pin(stream::unfold(Some(start), move |state| {
        let abort = abort.clone();
        async move {
            let (mut partial, mut beats, ending, mut ready) = state?;
            let failed = |partial: Answer, error| Some((Err::<_, StreamFailure>(partial.fail(error)), None));
            loop {
                if abort.is_cancelled() {
                    return failed(partial, ProviderError::Aborted);
                }
                if let Some(event) = ready.pop_front() {
                    return Some((Ok(event), Some((partial, beats, ending, ready))));
                }
                let Some(beat) = beats.pop_front() else { break };
                ready.extend(match beat {
                    Beat::Push(part) => {
                        partial.push(part);
                        None
                    }
                    Beat::Call { id, name } => Some(partial.push_call(&id, &name).1),
                    Beat::More(text) => partial.append(partial.parts().len().saturating_sub(1), &text),
                });
            }
            match ending {
                Some(Ending::Done(message)) => Some((Ok(StreamEvent::Done(message)), None)),
                Some(Ending::Failed(error)) => failed(partial, error),
                Some(Ending::Hang) | None => {
                    abort.cancelled().await;
                    failed(partial, ProviderError::Aborted)
                }
            }
        }
    }))
}

fn beats(block: &Block) -> Vec<Beat> {
    let words = |text: &str| text.split_inclusive(' ').map(|word| Beat::More(word.to_owned())).collect::<Vec<_>>();
    match block {
        Block::Text { text, .. } => std::iter::once(Beat::Push(Part::Text(String::new()))).chain(words(text)).collect(),
        Block::Thinking { thinking, signature, .. } => {
            let signature = signature.clone().unwrap_or_default();
            let part = Part::Thinking { text: String::new(), signature, redacted: false };
            std::iter::once(Beat::Push(part)).chain(words(thinking)).collect()
        }
        Block::ToolCall(call) => {
            vec![Beat::Call { id: call.id.clone(), name: call.name.clone() }, Beat::More(call.arguments.as_str().to_owned())]
        }
        // Models make neither; the index must count them all the same.
        Block::Image { .. } | Block::Unknown(_) => vec![Beat::Push(Part::Text(String::new()))],
    }
}
