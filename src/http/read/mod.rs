//! Parts that reads share: queries, pages and their cursors, lists, histories, conditional requests, and the wait for
//! a position.

pub(super) mod conditional;
pub(super) mod cursor;
pub(super) mod history;
pub mod list_query;
pub mod lists;
pub(super) mod min_position;
pub mod query;
