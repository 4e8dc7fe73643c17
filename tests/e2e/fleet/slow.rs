//! Tests that wait for the view's own intervals.

mod members;
