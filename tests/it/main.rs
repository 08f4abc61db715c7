//! The integration tests, in one binary.

mod cmd_append;
mod cmd_check;
mod cmd_completions;
mod cmd_config;
mod cmd_context;
mod cmd_delete;
mod cmd_fork;
mod cmd_goto;
mod cmd_help;
mod cmd_import;
mod cmd_label;
mod cmd_list;
mod cmd_model;
mod cmd_move;
mod cmd_name;
mod cmd_new;
mod cmd_path;
mod cmd_show;
mod cmd_tree;
mod crash;
mod golden;
mod llm;
mod properties;
mod support;
mod tidy;
