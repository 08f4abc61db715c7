//! The calls of one answer.
//!
//! # Invariants
//! - Each call gets exactly one result, in the order of the calls, whatever happens: a tool that is missing, blocked,
//!   aborted or that panics gives an error result.
//! - A tool that does not end soon after an abort is dropped.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::event::AgentEvent;
use super::hooks::{HookKind, ToolCallEvent, ToolResultEvent};
use super::sending::Core;
use super::tools::{Execution, Tool, ToolInvocation, ToolOutput};
use crate::session::message::{AssistantMessage, Message, ToolCall, ToolResultMessage};

/// How long a tool may take to end after an abort.
const ABORT_GRACE: Duration = Duration::from_millis(500);

const CUT_ANSWER: &str = "The answer was cut at its greatest length, so its calls were not run: their arguments may be incomplete. Try again with \
     less at once.";
const NOT_STARTED: &str = "The user aborted the run before this call began. It did not run.";
const INTERRUPTED: &str = "The user aborted the run while this call was going on. It may have run, in part or whole.";

/// What the calls of an answer came to.
pub(crate) struct Batch {
    /// One result for each call, in order.
    pub results: Vec<Message>,
    /// Whether every result ends the run.
    pub terminates: bool,
}

/// Runs the calls of an answer.
pub(crate) async fn run(core: &Core, answer: &AssistantMessage, abort: &CancellationToken) -> Batch {
    let calls: Vec<_> = answer.tool_calls().collect();
    let outputs = if answer.stop_reason.as_deref() == Some("length") {
        calls.iter().map(|_| ToolOutput::error(CUT_ANSWER)).collect()
    } else {
        let tools = core.active_tools();
        let jobs = calls.iter().map(|call| {
            let tool = tools.iter().find(|tool| tool.declaration().name == call.name);
            (call, tool)
        });
        let jobs: Vec<_> = jobs.collect();
        let in_order = jobs.iter().any(|(_, tool)| tool.is_some_and(|tool| tool.execution() == Execution::Sequential));
        let mut outputs = Vec::with_capacity(jobs.len());
        if in_order {
            for (call, tool) in jobs {
                outputs.push(run_one(core, call, tool, abort).await);
            }
        } else {
            outputs = join_all(jobs.into_iter().map(|(call, tool)| run_one(core, call, tool, abort))).await;
        }
        outputs
    };
    let terminates = !outputs.is_empty() && outputs.iter().all(|output| output.terminate);
    let results = calls.into_iter().zip(outputs).map(|(call, output)| result(call, output, core.clock.now_ms())).collect();
    Batch { results, terminates }
}

fn result(call: &ToolCall, output: ToolOutput, now_ms: i64) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: Some(output.content),
        details: output.details,
        is_error: Some(output.is_error),
        timestamp: Some(now_ms),
        ..ToolResultMessage::default()
    })
}

async fn run_one(core: &Core, call: &ToolCall, tool: Option<&Arc<dyn Tool>>, abort: &CancellationToken) -> ToolOutput {
    let (call_id, tool_name) = (call.id.clone(), call.name.clone());
    core.events.emit(AgentEvent::ToolExecutionStart { call_id, tool_name, arguments: call.arguments.clone() });
    let output = match start(core, call, tool, abort).await {
        Ok(tool) => after(core, call, execute(core, call, &**tool, abort).await).await,
        Err(refused) => refused,
    };
    let (call_id, tool_name) = (call.id.clone(), call.name.clone());
    core.events.emit(AgentEvent::ToolExecutionEnd { call_id, tool_name, output: output.clone() });
    output
}

/// The tool, if the call may run.
async fn start<'a>(
    core: &Core,
    call: &ToolCall,
    tool: Option<&'a Arc<dyn Tool>>,
    abort: &CancellationToken,
) -> Result<&'a Arc<dyn Tool>, ToolOutput> {
    if abort.is_cancelled() {
        return Err(ToolOutput::error(NOT_STARTED));
    }
    let tool = tool.ok_or_else(|| ToolOutput::error(format!("there is no tool {}", call.name)))?;
    if call.arguments.fields().is_none() {
        return Err(ToolOutput::error("the arguments are not a JSON object"));
    }
    if core.hooks.takes(HookKind::ToolCall) {
        let event = ToolCallEvent { tool_call_id: call.id.clone(), tool_name: call.name.clone(), input: call.arguments.clone() };
        let answer = core.hooks.tool_call(&event).await;
        if answer.block {
            let reason = answer.reason.unwrap_or_else(|| "a hook blocked it".to_owned());
            return Err(ToolOutput::error(format!("this call was blocked: {reason}")));
        }
    }
    Ok(tool)
}

async fn execute(core: &Core, call: &ToolCall, tool: &dyn Tool, abort: &CancellationToken) -> ToolOutput {
    let update = |text: &str| {
        let (call_id, tool_name) = (call.id.clone(), call.name.clone());
        core.events.emit(AgentEvent::ToolExecutionUpdate { call_id, tool_name, text: text.to_owned() });
    };
    let invocation = ToolInvocation { call_id: &call.id, arguments: &call.arguments, abort, update: &update };
    let work = AssertUnwindSafe(tool.run(invocation)).catch_unwind();
    let late = async {
        abort.cancelled().await;
        tokio::time::sleep(ABORT_GRACE).await;
    };
    tokio::select! {
        biased;
        done = work => done.unwrap_or_else(|_| ToolOutput::error("the tool crashed; what it did until then is unknown")),
        () = late => ToolOutput::error(INTERRUPTED),
    }
}

/// The output as the hooks leave it.
async fn after(core: &Core, call: &ToolCall, output: ToolOutput) -> ToolOutput {
    if !core.hooks.takes(HookKind::ToolResult) {
        return output;
    }
    let event = ToolResultEvent {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        input: call.arguments.clone(),
        content: output.content,
        details: output.details,
        is_error: output.is_error,
    };
    let (event, terminate) = core.hooks.tool_result(event).await;
    ToolOutput {
        content: event.content,
        details: event.details,
        is_error: event.is_error,
        terminate: terminate.unwrap_or(output.terminate),
    }
}
