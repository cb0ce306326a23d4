//! Lists for the checker and the verifier: cases in files, the builder's lists, random lists beside
//! an oracle.

mod agreement;
mod builder;
mod cases;
mod common;
mod folded;
mod large;
mod many_views;
mod needs;
mod pass_cases;
mod pass_programs;
mod passes;
mod remat;
mod repair;
mod same;
