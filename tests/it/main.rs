//! The integration tests, in one binary.

#![allow(clippy::disallowed_methods, reason = "tests set files up and look at them as any program does")]

mod cache_faults;
mod cases;
mod chat_kills;
mod cmd_append;
mod cmd_browse;
mod cmd_chat;
mod cmd_check;
mod cmd_compact;
mod cmd_complete;
mod cmd_completions;
mod cmd_config;
mod cmd_context;
mod cmd_delete;
mod cmd_diff;
mod cmd_export;
mod cmd_fork;
mod cmd_goto;
mod cmd_help;
mod cmd_import;
mod cmd_label;
mod cmd_list;
mod cmd_man;
mod cmd_model;
mod cmd_move;
mod cmd_name;
mod cmd_new;
mod cmd_path;
mod cmd_prune;
mod cmd_repair;
mod cmd_restore;
mod cmd_search;
mod cmd_show;
mod cmd_stats;
mod cmd_tree;
mod cmd_watch;
mod command_kills;
mod conformance;
mod crash;
mod export;
mod files;
#[cfg(unix)]
mod full_disk;
mod fuzzed;
mod golden;
mod help_examples;
mod huge;
mod listing_cache;
mod llm;
mod long_session;
#[cfg(unix)]
mod owned_session;
mod pi_continue;
mod process;
mod processes;
mod properties;
mod reading;
mod readme;
mod search;
mod storage_properties;
mod support;
mod tidy;
