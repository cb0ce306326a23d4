//! Lists as the builder makes them, their memory, and their text.

mod assigner;
mod common;
mod fold;
mod ids;
mod inference;
mod nested_sections;
mod pass_errors;
mod planner;
mod recorder;
mod records;
mod sync_rules;
mod text;
