//! What was read of a session for a report, as bytes, so that the next report goes on from there.
//!
//! # Invariants
//! - What is read back gives the same report, and goes on with later entries as the fold that was written would have.
//! - Bytes that were not written here give `None`, or a fold that adds up something else; nothing panics.

use super::{Item, Place, SessionUsageFold};
use crate::session::bytes::{Reader, Writer};
use crate::session::labels::SessionName;
use crate::session::stats::Tokens;
use crate::session::tree::SessionTree;

/// Bits of an item's first byte.
const IS_THERE: u8 = 1;
const IS_MESSAGE: u8 = 2;
const HAS_TIME: u8 = 4;
const HAS_MODEL: u8 = 8;
const HAS_NEXT_MODEL: u8 = 16;
const IS_RESULT: u8 = 32;
const HAS_USAGE: u8 = 64;
const HAS_CALLS: u8 = 128;
/// Bits of its second byte.
const PROMPT: u8 = 1;
const TURN: u8 = 2;
const FAILURE: u8 = 4;
const COMPACTION: u8 = 8;

impl SessionUsageFold {
    /// The fold as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(self.name.get().unwrap_or_default().as_bytes());
        for names in [&self.models, &self.tools] {
            out.number(names.names.len() as u64);
            names.names.iter().for_each(|name| out.bytes(name.as_bytes()));
        }
        out.number(self.items.len() as u64);
        for item in &self.items {
            match item {
                Some(item) => encode_item(&mut out, item),
                None => out.0.push(0),
            }
        }
        out.0
    }

    /// The fold of what [`SessionUsageFold::encode`] gave.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader(bytes);
        let mut fold = Self { name: SessionName::default(), ..Self::default() };
        fold.name.set(Some(&input.text()?));
        for names in [&mut fold.models, &mut fold.tools] {
            for _ in 0..input.number()? {
                names.place(input.text()?);
            }
        }
        for _ in 0..input.number()? {
            let item = decode_item(&mut input)?;
            fold.items.push(item);
        }
        input.0.is_empty().then_some(fold)
    }

    /// Makes a fold that was read back fit to take later entries. `tree` is that of the entries so far; false if it is not.
    pub(crate) fn resume(&mut self, tree: &SessionTree) -> bool {
        if tree.iter_all().count() != self.items.len() {
            return false;
        }
        for (index, item) in tree.iter_all().zip(&self.items) {
            if let Some(model) = item.as_ref().and_then(|item| item.next_model) {
                self.model_at.insert(tree.id(index), model);
            }
        }
        true
    }
}

fn encode_item(out: &mut Writer, item: &Item) {
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    out.0.push(
        IS_THERE
            | flag(item.is_message, IS_MESSAGE)
            | flag(item.time_ms.is_some(), HAS_TIME)
            | flag(item.model.is_some(), HAS_MODEL)
            | flag(item.next_model.is_some(), HAS_NEXT_MODEL)
            | flag(item.result_of.is_some(), IS_RESULT)
            | flag(item.usage.is_some(), HAS_USAGE)
            | flag(!item.calls.is_empty(), HAS_CALLS),
    );
    out.0.push(
        flag(item.is_prompt, PROMPT)
            | flag(item.is_turn, TURN)
            | flag(item.is_failed_result, FAILURE)
            | flag(item.is_compaction, COMPACTION),
    );
    item.key.iter().for_each(|half| out.0.extend_from_slice(&half.to_le_bytes()));
    if let Some(time_ms) = item.time_ms {
        out.0.extend_from_slice(&time_ms.to_le_bytes());
    }
    for place in [item.model, item.next_model, item.result_of].into_iter().flatten() {
        out.number(place.into());
    }
    if !item.calls.is_empty() {
        out.number(item.calls.len() as u64);
        item.calls.iter().for_each(|call| out.number((*call).into()));
    }
    if let Some((tokens, cost)) = item.usage.as_deref() {
        let Tokens { input, output, cache_read, cache_write } = *tokens;
        [input, output, cache_read, cache_write].into_iter().for_each(|number| out.number(number));
        out.0.extend_from_slice(&cost.to_bits().to_le_bytes());
    }
}

/// An item, or that the entry could not be read.
fn decode_item(input: &mut Reader<'_>) -> Option<Option<Item>> {
    let flags = input.byte()?;
    let has = |bit: u8| flags & bit != 0;
    if !has(IS_THERE) {
        return Some(None);
    }
    let counts = input.byte()?;
    let key = [u64::from_le_bytes(input.array()?), u64::from_le_bytes(input.array()?)];
    let time_ms = if has(HAS_TIME) { Some(i64::from_le_bytes(input.array()?)) } else { None };
    let mut place = |bit: u8| if has(bit) { Some(Some(Place::try_from(input.number()?).ok()?)) } else { Some(None) };
    let (model, next_model, result_of) = (place(HAS_MODEL)?, place(HAS_NEXT_MODEL)?, place(IS_RESULT)?);
    let mut calls = Vec::new();
    if has(HAS_CALLS) {
        for _ in 0..input.number()? {
            calls.push(Place::try_from(input.number()?).ok()?);
        }
    }
    let mut item = Item {
        model,
        next_model,
        result_of,
        calls: calls.into(),
        is_message: has(IS_MESSAGE),
        is_prompt: counts & PROMPT != 0,
        is_turn: counts & TURN != 0,
        is_failed_result: counts & FAILURE != 0,
        is_compaction: counts & COMPACTION != 0,
        ..Item::new(key, time_ms)
    };
    if has(HAS_USAGE) {
        let (input_tokens, output) = (input.number()?, input.number()?);
        let (cache_read, cache_write) = (input.number()?, input.number()?);
        let tokens = Tokens { input: input_tokens, output, cache_read, cache_write };
        item.set_usage(tokens, f64::from_bits(u64::from_le_bytes(input.array()?)));
    }
    Some(Some(item))
}
