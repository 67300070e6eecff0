//! Settlement statements, and the exports of their records.

mod acknowledge_deposit;
mod mark_artifact_ready;
mod open_data_room_request;
mod request_deposit;
